//! ReplicaSets and ReplicationControllers on a whole cluster, in virtual time.

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::{Pod, ReplicationController};
use kube::api::DeleteParams;
use serde_json::{Value, json};

use crate::ClusterOptions;
use crate::testing::virtual_cluster::VirtualCluster;

fn set(replicas: i32) -> Value {
    json!({
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "app", "image": "app:1"}]},
            },
        },
    })
}

fn available(wanted: i32) -> impl Fn(&ReplicaSet) -> bool {
    move |set| {
        let status = set.status.clone().unwrap_or_default();
        status.available_replicas.unwrap_or(0) == wanted
            && status.replicas == wanted
            && status.observed_generation == set.metadata.generation
    }
}

fn owner(pod: &Pod) -> Option<&str> {
    let owners = pod.metadata.owner_references.as_ref()?;
    owners.iter().find(|owner| owner.controller == Some(true)).map(|owner| owner.uid.as_str())
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_deleted_is_replaced() {
    let cluster = VirtualCluster::start(ClusterOptions::default()).await;
    cluster.create::<ReplicaSet>(set(3)).await;
    cluster.until_one("web", available(3)).await;
    let pods = cluster.until::<Pod>("three", |pods| pods.len() == 3).await;
    let victim = pods.into_keys().next().unwrap();
    cluster.api::<Pod>().delete(&victim, &DeleteParams::default()).await.unwrap();
    cluster.until::<Pod>("three others", |p| p.len() == 3 && !p.contains_key(&victim)).await;
    cluster.until_one("web", available(3)).await;
}

#[tokio::test(start_paused = true)]
async fn orphans_that_match_are_adopted_and_pods_that_no_longer_match_are_released() {
    let cluster = VirtualCluster::start(ClusterOptions::default()).await;
    cluster
        .create::<Pod>(json!({
            "metadata": {"name": "stray", "labels": {"app": "web"}},
            "spec": {"containers": [{"name": "app", "image": "app:1"}]},
        }))
        .await;
    let made = cluster.create::<ReplicaSet>(set(2)).await;
    cluster.until_one("web", available(2)).await;
    let uid = made.metadata.uid.as_deref();
    cluster
        .until::<Pod>("both owned", |pods| {
            pods.len() == 2 && pods.contains_key("stray") && pods.values().all(|p| owner(p) == uid)
        })
        .await;
    cluster.patch::<Pod>("stray", json!({"metadata": {"labels": {"app": "other"}}})).await;
    let pods = cluster
        .until::<Pod>("one more", |pods| {
            pods.len() == 3 && pods.get("stray").is_some_and(|stray| owner(stray).is_none())
        })
        .await;
    assert!(!pods["stray"].metadata.labels.as_ref().unwrap().contains_key("pod-template-hash"));
    cluster.until_one("web", available(2)).await;
}

#[tokio::test(start_paused = true)]
async fn pods_of_lowest_deletion_cost_are_deleted_first() {
    let cluster = VirtualCluster::start(ClusterOptions::default()).await;
    cluster.create::<ReplicaSet>(set(3)).await;
    cluster.until_one("web", available(3)).await;
    let pods = cluster.until::<Pod>("three", |pods| pods.len() == 3).await;
    let names: Vec<String> = pods.into_keys().collect();
    for (name, cost) in names.iter().zip([5, 1, 9]) {
        let cost = json!({"controller.kubernetes.io/pod-deletion-cost": cost.to_string()});
        cluster.patch::<Pod>(name, json!({"metadata": {"annotations": cost}})).await;
    }
    cluster.patch::<ReplicaSet>("web", json!({"spec": {"replicas": 1}})).await;
    let left = cluster.until::<Pod>("one", |pods| pods.len() == 1).await;
    assert!(left.contains_key(&names[2]), "{left:?}");
}

#[tokio::test(start_paused = true)]
async fn pods_count_as_available_only_after_the_minimum_time() {
    let cluster = VirtualCluster::start(ClusterOptions::default()).await;
    let mut object = set(2);
    object["spec"]["minReadySeconds"] = json!(30);
    cluster.create::<ReplicaSet>(object).await;
    let ready = |set: &ReplicaSet| set.status.as_ref().is_some_and(|s| s.ready_replicas == Some(2));
    let web = cluster.until_one::<ReplicaSet>("web", ready).await;
    assert_eq!(web.status.unwrap().available_replicas, None);
    let begun = tokio::time::Instant::now();
    cluster.until_one("web", available(2)).await;
    assert!((29..=31).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn create_errors_are_reported_as_a_condition() {
    let cluster = VirtualCluster::start(ClusterOptions::default()).await;
    let mut object = set(1);
    // Valid in a template but rejected in a pod: the PriorityClass does not exist.
    object["spec"]["template"]["spec"]["priorityClassName"] = json!("missing");
    cluster.create::<ReplicaSet>(object).await;
    let web = cluster
        .until_one::<ReplicaSet>("web", |set| {
            set.status.as_ref().is_some_and(|status| status.conditions.is_some())
        })
        .await;
    let condition = &web.status.unwrap().conditions.unwrap()[0];
    assert_eq!(condition.type_, "ReplicaFailure");
    assert_eq!(condition.reason.as_deref(), Some("FailedCreate"));
    assert!(condition.message.as_deref().unwrap().contains("missing"), "{condition:?}");
}

#[tokio::test(start_paused = true)]
async fn a_replication_controller_maintains_its_replicas() {
    let cluster = VirtualCluster::start(ClusterOptions::default()).await;
    let mut controller = set(2);
    controller["spec"]["selector"] = json!({"app": "web"});
    let made = cluster.create::<ReplicationController>(controller).await;
    let available = |wanted: i32| {
        move |set: &ReplicationController| {
            let status = set.status.clone().unwrap_or_default();
            status.available_replicas.unwrap_or(0) == wanted
                && status.replicas == wanted
                && status.observed_generation == set.metadata.generation
        }
    };
    cluster.until_one("web", available(2)).await;
    let uid = made.metadata.uid.as_deref();
    let pods = cluster.until::<Pod>("two", |pods| pods.len() == 2).await;
    assert!(pods.values().all(|pod| owner(pod) == uid));
    cluster.patch::<ReplicationController>("web", json!({"spec": {"replicas": 1}})).await;
    cluster.until_one("web", available(1)).await;
    cluster.until::<Pod>("one", |pods| pods.len() == 1).await;
}
