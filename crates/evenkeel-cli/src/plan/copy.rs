//! The objects of a cluster as the embedded API server starts with them.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context as _;
use evenkeel::kube::Client;
use evenkeel::kube::discovery::{ApiResource, Discovery};
use evenkeel_apiserver::ApiServer;
use serde_json::{Value, json};

use super::redact::Redactor;
use crate::cluster::snapshot::{self, Export};
use crate::manifests::model::Model;
use crate::target::Connection;

/// Resources that are not copied: Events are not needed, a Lease would make the operator wait for the
/// leader of the cluster, and the webhooks of the cluster cannot be called.
const LEFT_OUT: &[(&str, &str)] = &[
    ("", "events"),
    ("events.k8s.io", "events"),
    ("coordination.k8s.io", "leases"),
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"),
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations"),
];

/// The copy.
pub(super) struct Copy {
    pub(super) objects: Vec<Value>,
    /// How it differs from the cluster.
    pub(super) notes: Vec<String>,
}

/// Reads the objects of a cluster, without the values of Secrets unless `secrets` is `None`.
///
/// # Errors
/// If the cluster does not respond.
pub(super) async fn read(
    cluster: &Connection,
    model: &Model,
    secrets: Option<&Redactor>,
) -> anyhow::Result<Copy> {
    let wanted = |resource: &ApiResource| {
        !LEFT_OUT.contains(&(resource.group.as_str(), resource.plural.as_str()))
    };
    let Export { mut objects, failures } = snapshot::export(&cluster.client, wanted).await?;
    let mut notes: Vec<String> =
        failures.into_iter().map(|failure| format!("{failure}; the copy has none")).collect();
    notes.push("Events, Leases and webhook configurations are not copied".to_owned());
    let own = own_secret(model);
    objects.retain(|object| !is_secret(object) || identity(object) != own);
    let served = served(&objects).await?;
    let mut unknown = BTreeMap::<String, usize>::new();
    objects.retain(|object| {
        let (api_version, kind) = (text(object, "/apiVersion"), text(object, "/kind"));
        let is_served = served.contains(&(api_version.to_owned(), kind.to_owned()));
        if !is_served {
            *unknown.entry(format!("{kind} ({api_version})")).or_default() += 1;
        }
        is_served
    });
    notes.extend(unknown.into_iter().map(|(kind, count)| {
        format!("{count} objects of kind {kind} are not copied: the embedded API server does not serve it")
    }));
    let mut redacted = 0;
    for object in &mut objects {
        if let (true, Some(redactor)) = (is_secret(object), secrets) {
            redactor.redact_stored(object);
            redacted += 1;
        }
        if object["kind"] == "CustomResourceDefinition"
            && text(object, "/spec/conversion/strategy") == "Webhook"
        {
            object["spec"]["conversion"] = json!({"strategy": "None"});
            let name = text(object, "/metadata/name");
            notes.push(format!("the conversion webhook of {name} is not called"));
        }
    }
    if redacted > 0 {
        notes.push(format!(
            "the values of {redacted} Secrets are replaced in the copy; --copy-secrets copies them"
        ));
    }
    Ok(Copy { objects, notes })
}

/// Returns namespace and name of the Secret in which the operator keeps its certificate authority. It
/// is of no use without its values, and the operator creates another one.
pub(super) fn own_secret(model: &Model) -> (String, String) {
    (model.namespace.clone(), format!("{}-webhook-ca", model.name))
}

fn identity(object: &Value) -> (String, String) {
    (text(object, "/metadata/namespace").to_owned(), text(object, "/metadata/name").to_owned())
}

fn is_secret(object: &Value) -> bool {
    object["apiVersion"] == "v1" && object["kind"] == "Secret"
}

/// Returns the versions and kinds that an API server with these objects serves.
async fn served(objects: &[Value]) -> anyhow::Result<BTreeSet<(String, String)>> {
    let server = ApiServer::builder().build().await.context("cannot start an API server")?;
    let client = Client::new(server.service(), "default");
    let discovery = Discovery::new(client).run_aggregated().await?;
    let mut served = BTreeSet::new();
    for group in discovery.groups() {
        for version in group.versions() {
            let resources = group.versioned_resources(version).into_iter();
            served.extend(resources.map(|(resource, _)| (resource.api_version, resource.kind)));
        }
    }
    for crd in objects.iter().filter(|object| object["kind"] == "CustomResourceDefinition") {
        let (group, kind) = (text(crd, "/spec/group"), text(crd, "/spec/names/kind"));
        let versions = crd.pointer("/spec/versions").and_then(Value::as_array);
        for version in versions.into_iter().flatten().filter(|it| it["served"] == true) {
            let api_version = format!("{group}/{}", text(version, "/name"));
            served.insert((api_version, kind.to_owned()));
        }
    }
    Ok(served)
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copy_has_no_values_of_secrets_and_no_webhooks() {
        let crd = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "webs.example.com", "uid": "crd"},
            "spec": {
                "group": "example.com", "scope": "Namespaced",
                "names": {"kind": "Web", "plural": "webs", "singular": "web", "listKind": "WebList"},
                "conversion": {"strategy": "Webhook", "webhook": {
                    "clientConfig": {"url": "https://webs.example.com/convert"},
                    "conversionReviewVersions": ["v1"],
                }},
                "versions": [{
                    "name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": {"type": "object"}},
                }],
            },
        });
        let secret = |name: &str| {
            json!({
                "apiVersion": "v1", "kind": "Secret", "data": {"password": "aHVudGVyMg=="},
                "metadata": {"name": name, "namespace": "web", "uid": name},
            })
        };
        let web = json!({
            "apiVersion": "example.com/v1", "kind": "Web",
            "metadata": {"name": "a", "namespace": "web", "uid": "web"},
        });
        let webhook = json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "other", "uid": "webhook"},
        });
        let objects = vec![crd, secret("login"), secret("web-webhook-ca"), web, webhook];
        let model = serde_json::from_value(json!({"name": "web", "namespace": "web"})).unwrap();
        let read = async {
            let server = ApiServer::builder().load(objects).build().await?;
            let cluster = Connection {
                client: Client::new(server.service(), "default"),
                namespace: String::new(),
                context: String::new(),
                url: String::new(),
            };
            let copy = self::read(&cluster, &model, Some(&Redactor::new()?)).await?;
            let find = |uid: &str| copy.objects.iter().find(|it| text(it, "/metadata/uid") == uid);
            assert!(!find("login").unwrap().to_string().contains("aHVudGVyMg=="));
            assert_eq!(find("web-webhook-ca"), None);
            assert_eq!(find("webhook"), None);
            assert!(find("web").is_some());
            let conversion = &find("crd").unwrap()["spec"]["conversion"];
            assert_eq!(conversion, &json!({"strategy": "None"}));
            let notes = copy.notes.join("\n");
            assert!(notes.contains("the values of 1 Secrets are replaced"), "{notes}");
            assert!(notes.contains("the conversion webhook of webs.example.com"), "{notes}");
            // The copy can be loaded.
            ApiServer::builder().load(copy.objects).build().await?;
            let copy = self::read(&cluster, &model, None).await?;
            let secret = copy.objects.iter().find(|it| text(it, "/metadata/uid") == "login");
            assert_eq!(secret.unwrap()["data"]["password"], "aHVudGVyMg==");
            anyhow::Ok(())
        };
        crate::block_on(read).unwrap();
    }
}
