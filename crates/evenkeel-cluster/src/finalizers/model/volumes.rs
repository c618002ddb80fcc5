//! `kubernetes.io/pvc-protection`, `pv-protection` and `vac-protection`.

use k8s_openapi::api::core::v1::{Namespace, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::VolumeAttributesClass;
use kube::api::DeleteParams;
use kube::{Api, ResourceExt as _};
use serde_json::json;

use super::{Model, accept, run, terminating};

const CONTROLLERS: &[&str] = &[
    crate::volumes::BINDER,
    crate::volumes::CLAIM_PROTECTION,
    crate::volumes::VOLUME_PROTECTION,
    crate::volumes::CLASS_PROTECTION,
    crate::garbage::NAME,
    crate::namespace::NAME,
];

const CLASSES: [&str; 2] = ["gold", "silver"];

#[tokio::test(start_paused = true)]
async fn deletion_of_pvcs_volumes_and_attributes_classes_completes() {
    run(model).await;
}

async fn model(seed: u64) -> Result<(), String> {
    let model = Model::after(seed, CONTROLLERS, 50, step).await;
    model.delete_namespaces().await;
    let (volumes, classes) = cluster_wide(&model);
    for volume in model.list::<PersistentVolume>().await {
        accept(volumes.delete(&volume.name_any(), &DeleteParams::default()).await);
    }
    for class in CLASSES {
        accept(classes.delete(class, &DeleteParams::default()).await);
    }
    model.wait_until_deleted(left).await
}

fn cluster_wide(model: &Model) -> (Api<PersistentVolume>, Api<VolumeAttributesClass>) {
    (Api::all(model.client.clone()), Api::all(model.client.clone()))
}

async fn left(client: kube::Client) -> Vec<String> {
    let mut left = terminating::<Namespace>(client.clone()).await;
    left.extend(terminating::<PersistentVolumeClaim>(client.clone()).await);
    left.extend(terminating::<PersistentVolume>(client.clone()).await);
    left.extend(terminating::<VolumeAttributesClass>(client).await);
    left
}

async fn step(model: &mut Model) {
    let (volumes, classes) = cluster_wide(model);
    let class = CLASSES[model.random.below(CLASSES.len())];
    match model.random.below(16) {
        0..2 => {
            let policy = if model.chance(2) { "Retain" } else { "Delete" };
            let volume = json!({
                "metadata": {"name": model.name("volume")},
                "spec": {
                    "capacity": {"storage": "2Gi"}, "accessModes": ["ReadWriteOnce"],
                    "hostPath": {"path": "/data"}, "storageClassName": "manual",
                    "persistentVolumeReclaimPolicy": policy,
                },
            });
            model.create_in(&volumes, volume).await;
        }
        2..5 => claim(model).await,
        5 => {
            let class = json!({
                "metadata": {"name": class}, "driverName": "example.com",
                "parameters": {"iops": "1"},
            });
            model.create_in(&classes, class).await;
        }
        6 => accept(classes.delete(class, &DeleteParams::default()).await),
        7 => pod(model).await,
        8 => {
            if let Some(pod) = model.any::<Pod>().await {
                model.delete(&model.of(&pod), &pod).await;
            }
        }
        9 => model.end_pods().await,
        10 => model.restart(),
        11 | 12 => {
            if let Some(volume) = model.any::<PersistentVolume>().await {
                match model.chance(3) {
                    true => model.touch(&volumes, &volume).await,
                    false => model.delete(&volumes, &volume).await,
                }
            }
        }
        _ => {
            if let Some(claim) = model.any::<PersistentVolumeClaim>().await {
                match model.chance(3) {
                    true => model.touch(&model.of(&claim), &claim).await,
                    false => model.delete(&model.of(&claim), &claim).await,
                }
            }
        }
    }
}

async fn claim(model: &mut Model) {
    let mut claim = json!({
        "metadata": {"name": model.name("claim")},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "manual",
            "resources": {"requests": {"storage": "1Gi"}},
        },
    });
    match model.random.below(4) {
        0 => claim["spec"]["storageClassName"] = json!("standard"),
        1 => {
            if let Some(volume) = model.any::<PersistentVolume>().await {
                claim["spec"]["volumeName"] = json!(volume.name_any());
            }
        }
        2 => {
            let class = CLASSES[model.random.below(CLASSES.len())];
            claim["spec"]["volumeAttributesClassName"] = json!(class);
        }
        _ => {}
    }
    model.create::<PersistentVolumeClaim>(claim).await;
}

/// Creates a pod that uses a PVC, on a node or not.
async fn pod(model: &mut Model) {
    let Some(claim) = model.any::<PersistentVolumeClaim>().await else { return };
    let mut pod = json!({
        "metadata": {"name": model.name("pod")},
        "spec": {
            "containers": [{"name": "app", "image": "app:1"}],
            "volumes": [{
                "name": "data", "persistentVolumeClaim": {"claimName": claim.name_any()},
            }],
        },
    });
    if model.chance(2) {
        pod["spec"]["nodeName"] = json!("node");
    }
    let pods = model.api::<Pod>(&claim.namespace().unwrap_or_default());
    model.create_in(&pods, pod).await;
}
