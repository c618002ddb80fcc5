//! StorageVersionMigrations as objects; the cluster's controller carries them out.

use evenkeel_apiserver::ApiServer;
use serde_json::{Value, json};

use crate::harness::Cluster;

const MIGRATIONS: &str = "/apis/storagemigration.k8s.io/v1beta1/storageversionmigrations";

async fn cluster() -> Cluster {
    let builder = ApiServer::builder().seed(1);
    Cluster::built(builder.runtime_config("storagemigration.k8s.io/v1beta1", true)).await
}

fn migration(resource: Value) -> Value {
    json!({"metadata": {"name": "m"}, "spec": {"resource": resource}})
}

fn condition(kind: &str, status: &str) -> Value {
    json!({
        "type": kind, "status": status, "reason": "R", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    })
}

#[tokio::test(start_paused = true)]
async fn migrations_are_served_on_request_only() {
    let cluster = Cluster::new().await;
    cluster.get(MIGRATIONS).await.expect(404);
    cluster.get("/apis/storagemigration.k8s.io").await.expect(404);
    let role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:controller:\
                storage-version-migrator-controller";
    cluster.get(role).await.expect(404);

    let cluster = self::cluster().await;
    let pods = json!({"group": "", "resource": "pods"});
    let created = cluster.post(MIGRATIONS, migration(pods)).await.expect(201);
    assert_eq!(created["apiVersion"], "storagemigration.k8s.io/v1beta1");
    cluster.get(role).await.expect(200);
}

#[tokio::test(start_paused = true)]
async fn resource_of_a_migration_is_checked_and_kept() {
    let cluster = cluster().await;
    let refused = cluster.post(MIGRATIONS, migration(json!({"group": "a_b"}))).await.expect(422);
    let message = refused["message"].as_str().unwrap();
    assert!(message.contains("spec.resource.resource: Required value"), "{message}");
    assert!(message.contains("spec.resource.group: Invalid value: \"a_b\""), "{message}");
    cluster.post(MIGRATIONS, migration(json!({"group": "", "resource": "pods"}))).await.expect(201);
    let path = format!("{MIGRATIONS}/m");
    let patch = json!({"spec": {"resource": {"resource": "secrets"}}});
    let refused = cluster.merge(&path, patch).await.expect(422);
    assert!(refused["message"].as_str().unwrap().contains("field is immutable"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn outcome_of_a_migration_is_final() {
    let cluster = cluster().await;
    cluster.post(MIGRATIONS, migration(json!({"group": "", "resource": "pods"}))).await.expect(201);
    let path = format!("{MIGRATIONS}/m/status");
    let set = async |status: Value| cluster.merge(&path, json!({"status": status})).await;
    let message = async |status: Value| {
        let refused = set(status).await.expect(422);
        refused["details"]["causes"][0]["message"].as_str().unwrap().to_owned()
    };
    let wrong = message(json!({"resourceVersion": "01"})).await;
    let expected = "Invalid value: \"01\": resource version is not well formed: 01";
    assert_eq!(wrong, expected);
    set(json!({"resourceVersion": "12"})).await.expect(200);
    let changed = message(json!({"resourceVersion": "13"})).await;
    assert_eq!(changed, "Invalid value: \"13\": field is immutable");
    let both = [condition("Succeeded", "True"), condition("Failed", "True")];
    let both = message(json!({"conditions": both})).await;
    let expected = "Both success and failed conditions cannot be true at the same time";
    assert!(both.ends_with(expected), "{both}");
    set(json!({"conditions": [condition("Succeeded", "True")]})).await.expect(200);
    let back = message(json!({"conditions": [condition("Succeeded", "False")]})).await;
    assert!(back.ends_with("Success condition cannot be set to false once it is true"), "{back}");
}
