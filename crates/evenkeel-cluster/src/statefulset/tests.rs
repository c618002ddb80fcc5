//! StatefulSets on a whole cluster, in virtual time.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::api::DeleteParams;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::pods::{is_ready, is_terminating};
use crate::testing::virtual_cluster::VirtualCluster;
use crate::{ClusterOptions, Delays};

fn set(replicas: i32) -> Value {
    json!({
        "metadata": {"name": "db"},
        "spec": {
            "replicas": replicas,
            "serviceName": "db",
            "selector": {"matchLabels": {"app": "db"}},
            "template": {
                "metadata": {"labels": {"app": "db"}},
                "spec": {"containers": [{"name": "app", "image": "db:1"}]},
            },
        },
    })
}

fn image(image: &str) -> Value {
    json!({"spec": {"template": {"spec": {"containers": [{"name": "app", "image": image}]}}}})
}

fn image_of(pod: &Pod) -> &str {
    pod.spec.as_ref().unwrap().containers[0].image.as_deref().unwrap()
}

fn is_up_to_date(set: &StatefulSet) -> bool {
    let status = set.status.clone().unwrap_or_default();
    let wanted = set.spec.as_ref().and_then(|spec| spec.replicas);
    status.observed_generation == set.metadata.generation
        && status.ready_replicas == wanted
        && status.available_replicas == wanted
        && status.updated_replicas == wanted
        && status.current_revision == status.update_revision
}

fn slow() -> ClusterOptions {
    let delays =
        Delays { ready: Duration::from_secs(2), stop: Duration::from_secs(1), ..Delays::default() };
    ClusterOptions { delays, ..ClusterOptions::default() }
}

#[tokio::test(start_paused = true)]
async fn pods_start_in_order_and_stop_in_reverse_order() {
    let cluster = VirtualCluster::start(slow()).await;
    cluster.create::<StatefulSet>(set(3)).await;
    let pods = cluster
        .until::<Pod>("three ready", |pods| {
            let unready = pods.values().filter(|pod| !is_ready(pod)).count();
            assert!(unready <= 1, "each pod is created once its predecessor is ready");
            let names: Vec<_> = pods.keys().map(String::as_str).collect();
            assert_eq!(names, ["db-0", "db-1", "db-2"][..pods.len()]);
            pods.len() == 3 && unready == 0
        })
        .await;
    let db = cluster.until_one("db", is_up_to_date).await;
    let labels = pods["db-1"].metadata.labels.clone().unwrap();
    assert_eq!(labels["statefulset.kubernetes.io/pod-name"], "db-1");
    assert_eq!(labels["apps.kubernetes.io/pod-index"], "1");
    assert_eq!(
        Some(&labels["controller-revision-hash"]),
        db.status.unwrap().update_revision.as_ref()
    );
    let spec = pods["db-1"].spec.clone().unwrap();
    assert_eq!((spec.hostname.as_deref(), spec.subdomain.as_deref()), (Some("db-1"), Some("db")));

    cluster.patch::<StatefulSet>("db", json!({"spec": {"replicas": 1}})).await;
    cluster
        .until::<Pod>("one", |pods| {
            let terminating: Vec<_> =
                pods.iter().filter(|(_, pod)| is_terminating(pod)).map(|(name, _)| name).collect();
            assert!(terminating.len() <= 1, "{terminating:?}");
            assert!(
                terminating.iter().all(|name| pods.keys().max() == Some(name)),
                "{terminating:?}"
            );
            pods.len() == 1
        })
        .await;
    cluster.until_one("db", is_up_to_date).await;
}

#[tokio::test(start_paused = true)]
async fn parallel_management_starts_and_stops_all_pods_together() {
    let cluster = VirtualCluster::start(slow()).await;
    let mut object = set(3);
    object["spec"]["podManagementPolicy"] = json!("Parallel");
    cluster.create::<StatefulSet>(object).await;
    let pods = cluster.until::<Pod>("three", |pods| pods.len() == 3).await;
    assert!(pods.values().all(|pod| !is_ready(pod)));
    cluster.until_one("db", is_up_to_date).await;
    cluster.patch::<StatefulSet>("db", json!({"spec": {"replicas": 0}})).await;
    cluster
        .until::<Pod>("all terminating", |pods| {
            pods.len() == 3 && pods.values().all(is_terminating)
        })
        .await;
    cluster.until::<Pod>("none", BTreeMap::is_empty).await;
}

