//! The permissions that the operator's own certificate authority needs.

use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule, Role};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::Certificates;
use super::registry::Webhooks;

/// The permissions of the webhook server, restricted to single objects by name; see
/// [`Manager::webhook_rules`](crate::Manager::webhook_rules).
///
/// ```no_run
/// # fn example(manager: &evenkeel::Manager) -> evenkeel::Result<()> {
/// use evenkeel::manifest::yaml;
///
/// let rules = manager.webhook_rules();
/// println!("{}---\n{}", yaml(&rules.role)?, yaml(&rules.cluster_role)?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct WebhookRules {
    /// In the namespace of the operator: the Secret of the certificate authority. `create` cannot be
    /// restricted to a name; it can be left out if the Secret is installed empty.
    pub role: Role,
    /// The webhook configurations and CRDs whose `caBundle` is set.
    pub cluster_role: ClusterRole,
}

impl Webhooks {
    /// Returns the permissions that the certificates need.
    pub(crate) fn rules(&self) -> WebhookRules {
        let names = |list: &[&str]| list.iter().map(|name| (*name).to_owned()).collect();
        let rule = |group: &str, resource: &str, verbs: &[&str], objects: Vec<String>| PolicyRule {
            api_groups: Some(vec![group.to_owned()]),
            resources: Some(vec![resource.to_owned()]),
            resource_names: (!objects.is_empty()).then_some(objects),
            verbs: names(verbs),
            ..PolicyRule::default()
        };
        let secret = self.secret_name();
        let secrets = match self.options.certificates {
            Certificates::SelfManaged(_) => vec![
                rule("", "secrets", &["get", "update"], vec![secret]),
                rule("", "secrets", &["create"], Vec::new()),
            ],
            Certificates::Secret(_) => vec![rule("", "secrets", &["get"], vec![secret])],
            Certificates::Files { .. } => Vec::new(),
        };
        let mut objects = Vec::new();
        if matches!(self.options.certificates, Certificates::SelfManaged(_)) {
            for target in self.targets() {
                let (group, resource) = (target.kind.group(), target.kind.plural());
                objects.push(rule(group, resource, &["get", "update"], vec![target.name.clone()]));
            }
        }
        let name = Some(format!("{}-webhooks", self.manager()));
        let metadata = ObjectMeta { name, ..ObjectMeta::default() };
        let namespace = Some(self.namespace.clone());
        WebhookRules {
            role: Role {
                metadata: ObjectMeta { namespace, ..metadata.clone() },
                rules: Some(secrets),
            },
            cluster_role: ClusterRole { metadata, rules: Some(objects), ..ClusterRole::default() },
        }
    }
}
