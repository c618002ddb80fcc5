//! The description of an operator: what it needs from a cluster, found in what it registered.
//!
//! If the variable `EVENKEEL_DESCRIBE` is set, a manager prints its description as JSON instead of
//! running, without a cluster. `evenkeel manifests` renders it. It is a variable because operators
//! may parse their own command line. Its value is the namespace of the operator, by default its
//! name.

use std::collections::BTreeMap;
use std::io::Write as _;

use k8s_openapi::api::rbac::v1::PolicyRule;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde::Serialize;

use super::{Inner, RunError};
use crate::controller::RegisteredTypes;
use crate::kind::Kind;
use crate::webhook::{WebhookConfigurations, WebhookService};

/// The variable that requests a description.
const VARIABLE: &str = "EVENKEEL_DESCRIBE";

/// Reads that the cache makes of a type.
const READ: &[&str] = &["get", "list", "watch"];
/// Writes of an owned apply.
const APPLY: &[&str] = &["create", "patch"];

/// Returns the namespace of the operator if a description is requested.
pub(super) fn requested() -> Option<String> {
    std::env::var(VARIABLE).ok()
}

/// What an operator needs from a cluster.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Description<'a> {
    name: &'a str,
    version: Option<&'a str>,
    namespace: &'a str,
    /// The flags that the operator accepts; none if it parses its own command line.
    flags: &'a [&'static str],
    /// The version of this crate.
    evenkeel: &'static str,
    crds: Vec<CustomResourceDefinition>,
    /// The permissions in all watched namespaces.
    rules: Vec<PolicyRule>,
    /// Those of them that follow from no registration.
    added_rules: &'a [PolicyRule],
    /// The permissions in the operator's own namespace.
    namespace_rules: Vec<PolicyRule>,
    #[serde(skip_serializing_if = "Option::is_none")]
    webhooks: Option<WebhookDescription>,
}

/// The Service of the webhook server and the objects that refer to it.
#[derive(Serialize)]
struct WebhookDescription {
    service: String,
    port: u16,
    configurations: Vec<serde_json::Value>,
}

/// Returns the permissions of a manager.
pub(super) fn rules_of(inner: &Inner) -> Vec<PolicyRule> {
    let controllers = inner.environment.controllers();
    let types: Vec<_> = controllers.iter().map(|it| it.registered_types().clone()).collect();
    let mut rules = rules(&types, &inner.cached_types.lock().kinds, &inner.rules);
    if !inner.webhooks.is_empty() {
        rules.extend(inner.webhooks.rules().cluster_role.rules.unwrap_or_default());
    }
    rules
}

/// Returns the permissions of a manager in its own namespace.
fn namespace_rules_of(inner: &Inner) -> Vec<PolicyRule> {
    let mut rules = vec![leases()];
    if !inner.webhooks.is_empty() {
        rules.extend(inner.webhooks.rules().role.rules.unwrap_or_default());
    }
    rules
}

/// Prints the description of a manager to stdout.
pub(super) fn print(inner: &Inner) -> Result<(), RunError> {
    let failed = |source: crate::BoxError| RunError::Failed { name: "describe".to_owned(), source };
    let text = json(inner).map_err(|error| failed(error.into()))?;
    std::io::stdout().write_all(text.as_bytes()).map_err(|error| failed(error.into()))
}

fn json(inner: &Inner) -> serde_json::Result<String> {
    let mut crds = inner.crds.clone();
    let service = WebhookService(inner.webhooks.clone());
    let converted = service.converted_crds();
    for crd in &mut crds {
        if crd.metadata.name.as_ref().is_some_and(|name| converted.contains(name)) {
            inner.webhooks.set_conversion(crd);
        }
    }
    let webhooks = match service.service() {
        Some((_, service, port)) => {
            let WebhookConfigurations { mutating, validating } = inner.webhooks.configurations();
            let mut configurations = Vec::new();
            if let Some(mutating) = &mutating {
                configurations.push(serde_json::to_value(mutating)?);
            }
            if let Some(validating) = &validating {
                configurations.push(serde_json::to_value(validating)?);
            }
            Some(WebhookDescription { service, port, configurations })
        }
        None => None,
    };
    serde_json::to_string(&Description {
        name: &inner.name,
        version: inner.version.as_deref(),
        namespace: inner.environment.client.kube().default_namespace(),
        flags: inner.described_flags.as_deref().unwrap_or_default(),
        evenkeel: env!("CARGO_PKG_VERSION"),
        crds,
        rules: rules_of(inner),
        added_rules: &inner.rules,
        namespace_rules: namespace_rules_of(inner),
        webhooks,
    })
}

/// The permissions of leader election.
fn leases() -> PolicyRule {
    let verbs = ["create", "get", "list", "update", "watch"];
    PolicyRule {
        api_groups: Some(vec!["coordination.k8s.io".to_owned()]),
        resources: Some(vec!["leases".to_owned()]),
        verbs: verbs.map(str::to_owned).to_vec(),
        ..PolicyRule::default()
    }
}