#[tokio::test(start_paused = true)]
async fn an_update_proceeds_from_the_highest_ordinal_to_the_partition() {
    let cluster = VirtualCluster::start(slow()).await;
    let mut object = set(3);
    object["spec"]["updateStrategy"] =
        json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 2}});
    cluster.create::<StatefulSet>(object).await;
    let db = cluster.until_one("db", is_up_to_date).await;
    let first = db.status.unwrap().current_revision.unwrap();
    cluster.patch::<StatefulSet>("db", image("db:2")).await;
    cluster
        .until_one::<StatefulSet>("db", |db| {
            let status = db.status.clone().unwrap_or_default();
            status.updated_replicas == Some(1) && status.ready_replicas == Some(3)
        })
        .await;
    let pods = cluster.until::<Pod>("three", |pods| pods.len() == 3).await;
    let images: Vec<_> = pods.values().map(image_of).collect();
    assert_eq!(images, ["db:1", "db:1", "db:2"]);
    // A deleted pod below the partition is recreated from the old revision.
    cluster.api::<Pod>().delete("db-0", &DeleteParams::default()).await.unwrap();
    let uid = pods["db-0"].metadata.uid.clone();
    let back = cluster.until_one::<Pod>("db-0", |p| p.metadata.uid != uid && is_ready(p)).await;
    assert_eq!(image_of(&back), "db:1");

    let partition = json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}});
    cluster.patch::<StatefulSet>("db", partition).await;
    let mut order = Vec::new();
    cluster
        .until::<Pod>("all new", |pods| {
            let terminating =
                pods.iter().filter(|(_, pod)| is_terminating(pod)).map(|(name, _)| name);
            order.extend(terminating.cloned());
            order.dedup();
            pods.len() == 3 && pods.values().all(|pod| image_of(pod) == "db:2" && is_ready(pod))
        })
        .await;
    assert_eq!(order, ["db-1", "db-0"]);
    let db = cluster.until_one("db", is_up_to_date).await;
    assert_ne!(db.status.unwrap().current_revision, Some(first.clone()));

    // Restoring the template makes the old revision the latest instead of creating a third.
    cluster.patch::<StatefulSet>("db", image("db:1")).await;
    let db = cluster
        .until_one::<StatefulSet>("db", |db| {
            is_up_to_date(db)
                && db.status.as_ref().unwrap().current_revision.as_ref() == Some(&first)
        })
        .await;
    drop(db);
    let revisions = cluster.until::<ControllerRevision>("two", |all| all.len() == 2).await;
    assert_eq!(revisions[&first].revision, 3);
    let data = &revisions[&first].data.as_ref().unwrap().0;
    assert_eq!(data["spec"]["template"]["$patch"], "replace");
}

#[tokio::test(start_paused = true)]
async fn on_delete_leaves_pods_until_they_are_deleted() {
    let cluster = VirtualCluster::start(ClusterOptions::default()).await;
    let mut object = set(2);
    object["spec"]["updateStrategy"] = json!({"type": "OnDelete"});
    cluster.create::<StatefulSet>(object).await;
    cluster
        .until_one::<StatefulSet>("db", |db| {
            db.status.as_ref().is_some_and(|status| status.ready_replicas == Some(2))
        })
        .await;
    cluster.patch::<StatefulSet>("db", image("db:2")).await;
    cluster
        .until_one::<StatefulSet>("db", |db| {
            let status = db.status.clone().unwrap_or_default();
            status.observed_generation == db.metadata.generation
        })
        .await;
    cluster.api::<Pod>().delete("db-1", &DeleteParams::default()).await.unwrap();
    let pods = cluster
        .until::<Pod>("one new", |pods| {
            pods.get("db-1").is_some_and(|pod| image_of(pod) == "db:2" && is_ready(pod))
        })
        .await;
    assert_eq!(image_of(&pods["db-0"]), "db:1");
}

