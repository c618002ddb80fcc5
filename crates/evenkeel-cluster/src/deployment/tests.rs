//! Deployments on a whole cluster, in virtual time.

use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use crate::testing::virtual_cluster::VirtualCluster;
use crate::{ClusterOptions, Delays};

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
    let cluster = VirtualCluster::start(ClusterOptions::default()).await;
    cluster.create::<Deployment>(deployment(3, "app:1")).await;
    let web = cluster.until_one::<Deployment>("web", is_complete).await;
    assert_eq!(condition(&web, "Available"), Some("MinimumReplicasAvailable"));
    assert_eq!(web.metadata.annotations.unwrap()["deployment.kubernetes.io/revision"], "1");
    let sets = cluster.until::<ReplicaSet>("one set", |sets| sets.len() == 1).await;
    let (name, set) = sets.into_iter().next().unwrap();
    let labels = set.metadata.labels.unwrap();
    assert_eq!(name, format!("web-{}", labels["pod-template-hash"]));
    let pods = cluster.until::<Pod>("three pods", |pods| pods.len() == 3).await;
    for (name, pod) in pods {
        assert!(name.starts_with("web-"), "{name}");
        let status = pod.status.unwrap();
        assert_eq!(status.phase.as_deref(), Some("Running"));
        assert!(status.pod_ip.is_some() && status.host_ip.is_some());
        assert_eq!(pod.spec.unwrap().node_name.as_deref(), Some("node-1"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_rollout_honours_max_unavailable_and_max_surge() {
    let delays = Delays { ready: Duration::from_secs(5), ..Delays::default() };
    let cluster =
        VirtualCluster::start(ClusterOptions { delays, ..ClusterOptions::default() }).await;
    cluster.create::<Deployment>(deployment(4, "app:1")).await;
    cluster.until_one::<Deployment>("web", is_complete).await;
    let template = json!({"spec": {"template": {"spec": {"containers": [
        {"name": "app", "image": "app:2"},
    ]}}}});
    cluster.patch::<Deployment>("web", template).await;
    // By default 25% may be unavailable and 25% surge.
    let mut steps = 0;
    let web = cluster
        .until_one::<Deployment>("web", |web| {
            let status = web.status.clone().unwrap_or_default();
            assert!(status.available_replicas >= Some(3), "{status:#?}");
            assert!(status.replicas <= Some(5), "{status:#?}");
            steps += 1;
            is_complete(web)
        })
        .await;
    assert!(steps > 4, "{steps}");
    assert_eq!(web.metadata.annotations.unwrap()["deployment.kubernetes.io/revision"], "2");
    let sets = cluster
        .until::<ReplicaSet>("the old set is empty", |sets| {
            let sizes = sets.values().map(|set| set.status.as_ref().map(|status| status.replicas));
            sizes.flatten().sum::<i32>() == 4
        })
        .await;
    let mut sizes: Vec<_> = sets.values().map(|set| set.spec.as_ref().unwrap().replicas).collect();
    sizes.sort();
    assert_eq!(sizes, [Some(0), Some(4)]);
}

#[tokio::test(start_paused = true)]
async fn a_rollback_reuses_the_old_replica_set_with_a_new_revision() {
    let cluster = VirtualCluster::start(ClusterOptions::default()).await;
    cluster.create::<Deployment>(deployment(2, "app:1")).await;
    let first = cluster.until_one::<Deployment>("web", is_complete).await;
    let sets = cluster.until::<ReplicaSet>("one set", |sets| sets.len() == 1).await;
    let original = sets.into_keys().next().unwrap();
    let image = |image: &str| json!({"spec": {"template": {"spec": {"containers": [{"name": "app", "image": image}]}}}});
    cluster.patch::<Deployment>("web", image("app:2")).await;
    cluster.until_one::<Deployment>("web", is_complete).await;
    // This is what `kubectl rollout undo` does: it restores the old template.
    let template = json!([{
        "op": "replace", "path": "/spec/template", "value": first.spec.unwrap().template,
    }]);
    let patch: kube::api::Patch<()> =
        kube::api::Patch::Json(serde_json::from_value(template).unwrap());
    let params = kube::api::PatchParams::default();
    cluster.api::<Deployment>().patch("web", &params, &patch).await.unwrap();
    let web = cluster
        .until_one::<Deployment>("web", |web| {
            let annotations = web.metadata.annotations.clone().unwrap_or_default();
            is_complete(web) && annotations["deployment.kubernetes.io/revision"] == "3"
        })
        .await;
    assert_eq!(web.status.unwrap().updated_replicas, Some(2));
    let sets = cluster.until::<ReplicaSet>("two sets", |sets| sets.len() == 2).await;
    let set = &sets[&original];
    let annotations = set.metadata.annotations.as_ref().unwrap();
    assert_eq!(annotations["deployment.kubernetes.io/revision"], "3");
    assert_eq!(annotations["deployment.kubernetes.io/revision-history"], "1");
    assert_eq!(set.spec.as_ref().unwrap().replicas, Some(2));
}

#[tokio::test(start_paused = true)]
async fn recreate_starts_no_pod_before_the_old_ones_are_deleted() {
    let delays = Delays { stop: Duration::from_secs(3), ..Delays::default() };
    let cluster =
        VirtualCluster::start(ClusterOptions { delays, ..ClusterOptions::default() }).await;
    let mut object = deployment(2, "app:1");
    object["spec"]["strategy"] = json!({"type": "Recreate"});
    cluster.create::<Deployment>(object).await;
    cluster.until_one::<Deployment>("web", is_complete).await;
    let image = json!({"spec": {"template": {"spec": {"containers": [
        {"name": "app", "image": "app:2"},
    ]}}}});
    cluster.patch::<Deployment>("web", image).await;
    cluster
        .until::<Pod>("two new pods", |pods| {
            let images: std::collections::BTreeSet<_> = pods
                .values()
                .filter_map(|pod| pod.spec.as_ref()?.containers[0].image.as_deref())
                .collect();
            assert!(images.len() <= 1, "{images:?}");
            images.contains("app:2") && pods.len() == 2
        })
        .await;
    cluster.until_one::<Deployment>("web", is_complete).await;
}

#[tokio::test(start_paused = true)]
async fn a_stalled_rollout_exceeds_its_progress_deadline() {
    let cluster = VirtualCluster::start(ClusterOptions::default()).await;
    let mut object = deployment(2, "app:1");
    object["spec"]["progressDeadlineSeconds"] = json!(60);
    object["spec"]["template"]["metadata"]["annotations"] =
        json!({"evenkeel.dev/simulate": "never-ready"});
    cluster.create::<Deployment>(object).await;
    let begun = tokio::time::Instant::now();
    let web = cluster
        .until_one::<Deployment>("web", |web| {
            condition(web, "Progressing") == Some("ProgressDeadlineExceeded")
        })
        .await;
    let took = begun.elapsed();
    assert!((60..=63).contains(&took.as_secs()), "{took:?}");
    assert_eq!(condition(&web, "Available"), Some("MinimumReplicasUnavailable"));
}

#[tokio::test(start_paused = true)]
async fn scaling_during_a_rollout_is_proportional() {
    let cluster = VirtualCluster::start(ClusterOptions::default()).await;
    let mut object = deployment(10, "app:1");
    object["spec"]["strategy"] =
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 3, "maxUnavailable": 2}});
    cluster.create::<Deployment>(object).await;
    cluster.until_one::<Deployment>("web", is_complete).await;
    // The new pods never become ready: the rollout stops with 8 old and 5 new.
    let broken = json!({"spec": {"template": {
        "metadata": {"annotations": {"evenkeel.dev/simulate": "never-ready"}},
        "spec": {"containers": [{"name": "app", "image": "app:2"}]},
    }}});
    cluster.patch::<Deployment>("web", broken).await;
    let sizes = |sets: &std::collections::BTreeMap<String, ReplicaSet>| {
        let mut sizes: Vec<_> =
            sets.values().filter_map(|set| set.spec.as_ref()?.replicas).collect();
        sizes.sort_unstable();
        sizes
    };
    cluster.until::<ReplicaSet>("8 and 5", |sets| sizes(sets) == [5, 8]).await;
    cluster.patch::<Deployment>("web", json!({"spec": {"replicas": 15}})).await;
    // 5 more, shared in proportion to 8 and 5, as in upstream's example.
    cluster.until::<ReplicaSet>("11 and 7", |sets| sizes(sets) == [7, 11]).await;
}

