//! Disruptions allowed by a budget.

use evenkeel::Key;
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::NAME;
use crate::Cluster;
use crate::testing::{cluster, create, owner, until};

async fn pods(cluster: &Cluster, count: usize, ready: usize, set: Option<&ReplicaSet>) {
    let api: Api<Pod> = Api::default_namespaced(cluster.client());
    for number in 0..count {
        let name = format!("web-{number}");
        let mut meta = json!({"name": name, "labels": {"app": "web"}});
        if let Some(set) = set {
            let mut reference = owner(set);
            reference.controller = Some(true);
            meta["ownerReferences"] = json!([reference]);
        }
        let spec = json!({"containers": [{"name": "main", "image": "main"}]});
        create::<Pod>(cluster, json!({"metadata": meta, "spec": spec})).await;
        let status = if number < ready { "True" } else { "False" };
        let patch = Patch::Merge(json!({"status": {
            "phase": "Running", "conditions": [{"type": "Ready", "status": status}],
        }}));
        api.patch_status(&name, &PatchParams::default(), &patch).await.unwrap();
    }
}

async fn replica_set(cluster: &Cluster, replicas: usize) -> ReplicaSet {
    let template = json!({
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": "main"}]},
    });
    let spec = json!({
        "replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template,
    });
    create(cluster, json!({"metadata": {"name": "web"}, "spec": spec})).await
}

async fn budget(cluster: &Cluster, field: &str, value: Value) {
    let spec = json!({"selector": {"matchLabels": {"app": "web"}}, field: value});
    create::<PodDisruptionBudget>(cluster, json!({"metadata": {"name": "web"}, "spec": spec}))
        .await;
}

/// Waits for the counts: expected, healthy, desired, allowed.
async fn wait_for_counts(cluster: &Cluster, wanted: (i32, i32, i32, i32)) -> PodDisruptionBudget {
    let numbers = |budget: &PodDisruptionBudget| {
        let status = budget.status.clone().unwrap_or_default();
        let (expected, healthy) = (status.expected_pods?, status.current_healthy?);
        Some((expected, healthy, status.desired_healthy?, status.disruptions_allowed?))
    };
    let key = Key::namespaced("default", "web");
    until(cluster, &key, |budget: &PodDisruptionBudget| numbers(budget) == Some(wanted)).await
}

#[tokio::test(start_paused = true)]
async fn min_available_as_a_number_counts_existing_pods() {
    let cluster = cluster(&[NAME]).await;
    pods(&cluster, 3, 3, None).await;
    budget(&cluster, "minAvailable", json!(2)).await;
    let budget = wait_for_counts(&cluster, (3, 3, 2, 1)).await;
    let status = budget.status.unwrap();
    assert_eq!(status.observed_generation, budget.metadata.generation);
    let condition = &status.conditions.unwrap()[0];
    assert_eq!(
        (&*condition.type_, &*condition.status, &*condition.reason),
        ("DisruptionAllowed", "True", "SufficientPods")
    );
    let api: Api<Pod> = Api::default_namespaced(cluster.client());
    api.delete("web-0", &DeleteParams::default()).await.unwrap();
    let budget = wait_for_counts(&cluster, (2, 2, 2, 0)).await;
    let condition = &budget.status.unwrap().conditions.unwrap()[0];
    assert_eq!((&*condition.status, &*condition.reason), ("False", "InsufficientPods"));
}

#[tokio::test(start_paused = true)]
async fn min_available_as_a_percentage_is_of_the_controllers_scale() {
    let cluster = cluster(&[NAME]).await;
    let set = replica_set(&cluster, 10).await;
    pods(&cluster, 9, 8, Some(&set)).await;
    budget(&cluster, "minAvailable", json!("51%")).await;
    wait_for_counts(&cluster, (10, 8, 6, 2)).await;
}

#[tokio::test(start_paused = true)]
async fn max_unavailable_is_rounded_up() {
    let cluster = cluster(&[NAME]).await;
    let set = replica_set(&cluster, 5).await;
    pods(&cluster, 5, 5, Some(&set)).await;
    budget(&cluster, "maxUnavailable", json!("30%")).await;
    wait_for_counts(&cluster, (5, 5, 3, 2)).await;
}

#[tokio::test(start_paused = true)]
async fn a_budget_whose_scale_cannot_be_determined_allows_no_disruptions() {
    let cluster = cluster(&[NAME]).await;
    let set = replica_set(&cluster, 2).await;
    pods(&cluster, 2, 2, Some(&set)).await;
    let sets: Api<ReplicaSet> = Api::default_namespaced(cluster.client());
    sets.delete("web", &DeleteParams::background()).await.unwrap();
    budget(&cluster, "maxUnavailable", json!(1)).await;
    let key = Key::namespaced("default", "web");
    let failed = until(&cluster, &key, |budget: &PodDisruptionBudget| {
        let conditions = budget.status.as_ref().and_then(|status| status.conditions.as_ref());
        conditions.is_some_and(|all| all.iter().any(|one| one.reason == "SyncFailed"))
    })
    .await;
    let status = failed.status.unwrap();
    assert_eq!(status.disruptions_allowed, Some(0));
    assert_eq!(status.conditions.unwrap()[0].message, "found no controllers for pod \"web-0\"");
}

#[tokio::test(start_paused = true)]
async fn an_evicted_pod_counts_again_if_it_is_not_deleted_before_the_timeout() {
    let cluster = cluster(&[NAME]).await;
    pods(&cluster, 3, 3, None).await;
    budget(&cluster, "minAvailable", json!(1)).await;
    wait_for_counts(&cluster, (3, 3, 1, 2)).await;
    let api: Api<PodDisruptionBudget> = Api::default_namespaced(cluster.client());
    let patch = Patch::Merge(json!({"status": {
        "disruptionsAllowed": 1, "disruptedPods": {"web-0": "2026-01-01T00:00:00Z"},
    }}));
    api.patch_status("web", &PatchParams::default(), &patch).await.unwrap();
    wait_for_counts(&cluster, (3, 2, 1, 1)).await;
    let before = tokio::time::Instant::now();
    let budget = wait_for_counts(&cluster, (3, 3, 1, 2)).await;
    assert!((110..=121).contains(&before.elapsed().as_secs()));
    assert_eq!(budget.status.unwrap().disrupted_pods, None);
}

#[tokio::test(start_paused = true)]
async fn evictions_are_allowed_by_the_budget_and_then_rejected() {
    let cluster = cluster(&[NAME]).await;
    pods(&cluster, 2, 2, None).await;
    budget(&cluster, "minAvailable", json!(1)).await;
    wait_for_counts(&cluster, (2, 2, 1, 1)).await;
    let api: Api<Pod> = Api::default_namespaced(cluster.client());
    let evicted = api.evict("web-0", &Default::default()).await;
    assert!(evicted.is_ok(), "{evicted:?}");
    wait_for_counts(&cluster, (1, 1, 1, 0)).await;
    let refused = api.evict("web-1", &Default::default()).await.unwrap_err();
    assert!(refused.to_string().contains("disruption budget"), "{refused}");
    let _ = PostParams::default();
}
