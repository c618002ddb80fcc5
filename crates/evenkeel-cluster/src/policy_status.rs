//! The status of ValidatingAdmissionPolicies: warnings about expressions that do not fit the types of
//! the resources that the policy matches. They have no effect on the policy.

mod check;

mod types;

#[cfg(test)]
mod tests;

use evenkeel::{Action, BoxError, Context, Manager, Reconciler, Result};
use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicy;
use kube::api::Patch;
use serde_json::json;

use crate::options::ClusterOptions;

/// The name of the controller in `kube-controller-manager`.
pub(crate) const NAME: &str = "validatingadmissionpolicy-status-controller";

/// The field manager of the status.
const FIELD_MANAGER: &str = "validatingadmissionpolicy-status";

/// Registers the controller.
pub(crate) fn register(manager: &Manager, _: &ClusterOptions) -> Result<(), BoxError> {
    manager.controller(PolicyStatus).named(NAME).register()?;
    Ok(())
}

struct PolicyStatus;

impl Reconciler for PolicyStatus {
    type Object = ValidatingAdmissionPolicy;

    async fn reconcile(&self, cx: &Context<ValidatingAdmissionPolicy>) -> Result<Action> {
        let Some(policy) = cx.object() else { return Ok(Action::done()) };
        let generation = policy.metadata.generation.unwrap_or_default();
        let status = policy.status.as_ref();
        if generation <= status.and_then(|status| status.observed_generation).unwrap_or_default() {
            return Ok(Action::done());
        }
        let spec = serde_json::to_value(&policy.spec)?;
        let warnings = check::warnings(cx.client().kube(), &spec).await?;
        let mut checked = json!({});
        if !warnings.is_empty() {
            checked["expressionWarnings"] = warnings.into();
        }
        let applied = Patch::Apply(json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": policy.metadata.name},
            "status": {"observedGeneration": generation, "typeChecking": checked},
        }));
        let status = cx.client().subresource::<ValidatingAdmissionPolicy>(cx.key(), "status");
        let write = status.patch::<ValidatingAdmissionPolicy>(&applied);
        write.field_manager(FIELD_MANAGER).force().await?;
        Ok(Action::done())
    }
}
