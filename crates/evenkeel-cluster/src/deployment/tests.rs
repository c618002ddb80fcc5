//! Deployments on a whole cluster, in virtual time.

use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use crate::testing::world::World;
use crate::{Delays, Settings};

fn deployment(replicas: i32, image: &str) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "app", "image": image}]},
            },
        },
    })
}

fn condition<'a>(deployment: &'a Deployment, name: &str) -> Option<&'a str> {
    let conditions = deployment.status.as_ref()?.conditions.as_ref()?;
    let condition = conditions.iter().find(|condition| condition.type_ == name)?;
    condition.reason.as_deref()
}

fn is_complete(deployment: &Deployment) -> bool {
    let Some(status) = &deployment.status else { return false };
    let wanted = deployment.spec.as_ref().and_then(|spec| spec.replicas);
    status.observed_generation == deployment.metadata.generation
        && status.updated_replicas == wanted
        && status.replicas == wanted
        && status.available_replicas == wanted
        && condition(deployment, "Progressing") == Some("NewReplicaSetAvailable")
}

#[tokio::test(start_paused = true)]
async fn a_deployment_becomes_available() {
    let world = World::start(Settings::default()).await;
    world.create::<Deployment>(deployment(3, "app:1")).await;
    let web = world.until_one::<Deployment>("web", is_complete).await;
    assert_eq!(condition(&web, "Available"), Some("MinimumReplicasAvailable"));
    assert_eq!(web.metadata.annotations.unwrap()["deployment.kubernetes.io/revision"], "1");
    let sets = world.until::<ReplicaSet>("one set", |sets| sets.len() == 1).await;
    let (name, set) = sets.into_iter().next().unwrap();
    let labels = set.metadata.labels.unwrap();
    assert_eq!(name, format!("web-{}", labels["pod-template-hash"]));
    let pods = world.until::<Pod>("three pods", |pods| pods.len() == 3).await;
    for (name, pod) in pods {
        assert!(name.starts_with("web-"), "{name}");
        let status = pod.status.unwrap();
        assert_eq!(status.phase.as_deref(), Some("Running"));
        assert!(status.pod_ip.is_some() && status.host_ip.is_some());
        assert_eq!(pod.spec.unwrap().node_name.as_deref(), Some("node-1"));
    }
}
