//! What the workload controllers ask of pods, and how they make them.

use std::time::Duration;

use evenkeel::client::Patch;
use evenkeel::{BoxError, Clock, Context, Key, Object, Result, owner};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Pod, PodCondition, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde_json::{Value, json};

/// The time as objects carry it: whole seconds.
pub(crate) fn stamp(clock: &Clock) -> Time {
    let now = clock.now();
    Time(Timestamp::from_second(now.as_second()).unwrap_or(now))
}

/// The phase; a pod nobody has reported on is pending.
pub(crate) fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or("Pending")
}

/// Whether its containers have ended for good.
pub(crate) fn is_terminal(pod: &Pod) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

/// Whether deletion has been requested.
pub(crate) fn is_terminating(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}

/// Whether it counts as a replica: neither ended nor on its way out.
pub(crate) fn is_active(pod: &Pod) -> bool {
    !is_terminal(pod) && !is_terminating(pod)
}

/// One of its conditions.
pub(crate) fn condition<'a>(pod: &'a Pod, name: &str) -> Option<&'a PodCondition> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == name)
}

/// Merges `status` into the status of exactly this pod. Returns false if the pod is gone.
///
/// # Errors
/// When the API server refuses or does not answer.
pub(crate) async fn patch_status<K: Object>(
    cx: &Context<K>,
    pod: &Pod,
    status: &Value,
) -> Result<bool> {
    let patch = json!({"metadata": {"uid": pod.metadata.uid}, "status": status});
    let status = cx.subresource::<Pod>(&Key::of(pod), "status");
    match status.patch::<Pod>(&Patch::Strategic(patch)).await {
        Err(error) if error.is_not_found() => Ok(false),
        written => {
            written?;
            Ok(true)
        }
    }
}

/// The condition of a pod that is deleted by the cluster, for no fault of its own.
pub(crate) fn disruption_target(clock: &Clock, pod: &Pod, reason: &str, message: &str) -> Value {
    json!({
        "type": "DisruptionTarget",
        "status": "True",
        "reason": reason,
        "message": message,
        "lastTransitionTime": stamp(clock),
        "observedGeneration": pod.metadata.generation,
    })
}

/// Since when it is ready, if it is.
pub(crate) fn ready_since(pod: &Pod) -> Option<Timestamp> {
    let ready = condition(pod, "Ready").filter(|condition| condition.status == "True")?;
    Some(ready.last_transition_time.as_ref().map_or(Timestamp::MIN, |time| time.0))
}

/// Whether it is ready.
pub(crate) fn is_ready(pod: &Pod) -> bool {
    ready_since(pod).is_some()
}

/// Whether it is running and ready, as a stateful set asks.
pub(crate) fn is_running_and_ready(pod: &Pod) -> bool {
    phase(pod) == "Running" && is_ready(pod)
}

/// How long until something that is ready since `ready` has been so for `min_ready` seconds.
pub(crate) fn available_in(ready: Timestamp, min_ready: i32, now: Timestamp) -> Duration {
    if min_ready <= 0 {
        return Duration::ZERO;
    }
    let since = ready.checked_add(SignedDuration::from_secs(min_ready.into()));
    let left = since.map_or(SignedDuration::ZERO, |then| then.duration_since(now));
    Duration::try_from(left).unwrap_or(Duration::ZERO)
}

/// Whether it has been ready for `min_ready` seconds.
pub(crate) fn is_available(pod: &Pod, min_ready: i32, now: Timestamp) -> bool {
    ready_since(pod).is_some_and(|ready| available_in(ready, min_ready, now).is_zero())
}

/// A pod from a template, controlled by `owner`, in its namespace; it has no name yet.
///
/// # Errors
/// When `owner` cannot own anything.
pub(crate) fn from_template<O: Object>(
    template: &PodTemplateSpec,
    owner: &O,
) -> Result<Pod, BoxError> {
    let meta = template.metadata.clone().unwrap_or_default();
    let mut pod = Pod {
        metadata: ObjectMeta {
            labels: meta.labels,
            annotations: meta.annotations,
            finalizers: meta.finalizers,
            namespace: owner.meta().namespace.clone(),
            ..ObjectMeta::default()
        },
        spec: template.spec.clone(),
        status: None,
    };
    owner::set_controller_reference(owner, &mut pod)?;
    Ok(pod)
}

/// The prefix the API server completes to a pod's name.
pub(crate) fn name_prefix(owner: &str) -> String {
    format!("{owner}-")
}
