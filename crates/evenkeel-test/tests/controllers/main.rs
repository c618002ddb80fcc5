//! Tests of the built-in controllers, with pods whose status the test writes.
//!
//! They pass on every back end with controllers, so that they also run against
//! kube-controller-manager when the environment names one. Without controllers they are skipped.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

mod deletion;

mod jobs;

mod quotas;

mod rollouts;

mod services;

use std::sync::Arc;

use evenkeel::Key;
use evenkeel::client::Patch;
use evenkeel_test::TestCluster;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

/// Starts a cluster; returns `None` if it has no controllers.
async fn cluster() -> Option<TestCluster> {
    let cluster = TestCluster::builder().virtual_time(1).start().await;
    if cluster.runs_controllers() {
        return Some(cluster);
    }
    cluster.stop().await;
    None
}

/// Returns a pod template whose pods are not scheduled.
fn template(app: &str, image: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": app}},
        "spec": {
            "schedulerName": "none",
            "containers": [{"name": "app", "image": image}],
        },
    })
}

fn is_pending(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    pod.metadata.deletion_timestamp.is_none() && phase == Some("Pending")
}

/// Waits until exactly `count` pods are pending, and returns them.
async fn pending_pods(cluster: &TestCluster, count: usize) -> Vec<Arc<Pod>> {
    let wanted = |pods: &[Arc<Pod>]| pods.iter().filter(|pod| is_pending(pod)).count() == count;
    let pods = cluster.eventually_all::<Pod>(wanted).await;
    pods.into_iter().filter(|pod| is_pending(pod)).collect()
}

/// Writes the status of a pod, in place of a kubelet.
async fn set_pod_status(cluster: &TestCluster, pod: &Pod, status: Value) {
    let patch = Patch::Merge(json!({ "status": status }));
    let status = cluster.client().subresource::<Pod>(&Key::of(pod), "status");
    status.patch::<Pod>(&patch).await.unwrap();
}

/// Sets a pod to running and ready since 2020, beyond any `minReadySeconds`.
async fn make_ready(cluster: &TestCluster, pod: &Pod) {
    let conditions = json!([{
        "type": "Ready", "status": "True", "lastTransitionTime": "2020-01-01T00:00:00Z",
    }]);
    set_pod_status(cluster, pod, json!({"phase": "Running", "conditions": conditions})).await;
}

/// Formats a condition as `type=status reason: message`.
fn format_condition(
    type_: &str,
    status: &str,
    reason: Option<&str>,
    message: Option<&str>,
) -> String {
    format!("{type_}={status} {}: {}", reason.unwrap_or_default(), message.unwrap_or_default())
}
