//! Makes room for a pod that is more important than others.

use evenkeel::client::Patch;
use evenkeel::{Context, Key, Result, object_reference};
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use super::Pods;
use super::fit::Needs;
use super::neighbours::Census;
use crate::pods;

impl Pods {
    /// Deletes pods of lower priority, if the pod would fit in their place; gives the node. It is
    /// placed once they are gone, as any pod that waits for room.
    pub(super) async fn make_room(
        &self,
        cx: &Context<Pod>,
        pod: &Pod,
        needs: &Needs,
    ) -> Result<Option<String>> {
        let policy = pod.spec.as_ref().and_then(|spec| spec.preemption_policy.as_deref());
        if policy == Some("Never") {
            return Ok(None);
        }
        let found = self.0.book().victims(cx.key(), pod, needs, &Census(cx.cache()));
        let Some((node, victims)) = found else { return Ok(None) };
        for key in victims {
            // Those that have been asked to go are waited for.
            let victim = cx.get::<Pod>(&key).await?.filter(|pod| !pods::is_terminating(pod));
            if let Some(victim) = victim {
                self.evict(cx, &key, &victim).await?;
                let uid = pod.metadata.uid.as_deref().unwrap_or_default();
                let message = format!("Preempted by pod {uid} on node {node}");
                self.0.event_recorder.event(&object_reference(&*victim), "Preempted", &message);
            }
        }
        Ok(Some(node))
    }

    async fn evict(&self, cx: &Context<Pod>, key: &Key, victim: &Pod) -> Result<()> {
        let patch = Patch::Strategic(json!({
            "metadata": {"uid": victim.metadata.uid},
            "status": {"conditions": [{
                "type": "DisruptionTarget",
                "status": "True",
                "reason": "PreemptionByScheduler",
                "message": "default-scheduler: preempting to accommodate a higher priority pod",
                "lastTransitionTime": pods::stamp(cx.clock()),
                "observedGeneration": victim.metadata.generation,
            }]},
        }));
        match cx.subresource::<Pod>(key, "status").patch::<Pod>(&patch).await {
            Err(error) if error.is_not_found() => return Ok(()),
            written => drop(written?),
        }
        cx.delete(victim).await?;
        Ok(())
    }
}
