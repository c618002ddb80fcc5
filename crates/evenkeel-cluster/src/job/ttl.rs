//! Deletes finished Jobs after `ttlSecondsAfterFinished`.

use std::time::Duration;

use evenkeel::{Action, BoxError, Context, Manager, Reconciler, Result};
use jiff::SignedDuration;
use k8s_openapi::api::batch::v1::Job;
use kube::api::PropagationPolicy;

use super::is_finished;
use crate::options::ClusterOptions;

pub(crate) const NAME: &str = "ttl-after-finished-controller";

struct Expiry;

pub(crate) fn register(manager: &Manager, _: &ClusterOptions) -> Result<(), BoxError> {
    manager.controller(Expiry).named(NAME).register()?;
    Ok(())
}

impl Reconciler for Expiry {
    type Object = Job;

    async fn reconcile(&self, cx: &Context<Job>) -> Result<Action> {
        let Some(job) = cx.object() else { return Ok(Action::done()) };
        let ttl = job.spec.as_ref().and_then(|spec| spec.ttl_seconds_after_finished);
        let Some(ttl) = ttl.filter(|_| is_finished(&job)) else { return Ok(Action::done()) };
        if job.metadata.deletion_timestamp.is_some() {
            return Ok(Action::done());
        }
        let conditions = job.status.iter().flat_map(|status| status.conditions.iter().flatten());
        let finished = conditions
            .filter(|c| matches!(c.type_.as_str(), "Complete" | "Failed") && c.status == "True")
            .find_map(|condition| Some(condition.last_transition_time.as_ref()?.0));
        let Some(finished) = finished else { return Ok(Action::done()) };
        let expires = finished.checked_add(SignedDuration::from_secs(ttl.into()))?;
        let left = expires.duration_since(cx.clock().now());
        match Duration::try_from(left) {
            Ok(left) if !left.is_zero() => Ok(Action::requeue_after(left)),
            _ => {
                cx.client().delete(&*job).propagation(PropagationPolicy::Foreground).await?;
                Ok(Action::done())
            }
        }
    }
}
