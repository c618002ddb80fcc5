//! An owned apply does not change objects that the owner does not control.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use evenkeel::k8s_openapi::api::core::v1::{ConfigMap, Secret, ServiceAccount};
use evenkeel::kube::Api;
use evenkeel::owner::{is_controller, set_controller_reference};
use evenkeel::prelude::*;
use tokio::sync::mpsc;

use crate::harness::{Fault, World, key, map, next, start, stop};

/// Applies a child of each ConfigMap with force, and sends the result.
struct Maker<C> {
    child: C,
    outcome: mpsc::Sender<Result<Arc<C>, String>>,
}

impl<C: evenkeel::Object> Reconciler for Maker<C> {
    type Object = ConfigMap;

    async fn reconcile(&self, cx: &Context<ConfigMap>) -> Result<Action> {
        let applied = cx.apply_owned(self.child.clone()).force().await;
        let _ = self.outcome.try_send(applied.map_err(|error| error.to_string()));
        Ok(Action::done())
    }
}

fn maker<C>(child: C) -> (Maker<C>, mpsc::Receiver<Result<Arc<C>, String>>) {
    let (outcome, outcomes) = mpsc::channel(64);
    (Maker { child, outcome }, outcomes)
}

fn account(automount: bool) -> ServiceAccount {
    let mut account = ServiceAccount::default();
    account.metadata.name = Some("child".to_owned());
    account.metadata.namespace = Some("default".to_owned());
    account.automount_service_account_token = Some(automount);
    account
}

fn secret(value: &str) -> Secret {
    let mut secret = Secret::default();
    secret.metadata.name = Some("child".to_owned());
    secret.metadata.namespace = Some("default".to_owned());
    secret.string_data = Some([("key".to_owned(), value.to_owned())].into());
    secret
}

fn secrets() -> evenkeel::Watch {
    let options = evenkeel::cache::TypeOptions::new().namespaces(["default"]);
    evenkeel::Watch::owned::<Secret, ConfigMap>().cached(options)
}

const NOT_CONTROLLED: &str =
    "the object exists and is not controlled by ConfigMap default/owner; adopt it first";

#[tokio::test(start_paused = true)]
async fn foreign_object_of_an_uncached_type_is_not_changed() {
    let world = World::new().await;
    world.create_map("owner").await;
    let accounts = Api::<ServiceAccount>::namespaced(world.admin(), "default");
    let theirs = accounts.create(&Default::default(), &account(true)).await.unwrap();
    let manager = world.manager();
    let (maker, mut outcomes) = maker(account(false));
    manager.controller(maker).register().unwrap();
    let running = start(&manager);
    let refused = next(&mut outcomes).await.unwrap_err();
    assert_eq!(refused, format!("apply ServiceAccount default/child: {NOT_CONTROLLED}"));
    assert_eq!(accounts.get("child").await.unwrap(), theirs);
    stop(&manager, running).await;
}

#[tokio::test(start_paused = true)]
async fn a_child_of_a_type_that_is_not_cached_is_created_and_applied_again() {
    let world = World::new().await;
    let owner = world.create_map("owner").await;
    let manager = world.manager();
    let (maker, mut outcomes) = maker(account(false));
    let controller = manager.controller(maker).register().unwrap();
    let running = start(&manager);
    let created = next(&mut outcomes).await.unwrap();
    assert!(is_controller(&owner, &*created));
    controller.enqueue(key("owner"), "again");
    let again = next(&mut outcomes).await.unwrap();
    assert_eq!(again.metadata.uid, created.metadata.uid);
    stop(&manager, running).await;
}

