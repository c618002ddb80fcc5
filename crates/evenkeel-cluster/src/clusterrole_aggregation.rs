//! Aggregated ClusterRoles: their rules are those of the ClusterRoles that they select.

#[cfg(test)]
mod tests;

use evenkeel::{Action, BoxError, Context, Manager, Reconciler, Result};
use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::Selector;

use crate::options::ClusterOptions;

/// The name of the controller in `kube-controller-manager`.
pub(crate) const NAME: &str = "clusterrole-aggregation-controller";

/// The index of the ClusterRoles with an aggregation rule.
const AGGREGATED: &str = "aggregated";

/// Registers the controller.
pub(crate) fn register(manager: &Manager, _: &ClusterOptions) -> Result<(), BoxError> {
    manager.cache().index::<ClusterRole>(AGGREGATED, |role| match role.aggregation_rule {
        Some(_) => vec![AGGREGATED.to_owned()],
        None => Vec::new(),
    })?;
    manager
        .controller(Aggregation)
        .named(NAME)
        // Which roles a change affects is not known; there are few aggregated ones.
        .watches::<ClusterRole>(|_, cx| {
            cx.select::<ClusterRole>().index(AGGREGATED, AGGREGATED).keys()
        })
        .register()?;
    Ok(())
}

struct Aggregation;

impl Reconciler for Aggregation {
    type Object = ClusterRole;

    async fn reconcile(&self, cx: &Context<ClusterRole>) -> Result<Action> {
        let Some(role) = cx.object() else { return Ok(Action::done()) };
        let Some(aggregation) = &role.aggregation_rule else { return Ok(Action::done()) };
        let mut rules: Vec<PolicyRule> = Vec::new();
        for selector in aggregation.cluster_role_selectors.iter().flatten() {
            let selector = Selector::try_from(selector.clone())?;
            for selected in cx.client().list::<ClusterRole>().matching(selector).await? {
                if selected.metadata.name == role.metadata.name {
                    continue;
                }
                for rule in selected.rules.iter().flatten() {
                    if !rules.contains(rule) {
                        rules.push(rule.clone());
                    }
                }
            }
        }
        if role.rules.as_deref().unwrap_or_default() == rules {
            return Ok(Action::done());
        }
        let aggregated = ClusterRole {
            metadata: ObjectMeta { name: role.metadata.name.clone(), ..ObjectMeta::default() },
            rules: Some(rules),
            ..ClusterRole::default()
        };
        cx.client().apply(&aggregated).force().await?;
        Ok(Action::done())
    }
}
