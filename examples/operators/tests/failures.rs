//! Simulated failures of pods, as shown in the README.

use std::time::Duration;

use evenkeel::Key;
use evenkeel_test::{Delays, PodSimulation, TestCluster};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;

#[tokio::test]
async fn simulated_pods_fail_as_planned() {
    let cluster = TestCluster::builder()
        .virtual_time(1)
        .pod_simulations(|pod| match pod.spec.as_ref()?.containers[0].image.as_deref()? {
            "web:missing" => Some(PodSimulation::image_pull_error()),
            "web:broken" => Some(PodSimulation::crash_loop()),
            _ => None, // runs and becomes ready
        })
        .delays(Delays::new().ready(Duration::from_secs(5)))
        .start()
        .await;
    if !cluster.simulates_pods() {
        return cluster.stop().await; // another back end
    }
    let started = tokio::time::Instant::now();
    for name in ["good", "missing", "broken"] {
        cluster.client().create(&web(&cluster, name)).await.unwrap();
    }

    let key = Key::namespaced(cluster.namespace(), "good");
    let ready = |web: &Deployment| web.status.as_ref().and_then(|it| it.ready_replicas) == Some(1);
    cluster.eventually::<Deployment>(&key, ready).await;
    assert!(started.elapsed() >= Duration::from_secs(5));
    for reason in ["ImagePullBackOff", "CrashLoopBackOff"] {
        let waits = |pod: &Pod| waiting(pod) == Some(reason);
        cluster.eventually_all::<Pod>(|pods| pods.iter().any(|pod| waits(pod))).await;
    }
    cluster.stop().await;
}

/// Returns a Deployment of one pod with the image `web:{name}`.
fn web(cluster: &TestCluster, name: &str) -> Deployment {
    cluster.parse(&format!(
        "metadata: {{name: {name}}}
spec:
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec: {{containers: [{{name: web, image: 'web:{name}'}}]}}"
    ))
}

/// Returns the reason why the first container of a pod is waiting.
fn waiting(pod: &Pod) -> Option<&str> {
    let statuses = pod.status.as_ref()?.container_statuses.as_ref()?;
    statuses.first()?.state.as_ref()?.waiting.as_ref()?.reason.as_deref()
}
