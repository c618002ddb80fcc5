//! `foregroundDeletion` and `orphan`, which the garbage collector removes.

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kube::ResourceExt as _;
use serde_json::{Value, json};

use super::{Model, run, terminating};

const CONTROLLERS: &[&str] = &[crate::garbage::NAME, crate::namespace::NAME];

#[tokio::test(start_paused = true)]
async fn deletion_of_owners_completes() {
    run(model).await;
}

async fn model(seed: u64) -> Result<(), String> {
    let model = Model::after(seed, CONTROLLERS, 60, step).await;
    // The namespaces are not deleted.
    model.wait_until_deleted(left).await
}

async fn left(client: kube::Client) -> Vec<String> {
    let mut left = terminating::<Namespace>(client.clone()).await;
    left.extend(terminating::<ConfigMap>(client.clone()).await);
    left.extend(terminating::<Secret>(client).await);
    left
}

async fn step(model: &mut Model) {
    match model.random.below(12) {
        0..4 => {
            let (name, owners) = (model.name("map"), owners(model).await);
            let map = json!({"metadata": {"name": name, "ownerReferences": owners}});
            model.create::<ConfigMap>(map).await;
        }
        4..6 => {
            let (name, owners) = (model.name("secret"), owners(model).await);
            let secret = json!({"metadata": {"name": name, "ownerReferences": owners}});
            model.create::<Secret>(secret).await;
        }
        6 => model.restart(),
        7 | 8 => {
            // New owners for an existing object may form a cycle.
            let Some(map) = model.any::<ConfigMap>().await else { return };
            let owners = owners(model).await;
            let patch = json!({"metadata": {"ownerReferences": owners}});
            model.patch(&model.of(&map), &map, patch).await;
        }
        9 => {
            if let Some(secret) = model.any::<Secret>().await {
                model.delete(&model.of(&secret), &secret).await;
            }
        }
        _ => {
            if let Some(map) = model.any::<ConfigMap>().await {
                match model.chance(4) {
                    true => model.touch(&model.of(&map), &map).await,
                    false => model.delete(&model.of(&map), &map).await,
                }
            }
        }
    }
}

/// Returns up to two owners, of any namespace, that block owner deletion or not.
async fn owners(model: &Model) -> Vec<Value> {
    let mut owners = Vec::new();
    for _ in 0..model.random.below(3) {
        let (kind, name, uid) = if model.chance(2) {
            let Some(map) = model.any::<ConfigMap>().await else { continue };
            ("ConfigMap", map.name_any(), map.uid())
        } else {
            let Some(secret) = model.any::<Secret>().await else { continue };
            ("Secret", secret.name_any(), secret.uid())
        };
        owners.push(json!({
            "apiVersion": "v1", "kind": kind, "name": name, "uid": uid,
            "blockOwnerDeletion": model.chance(2),
        }));
    }
    owners
}