/// Returns a client that refuses every request: a description needs no cluster.
pub(super) fn refusing_client(namespace: &str) -> kube::Client {
    let refuse = tower::service_fn(|_: http::Request<kube::client::Body>| async {
        Err::<http::Response<kube::client::Body>, _>(NoCluster)
    });
    kube::Client::new(refuse, namespace)
}

/// The operator made a request before it was run.
#[derive(Debug, thiserror::Error)]
#[error("a description needs no cluster: make requests in a runnable, not before `run`")]
struct NoCluster;

/// Returns the rules that controllers with these types need, and `added`.
///
/// Children are created and patched, but not deleted: the garbage collector deletes them. An operator
/// that deletes objects itself adds a rule.
pub(super) fn rules(
    controllers: &[RegisteredTypes],
    cached: &[Kind],
    added: &[PolicyRule],
) -> Vec<PolicyRule> {
    let mut verbs = BTreeMap::<(String, String), Vec<&'static str>>::new();
    let mut allow = |group: &str, resource: String, allowed: &[&'static str]| {
        let entry = verbs.entry((group.to_owned(), resource)).or_default();
        entry.extend(allowed);
    };
    for types in controllers {
        let (group, plural) = (types.reconciled.group(), types.reconciled.plural());
        // Finalizers are patched; the status is a subresource.
        allow(group, plural.to_owned(), READ);
        allow(group, plural.to_owned(), &["patch"]);
        allow(group, format!("{plural}/status"), &["patch"]);
        // For owner references that block the deletion of the owner.
        allow(group, format!("{plural}/finalizers"), &["update"]);
        for kind in types.watched.iter().chain(&types.read) {
            allow(kind.group(), kind.plural().to_owned(), READ);
        }
        for kind in &types.owned {
            allow(kind.group(), kind.plural().to_owned(), READ);
            allow(kind.group(), kind.plural().to_owned(), APPLY);
        }
    }
    for kind in cached {
        allow(kind.group(), kind.plural().to_owned(), READ);
    }
    if !controllers.is_empty() {
        allow("events.k8s.io", "events".to_owned(), APPLY);
    }
    let mut rules = merge(verbs);
    rules.extend_from_slice(added);
    rules
}

/// Joins the resources of a group that have the same verbs.
fn merge(verbs: BTreeMap<(String, String), Vec<&'static str>>) -> Vec<PolicyRule> {
    let mut merged = BTreeMap::<(String, Vec<&'static str>), Vec<String>>::new();
    for ((group, resource), mut allowed) in verbs {
        allowed.sort_unstable();
        allowed.dedup();
        merged.entry((group, allowed)).or_default().push(resource);
    }
    let rule = |((group, verbs), resources): ((String, Vec<&str>), Vec<String>)| PolicyRule {
        api_groups: Some(vec![group]),
        resources: Some(resources),
        verbs: verbs.into_iter().map(str::to_owned).collect(),
        ..PolicyRule::default()
    };
    merged.into_iter().map(rule).collect()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::Deployment;
    use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
    use kube::CustomResource;
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};

    use super::*;
    use crate::Manager;

    mod v1 {
        use super::*;

        #[derive(Clone, CustomResource, Debug, Deserialize, JsonSchema, Serialize)]
        #[kube(group = "example.com", version = "v1", kind = "Widget")]
        pub(super) struct WidgetSpec {}
    }

    mod v2 {
        use super::*;

        #[derive(Clone, CustomResource, Debug, Deserialize, JsonSchema, Serialize)]
        #[kube(group = "example.com", version = "v2", kind = "Widget")]
        pub(super) struct WidgetSpec {}
    }

    #[tokio::test]
    async fn versions_of_a_resource_are_one_crd() {
        let builder = Manager::builder("a").crd::<v1::Widget>().crd::<v2::Widget>();
        let manager = builder.build(refusing_client("a"));
        let [crd] = manager.0.crds.as_slice() else { panic!("{:?}", manager.0.crds) };
        let versions = crd.spec.versions.iter().map(|it| (&*it.name, it.storage));
        assert_eq!(versions.collect::<Vec<_>>(), [("v1", true), ("v2", false)]);
    }

    #[test]
    fn rules_follow_from_what_controllers_register() {
        let types = RegisteredTypes {
            reconciled: Kind::of::<ConfigMap>(),
            owned: vec![Kind::of::<Deployment>(), Kind::of::<Service>()],
            watched: vec![Kind::of::<Secret>()],
            read: Vec::new(),
        };
        let added = PolicyRule { verbs: vec!["delete".to_owned()], ..PolicyRule::default() };
        let rules = rules(&[types], &[], &[added]);
        let lines: Vec<_> = rules
            .iter()
            .map(|rule| {
                let resources = rule.resources.clone().unwrap_or_default().join(",");
                let groups = rule.api_groups.clone().unwrap_or_default().join(",");
                format!("{groups} {resources} {}", rule.verbs.join(","))
            })
            .collect();
        assert_eq!(
            lines,
            [
                " services create,get,list,patch,watch",
                " configmaps get,list,patch,watch",
                " secrets get,list,watch",
                " configmaps/status patch",
                " configmaps/finalizers update",
                "apps deployments create,get,list,patch,watch",
                "events.k8s.io events create,patch",
                "  delete",
            ]
        );
    }
}
