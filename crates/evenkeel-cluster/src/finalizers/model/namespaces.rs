//! `kubernetes` on namespaces, with content that has other finalizers.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, PersistentVolumeClaim, Pod};
use kube::api::DeleteParams;
use kube::{Api, ResourceExt as _};
use serde_json::json;

use super::{Model, accept, run, terminating};

const CONTROLLERS: &[&str] = &[
    crate::namespace::NAME,
    crate::garbage::NAME,
    crate::volumes::BINDER,
    crate::volumes::CLAIM_PROTECTION,
    crate::volumes::VOLUME_PROTECTION,
];

/// The finalizer of the model, which it removes after a while.
const OWN: &str = "example.com/model";

#[tokio::test(start_paused = true)]
async fn deletion_of_namespaces_completes() {
    run(model).await;
}

async fn model(seed: u64) -> Result<(), String> {
    let model = Model::after(seed, CONTROLLERS, 40, step).await;
    model.delete_namespaces().await;
    tokio::time::sleep(model.random.time(Duration::from_secs(60))).await;
    release(&model).await;
    model.wait_until_deleted(left).await
}

async fn left(client: kube::Client) -> Vec<String> {
    terminating::<Namespace>(client).await
}

/// Removes the model's finalizer from all objects.
async fn release(model: &Model) {
    for map in model.list::<ConfigMap>().await {
        if crate::finalizers::has(&map, OWN) {
            let patch = json!({"metadata": {"finalizers": null}});
            model.patch(&model.of(&map), &map, patch).await;
        }
    }
}

async fn step(model: &mut Model) {
    let namespaces = Api::<Namespace>::all(model.client.clone());
    match model.random.below(14) {
        0..2 => {
            let namespace = json!({"metadata": {"name": model.namespace()}});
            model.create_in(&namespaces, namespace).await;
        }
        2 | 3 => {
            let name = model.namespace();
            accept(namespaces.delete(name, &DeleteParams::default()).await);
        }
        4 => {
            if let Some(namespace) = model.any::<Namespace>().await {
                model.touch(&namespaces, &namespace).await;
            }
        }
        5 | 6 => {
            let mut map = json!({"metadata": {"name": model.name("map")}});
            if model.chance(2) {
                map["metadata"]["finalizers"] = json!([OWN]);
            }
            model.create::<ConfigMap>(map).await;
        }
        7 => {
            let claim = json!({
                "metadata": {"name": model.name("claim")},
                "spec": {
                    "accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": "1Gi"}},
                },
            });
            model.create::<PersistentVolumeClaim>(claim).await;
        }
        8 | 9 => {
            let mut pod = json!({
                "metadata": {"name": model.name("pod")},
                "spec": {"containers": [{"name": "app", "image": "app:1"}]},
            });
            if let Some(claim) = model.any::<PersistentVolumeClaim>().await {
                let source = json!({"claimName": claim.name_any()});
                pod["spec"]["volumes"] = json!([{"name": "data", "persistentVolumeClaim": source}]);
            }
            if model.chance(2) {
                pod["spec"]["nodeName"] = json!("node");
            }
            model.create::<Pod>(pod).await;
        }
        10 => model.end_pods().await,
        11 => release(model).await,
        12 => {
            if let Some(map) = model.any::<ConfigMap>().await {
                model.delete(&model.of(&map), &map).await;
            }
        }
        _ => model.restart(),
    }
}
