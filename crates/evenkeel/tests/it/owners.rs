//! Changes of owned objects enqueue their owners.

use evenkeel::k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use evenkeel::kube::Api;
use evenkeel::kube::api::{Patch, PatchParams};
use evenkeel::owner::{OwnerError, set_controller_reference};
use evenkeel::prelude::*;
use serde_json::json;

use crate::harness::{World, key, map, next, quiet, recording, start, stop};

fn secret(name: &str) -> Secret {
    let mut secret = Secret::default();
    secret.metadata.name = Some(name.to_owned());
    secret.metadata.namespace = Some("default".to_owned());
    secret
}

fn in_default() -> evenkeel::cache::TypeOptions {
    evenkeel::cache::TypeOptions::new().namespaces(["default"])
}

#[tokio::test(start_paused = true)]
async fn change_of_the_controller_enqueues_both_owners_once() {
    let world = World::new().await;
    let (a, b) = (world.create_map("a").await, world.create_map("b").await);
    let secrets = Api::<Secret>::namespaced(world.admin(), "default");
    let manager = world.manager();
    let (reconciler, mut received) = recording::<ConfigMap>();
    manager
        .controller(reconciler)
        .watch(evenkeel::Watch::owned::<Secret, ConfigMap>().cached(in_default()))
        .register()
        .unwrap();
    let running = start(&manager);
    for _ in 0..2 {
        next(&mut received).await;
    }
    let mut child = secret("child");
    set_controller_reference(&a, &mut child).unwrap();
    secrets.create(&Default::default(), &child).await.unwrap();
    assert_eq!(next(&mut received).await, key("a"));
    quiet(&mut received).await;

    let mut other = secret("child");
    set_controller_reference(&b, &mut other).unwrap();
    let owners = json!({"metadata": {"ownerReferences": other.metadata.owner_references}});
    secrets.patch("child", &PatchParams::default(), &Patch::Merge(owners)).await.unwrap();
    let mut keys = [next(&mut received).await, next(&mut received).await];
    keys.sort();
    assert_eq!(keys, [key("a"), key("b")]);
    quiet(&mut received).await;
    stop(&manager, running).await;
}

#[tokio::test(start_paused = true)]
async fn child_of_a_deleted_owner_does_not_enqueue_its_successor() {
    let world = World::new().await;
    let former = world.create_map("a").await;
    let maps = Api::<ConfigMap>::namespaced(world.admin(), "default");
    maps.delete("a", &Default::default()).await.unwrap();
    world.create_map("a").await;
    let secrets = Api::<Secret>::namespaced(world.admin(), "default");
    let manager = world.manager();
    let (reconciler, mut received) = recording::<ConfigMap>();
    manager
        .controller(reconciler)
        .watch(evenkeel::Watch::owned::<Secret, ConfigMap>().cached(in_default()))
        .register()
        .unwrap();
    let running = start(&manager);
    assert_eq!(next(&mut received).await, key("a"));
    let mut child = secret("child");
    set_controller_reference(&former, &mut child).unwrap();
    secrets.create(&Default::default(), &child).await.unwrap();
    quiet(&mut received).await;
    stop(&manager, running).await;
}

/// kube-runtime reconciles such an owner several times concurrently, under different keys.
#[tokio::test(start_paused = true)]
async fn children_in_many_namespaces_enqueue_one_cluster_scoped_owner() {
    let world = World::new().await;
    let namespaces = Api::<Namespace>::all(world.admin());
    for name in ["one", "two"] {
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some(name.to_owned());
        namespaces.create(&Default::default(), &namespace).await.unwrap();
    }
    let manager = world.manager();
    let (reconciler, mut received) = recording::<Namespace>();
    let controller =
        manager.controller(reconciler).owns::<ConfigMap>().workers(8).register().unwrap();
    let running = start(&manager);
    // The initial objects, and the two.
    for _ in 0..namespaces.list(&Default::default()).await.unwrap().items.len() {
        next(&mut received).await;
    }
    let owner = namespaces.get("one").await.unwrap();
    for namespace in ["one", "two", "default"] {
        let mut child = map("child");
        child.metadata.namespace = Some(namespace.to_owned());
        set_controller_reference(&owner, &mut child).unwrap();
        let maps = Api::<ConfigMap>::namespaced(world.admin(), namespace);
        maps.create(&Default::default(), &child).await.unwrap();
        assert_eq!(next(&mut received).await, Key::cluster("one"));
    }
    quiet(&mut received).await;
    assert_eq!(controller.queue().len(), 0);
    stop(&manager, running).await;
}

#[test]
fn owner_in_another_namespace_is_rejected_by_the_client() {
    let mut owner = map("owner");
    owner.metadata.uid = Some("1".to_owned());
    let mut child = map("child");
    child.metadata.namespace = Some("elsewhere".to_owned());
    let error = set_controller_reference(&owner, &mut child).unwrap_err();
    assert_eq!(
        error.to_string(),
        "ConfigMap default/owner cannot own ConfigMap elsewhere/child: they are not in the same \
         namespace"
    );
}

#[test]
fn second_controller_is_rejected_by_uid() {
    let mut first = map("owner");
    first.metadata.uid = Some("1".to_owned());
    let mut second = first.clone();
    second.metadata.uid = Some("2".to_owned());
    let mut child = map("child");
    set_controller_reference(&first, &mut child).unwrap();
    set_controller_reference(&first, &mut child).unwrap();
    assert_eq!(child.metadata.owner_references.as_ref().unwrap().len(), 1);
    let error = set_controller_reference(&second, &mut child).unwrap_err();
    assert!(matches!(error, OwnerError::Controlled { ref uid, .. } if uid == "1"), "{error}");
}
