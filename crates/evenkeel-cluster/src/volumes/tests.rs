//! Binding, provisioning, release and protection of PVCs and volumes.

use evenkeel::Key;
use k8s_openapi::api::core::v1::{Event, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::{StorageClass, VolumeAttributesClass};
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use serde_json::{Value, json};

use super::{BINDER, CLAIM_PROTECTION, CLASS_PROTECTION, VOLUME_PROTECTION};
use crate::Cluster;
use crate::testing::{cluster, create, object, until, until_deleted, wait, wait_until_idle};

const ALL: &[&str] = &[BINDER, CLAIM_PROTECTION, VOLUME_PROTECTION, CLASS_PROTECTION];

async fn claim(cluster: &Cluster, name: &str, extra: Value) -> PersistentVolumeClaim {
    let mut spec = json!({
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}},
    });
    spec.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    create(cluster, json!({"metadata": {"name": name}, "spec": spec})).await
}

async fn volume(cluster: &Cluster, name: &str, size: &str, extra: Value) -> PersistentVolume {
    let mut value = json!({
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": "/data"}, "storageClassName": "manual",
        },
    });
    if let Some(labels) = extra.get("labels") {
        value["metadata"]["labels"] = labels.clone();
    }
    if let Some(spec) = extra.get("spec") {
        value["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    }
    let api: Api<PersistentVolume> = Api::all(cluster.client());
    api.create(&PostParams::default(), &object(value)).await.unwrap()
}

async fn bound(cluster: &Cluster, name: &str) -> PersistentVolumeClaim {
    let key = Key::namespaced("default", name);
    until::<PersistentVolumeClaim>(cluster, &key, super::bind::is_bound).await
}

async fn phase(cluster: &Cluster, name: &str, phase: &str) -> PersistentVolume {
    until::<PersistentVolume>(cluster, &Key::cluster(name), |volume| {
        volume.status.as_ref().and_then(|status| status.phase.as_deref()) == Some(phase)
    })
    .await
}

fn volume_of(claim: &PersistentVolumeClaim) -> &str {
    claim.spec.as_ref().unwrap().volume_name.as_deref().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_pvc_without_a_class_gets_a_volume_of_the_standard_class() {
    let cluster = cluster(ALL).await;
    let made = claim(&cluster, "data", json!({})).await;
    let claim = bound(&cluster, "data").await;
    let uid = made.metadata.uid.unwrap();
    assert_eq!(volume_of(&claim), format!("pvc-{uid}"));
    assert_eq!(claim.spec.as_ref().unwrap().storage_class_name.as_deref(), Some("standard"));
    let status = claim.status.as_ref().unwrap();
    assert_eq!(status.capacity.as_ref().unwrap()["storage"].0, "2Gi");
    assert_eq!(status.access_modes.as_ref().unwrap(), &["ReadWriteOnce"]);
    let volume = phase(&cluster, volume_of(&claim), "Bound").await;
    let spec = volume.spec.as_ref().unwrap();
    assert_eq!(spec.claim_ref.as_ref().unwrap().uid.as_ref(), Some(&uid));
    assert_eq!(spec.persistent_volume_reclaim_policy.as_deref(), Some("Delete"));
    let claims: Api<PersistentVolumeClaim> = Api::default_namespaced(cluster.client());
    claims.delete("data", &DeleteParams::default()).await.unwrap();
    until_deleted(&cluster, &claim).await;
    until_deleted(&cluster, &volume).await;
}

#[tokio::test(start_paused = true)]
async fn the_smallest_matching_volume_is_bound() {
    let cluster = cluster(ALL).await;
    for (name, size) in [("small", "1Gi"), ("large", "10Gi"), ("right", "3Gi")] {
        volume(&cluster, name, size, json!({})).await;
        phase(&cluster, name, "Available").await;
    }
    volume(&cluster, "other-class", "2Gi", json!({"spec": {"storageClassName": "other"}})).await;
    let many = json!({"spec": {"accessModes": ["ReadOnlyMany"]}});
    volume(&cluster, "other-modes", "2Gi", many).await;
    wait_until_idle().await;
    claim(&cluster, "data", json!({"storageClassName": "manual"})).await;
    let claim = bound(&cluster, "data").await;
    assert_eq!(volume_of(&claim), "right");
    assert_eq!(claim.status.unwrap().capacity.unwrap()["storage"].0, "3Gi");
    phase(&cluster, "right", "Bound").await;
}

#[tokio::test(start_paused = true)]
async fn a_selector_chooses_among_volumes() {
    let cluster = cluster(ALL).await;
    volume(&cluster, "slow", "2Gi", json!({"labels": {"disk": "slow"}})).await;
    volume(&cluster, "fast", "5Gi", json!({"labels": {"disk": "fast"}})).await;
    let spec = json!({
        "storageClassName": "manual", "selector": {"matchLabels": {"disk": "fast"}},
    });
    claim(&cluster, "data", spec).await;
    assert_eq!(volume_of(&bound(&cluster, "data").await), "fast");
}

#[tokio::test(start_paused = true)]
async fn a_pvc_without_a_matching_volume_records_an_event_and_waits() {
    let cluster = cluster(ALL).await;
    claim(&cluster, "data", json!({"storageClassName": ""})).await;
    let event = wait::<Event, _>(&cluster, |events| events.first().cloned()).await;
    assert_eq!(event.reason.as_deref(), Some("FailedBinding"));
    assert_eq!(
        event.message.as_deref(),
        Some("no persistent volumes available for this claim and no storage class is set")
    );
    volume(&cluster, "late", "2Gi", json!({"spec": {"storageClassName": ""}})).await;
    assert_eq!(volume_of(&bound(&cluster, "data").await), "late");
}

#[tokio::test(start_paused = true)]
async fn a_volume_reserved_for_a_pvc_is_bound_to_no_other() {
    let cluster = cluster(ALL).await;
    let aside = json!({"spec": {"claimRef": {"namespace": "default", "name": "mine"}}});
    volume(&cluster, "reserved", "2Gi", aside).await;
    phase(&cluster, "reserved", "Available").await;
    claim(&cluster, "other", json!({"storageClassName": "manual"})).await;
    wait_until_idle().await;
    claim(&cluster, "mine", json!({"storageClassName": "manual"})).await;
    assert_eq!(volume_of(&bound(&cluster, "mine").await), "reserved");
    let claims: Api<PersistentVolumeClaim> = Api::default_namespaced(cluster.client());
    let other = claims.get("other").await.unwrap();
    assert_eq!(other.status.unwrap().phase.as_deref(), Some("Pending"));
}

#[tokio::test(start_paused = true)]
async fn a_retained_volume_is_released_and_not_rebound() {
    let cluster = cluster(ALL).await;
    let retain = json!({"spec": {"persistentVolumeReclaimPolicy": "Retain"}});
    volume(&cluster, "kept", "2Gi", retain).await;
    let first = claim(&cluster, "data", json!({"storageClassName": "manual"})).await;
    bound(&cluster, "data").await;
    let claims: Api<PersistentVolumeClaim> = Api::default_namespaced(cluster.client());
    claims.delete("data", &DeleteParams::default()).await.unwrap();
    until_deleted(&cluster, &first).await;
    phase(&cluster, "kept", "Released").await;
    claim(&cluster, "data", json!({"storageClassName": "manual"})).await;
    wait_until_idle().await;
    let second = claims.get("data").await.unwrap();
    assert_eq!(second.status.unwrap().phase.as_deref(), Some("Pending"));
}

#[tokio::test(start_paused = true)]
async fn a_class_with_wait_for_first_consumer_waits_for_a_pod() {
    let cluster = cluster(ALL).await;
    let classes: Api<StorageClass> = Api::all(cluster.client());
    let class = object(json!({
        "metadata": {"name": "late"}, "provisioner": "example.com/disk",
        "volumeBindingMode": "WaitForFirstConsumer",
    }));
    classes.create(&PostParams::default(), &class).await.unwrap();
    claim(&cluster, "data", json!({"storageClassName": "late"})).await;
    let event = wait::<Event, _>(&cluster, |events| events.first().cloned()).await;
    assert_eq!(event.reason.as_deref(), Some("WaitForFirstConsumer"));
    wait_until_idle().await;
    let claims: Api<PersistentVolumeClaim> = Api::default_namespaced(cluster.client());
    assert!(!super::bind::is_bound(&claims.get("data").await.unwrap()));
    let pod: Pod = using_pod(&cluster).await;
    let claim = bound(&cluster, "data").await;
    // A PVC in use is not deleted.
    claims.delete("data", &DeleteParams::default()).await.unwrap();
    wait_until_idle().await;
    assert!(claims.get_opt("data").await.unwrap().is_some());
    let pods: Api<Pod> = Api::default_namespaced(cluster.client());
    let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
    pods.delete(pod.metadata.name.as_deref().unwrap(), &now).await.unwrap();
    until_deleted(&cluster, &claim).await;
}

async fn using_pod(cluster: &Cluster) -> Pod {
    create(
        cluster,
        json!({
            "metadata": {"name": "pod"},
            "spec": {
                "nodeName": "node",
                "containers": [{"name": "main", "image": "main"}],
                "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
            },
        }),
    )
    .await
}

#[tokio::test(start_paused = true)]
async fn a_pvc_whose_volume_is_deleted_is_lost() {
    let cluster = cluster(&[BINDER]).await;
    volume(&cluster, "lost", "2Gi", json!({})).await;
    claim(&cluster, "data", json!({"storageClassName": "manual"})).await;
    bound(&cluster, "data").await;
    let volumes: Api<PersistentVolume> = Api::all(cluster.client());
    volumes.delete("lost", &DeleteParams::default()).await.unwrap();
    let patch = kube::api::Patch::Merge(json!({"metadata": {"finalizers": null}}));
    volumes.patch("lost", &kube::api::PatchParams::default(), &patch).await.unwrap();
    until::<PersistentVolumeClaim>(&cluster, &Key::namespaced("default", "data"), |claim| {
        claim.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Lost")
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_volume_deleted_while_bound_is_removed_with_its_pvc() {
    let cluster = cluster(ALL).await;
    let volumes: Api<PersistentVolume> = Api::all(cluster.client());
    let claims: Api<PersistentVolumeClaim> = Api::default_namespaced(cluster.client());
    for (name, policy) in [("kept", "Retain"), ("removed", "Delete")] {
        let spec = json!({"spec": {"persistentVolumeReclaimPolicy": policy}});
        volume(&cluster, name, "2Gi", spec).await;
        let spec = json!({"storageClassName": "manual", "volumeName": name});
        let claim = claim(&cluster, name, spec).await;
        let bound = phase(&cluster, name, "Bound").await;
        volumes.delete(name, &DeleteParams::default()).await.unwrap();
        wait_until_idle().await;
        let kept = volumes.get(name).await.unwrap();
        assert!(kept.metadata.deletion_timestamp.is_some(), "a bound volume is not removed");
        claims.delete(name, &DeleteParams::default()).await.unwrap();
        until_deleted(&cluster, &claim).await;
        until_deleted(&cluster, &bound).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_volume_whose_pvc_is_bound_to_another_volume_becomes_available() {
    let cluster = cluster(ALL).await;
    volume(&cluster, "taken", "2Gi", json!({})).await;
    let claim = claim(&cluster, "data", json!({"storageClassName": "manual"})).await;
    phase(&cluster, "taken", "Bound").await;
    let uid = claim.metadata.uid.clone().unwrap();
    let reference = json!({"namespace": "default", "name": "data", "uid": uid});
    volume(&cluster, "spare", "2Gi", json!({"spec": {"claimRef": reference}})).await;
    let spare = phase(&cluster, "spare", "Available").await;
    let reference = spare.spec.unwrap().claim_ref.unwrap();
    assert_eq!((reference.name.as_deref(), reference.uid), (Some("data"), None));
}

#[tokio::test(start_paused = true)]
async fn a_volume_attributes_class_in_use_is_not_deleted() {
    let cluster = cluster(ALL).await;
    let classes: Api<VolumeAttributesClass> = Api::all(cluster.client());
    let mut made = Vec::new();
    for name in ["used", "unused"] {
        let class = object(json!({
            "metadata": {"name": name}, "driverName": "example.com", "parameters": {"iops": "1"},
        }));
        made.push(classes.create(&PostParams::default(), &class).await.unwrap());
        assert_eq!(made.last().unwrap().metadata.finalizers.as_ref().unwrap().len(), 1);
    }
    let spec = json!({"storageClassName": "manual", "volumeAttributesClassName": "used"});
    let claim = claim(&cluster, "data", spec).await;
    for name in ["used", "unused"] {
        classes.delete(name, &DeleteParams::default()).await.unwrap();
    }
    until_deleted(&cluster, &made[1]).await;
    wait_until_idle().await;
    assert!(classes.get_opt("used").await.unwrap().is_some());
    let claims: Api<PersistentVolumeClaim> = Api::default_namespaced(cluster.client());
    claims.delete("data", &DeleteParams::default()).await.unwrap();
    until_deleted(&cluster, &claim).await;
    until_deleted(&cluster, &made[0]).await;
}