#[tokio::test(start_paused = true)]
async fn a_paused_deployment_scales_without_a_rollout() {
    let cluster = VirtualCluster::start(ClusterOptions::default()).await;
    cluster.create::<Deployment>(deployment(2, "app:1")).await;
    cluster.until_one::<Deployment>("web", is_complete).await;
    cluster.patch::<Deployment>("web", json!({"spec": {"paused": true}})).await;
    cluster
        .until_one::<Deployment>("web", |web| {
            condition(web, "Progressing") == Some("DeploymentPaused")
        })
        .await;
    let change = json!({"spec": {"replicas": 3, "template": {"spec": {"containers": [
        {"name": "app", "image": "app:2"},
    ]}}}});
    cluster.patch::<Deployment>("web", change).await;
    let sets = cluster
        .until::<ReplicaSet>("three old ones", |sets| {
            assert_eq!(sets.len(), 1);
            sets.values().all(|set| set.status.as_ref().is_some_and(|s| s.replicas == 3))
        })
        .await;
    drop(sets);
    cluster.patch::<Deployment>("web", json!({"spec": {"paused": false}})).await;
    cluster.until_one::<Deployment>("web", is_complete).await;
    cluster.until::<ReplicaSet>("two sets", |sets| sets.len() == 2).await;
}

#[tokio::test(start_paused = true)]
async fn old_sets_beyond_the_history_limit_are_deleted() {
    let cluster = VirtualCluster::start(ClusterOptions::default()).await;
    let mut object = deployment(1, "app:0");
    object["spec"]["revisionHistoryLimit"] = json!(1);
    cluster.create::<Deployment>(object).await;
    for version in 1..4 {
        cluster.until_one::<Deployment>("web", is_complete).await;
        let image = json!({"spec": {"template": {"spec": {"containers": [
            {"name": "app", "image": format!("app:{version}")},
        ]}}}});
        cluster.patch::<Deployment>("web", image).await;
    }
    cluster.until_one::<Deployment>("web", is_complete).await;
    cluster
        .until::<ReplicaSet>("two sets", |sets| {
            let image = |set: &ReplicaSet| {
                let template = set.spec.as_ref()?.template.as_ref()?;
                template.spec.as_ref()?.containers[0].image.clone()
            };
            let mut images: Vec<_> = sets.values().filter_map(image).collect();
            images.sort();
            images == ["app:2", "app:3"]
        })
        .await;
}
