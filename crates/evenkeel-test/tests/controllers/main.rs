//! What the controllers of a cluster do, with pods that nobody runs but the test.
//!
//! The claims hold on every back end with controllers, so they are also checked against
//! kube-controller-manager when the environment names one. Where none run there is nothing to see.

#![expect(clippy::unwrap_used, reason = "that is how a test fails")]

mod deletion;

mod jobs;

mod rollouts;

mod services;

use std::sync::Arc;

use evenkeel::Key;
use evenkeel::client::Patch;
use evenkeel_test::TestCluster;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

/// A cluster with controllers; none where there is not.
async fn cluster() -> Option<TestCluster> {
    let cluster = TestCluster::builder().virtual_time(1).start().await;
    if cluster.runs_controllers() {
        return Some(cluster);
    }
    cluster.stop().await;
    None
}

/// What pods are made from that nobody places on a node.
fn template(app: &str, image: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": app}},
        "spec": {
            "schedulerName": "nobody",
            "containers": [{"name": "app", "image": image}],
        },
    })
}

fn is_pending(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    pod.metadata.deletion_timestamp.is_none() && phase == Some("Pending")
}

/// Waits for so many pods that have neither begun nor ended.
async fn pending_pods(cluster: &TestCluster, count: usize) -> Vec<Arc<Pod>> {
    let wanted = |pods: &[Arc<Pod>]| pods.iter().filter(|pod| is_pending(pod)).count() == count;
    let pods = cluster.eventually_all::<Pod>(wanted).await;
    pods.into_iter().filter(|pod| is_pending(pod)).collect()
}

/// Says how a pod fares, in place of a kubelet.
async fn set_pod_status(cluster: &TestCluster, pod: &Pod, status: Value) {
    let patch = Patch::Merge(json!({ "status": status }));
    let status = cluster.client().subresource::<Pod>(&Key::of(pod), "status");
    status.patch::<Pod>(&patch).await.unwrap();
}

/// Has a pod run, and ready since long ago.
async fn make_ready(cluster: &TestCluster, pod: &Pod) {
    let conditions = json!([{
        "type": "Ready", "status": "True", "lastTransitionTime": "2020-01-01T00:00:00Z",
    }]);
    set_pod_status(cluster, pod, json!({"phase": "Running", "conditions": conditions})).await;
}

/// A condition in words.
fn format_condition(
    type_: &str,
    status: &str,
    reason: Option<&str>,
    message: Option<&str>,
) -> String {
    format!("{type_}={status} {}: {}", reason.unwrap_or_default(), message.unwrap_or_default())
}
