//! Propagation policies, garbage collection by owner uid, and namespace deletion.

use evenkeel::Key;
use evenkeel::client::Patch;
use evenkeel_test::TestCluster;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::PropagationPolicy;
use serde_json::json;

use crate::{cluster, format_condition};

/// Creates a ConfigMap owned by another one, with `blockOwnerDeletion`.
async fn child(cluster: &TestCluster, name: &str, owner: &ConfigMap) -> ConfigMap {
    let child = json!({"metadata": {"name": name, "ownerReferences": [{
        "apiVersion": "v1", "kind": "ConfigMap", "name": owner.metadata.name,
        "uid": owner.metadata.uid, "blockOwnerDeletion": true,
    }]}});
    create(cluster, &cluster.parse::<ConfigMap>(&child.to_string())).await
}

async fn parent(cluster: &TestCluster, name: &str) -> ConfigMap {
    let text = format!("metadata: {{name: {name}}}");
    create(cluster, &cluster.parse::<ConfigMap>(&text)).await
}

async fn create(cluster: &TestCluster, map: &ConfigMap) -> ConfigMap {
    (*cluster.client().create(map).await.unwrap()).clone()
}

/// Adds a finalizer to a ConfigMap, or removes it.
async fn set_finalizer(cluster: &TestCluster, key: &Key, present: bool) {
    let finalizers = if present { json!(["example.com/held"]) } else { json!(null) };
    let patch = Patch::Merge(json!({"metadata": {"finalizers": finalizers}}));
    cluster.client().patch::<ConfigMap>(key, &patch).await.unwrap();
}

#[tokio::test]
async fn propagation_policies_delete_or_orphan_dependents() {
    let Some(cluster) = cluster().await else { return };
    let policies =
        [PropagationPolicy::Background, PropagationPolicy::Foreground, PropagationPolicy::Orphan];
    for policy in policies {
        let owner = parent(&cluster, "owner").await;
        let owned = child(&cluster, "owned", &owner).await;
        let (owner_key, key) = (Key::of(&owner), Key::of(&owned));
        set_finalizer(&cluster, &key, true).await;
        cluster.client().delete(&owner).propagation(policy.clone()).await.unwrap();
        match policy {
            PropagationPolicy::Background => {
                cluster.eventually_gone::<ConfigMap>(&owner_key).await;
                let going = |map: &ConfigMap| map.metadata.deletion_timestamp.is_some();
                cluster.eventually::<ConfigMap>(&key, going).await;
            }
            PropagationPolicy::Foreground => {
                let going = |map: &ConfigMap| map.metadata.deletion_timestamp.is_some();
                cluster.eventually::<ConfigMap>(&key, going).await;
                let owner = cluster.eventually::<ConfigMap>(&owner_key, going).await;
                let finalizers = owner.metadata.finalizers.as_deref();
                assert_eq!(finalizers, Some(&["foregroundDeletion".to_owned()][..]));
            }
            PropagationPolicy::Orphan => {
                cluster.eventually_gone::<ConfigMap>(&owner_key).await;
                let free = |map: &ConfigMap| map.metadata.owner_references.is_none();
                let orphan = cluster.eventually::<ConfigMap>(&key, free).await;
                cluster.client().delete(&*orphan).await.unwrap();
            }
        }
        set_finalizer(&cluster, &key, false).await;
        cluster.eventually_gone::<ConfigMap>(&key).await;
        cluster.eventually_gone::<ConfigMap>(&owner_key).await;
    }
    cluster.stop().await;
}

#[tokio::test]
async fn dependents_of_a_deleted_owner_uid_are_collected() {
    let Some(cluster) = cluster().await else { return };
    let former = parent(&cluster, "owner").await;
    let old = child(&cluster, "old", &former).await;
    let orphaned = PropagationPolicy::Background;
    cluster.client().delete(&former).propagation(orphaned).await.unwrap();
    let owner = parent(&cluster, "owner").await;
    let new = child(&cluster, "new", &owner).await;
    let lost = child(&cluster, "lost", &former).await;
    cluster.eventually_gone::<ConfigMap>(&Key::of(&old)).await;
    cluster.eventually_gone::<ConfigMap>(&Key::of(&lost)).await;
    cluster
        .eventually::<ConfigMap>(&Key::of(&new), |map| map.metadata.uid == new.metadata.uid)
        .await;
    cluster.stop().await;
}

#[tokio::test]
async fn namespace_conditions_name_remaining_content() {
    let Some(cluster) = cluster().await else { return };
    let name = cluster.unique_name("ending");
    let text = format!("metadata: {{name: {name}}}");
    cluster.client().create(&cluster.parse::<Namespace>(&text)).await.unwrap();
    let text =
        format!("metadata: {{name: held, namespace: {name}, finalizers: [example.com/held]}}");
    let held = create(&cluster, &cluster.parse::<ConfigMap>(&text)).await;
    let key = Key::cluster(&name);
    cluster.client().delete_by_key::<Namespace>(&key).await.unwrap();
    let conditions = |namespace: &Namespace| -> Vec<String> {
        let status = namespace.status.clone().unwrap_or_default();
        let conditions = status.conditions.into_iter().flatten();
        let mut conditions: Vec<String> = conditions
            .map(|it| {
                format_condition(&it.type_, &it.status, it.reason.as_deref(), it.message.as_deref())
            })
            .collect();
        conditions.sort();
        conditions
    };
    let waits = |namespace: &Namespace| conditions(namespace).iter().any(|it| it.contains("held"));
    let namespace = cluster.eventually::<Namespace>(&key, waits).await;
    assert_eq!(
        conditions(&namespace),
        [
            "NamespaceContentRemaining=True SomeResourcesRemain: Some resources are remaining: \
             configmaps. has 1 resource instances",
            "NamespaceDeletionContentFailure=False ContentDeleted: All content successfully \
             deleted, may be waiting on finalization",
            "NamespaceDeletionDiscoveryFailure=False ResourcesDiscovered: All resources \
             successfully discovered",
            "NamespaceDeletionGroupVersionParsingFailure=False ParsedGroupVersions: All legacy \
             kube types successfully parsed",
            "NamespaceFinalizersRemaining=True SomeFinalizersRemain: Some content in the namespace \
             has finalizers remaining: example.com/held in 1 resource instances",
        ]
    );
    set_finalizer(&cluster, &Key::of(&held), false).await;
    cluster.eventually_gone::<Namespace>(&key).await;
    cluster.stop().await;
}