#[tokio::test(start_paused = true)]
async fn pvcs_are_created_from_templates_and_retained_by_policy() {
    let cluster = VirtualCluster::start(ClusterOptions::default()).await;
    let mut object = set(2);
    object["spec"]["volumeClaimTemplates"] = json!([{
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }]);
    object["spec"]["persistentVolumeClaimRetentionPolicy"] =
        json!({"whenScaled": "Delete", "whenDeleted": "Retain"});
    cluster.create::<StatefulSet>(object).await;
    cluster.until_one("db", is_up_to_date).await;
    let claims = cluster.until::<PersistentVolumeClaim>("two", |claims| claims.len() == 2).await;
    assert!(claims.contains_key("data-db-0") && claims.contains_key("data-db-1"), "{claims:?}");
    let labels = claims["data-db-0"].metadata.labels.as_ref().unwrap();
    assert_eq!(labels["app"], "db");
    let pods = cluster.until::<Pod>("two", |pods| pods.len() == 2).await;
    let volumes = pods["db-1"].spec.as_ref().unwrap().volumes.clone().unwrap();
    let claim = volumes.iter().find_map(|volume| volume.persistent_volume_claim.clone()).unwrap();
    assert_eq!(claim.claim_name, "data-db-1");

    cluster.patch::<StatefulSet>("db", json!({"spec": {"replicas": 1}})).await;
    // The PVC is owned by the condemned pod, and garbage-collected with it.
    let claims = cluster
        .until::<PersistentVolumeClaim>("one", |claims| !claims.contains_key("data-db-1"))
        .await;
    assert_eq!(claims["data-db-0"].metadata.owner_references, None);
    let params = DeleteParams::default();
    cluster.api::<StatefulSet>().delete("db", &params).await.unwrap();
    cluster.until::<Pod>("none", BTreeMap::is_empty).await;
    let kept = cluster.api::<PersistentVolumeClaim>().get("data-db-0").await.unwrap();
    assert_eq!(kept.metadata.deletion_timestamp, None);
}

#[tokio::test(start_paused = true)]
async fn start_ordinals_are_honoured_and_can_be_changed() {
    let cluster = VirtualCluster::start(ClusterOptions::default()).await;
    let mut object = set(2);
    object["spec"]["ordinals"] = json!({"start": 5});
    cluster.create::<StatefulSet>(object).await;
    cluster.until_one("db", is_up_to_date).await;
    let names = |pods: &BTreeMap<String, Pod>| pods.keys().cloned().collect::<Vec<_>>();
    let pods = cluster.until::<Pod>("two", |pods| pods.len() == 2).await;
    assert_eq!(names(&pods), ["db-5", "db-6"]);
    cluster.patch::<StatefulSet>("db", json!({"spec": {"ordinals": {"start": 6}}})).await;
    cluster
        .until::<Pod>("moved", |pods| {
            names(pods) == ["db-6", "db-7"] && pods.values().all(is_ready)
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn the_next_pod_waits_for_min_ready_seconds_of_its_predecessor() {
    let cluster = VirtualCluster::start(ClusterOptions::default()).await;
    let mut object = set(3);
    object["spec"]["minReadySeconds"] = json!(10);
    let begun = Instant::now();
    cluster.create::<StatefulSet>(object).await;
    cluster.until::<Pod>("two", |pods| pods.len() == 2).await;
    assert_eq!(begun.elapsed().as_secs(), 10);
    cluster
        .until_one::<StatefulSet>("db", |db| {
            let status = db.status.clone().unwrap_or_default();
            let (ready, available) = (status.ready_replicas, status.available_replicas);
            assert!(available <= ready || ready.is_none());
            available == Some(3)
        })
        .await;
    assert_eq!(begun.elapsed().as_secs(), 30);
}
