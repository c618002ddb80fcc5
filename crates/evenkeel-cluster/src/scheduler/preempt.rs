//! Preemption: deletes pods of lower priority so that a pod fits.

use evenkeel::{Context, Result, object_reference};
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use super::Pods;
use super::fit::PodRequirements;
use super::topology::PodLister;
use crate::pods;

impl Pods {
    /// Deletes pods of lower priority if the pod fits in their place. Returns the nominated node.
    /// The pod is scheduled once they are deleted, like any unschedulable pod.
    pub(super) async fn preempt(
        &self,
        cx: &Context<Pod>,
        pod: &Pod,
        requirements: &PodRequirements,
    ) -> Result<Option<String>> {
        let policy = pod.spec.as_ref().and_then(|spec| spec.preemption_policy.as_deref());
        if policy == Some("Never") {
            return Ok(None);
        }
        let found = self.0.cache().select_victims(
            cx.key(),
            pod,
            requirements,
            &PodLister(cx.client().cache()),
        );
        let Some((node, victims)) = found else { return Ok(None) };
        for key in victims {
            // Victims that are already terminating are only waited for.
            let victim =
                cx.client().get::<Pod>(&key).await?.filter(|pod| !pods::is_terminating(pod));
            if let Some(victim) = victim {
                self.evict(cx, &victim).await?;
                let uid = pod.metadata.uid.as_deref().unwrap_or_default();
                let message = format!("Preempted by pod {uid} on node {node}");
                self.0.event_recorder.event(&object_reference(&*victim), "Preempted", &message);
            }
        }
        Ok(Some(node))
    }

    async fn evict(&self, cx: &Context<Pod>, victim: &Pod) -> Result<()> {
        let condition = pods::disruption_target(
            cx.clock(),
            victim,
            "PreemptionByScheduler",
            "default-scheduler: preempting to accommodate a higher priority pod",
        );
        if pods::patch_status(cx, victim, &json!({"conditions": [condition]})).await? {
            cx.client().delete(victim).await?;
        }
        Ok(())
    }
}
