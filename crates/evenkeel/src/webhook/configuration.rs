//! The objects that make API servers call the webhooks.

use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhook, MutatingWebhookConfiguration, RuleWithOperations, ServiceReference,
    ValidatingWebhook, ValidatingWebhookConfiguration, WebhookClientConfig,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1 as apiextensions;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{
    LabelSelector, LabelSelectorRequirement, ObjectMeta,
};

use super::Operation;
use super::builder::Common;
use super::endpoint::Endpoint;
use super::registry::{CONVERT, Webhooks};
use crate::kind::Kind;
use crate::manifest::{self, ManifestError};

/// The label that every namespace has: its name.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

/// One webhook of a configuration.
#[derive(Clone)]
pub(super) struct Entry {
    pub(super) mutating: bool,
    pub(super) path: String,
    pub(super) rule: Rule,
    pub(super) common: Common,
}

/// The requests that a webhook is called for.
#[derive(Clone)]
pub(super) struct Rule {
    pub(super) kind: Kind,
    pub(super) operations: Vec<Operation>,
}

/// The webhook configurations of a manager; see
/// [`Manager::webhook_configurations`](crate::Manager::webhook_configurations).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct WebhookConfigurations {
    /// The defaulters.
    pub mutating: Option<MutatingWebhookConfiguration>,
    /// The validators.
    pub validating: Option<ValidatingWebhookConfiguration>,
}

impl WebhookConfigurations {
    /// Returns the objects as YAML, to be installed with `kubectl apply`.
    ///
    /// # Errors
    /// Never in practice: when an object cannot be printed.
    pub fn yaml(&self) -> Result<String, ManifestError> {
        let mut text = String::new();
        if let Some(mutating) = &self.mutating {
            text.extend(["---\n", &manifest::yaml(mutating)?]);
        }
        if let Some(validating) = &self.validating {
            text.extend(["---\n", &manifest::yaml(validating)?]);
        }
        Ok(text)
    }
}

/// Returns the name of a configuration.
pub(super) fn name(manager: &str, mutating: bool) -> String {
    let kind = if mutating { "mutating" } else { "validating" };
    format!("{manager}-{kind}-webhook-configuration")
}

impl Webhooks {
    /// Returns the configurations of all webhooks.
    pub(crate) fn configurations(&self) -> WebhookConfigurations {
        let endpoint = self.endpoint();
        let entries = self.entries();
        let of = |mutating: bool| entries.iter().filter(move |entry| entry.mutating == mutating);
        let metadata = |mutating| ObjectMeta {
            name: Some(name(self.manager(), mutating)),
            ..ObjectMeta::default()
        };
        let mutating: Vec<_> = of(true).map(|entry| self.mutating(entry, &endpoint)).collect();
        let validating: Vec<_> = of(false).map(|entry| self.validating(entry, &endpoint)).collect();
        WebhookConfigurations {
            mutating: (!mutating.is_empty()).then(|| MutatingWebhookConfiguration {
                metadata: metadata(true),
                webhooks: Some(mutating),
            }),
            validating: (!validating.is_empty()).then(|| ValidatingWebhookConfiguration {
                metadata: metadata(false),
                webhooks: Some(validating),
            }),
        }
    }

    fn mutating(&self, entry: &Entry, endpoint: &Endpoint) -> MutatingWebhook {
        let Entry { common, .. } = entry;
        MutatingWebhook {
            name: entry.name(),
            admission_review_versions: review_versions(),
            client_config: client_config(endpoint, &entry.path),
            rules: Some(vec![entry.rule()]),
            failure_policy: Some(common.failure_policy().to_owned()),
            side_effects: common.side_effects().to_owned(),
            timeout_seconds: common.timeout_seconds(),
            match_policy: Some("Equivalent".to_owned()),
            match_conditions: common.match_conditions(),
            namespace_selector: self.namespace_selector(entry),
            object_selector: common.objects.clone(),
            reinvocation_policy: None,
        }
    }