#[tokio::test(start_paused = true)]
async fn object_created_between_check_and_apply_is_not_changed() {
    let world = World::new().await;
    world.create_map("owner").await;
    let accounts = Api::<ServiceAccount>::namespaced(world.admin(), "default");
    let theirs = accounts.create(&Default::default(), &account(true)).await.unwrap();
    // The first check gets a stale response.
    let checked = AtomicBool::new(false);
    world.rule(move |request| {
        let check = request.method() == "GET" && request.uri().path().ends_with("/child");
        match check && !checked.swap(true, Ordering::Relaxed) {
            true => Fault::Respond(404, r#"{"kind":"Status","reason":"NotFound","code":404}"#),
            false => Fault::None,
        }
    });
    let manager = world.manager();
    let (maker, mut outcomes) = maker(account(false));
    manager.controller(maker).register().unwrap();
    let running = start(&manager);
    let refused = next(&mut outcomes).await.unwrap_err();
    assert!(refused.ends_with(NOT_CONTROLLED), "{refused}");
    assert_eq!(accounts.get("child").await.unwrap(), theirs);
    let applies = world.requests().iter().filter(|line| line.starts_with("PATCH")).count();
    assert_eq!(applies, 1, "rejected once, then found by the live read");
    stop(&manager, running).await;
}

#[tokio::test(start_paused = true)]
async fn object_missing_from_the_cache_is_not_changed() {
    let world = World::new().await;
    world.create_map("owner").await;
    let api = Api::<Secret>::namespaced(world.admin(), "default");
    let theirs = api.create(&Default::default(), &secret("theirs")).await.unwrap();
    let manager = world.manager();
    let (maker, mut outcomes) = maker(secret("changed"));
    manager.controller(maker).watch(secrets()).register().unwrap();
    world.rule(|request| {
        let listed = request.uri().path().ends_with("/secrets");
        match World::frozen(request) {
            // The initial list does not include the object.
            Fault::None if listed && request.method() == "GET" => Fault::Respond(
                200,
                r#"{"kind":"SecretList","apiVersion":"v1","metadata":{"resourceVersion":"1"},
                    "items":[]}"#,
            ),
            fate => fate,
        }
    });
    let running = start(&manager);
    let refused = next(&mut outcomes).await.unwrap_err();
    assert!(refused.ends_with(NOT_CONTROLLED), "{refused}");
    assert_eq!(api.get("child").await.unwrap(), theirs);
    stop(&manager, running).await;
}

#[tokio::test(start_paused = true)]
async fn object_that_replaced_a_child_is_not_changed() {
    let world = World::new().await;
    let owner = world.create_map("owner").await;
    let api = Api::<Secret>::namespaced(world.admin(), "default");
    let mut ours = secret("ours");
    set_controller_reference(&owner, &mut ours).unwrap();
    api.create(&Default::default(), &ours).await.unwrap();
    world.freeze();
    let manager = world.manager();
    let (sender, mut synced) = mpsc::channel(64);
    let (maker, mut outcomes) = maker(secret("changed"));
    // No reconcile runs before the other client has written.
    let reconciler = evenkeel::reconciler_fn(move |_: Arc<ConfigMap>, cx: Context<ConfigMap>| {
        let _ = sender.try_send(());
        let maker = Maker { child: maker.child.clone(), outcome: maker.outcome.clone() };
        async move {
            match cx.causes().to_string().contains("now") {
                true => maker.reconcile(&cx).await,
                false => Ok(Action::done()),
            }
        }
    });
    let controller = manager.controller(reconciler).watch(secrets()).register().unwrap();
    let running = start(&manager);
    next(&mut synced).await;
    api.delete("child", &Default::default()).await.unwrap();
    let theirs = api.create(&Default::default(), &secret("theirs")).await.unwrap();
    controller.enqueue(key("owner"), "now");
    let refused = next(&mut outcomes).await.unwrap_err();
    assert!(refused.ends_with(NOT_CONTROLLED), "{refused}");
    assert_eq!(api.get("child").await.unwrap(), theirs);

    // A deleted child is created again.
    api.delete("child", &Default::default()).await.unwrap();
    controller.enqueue(key("owner"), "now, after the deletion");
    let created = next(&mut outcomes).await.unwrap();
    assert!(is_controller(&owner, &*created));
    stop(&manager, running).await;
}

#[tokio::test(start_paused = true)]
async fn only_an_object_that_was_read_can_be_adopted() {
    let world = World::new().await;
    let owner = world.create_map("owner").await;
    world.create_map("child").await;
    let manager = world.manager();
    let error = manager.client().adopt(&owner, &map("child")).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "patch ConfigMap default/child: the object has no uid or resourceVersion; read it from the \
         server first"
    );
    assert!(world.requests().is_empty());
}
