//! Propagation policies, ownership by uid, dangling references, and custom resources.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use evenkeel::manager::RunError;
use evenkeel::{Key, Manager};
use evenkeel_apiserver::ApiServer;
use k8s_openapi::api::core::v1::{ConfigMap, Event, Namespace, Secret};
use k8s_openapi::api::rbac::v1::ClusterRole;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Api;
use kube::api::PropagationPolicy::{Background, Foreground, Orphan};
use kube::api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use serde_json::json;
use tokio::task::JoinSet;
use tower_service::Service;

use super::{Collector, NAME, REDISCOVER_INTERVAL};
use crate::Cluster;
use crate::testing::{
    cluster, config_map, create, delete, object, options, owner, until, until_deleted, wait,
    wait_until_idle,
};

async fn exists(cluster: &Cluster, map: &ConfigMap) -> bool {
    let api: Api<ConfigMap> =
        Api::namespaced(cluster.client(), map.metadata.namespace.as_deref().unwrap());
    let found = api.get_opt(map.metadata.name.as_deref().unwrap()).await.unwrap();
    found.is_some_and(|found| found.metadata.uid == map.metadata.uid)
}

fn owners(map: &ConfigMap) -> &[OwnerReference] {
    map.metadata.owner_references.as_deref().unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn background_deletion_deletes_all_descendants() {
    let cluster = cluster(&[NAME]).await;
    let root: ConfigMap = create(&cluster, config_map("root", &[])).await;
    let child: Secret =
        create(&cluster, json!({"metadata": {"name": "child", "ownerReferences": [owner(&root)]}}))
            .await;
    let grandchild: ConfigMap = create(&cluster, config_map("grandchild", &[owner(&child)])).await;
    let bystander: ConfigMap = create(&cluster, config_map("bystander", &[])).await;
    delete(&cluster, &root, Background).await;
    assert!(!exists(&cluster, &root).await, "the owner does not wait");
    until_deleted(&cluster, &child).await;
    until_deleted(&cluster, &grandchild).await;
    wait_until_idle().await;
    assert!(exists(&cluster, &bystander).await);
}

#[tokio::test(start_paused = true)]
async fn foreground_deletion_waits_for_blocking_dependents() {
    let cluster = cluster(&[NAME]).await;
    let root: ConfigMap = create(&cluster, config_map("root", &[])).await;
    let mut held = config_map("held", &[owner(&root)]);
    held["metadata"]["finalizers"] = json!(["example.com/held"]);
    let held: ConfigMap = create(&cluster, held).await;
    let free: ConfigMap = create(&cluster, config_map("free", &[owner(&root)])).await;
    wait_until_idle().await;
    delete(&cluster, &root, Foreground).await;
    until_deleted(&cluster, &free).await;
    until::<ConfigMap>(&cluster, &Key::of(&held), |map| map.metadata.deletion_timestamp.is_some())
        .await;
    wait_until_idle().await;
    assert!(exists(&cluster, &root).await, "its dependent still exists");
    let api: Api<ConfigMap> = Api::default_namespaced(cluster.client());
    let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    api.patch("held", &PatchParams::default(), &patch).await.unwrap();
    until_deleted(&cluster, &root).await;
}

#[tokio::test(start_paused = true)]
async fn foreground_deletion_does_not_wait_for_dependents_that_do_not_block() {
    let cluster = cluster(&[NAME]).await;
    let root: ConfigMap = create(&cluster, config_map("root", &[])).await;
    let reference = OwnerReference { block_owner_deletion: None, ..owner(&root) };
    let mut child = config_map("child", &[reference]);
    child["metadata"]["finalizers"] = json!(["example.com/held"]);
    let child: ConfigMap = create(&cluster, child).await;
    wait_until_idle().await;
    delete(&cluster, &root, Foreground).await;
    until_deleted(&cluster, &root).await;
    wait_until_idle().await;
    assert!(exists(&cluster, &child).await, "its finalizer keeps it");
    until::<ConfigMap>(&cluster, &Key::of(&child), |map| map.metadata.deletion_timestamp.is_some())
        .await;
}

#[tokio::test(start_paused = true)]
async fn foreground_deletion_waits_for_all_descendants() {
    let cluster = cluster(&[NAME]).await;
    let root: ConfigMap = create(&cluster, config_map("root", &[])).await;
    let child: ConfigMap = create(&cluster, config_map("child", &[owner(&root)])).await;
    let mut leaf = config_map("leaf", &[owner(&child)]);
    leaf["metadata"]["finalizers"] = json!(["example.com/held"]);
    let leaf: ConfigMap = create(&cluster, leaf).await;
    wait_until_idle().await;
    delete(&cluster, &root, Foreground).await;
    until::<ConfigMap>(&cluster, &Key::of(&leaf), |map| map.metadata.deletion_timestamp.is_some())
        .await;
    wait_until_idle().await;
    assert!(exists(&cluster, &root).await && exists(&cluster, &child).await);
    let api: Api<ConfigMap> = Api::default_namespaced(cluster.client());
    let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    api.patch("leaf", &PatchParams::default(), &patch).await.unwrap();
    until_deleted(&cluster, &root).await;
    assert!(!exists(&cluster, &child).await, "the owner is deleted last");
}

#[tokio::test(start_paused = true)]
async fn orphaned_dependents_are_kept_without_the_reference() {
    let cluster = cluster(&[NAME]).await;
    let root: ConfigMap = create(&cluster, config_map("root", &[])).await;
    let other: ConfigMap = create(&cluster, config_map("other", &[])).await;
    let child: ConfigMap =
        create(&cluster, config_map("child", &[owner(&root), owner(&other)])).await;
    wait_until_idle().await;
    delete(&cluster, &root, Orphan).await;
    until_deleted(&cluster, &root).await;
    wait_until_idle().await;
    let child = until::<ConfigMap>(&cluster, &Key::of(&child), |map| owners(map).len() == 1).await;
    assert_eq!(owners(&child)[0].uid, other.metadata.uid.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_dependent_observed_after_orphaning_is_orphaned_too() {
    let cluster = cluster(&[NAME]).await;
    let root: ConfigMap = create(&cluster, config_map("root", &[])).await;
    wait_until_idle().await;
    delete(&cluster, &root, Orphan).await;
    until_deleted(&cluster, &root).await;
    let late: ConfigMap = create(&cluster, config_map("late", &[owner(&root)])).await;
    let absent = OwnerReference { name: "absent".into(), uid: "1234".into(), ..owner(&root) };
    let lost: ConfigMap = create(&cluster, config_map("lost", &[owner(&root), absent])).await;
    let late = until::<ConfigMap>(&cluster, &Key::of(&late), |map| owners(map).is_empty()).await;
    until_deleted(&cluster, &lost).await;
    wait_until_idle().await;
    assert!(exists(&cluster, &late).await);
}

#[tokio::test(start_paused = true)]
async fn one_existing_owner_keeps_an_object() {
    let cluster = cluster(&[NAME]).await;
    let one: ConfigMap = create(&cluster, config_map("one", &[])).await;
    let other: ConfigMap = create(&cluster, config_map("other", &[])).await;
    let child: ConfigMap =
        create(&cluster, config_map("child", &[owner(&one), owner(&other)])).await;
    wait_until_idle().await;
    delete(&cluster, &one, Background).await;
    let freed = until::<ConfigMap>(&cluster, &Key::of(&child), |map| owners(map).len() == 1).await;
    assert_eq!(Some(&owners(&freed)[0].uid), other.metadata.uid.as_ref());
    delete(&cluster, &other, Background).await;
    until_deleted(&cluster, &child).await;
}

#[tokio::test(start_paused = true)]
async fn references_to_waiting_owners_are_removed_if_another_owner_exists() {
    let cluster = cluster(&[NAME]).await;
    let waiting: ConfigMap = create(&cluster, config_map("waiting", &[])).await;
    let solid: ConfigMap = create(&cluster, config_map("solid", &[])).await;
    let child: ConfigMap =
        create(&cluster, config_map("child", &[owner(&waiting), owner(&solid)])).await;
    wait_until_idle().await;
    delete(&cluster, &waiting, Foreground).await;
    until_deleted(&cluster, &waiting).await;
    wait_until_idle().await;
    let api: Api<ConfigMap> = Api::default_namespaced(cluster.client());
    let child = api.get(child.metadata.name.as_deref().unwrap()).await.unwrap();
    assert_eq!(owners(&child), [owner(&solid)]);
}

#[tokio::test(start_paused = true)]
async fn dependents_of_a_former_uid_are_deleted_and_those_of_the_new_owner_kept() {
    let cluster = cluster(&[NAME]).await;
    let old: ConfigMap = create(&cluster, config_map("owner", &[])).await;
    let of_old: ConfigMap = create(&cluster, config_map("of-old", &[owner(&old)])).await;
    wait_until_idle().await;
    delete(&cluster, &old, Background).await;
    // No time passes: the collector finds the new owner under the name of the old one.
    let new: ConfigMap = create(&cluster, config_map("owner", &[])).await;
    let of_new: ConfigMap = create(&cluster, config_map("of-new", &[owner(&new)])).await;
    let late: ConfigMap = create(&cluster, config_map("late", &[owner(&old)])).await;
    until_deleted(&cluster, &of_old).await;
    until_deleted(&cluster, &late).await;
    wait_until_idle().await;
    assert!(exists(&cluster, &new).await && exists(&cluster, &of_new).await);
}

#[tokio::test(start_paused = true)]
async fn a_dangling_reference_does_not_keep_an_object() {
    let cluster = cluster(&[NAME]).await;
    let kept: ConfigMap = create(&cluster, config_map("kept", &[])).await;
    let absent = OwnerReference { name: "absent".into(), uid: "1234".into(), ..owner(&kept) };
    let lost: ConfigMap = create(&cluster, config_map("lost", std::slice::from_ref(&absent))).await;
    let half: ConfigMap = create(&cluster, config_map("half", &[absent, owner(&kept)])).await;
    until_deleted(&cluster, &lost).await;
    let half = until::<ConfigMap>(&cluster, &Key::of(&half), |map| owners(map).len() == 1).await;
    assert_eq!(owners(&half), [owner(&kept)]);
}

#[tokio::test(start_paused = true)]
async fn an_owner_of_an_unknown_type_keeps_its_dependents() {
    let cluster = cluster(&[NAME]).await;
    let map: ConfigMap = create(&cluster, config_map("plain", &[])).await;
    let strange = OwnerReference {
        api_version: "example.com/v1".into(),
        kind: "Stranger".into(),
        ..owner(&map)
    };
    let child: ConfigMap = create(&cluster, config_map("child", &[strange])).await;
    wait_until_idle().await;
    assert!(exists(&cluster, &child).await);
}

async fn namespace(cluster: &Cluster, name: &str) -> Namespace {
    let api: Api<Namespace> = Api::all(cluster.client());
    let namespace = object(json!({"metadata": {"name": name}}));
    api.create(&PostParams::default(), &namespace).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn an_owner_in_another_namespace_does_not_count() {
    let cluster = cluster(&[NAME]).await;
    namespace(&cluster, "other").await;
    let map: ConfigMap = create(&cluster, config_map("owner", &[])).await;
    wait_until_idle().await;
    let mut child = config_map("child", &[owner(&map)]);
    child["metadata"]["namespace"] = "other".into();
    let child: ConfigMap = create(&cluster, child).await;
    until_deleted(&cluster, &child).await;
    wait_until_idle().await;
    assert!(exists(&cluster, &map).await);
    let event = wait::<Event, _>(&cluster, |events| events.first().cloned()).await;
    assert_eq!(event.reason.as_deref(), Some("OwnerRefInvalidNamespace"));
    assert_eq!(event.metadata.namespace.as_deref(), Some("other"));
    let uid = map.metadata.uid.as_deref().unwrap();
    let message = format!(
        "ownerRef [v1/ConfigMap, namespace: other, name: owner, uid: {uid}] does not exist in \
         namespace \"other\""
    );
    assert_eq!(event.message.as_deref(), Some(&*message));
}

#[tokio::test(start_paused = true)]
async fn a_cluster_scoped_object_with_a_namespaced_owner_is_never_collected() {
    let cluster = cluster(&[NAME]).await;
    let map: ConfigMap = create(&cluster, config_map("owner", &[])).await;
    wait_until_idle().await;
    let roles: Api<ClusterRole> = Api::all(cluster.client());
    let role = object(config_map("role", &[owner(&map)]));
    roles.create(&PostParams::default(), &role).await.unwrap();
    let event = wait::<Event, _>(&cluster, |events| events.first().cloned()).await;
    assert_eq!(event.reason.as_deref(), Some("OwnerRefInvalidNamespace"));
    assert_eq!(event.metadata.namespace.as_deref(), Some("default"));
    delete(&cluster, &map, Background).await;
    wait_until_idle().await;
    assert!(roles.get_opt("role").await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_cluster_scoped_owner_may_own_anywhere() {
    let cluster = cluster(&[NAME]).await;
    let roles: Api<ClusterRole> = Api::all(cluster.client());
    let role: ClusterRole = object(config_map("role", &[]));
    let role = roles.create(&PostParams::default(), &role).await.unwrap();
    let child: ConfigMap = create(&cluster, config_map("child", &[owner(&role)])).await;
    wait_until_idle().await;
    assert!(exists(&cluster, &child).await);
    roles.delete("role", &DeleteParams::background()).await.unwrap();
    until_deleted(&cluster, &child).await;
}

#[tokio::test(start_paused = true)]
async fn an_ownership_cycle_is_deleted() {
    let cluster = cluster(&[NAME]).await;
    let api: Api<ConfigMap> = Api::default_namespaced(cluster.client());
    for policy in [Background, Foreground] {
        let one: ConfigMap = create(&cluster, config_map("one", &[])).await;
        let two: ConfigMap = create(&cluster, config_map("two", &[owner(&one)])).await;
        let three: ConfigMap = create(&cluster, config_map("three", &[owner(&two)])).await;
        let patch = Patch::Merge(json!({"metadata": {"ownerReferences": [owner(&three)]}}));
        api.patch("one", &PatchParams::default(), &patch).await.unwrap();
        wait_until_idle().await;
        delete(&cluster, &one, policy).await;
        for map in [&one, &two, &three] {
            until_deleted(&cluster, map).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_that_owns_itself_can_be_deleted() {
    let cluster = cluster(&[NAME]).await;
    let map: ConfigMap = create(&cluster, config_map("self", &[])).await;
    let api: Api<ConfigMap> = Api::default_namespaced(cluster.client());
    let patch = Patch::Merge(json!({"metadata": {"ownerReferences": [owner(&map)]}}));
    api.patch("self", &PatchParams::default(), &patch).await.unwrap();
    wait_until_idle().await;
    assert!(exists(&cluster, &map).await);
    delete(&cluster, &map, Foreground).await;
    until_deleted(&cluster, &map).await;
}

#[tokio::test(start_paused = true)]
async fn a_collector_that_starts_late_collects_existing_garbage() {
    let server = ApiServer::builder().seed(1).build().await.unwrap();
    let client = kube::Client::new(server.service(), "default");
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let post = PostParams::default();
    let kept = maps.create(&post, &object(config_map("kept", &[]))).await.unwrap();
    let child = config_map("child", &[owner(&kept)]);
    let child = maps.create(&post, &object(child)).await.unwrap();
    let absent = OwnerReference { uid: "absent".into(), ..owner(&kept) };
    let lost = maps.create(&post, &object(config_map("lost", &[absent]))).await.unwrap();
    let mut waiting = config_map("waiting", &[]);
    waiting["metadata"]["finalizers"] = json!(["foregroundDeletion"]);
    let waiting = maps.create(&post, &object(waiting)).await.unwrap();
    maps.delete("waiting", &DeleteParams::foreground()).await.unwrap();
    let cluster = Cluster::with_server(server, &options(&[NAME])).unwrap();
    until_deleted(&cluster, &lost).await;
    until_deleted(&cluster, &waiting).await;
    wait_until_idle().await;
    assert!(exists(&cluster, &child).await);
}

fn crd(plural: &str, kind: &str) -> CustomResourceDefinition {
    object(json!({
        "metadata": {"name": format!("{plural}.example.com")},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": kind.to_lowercase(), "kind": kind},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                }},
            }],
        },
    }))
}

fn widget(name: &str, owners: &[OwnerReference]) -> DynamicObject {
    let mut widget = config_map(name, owners);
    widget["apiVersion"] = "example.com/v1".into();
    widget["kind"] = "Widget".into();
    serde_json::from_value(widget).unwrap()
}

fn widgets(cluster: &Cluster) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("example.com", "v1", "Widget");
    let resource = ApiResource::from_gvk_with_plural(&kind, "widgets");
    Api::namespaced_with(cluster.client(), "default", &resource)
}

fn widget_reference(widget: &DynamicObject) -> OwnerReference {
    OwnerReference {
        api_version: "example.com/v1".into(),
        kind: "Widget".into(),
        name: widget.metadata.name.clone().unwrap(),
        uid: widget.metadata.uid.clone().unwrap(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

#[tokio::test(start_paused = true)]
async fn custom_resources_are_collected_once_their_crd_exists() {
    let cluster = cluster(&[NAME]).await;
    wait_until_idle().await;
    let crds: Api<CustomResourceDefinition> = Api::all(cluster.client());
    let post = PostParams::default();
    crds.create(&post, &crd("widgets", "Widget")).await.unwrap();
    let widgets = widgets(&cluster);
    let parent = widgets.create(&post, &widget("parent", &[])).await.unwrap();
    let child = widget("child", &[widget_reference(&parent)]);
    let child = widgets.create(&post, &child).await.unwrap();
    let map: ConfigMap = create(&cluster, config_map("map", &[widget_reference(&child)])).await;
    wait_until_idle().await;
    assert!(exists(&cluster, &map).await);
    widgets.delete("parent", &DeleteParams::foreground()).await.unwrap();
    until_deleted(&cluster, &map).await;
    wait_until_idle().await;
    assert!(widgets.list(&Default::default()).await.unwrap().items.is_empty());
}

#[tokio::test(start_paused = true)]
async fn deleting_a_crd_deletes_its_objects_and_their_dependents() {
    let cluster = cluster(&[NAME]).await;
    let crds: Api<CustomResourceDefinition> = Api::all(cluster.client());
    let post = PostParams::default();
    let made = crds.create(&post, &crd("widgets", "Widget")).await.unwrap();
    let widgets = widgets(&cluster);
    let mut held = widget("held", &[]);
    held.metadata.finalizers = Some(vec!["example.com/held".into()]);
    let held = widgets.create(&post, &held).await.unwrap();
    let map: ConfigMap = create(&cluster, config_map("map", &[widget_reference(&held)])).await;
    wait_until_idle().await;
    crds.delete("widgets.example.com", &DeleteParams::default()).await.unwrap();
    let terminating = |crd: &CustomResourceDefinition| {
        let conditions = crd.status.as_ref().and_then(|status| status.conditions.as_ref());
        conditions.into_iter().flatten().any(|c| c.type_ == "Terminating" && c.status == "True")
    };
    until(&cluster, &Key::cluster("widgets.example.com"), terminating).await;
    wait_until_idle().await;
    assert!(exists(&cluster, &map).await, "its owner is held by a finalizer");
    let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    widgets.patch("held", &PatchParams::default(), &patch).await.unwrap();
    until_deleted(&cluster, &made).await;
    until_deleted(&cluster, &map).await;
    // A CRD created again is a new type.
    crds.create(&post, &crd("widgets", "Widget")).await.unwrap();
    let parent = widgets.create(&post, &widget("parent", &[])).await.unwrap();
    let map: ConfigMap = create(&cluster, config_map("map", &[widget_reference(&parent)])).await;
    wait_until_idle().await;
    assert!(exists(&cluster, &map).await);
    widgets.delete("parent", &DeleteParams::default()).await.unwrap();
    until_deleted(&cluster, &map).await;
}

/// A collector whose graph the test can inspect.
fn start_collector(client: kube::Client) -> (Arc<Collector>, JoinSet<Result<(), RunError>>) {
    let manager = Manager::builder("test").seed(1).build(client);
    let collector = Collector::new(&manager, &crate::ClusterOptions::default());
    let running = collector.clone();
    manager.spawn(NAME, |stop| running.run(stop)).unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(manager.run_until(std::future::pending()));
    (collector, tasks)
}

#[tokio::test(start_paused = true)]
async fn only_owners_and_dependents_are_in_the_graph() {
    let server = ApiServer::builder().seed(1).build().await.unwrap();
    let client = kube::Client::new(server.service(), "default");
    let (collector, _running) = start_collector(client.clone());
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let post = PostParams::default();
    for number in 0..10 {
        let name = format!("alone-{number}");
        maps.create(&post, &object(config_map(&name, &[]))).await.unwrap();
    }
    let root = maps.create(&post, &object(config_map("root", &[]))).await.unwrap();
    for number in 0..5 {
        let name = format!("child-{number}");
        maps.create(&post, &object(config_map(&name, &[owner(&root)]))).await.unwrap();
    }
    wait_until_idle().await;
    assert_eq!(collector.graph.lock().len(), 6);
    let patch = Patch::Merge(json!({"metadata": {"ownerReferences": null}}));
    maps.patch("child-0", &PatchParams::default(), &patch).await.unwrap();
    wait_until_idle().await;
    assert_eq!(collector.graph.lock().len(), 5);
    maps.delete("root", &DeleteParams::background()).await.unwrap();
    wait_until_idle().await;
    assert_eq!(collector.graph.lock().len(), 0);
    assert_eq!(maps.list(&Default::default()).await.unwrap().items.len(), 11);
}

#[tokio::test(start_paused = true)]
async fn objects_of_a_type_that_is_no_longer_served_are_not_assumed_deleted() {
    let cluster = cluster(&[NAME]).await;
    let crds: Api<CustomResourceDefinition> = Api::all(cluster.client());
    let post = PostParams::default();
    let mut two = crd("widgets", "Widget");
    let mut newer = two.spec.versions[0].clone();
    newer.name = "v2".into();
    newer.served = false;
    newer.storage = false;
    two.spec.versions.push(newer);
    crds.create(&post, &two).await.unwrap();
    let parent = widgets(&cluster).create(&post, &widget("parent", &[])).await.unwrap();
    let map: ConfigMap = create(&cluster, config_map("map", &[widget_reference(&parent)])).await;
    wait_until_idle().await;
    // First another version, then none, then the first version.
    for served in [[false, true], [false, false], [true, false]] {
        let patch = Patch::Json::<()>(
            serde_json::from_value(json!([
                {"op": "replace", "path": "/spec/versions/0/served", "value": served[0]},
                {"op": "replace", "path": "/spec/versions/1/served", "value": served[1]},
            ]))
            .unwrap(),
        );
        crds.patch("widgets.example.com", &PatchParams::default(), &patch).await.unwrap();
        wait_until_idle().await;
        assert!(exists(&cluster, &map).await, "{served:?}");
    }
    widgets(&cluster).delete("parent", &DeleteParams::default()).await.unwrap();
    until_deleted(&cluster, &map).await;
}

#[tokio::test(start_paused = true)]
async fn a_new_preferred_version_is_watched_without_a_gap() {
    let cluster = cluster(&[NAME]).await;
    let crds: Api<CustomResourceDefinition> = Api::all(cluster.client());
    let post = PostParams::default();
    crds.create(&post, &crd("widgets", "Widget")).await.unwrap();
    let parent = widgets(&cluster).create(&post, &widget("parent", &[])).await.unwrap();
    let kept: ConfigMap = create(&cluster, config_map("kept", &[widget_reference(&parent)])).await;
    wait_until_idle().await;
    // From here on the server prefers v2; an object may be created at the same moment.
    let mut two = crd("widgets", "Widget");
    let mut newer = two.spec.versions[0].clone();
    newer.name = "v2".into();
    newer.storage = false;
    two.spec.versions.push(newer);
    let patch = Patch::Merge(json!({"spec": {"versions": two.spec.versions}}));
    crds.patch("widgets.example.com", &PatchParams::default(), &patch).await.unwrap();
    let late = widgets(&cluster).create(&post, &widget("late", &[])).await.unwrap();
    let child: ConfigMap = create(&cluster, config_map("child", &[widget_reference(&late)])).await;
    widgets(&cluster).delete("late", &DeleteParams::default()).await.unwrap();
    until_deleted(&cluster, &child).await;
    wait_until_idle().await;
    assert!(exists(&cluster, &kept).await);
    widgets(&cluster).delete("parent", &DeleteParams::default()).await.unwrap();
    until_deleted(&cluster, &kept).await;
}

/// A service whose discovery omits all groups but core while `late` is set.
#[derive(Clone)]
struct PartialDiscovery<S> {
    server: S,
    late: Arc<AtomicBool>,
}

type ApiRequest = http::Request<kube::client::Body>;

impl<S: Service<ApiRequest>> Service<ApiRequest> for PartialDiscovery<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.server.poll_ready(cx)
    }

    fn call(&mut self, mut request: ApiRequest) -> S::Future {
        if self.late.load(Ordering::Relaxed) && request.uri().path() == "/apis" {
            *request.uri_mut() = http::Uri::from_static("/api");
        }
        self.server.call(request)
    }
}

#[tokio::test(start_paused = true)]
async fn a_type_missing_from_discovery_is_found_by_rediscovery() {
    let server = ApiServer::builder().seed(1).build().await.unwrap();
    let late = Arc::new(AtomicBool::new(true));
    let service = PartialDiscovery { server: server.service(), late: late.clone() };
    let (collector, _running) = start_collector(kube::Client::new(service, "default"));
    wait_until_idle().await;
    let cluster = Cluster::api_only(server);
    let crds: Api<CustomResourceDefinition> = Api::all(cluster.client());
    let post = PostParams::default();
    crds.create(&post, &crd("widgets", "Widget")).await.unwrap();
    let parent = widgets(&cluster).create(&post, &widget("parent", &[])).await.unwrap();
    let map: ConfigMap = create(&cluster, config_map("map", &[widget_reference(&parent)])).await;
    widgets(&cluster).delete("parent", &DeleteParams::default()).await.unwrap();
    tokio::time::sleep(2 * REDISCOVER_INTERVAL).await;
    assert!(exists(&cluster, &map).await, "the type of its owner is unknown");
    assert!(collector.types.read().find("example.com", "Widget").is_none());
    late.store(false, Ordering::Relaxed);
    until_deleted(&cluster, &map).await;
}
