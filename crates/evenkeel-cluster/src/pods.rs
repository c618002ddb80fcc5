//! Pod helpers of the workload controllers.

use std::time::Duration;

use evenkeel::client::Patch;
use evenkeel::{BoxError, Clock, Context, Key, Object, Result, owner};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Pod, PodCondition, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde_json::{Value, json};

/// Returns the current time with the precision of API objects: whole seconds.
pub(crate) fn timestamp(clock: &Clock) -> Time {
    let now = clock.now();
    Time(Timestamp::from_second(now.as_second()).unwrap_or(now))
}

/// Returns the phase; `Pending` if it is not set yet.
pub(crate) fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or("Pending")
}

/// Whether the phase is terminal.
pub(crate) fn is_terminal(pod: &Pod) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

/// Whether deletion has been requested.
pub(crate) fn is_terminating(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}

/// Whether the pod counts as a replica: neither terminal nor terminating.
pub(crate) fn is_active(pod: &Pod) -> bool {
    !is_terminal(pod) && !is_terminating(pod)
}

/// Returns a condition of the pod.
pub(crate) fn condition<'a>(pod: &'a Pod, name: &str) -> Option<&'a PodCondition> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == name)
}

/// Merges `status` into the status of exactly this pod. Returns false if the pod no longer exists.
///
/// # Errors
/// When the API server rejects the request or does not respond.
pub(crate) async fn patch_status<K: Object>(
    cx: &Context<K>,
    pod: &Pod,
    status: &Value,
) -> Result<bool> {
    let patch = json!({"metadata": {"uid": pod.metadata.uid}, "status": status});
    let status = cx.client().subresource::<Pod>(&Key::of(pod), "status");
    match status.patch::<Pod>(&Patch::Strategic(patch)).await {
        Err(error) if error.is_not_found() => Ok(false),
        written => {
            written?;
            Ok(true)
        }
    }
}

/// Returns the DisruptionTarget condition of a pod that the control plane deletes.
pub(crate) fn disruption_target(clock: &Clock, pod: &Pod, reason: &str, message: &str) -> Value {
    json!({
        "type": "DisruptionTarget",
        "status": "True",
        "reason": reason,
        "message": message,
        "lastTransitionTime": timestamp(clock),
        "observedGeneration": pod.metadata.generation,
    })
}

/// Returns since when the pod is ready, if it is.
pub(crate) fn ready_since(pod: &Pod) -> Option<Timestamp> {
    let ready = condition(pod, "Ready").filter(|condition| condition.status == "True")?;
    Some(ready.last_transition_time.as_ref().map_or(Timestamp::MIN, |time| time.0))
}

/// Whether the pod is ready.
pub(crate) fn is_ready(pod: &Pod) -> bool {
    ready_since(pod).is_some()
}

/// Whether the pod is running and ready, as StatefulSets require.
pub(crate) fn is_running_and_ready(pod: &Pod) -> bool {
    phase(pod) == "Running" && is_ready(pod)
}

/// Returns the time until a pod that is ready since `ready` has been ready for `min_ready` seconds.
pub(crate) fn available_in(ready: Timestamp, min_ready: i32, now: Timestamp) -> Duration {
    if min_ready <= 0 {
        return Duration::ZERO;
    }
    let since = ready.checked_add(SignedDuration::from_secs(min_ready.into()));
    let left = since.map_or(SignedDuration::ZERO, |then| then.duration_since(now));
    Duration::try_from(left).unwrap_or(Duration::ZERO)
}

/// Whether the pod has been ready for `min_ready` seconds.
pub(crate) fn is_available(pod: &Pod, min_ready: i32, now: Timestamp) -> bool {
    ready_since(pod).is_some_and(|ready| available_in(ready, min_ready, now).is_zero())
}

/// Builds a pod from a template, controlled by `owner` and in its namespace, without a name.
///
/// # Errors
/// When `owner` has no uid.
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

/// Returns the `generateName` of an owner's pods.
pub(crate) fn name_prefix(owner: &str) -> String {
    format!("{owner}-")
}
