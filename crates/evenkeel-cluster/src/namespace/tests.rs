//! Termination of namespaces: content, finalizers, pods, conditions.

use evenkeel::Key;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, NamespaceCondition, Pod};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;

use super::NAME;
use crate::Cluster;
use crate::testing::{cluster, create, object, until, until_deleted, wait_until_idle};

async fn namespace(cluster: &Cluster, name: &str) -> Namespace {
    let api: Api<Namespace> = Api::all(cluster.client());
    let namespace = object(json!({"metadata": {"name": name}}));
    api.create(&PostParams::default(), &namespace).await.unwrap()
}

async fn delete(cluster: &Cluster, name: &str) {
    let api: Api<Namespace> = Api::all(cluster.client());
    api.delete(name, &DeleteParams::default()).await.unwrap();
}

fn condition<'a>(namespace: &'a Namespace, name: &str) -> Option<&'a NamespaceCondition> {
    let conditions = namespace.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == name)
}

fn message<'a>(namespace: &'a Namespace, name: &str) -> &'a str {
    let condition = condition(namespace, name).filter(|condition| condition.status == "True");
    condition.and_then(|condition| condition.message.as_deref()).unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn the_default_namespaces_exist() {
    let cluster = cluster(&[]).await;
    let api: Api<Namespace> = Api::all(cluster.client());
    for name in ["default", "kube-system", "kube-public", "kube-node-lease"] {
        assert!(api.get_opt(name).await.unwrap().is_some(), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_empty_namespace_is_deleted_immediately() {
    let cluster = cluster(&[NAME]).await;
    let shop = namespace(&cluster, "shop").await;
    let before = tokio::time::Instant::now();
    delete(&cluster, "shop").await;
    until_deleted(&cluster, &shop).await;
    assert_eq!(before.elapsed().as_secs(), 0);
}

#[tokio::test(start_paused = true)]
async fn all_content_of_a_namespace_is_deleted_and_nothing_else() {
    let cluster = cluster(&[NAME]).await;
    let shop = namespace(&cluster, "shop").await;
    let crd = object(json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}},
            }],
        },
    }));
    let crds: Api<
        k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    > = Api::all(cluster.client());
    crds.create(&PostParams::default(), &crd).await.unwrap();
    let kind = kube::core::GroupVersionKind::gvk("example.com", "v1", "Widget");
    let resource = kube::api::ApiResource::from_gvk_with_plural(&kind, "widgets");
    let widgets: Api<kube::api::DynamicObject> =
        Api::namespaced_with(cluster.client(), "shop", &resource);
    let widget = kube::api::DynamicObject::new("one", &resource);
    widgets.create(&PostParams::default(), &widget).await.unwrap();
    let map: ConfigMap =
        create(&cluster, json!({"metadata": {"name": "map", "namespace": "shop"}})).await;
    let other: ConfigMap = create(&cluster, json!({"metadata": {"name": "map"}})).await;
    delete(&cluster, "shop").await;
    until_deleted(&cluster, &shop).await;
    until_deleted(&cluster, &map).await;
    assert!(widgets.list(&Default::default()).await.unwrap().items.is_empty());
    let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client());
    assert_eq!(maps.get("map").await.unwrap().metadata.uid, other.metadata.uid);
}

#[tokio::test(start_paused = true)]
async fn finalizers_block_a_namespace_and_are_reported() {
    let cluster = cluster(&[NAME]).await;
    let shop = namespace(&cluster, "shop").await;
    for name in ["one", "two"] {
        let held = json!({"metadata": {
            "name": name, "namespace": "shop", "finalizers": ["example.com/held"],
        }});
        create::<ConfigMap>(&cluster, held).await;
    }
    delete(&cluster, "shop").await;
    let terminating = until::<Namespace>(&cluster, &Key::cluster("shop"), |namespace| {
        !message(namespace, "NamespaceFinalizersRemaining").is_empty()
    })
    .await;
    assert_eq!(
        message(&terminating, "NamespaceFinalizersRemaining"),
        "Some content in the namespace has finalizers remaining: example.com/held in 2 resource \
         instances"
    );
    assert_eq!(
        message(&terminating, "NamespaceContentRemaining"),
        "Some resources are remaining: configmaps. has 2 resource instances"
    );
    for (name, reason) in [
        ("NamespaceDeletionDiscoveryFailure", "ResourcesDiscovered"),
        ("NamespaceDeletionGroupVersionParsingFailure", "ParsedGroupVersions"),
        ("NamespaceDeletionContentFailure", "ContentDeleted"),
    ] {
        let condition = condition(&terminating, name).unwrap();
        assert_eq!((&*condition.status, condition.reason.as_deref()), ("False", Some(reason)));
    }
    assert_eq!(terminating.status.unwrap().phase.as_deref(), Some("Terminating"));
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client(), "shop");
    let refused = maps
        .create(&PostParams::default(), &object(json!({"metadata": {"name": "late"}})))
        .await
        .unwrap_err();
    assert!(refused.to_string().contains("being terminated"), "{refused}");
    wait_until_idle().await;
    let before = tokio::time::Instant::now();
    let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    for name in ["one", "two"] {
        maps.patch(name, &PatchParams::default(), &patch).await.unwrap();
    }
    until_deleted(&cluster, &shop).await;
    assert_eq!(before.elapsed().as_secs(), 0, "the controller does not poll");
}

#[tokio::test(start_paused = true)]
async fn pods_get_their_grace_period_before_other_content_is_deleted() {
    let cluster = cluster(&[NAME]).await;
    let shop = namespace(&cluster, "shop").await;
    let pod: Pod = create(
        &cluster,
        json!({
            "metadata": {"name": "pod", "namespace": "shop"},
            "spec": {
                "nodeName": "node", "terminationGracePeriodSeconds": 40,
                "containers": [{"name": "main", "image": "main"}],
            },
        }),
    )
    .await;
    let map: ConfigMap =
        create(&cluster, json!({"metadata": {"name": "map", "namespace": "shop"}})).await;
    delete(&cluster, "shop").await;
    until::<Pod>(&cluster, &Key::of(&pod), |pod| pod.metadata.deletion_timestamp.is_some()).await;
    wait_until_idle().await;
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client(), "shop");
    let left = maps.get("map").await.unwrap();
    assert_eq!(left.metadata.deletion_timestamp, None);
    // The node is done with it.
    let pods: Api<Pod> = Api::namespaced(cluster.client(), "shop");
    let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
    pods.delete("pod", &now).await.unwrap();
    until_deleted(&cluster, &map).await;
    until_deleted(&cluster, &shop).await;
}

#[tokio::test(start_paused = true)]
async fn other_finalizers_of_a_namespace_are_kept() {
    let cluster = cluster(&[NAME]).await;
    let api: Api<Namespace> = Api::all(cluster.client());
    let held = object(json!({
        "metadata": {"name": "shop", "finalizers": ["example.com/held"]},
    }));
    api.create(&PostParams::default(), &held).await.unwrap();
    delete(&cluster, "shop").await;
    let ended = until::<Namespace>(&cluster, &Key::cluster("shop"), |namespace| {
        namespace
            .spec
            .as_ref()
            .is_none_or(|spec| spec.finalizers.as_deref().unwrap_or_default().is_empty())
    })
    .await;
    let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    api.patch("shop", &PatchParams::default(), &patch).await.unwrap();
    until_deleted(&cluster, &ended).await;
}
