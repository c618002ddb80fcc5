//! Migrations rewrite what is stored in an old version, one at a time, and survive restarts.

use std::time::Duration;

use evenkeel::Key;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::storagemigration::v1beta1::StorageVersionMigration;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::{DynamicObject, GroupVersionKind};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};

use super::{FAILED, NAME, RUNNING, SUCCEEDED, is, is_terminal};
use crate::identities::AsControllers;
use crate::testing::{cluster, create, object, options, until};
use crate::{Cluster, ClusterOptions, run_controllers};

/// A CRD with two served versions of the same schema.
fn widgets(storage: &str) -> Value {
    let version = |name: &str| {
        json!({
            "name": name, "served": true, "storage": name == storage,
            "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true,
            }},
        })
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [version("v1"), version("v2")],
        },
    })
}

fn crds(cluster: &Cluster) -> Api<CustomResourceDefinition> {
    Api::all(cluster.client())
}

fn migrations(cluster: &Cluster) -> Api<StorageVersionMigration> {
    Api::all(cluster.client())
}

fn widgets_api(cluster: &Cluster) -> Api<DynamicObject> {
    let widget = GroupVersionKind::gvk("example.com", "v1", "Widget");
    let resource = ApiResource::from_gvk_with_plural(&widget, "widgets");
    Api::namespaced_with(cluster.client(), "default", &resource)
}

async fn create_widget(cluster: &Cluster, name: &str) {
    let widget = json!({
        "apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name},
    });
    let widget: DynamicObject = serde_json::from_value(widget).unwrap();
    widgets_api(cluster).create(&PostParams::default(), &widget).await.unwrap();
}

/// Stores widgets in another version from now on.
async fn store_in(cluster: &Cluster, version: &str) {
    let patch = Patch::Merge(json!({"spec": widgets(version)["spec"]}));
    crds(cluster).patch("widgets.example.com", &PatchParams::default(), &patch).await.unwrap();
}

async fn migrate(cluster: &Cluster, name: &str, group: &str, plural: &str) -> Key {
    let migration = object(json!({
        "metadata": {"name": name},
        "spec": {"resource": {"group": group, "resource": plural}},
    }));
    migrations(cluster).create(&PostParams::default(), &migration).await.unwrap();
    Key::cluster(name)
}

/// Returns the names and resourceVersions of all widgets.
async fn versions(cluster: &Cluster) -> Vec<(String, String)> {
    let all = widgets_api(cluster).list(&ListParams::default()).await.unwrap();
    all.iter().map(|widget| (widget.name_any(), widget.resource_version().unwrap())).collect()
}

fn is_finished(migration: &StorageVersionMigration) -> bool {
    is_terminal(migration) && !is(migration, RUNNING)
}

fn condition(migration: &StorageVersionMigration, kind: &str) -> (String, String, String) {
    let status = migration.status.as_ref().unwrap();
    let mut conditions = status.conditions.iter().flatten();
    let found = conditions.find(|condition| condition.type_ == kind).unwrap();
    (found.status.clone(), found.reason.clone(), found.message.clone())
}

async fn with_widgets(names: &[&str]) -> Cluster {
    let cluster = cluster(&[NAME]).await;
    let crd = object(widgets("v1"));
    crds(&cluster).create(&PostParams::default(), &crd).await.unwrap();
    for name in names {
        create_widget(&cluster, name).await;
    }
    cluster
}

/// Starts a server with widgets and migrations.
async fn without_controllers() -> Cluster {
    let server = options(&[NAME]).server().seed(1).build().await.unwrap();
    let cluster = Cluster::api_only(server);
    let crd = object(widgets("v1"));
    crds(&cluster).create(&PostParams::default(), &crd).await.unwrap();
    cluster
}

/// Starts the controllers in the middle of a migration.
fn start_controllers(cluster: &Cluster) -> impl Sized + use<> {
    let client = kube::Client::new(AsControllers::new(cluster.server()), "default");
    let options = ClusterOptions { serves_storage_migrations: true, ..options(&[NAME]) };
    run_controllers(client, &options).unwrap()
}