    fn validating(&self, entry: &Entry, endpoint: &Endpoint) -> ValidatingWebhook {
        let Entry { common, .. } = entry;
        ValidatingWebhook {
            name: entry.name(),
            admission_review_versions: review_versions(),
            client_config: client_config(endpoint, &entry.path),
            rules: Some(vec![entry.rule()]),
            failure_policy: Some(common.failure_policy().to_owned()),
            side_effects: common.side_effects().to_owned(),
            timeout_seconds: common.timeout_seconds(),
            match_policy: Some("Equivalent".to_owned()),
            match_conditions: common.match_conditions(),
            namespace_selector: self.namespace_selector(entry),
            object_selector: common.objects.clone(),
        }
    }

    /// Returns the selector of namespaces: never that of the operator, unless requested.
    fn namespace_selector(&self, entry: &Entry) -> Option<LabelSelector> {
        let common = &entry.common;
        let kind = &entry.rule.kind;
        // Selectors of namespaces do not apply to other cluster-scoped objects.
        let applies = kind.namespaced() || kind.is("", "Namespace");
        if common.own_namespace || !applies {
            return common.namespaces.clone();
        }
        let mut selector = common.namespaces.clone().unwrap_or_default();
        selector.match_expressions.get_or_insert_default().push(LabelSelectorRequirement {
            key: NAMESPACE_NAME.to_owned(),
            operator: "NotIn".to_owned(),
            values: Some(vec![self.namespace.clone()]),
        });
        Some(selector)
    }

    /// Sets the conversion stanza of a CRD.
    pub(crate) fn set_conversion(&self, crd: &mut apiextensions::CustomResourceDefinition) {
        let config = client_config(&self.endpoint(), CONVERT);
        let service = config.service.map(|service| apiextensions::ServiceReference {
            name: service.name,
            namespace: service.namespace,
            path: service.path,
            port: service.port,
        });
        let client_config =
            apiextensions::WebhookClientConfig { ca_bundle: None, service, url: config.url };
        crd.spec.conversion = Some(apiextensions::CustomResourceConversion {
            strategy: "Webhook".to_owned(),
            webhook: Some(apiextensions::WebhookConversion {
                client_config: Some(client_config),
                conversion_review_versions: review_versions(),
            }),
        });
    }
}

impl Entry {
    /// Returns the name of the webhook: as in kubebuilder, in the domain of the API group.
    fn name(&self) -> String {
        let kind = &self.rule.kind;
        let letter = if self.mutating { 'm' } else { 'v' };
        let domain = match kind.group() {
            group if group.contains('.') => group.to_owned(),
            "" => "core.k8s.io".to_owned(),
            group => format!("{group}.k8s.io"),
        };
        format!("{letter}{}-{}.{domain}", kind.kind().to_lowercase(), kind.version())
    }

    fn rule(&self) -> RuleWithOperations {
        let Rule { kind, operations } = &self.rule;
        let operations = operations.iter().map(|operation| operation.name().to_owned());
        RuleWithOperations {
            api_groups: Some(vec![kind.group().to_owned()]),
            api_versions: Some(vec![kind.version().to_owned()]),
            resources: Some(vec![kind.plural().to_owned()]),
            operations: Some(operations.collect()),
            scope: None,
        }
    }
}

impl Common {
    fn failure_policy(&self) -> &'static str {
        if self.ignore_failures { "Ignore" } else { "Fail" }
    }

    fn side_effects(&self) -> &'static str {
        if self.side_effects { "NoneOnDryRun" } else { "None" }
    }

    fn timeout_seconds(&self) -> Option<i32> {
        self.timeout.map(|timeout| i32::try_from(timeout.as_secs()).unwrap_or(30).clamp(1, 30))
    }

    fn match_conditions(
        &self,
    ) -> Option<Vec<k8s_openapi::api::admissionregistration::v1::MatchCondition>> {
        (!self.conditions.is_empty()).then(|| self.conditions.clone())
    }
}

fn review_versions() -> Vec<String> {
    vec!["v1".to_owned()]
}

fn client_config(endpoint: &Endpoint, path: &str) -> WebhookClientConfig {
    let path = path.to_owned();
    match endpoint {
        Endpoint::Service { namespace, name, port } => WebhookClientConfig {
            service: Some(ServiceReference {
                namespace: namespace.clone(),
                name: name.clone(),
                path: Some(path),
                port: Some(i32::from(*port)),
            }),
            ..WebhookClientConfig::default()
        },
        Endpoint::Url(url) => WebhookClientConfig {
            url: Some(format!("{url}{path}")),
            ..WebhookClientConfig::default()
        },
    }
}