#[tokio::test(start_paused = true)]
async fn migration_rewrites_old_objects_and_trims_the_stored_versions() {
    let cluster = with_widgets(&["a", "b"]).await;
    store_in(&cluster, "v2").await;
    create_widget(&cluster, "new").await;
    let before = versions(&cluster).await;
    let crd = crds(&cluster).get("widgets.example.com").await.unwrap();
    assert_eq!(crd.status.unwrap().stored_versions.unwrap(), ["v1", "v2"]);

    let key = migrate(&cluster, "m", "example.com", "widgets").await;
    let done = until(&cluster, &key, is_finished).await;

    let after = versions(&cluster).await;
    let rewritten: Vec<bool> = before.iter().zip(&after).map(|(old, new)| old != new).collect();
    assert_eq!(rewritten, [true, true, false], "{before:?} {after:?}");
    let text = |(a, b, c): (&str, &str, &str)| (a.to_owned(), b.to_owned(), c.to_owned());
    let expected = ("True", "StorageVersionMigrationSucceeded", "");
    assert_eq!(condition(&done, SUCCEEDED), text(expected));
    let expected = ("False", "MigrationCompleted", "Migration completed");
    assert_eq!(condition(&done, RUNNING), text(expected));
    assert!(done.status.unwrap().resource_version.is_some());
    let crd = crds(&cluster).get("widgets.example.com").await.unwrap();
    let status = crd.status.clone().unwrap();
    assert_eq!(status.stored_versions.unwrap(), ["v2"]);
    let migrating = status.conditions.unwrap();
    let migrating = migrating.iter().find(|c| c.type_ == "StorageMigrating").unwrap();
    assert_eq!(
        (&*migrating.status, migrating.reason.as_deref()),
        ("False", Some("MigrationSucceeded"))
    );
    assert_eq!(migrating.observed_generation, crd.metadata.generation);
    // The old version is no longer stored, so it can be removed.
    let mut spec = widgets("v2")["spec"].clone();
    spec["versions"].as_array_mut().unwrap().remove(0);
    let patch = Patch::Merge(json!({"spec": spec}));
    crds(&cluster).patch("widgets.example.com", &PatchParams::default(), &patch).await.unwrap();
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_crd_that_changes_during_the_migration_keeps_its_stored_versions() {
    let cluster = without_controllers().await;
    create_widget(&cluster, "a").await;
    store_in(&cluster, "v2").await;
    let key = migrate(&cluster, "m", "example.com", "widgets").await;
    let running = json!({"status": {"conditions": [{
        "type": RUNNING, "status": "True", "reason": "MigrationRunning", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }]}});
    let (params, running) = (PatchParams::default(), Patch::Merge(running));
    migrations(&cluster).patch_status("m", &params, &running).await.unwrap();
    let marked = Patch::Json::<()>(
        serde_json::from_value(json!([{
            "op": "add", "path": "/status/conditions/-", "value": {
                "type": "StorageMigrating", "status": "True", "observedGeneration": 1,
            },
        }]))
        .unwrap(),
    );
    crds(&cluster).patch_status("widgets.example.com", &params, &marked).await.unwrap();

    let _running = start_controllers(&cluster);
    let done = until(&cluster, &key, is_finished).await;
    assert_eq!(condition(&done, SUCCEEDED).0, "True");
    let crd = crds(&cluster).get("widgets.example.com").await.unwrap();
    let status = crd.status.unwrap();
    assert_eq!(status.stored_versions.unwrap(), ["v1", "v2"]);
    let migrating = status.conditions.unwrap();
    let migrating = migrating.iter().find(|c| c.type_ == "StorageMigrating").unwrap();
    assert!(migrating.message.as_ref().unwrap().contains("generation mismatch"), "{migrating:?}");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn migrations_of_one_resource_run_one_after_the_other() {
    let cluster = with_widgets(&["a"]).await;
    let (first, second) = (
        migrate(&cluster, "m2", "example.com", "widgets").await,
        migrate(&cluster, "m1", "example.com", "widgets").await,
    );
    let second = until(&cluster, &second, is_finished).await;
    let first = until(&cluster, &first, is_finished).await;
    let number = |version: &Option<String>| version.as_ref().unwrap().parse::<u64>().unwrap();
    let ended = number(&first.metadata.resource_version);
    let began = number(&second.status.as_ref().unwrap().resource_version);
    assert!(ended < began, "{first:?} {second:?}");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn only_what_is_older_than_the_resource_version_is_rewritten_after_a_restart() {
    let cluster = without_controllers().await;
    create_widget(&cluster, "old").await;
    let until_version = versions(&cluster).await[0].1.clone();
    create_widget(&cluster, "newer").await;
    store_in(&cluster, "v2").await;
    let key = migrate(&cluster, "m", "example.com", "widgets").await;
    let status = json!({"status": {
        "resourceVersion": until_version,
        "conditions": [{
            "type": RUNNING, "status": "True", "reason": "MigrationRunning", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }],
    }});
    let params = PatchParams::default();
    migrations(&cluster).patch_status("m", &params, &Patch::Merge(status)).await.unwrap();
    let before = versions(&cluster).await;

    let _running = start_controllers(&cluster);
    until(&cluster, &key, is_finished).await;

    let after = versions(&cluster).await;
    assert_eq!(before[0], after[0], "the newer one is left alone");
    assert_ne!(before[1], after[1], "the old one is rewritten");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn migration_of_an_unknown_or_unsuitable_resource_fails() {
    let cluster = cluster(&[NAME]).await;
    let unknown = migrate(&cluster, "unknown", "example.com", "gadgets").await;
    let unsuitable = migrate(&cluster, "unsuitable", "authentication.k8s.io", "tokenreviews").await;
    let unsuitable = until(&cluster, &unsuitable, is_finished).await;
    let message = "resource \"authentication.k8s.io/v1, Resource=tokenreviews\" does not support \
                   discovery operations: [update patch list]";
    assert_eq!(condition(&unsuitable, FAILED).2, message);
    // A CRD may still be about to be served, so it takes a minute.
    let started = tokio::time::Instant::now();
    let unknown = until(&cluster, &unknown, is_finished).await;
    assert!(started.elapsed() >= Duration::from_secs(50), "{:?}", started.elapsed());
    assert_eq!(condition(&unknown, FAILED).2, "resource does not exist in discovery");
    cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn deleted_objects_are_not_created_again() {
    let cluster = cluster(&[NAME]).await;
    let map: ConfigMap = create(&cluster, json!({"metadata": {"name": "a"}})).await;
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client(), "default");
    let key = migrate(&cluster, "m", "", "configmaps").await;
    // The migration has listed the object, or has not; it must not exist afterwards.
    maps.delete(&map.name_any(), &DeleteParams::default()).await.unwrap();
    let done = until(&cluster, &key, is_finished).await;
    assert_eq!(condition(&done, SUCCEEDED).0, "True");
    assert!(maps.get_opt("a").await.unwrap().is_none());
    cluster.stop().await;
}
