//! Writes, status updates, finalizers and owned applies.

use evenkeel::client::{Patch, retry_on_conflict};
use evenkeel::k8s_openapi::api::apps::v1::Deployment;
use evenkeel::k8s_openapi::api::core::v1::ConfigMap;
use evenkeel::kube::Api;
use evenkeel::prelude::*;
use serde_json::json;

use crate::harness::{World, each, key, map, next, quiet, start, stop};

#[tokio::test(start_paused = true)]
async fn an_apply_that_changes_nothing_is_not_sent_again() {
    let world = World::new().await;
    let manager = world.manager();
    manager.caches::<ConfigMap>(TypeOptions::new()).unwrap();
    let running = start(&manager);
    let client = manager.client();
    let mut wanted = map("a");
    wanted.data = Some([("k".to_owned(), "1".to_owned())].into());
    let first = client.apply(&wanted).await.unwrap();
    world.requests();
    let second = client.apply(&wanted).await.unwrap();
    assert_eq!(first.metadata.resource_version, second.metadata.resource_version);
    assert!(!world.requests().iter().any(|request| request.starts_with("PATCH")));

    // Another manager changes it: the apply is sent, and reverts the change only with force.
    let maps = Api::<ConfigMap>::namespaced(world.admin(), "default");
    let theirs = evenkeel::kube::api::Patch::Merge(json!({"data": {"k": "2"}}));
    maps.patch("a", &Default::default(), &theirs).await.unwrap();
    let changed = |map: &ConfigMap| map.data.as_ref().is_some_and(|data| data["k"] == "2");
    client.wait_for::<ConfigMap>(&key("a"), |map| map.is_some_and(changed)).await.unwrap();
    let error = client.apply(&wanted).await.unwrap_err();
    assert!(error.is_conflict(), "{error}");
    let healed = client.apply(&wanted).force().await.unwrap();
    assert_eq!(healed.data, wanted.data);
    stop(&manager, running).await;
}

fn deployment(name: &str) -> Deployment {
    serde_json::from_value(json!({"metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]}}}}))
    .unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_status_that_changes_nothing_is_not_sent() {
    let world = World::new().await;
    let deployments = Api::<Deployment>::namespaced(world.admin(), "default");
    deployments.create(&Default::default(), &deployment("web")).await.unwrap();
    let manager = world.manager();
    let (sender, mut received) = tokio::sync::mpsc::channel(4096);

    struct Reporter(tokio::sync::mpsc::Sender<Option<String>>);
    impl Reconciler for Reporter {
        type Object = Deployment;
        async fn reconcile(&self, cx: &Context<Deployment>) -> Result<Action> {
            let Some(deployment) = cx.object() else { return Ok(Action::done()) };
            let condition = Condition::new("Checked", true, "Reconciled", "all replicas are up");
            let written = cx.status(&deployment).condition(condition).write().await?;
            let _ = self
                .0
                .try_send(written.and_then(|object| object.metadata.resource_version.clone()));
            Ok(Action::done())
        }
    }
    let controller = manager.controller(Reporter(sender)).register().unwrap();
    let mut follower = controller.journal().follow();
    let running = start(&manager);
    let record = follower.recv().await.unwrap();
    assert_eq!(record.outcome, evenkeel::journal::Outcome::Done);
    assert!(next(&mut received).await.is_some());
    assert!(next(&mut received).await.is_none(), "the second reconcile finds it as it left it");
    quiet(&mut received).await;
    let stored = deployments.get("web").await.unwrap();
    let status = stored.status.unwrap();
    assert_eq!(status.observed_generation, Some(1));
    let condition = &status.conditions.unwrap()[0];
    assert_eq!((condition.type_.as_str(), condition.status.as_str()), ("Checked", "True"));
    stop(&manager, running).await;
}

#[tokio::test(start_paused = true)]
async fn status_of_a_built_in_type_is_set() {
    let world = World::new().await;
    let deployments = Api::<Deployment>::namespaced(world.admin(), "default");
    deployments.create(&Default::default(), &deployment("web")).await.unwrap();
    let manager = world.manager();
    let (sender, mut received) = tokio::sync::mpsc::channel(4096);

    struct Counter(tokio::sync::mpsc::Sender<bool>);
    impl Reconciler for Counter {
        type Object = Deployment;
        async fn reconcile(&self, cx: &Context<Deployment>) -> Result<Action> {
            let Some(web) = cx.object() else { return Ok(Action::done()) };
            let status = cx.status(&web).set_in(|web| {
                web.metadata.labels = Some([("status".to_owned(), "only".to_owned())].into());
                web.status.get_or_insert_default().replicas = Some(3);
            });
            let _ = self.0.try_send(status.write().await?.is_some());
            Ok(Action::done())
        }
    }
    manager.controller(Counter(sender)).register().unwrap();
    let running = start(&manager);
    assert!(next(&mut received).await);
    assert!(!next(&mut received).await, "the second reconcile finds it as it left it");
    let stored = deployments.get("web").await.unwrap();
    let status = stored.status.clone().unwrap();
    assert_eq!((status.replicas, status.observed_generation), (Some(3), Some(1)));
    assert_eq!(stored.metadata.labels, None);

    // The whole status, by its only writer.
    let client = manager.client();
    let mut new = status.clone();
    (new.replicas, new.collision_count) = (None, Some(2));
    let written = client.patch_status(&stored, Some(&status), &new).await.unwrap().unwrap();
    assert_eq!(written.status.as_ref(), Some(&new));
    assert_eq!(client.patch_status(&*written, Some(&new), &new).await.unwrap(), None);
    deployments.delete("web", &Default::default()).await.unwrap();
    assert_eq!(client.patch_status(&stored, Some(&new), &status).await.unwrap(), None);
    stop(&manager, running).await;
}

#[tokio::test(start_paused = true)]
async fn delete_does_not_affect_another_object_of_the_same_name() {
    let world = World::new().await;
    let former = world.create_map("a").await;
    let maps = Api::<ConfigMap>::namespaced(world.admin(), "default");
    maps.delete("a", &Default::default()).await.unwrap();
    world.create_map("a").await;
    let manager = world.manager();
    let error = manager.client().delete(&former).await.unwrap_err();
    assert!(error.is_conflict(), "{error}");
    assert!(maps.get_opt("a").await.unwrap().is_some());
    assert!(!manager.client().delete(&map("gone")).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn conflicting_updates_are_retried_on_a_fresh_read() {
    let world = World::new().await;
    world.create_map("a").await;
    let manager = world.manager();
    let client = manager.client();
    let mut tries = 0;
    let written = retry_on_conflict(|| {
        tries += 1;
        let interfere = tries == 1;
        let admin = Api::<ConfigMap>::namespaced(world.admin(), "default");
        async move {
            let mut object = client.live().get::<ConfigMap>(&key("a")).await?.unwrap();
            if interfere {
                let theirs = evenkeel::kube::api::Patch::Merge(json!({"data": {"theirs": "1"}}));
                admin.patch("a", &Default::default(), &theirs).await.unwrap();
            }
            object.data.get_or_insert_default().insert("ours".into(), "1".into());
            client.update(&object).await
        }
    })
    .await
    .unwrap();
    assert_eq!(written.data.as_ref().unwrap().len(), 2);
    assert_eq!(tries, 2);
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_is_added_first_and_cleaned_up_once() {
    let world = World::new().await;
    world.create_map("a").await;
    let manager = world.manager();
    let (sender, mut received) = tokio::sync::mpsc::channel(4096);
    struct Dns(tokio::sync::mpsc::Sender<&'static str>);
    impl Reconciler for Dns {
        type Object = ConfigMap;
        async fn reconcile(&self, cx: &Context<ConfigMap>) -> Result<Action> {
            let sender = self.0.clone();
            let cleanup = |_| async move {
                let _ = sender.try_send("cleaned");
                Ok(())
            };
            match cx.finalize("example.com/dns", cleanup).await? {
                Some(map) => {
                    assert!(
                        map.metadata
                            .finalizers
                            .as_ref()
                            .unwrap()
                            .contains(&"example.com/dns".to_owned())
                    );
                    let _ = self.0.try_send("kept");
                }
                None => {
                    let _ = self.0.try_send("deleted");
                }
            }
            Ok(Action::done())
        }
    }
    manager.controller(Dns(sender)).register().unwrap();
    let running = start(&manager);
    assert_eq!(next(&mut received).await, "kept");
    let maps = Api::<ConfigMap>::namespaced(world.admin(), "default");
    // Adding the finalizer was an update.
    assert_eq!(next(&mut received).await, "kept");
    maps.delete("a", &Default::default()).await.unwrap();
    assert_eq!(next(&mut received).await, "cleaned");
    assert_eq!(next(&mut received).await, "deleted");
    assert!(maps.get_opt("a").await.unwrap().is_none());
    assert_eq!(next(&mut received).await, "deleted");
    quiet(&mut received).await;
    stop(&manager, running).await;
}

#[tokio::test(start_paused = true)]
async fn applied_children_are_owned_and_in_the_owners_namespace() {
    let world = World::new().await;
    let owner = world.create_map("owner").await;
    let manager = world.manager();
    let (sender, mut received) = tokio::sync::mpsc::channel(4096);
    struct Maker(tokio::sync::mpsc::Sender<Arc<Deployment>>);
    impl Reconciler for Maker {
        type Object = ConfigMap;
        async fn reconcile(&self, cx: &Context<ConfigMap>) -> Result<Action> {
            let child = json!({"metadata": {"name": "web"}, "spec": {"selector": {"matchLabels": {"a": "b"}},
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
            let child: Deployment = serde_json::from_value(child)?;
            let _ = self.0.try_send(cx.apply_owned(child).await?);
            Ok(Action::done())
        }
    }
    manager.controller(Maker(sender)).named("maker").owns::<Deployment>().register().unwrap();
    let running = start(&manager);
    let child = next(&mut received).await;
    assert_eq!(child.metadata.namespace.as_deref(), Some("default"));
    assert!(evenkeel::owner::is_controller(&owner, &*child));
    let managers = child.metadata.managed_fields.as_ref().unwrap();
    assert_eq!(managers[0].manager.as_deref(), Some("maker"));
    // Its creation triggers one more reconcile of the owner, which changes nothing.
    next(&mut received).await;
    quiet(&mut received).await;
    stop(&manager, running).await;
    let _ = each::<ConfigMap, _, _>(|_, _, _| async { Ok(Action::done()) });
}

#[tokio::test(start_paused = true)]
async fn status_updates_of_one_reconcile_are_cumulative() {
    let world = World::new().await;
    let deployments = Api::<Deployment>::namespaced(world.admin(), "default");
    deployments.create(&Default::default(), &deployment("web")).await.unwrap();
    let manager = world.manager();
    let (sender, mut received) = tokio::sync::mpsc::channel(4096);
    let reconciler =
        evenkeel::reconciler_fn(move |web: Arc<Deployment>, cx: Context<Deployment>| {
            let sender = sender.clone();
            async move {
                // Both start from the initially read object.
                cx.status(&web)
                    .condition(Condition::new("Ready", false, "Starting", ""))
                    .write()
                    .await?;
                cx.status(&web)
                    .condition(Condition::new("Checked", true, "Seen", ""))
                    .write()
                    .await?;
                let _ = sender.try_send(());
                Ok(Action::done())
            }
        });
    manager.controller(reconciler).register().unwrap();
    let running = start(&manager);
    next(&mut received).await;
    quiet_after(&mut received).await;
    let status = deployments.get("web").await.unwrap().status.unwrap();
    let names: Vec<_> = status.conditions.unwrap().into_iter().map(|c| c.type_).collect();
    assert_eq!(names, ["Ready", "Checked"]);
    stop(&manager, running).await;
}

async fn quiet_after(received: &mut tokio::sync::mpsc::Receiver<()>) {
    while tokio::time::timeout(Duration::from_secs(60), received.recv()).await.is_ok() {}
}

#[tokio::test(start_paused = true)]
async fn status_update_keeps_changes_of_other_writers() {
    let world = World::new().await;
    let deployments = Api::<Deployment>::namespaced(world.admin(), "default");
    deployments.create(&Default::default(), &deployment("web")).await.unwrap();
    world.freeze();
    let manager = world.manager();
    let (sender, mut received) = tokio::sync::mpsc::channel(4096);
    let other = deployments.clone();
    let reconciler = evenkeel::reconciler_fn(
        move |web: Arc<Deployment>, cx: Context<Deployment>| {
            let (sender, other) = (sender.clone(), other.clone());
            async move {
                if cx.failures() == 0 {
                    let theirs = json!({"status": {"readyReplicas": 0, "replicas": 7, "conditions": [
                    {"type": "Theirs", "status": "True", "reason": "R", "message": "m"}]}});
                    other.patch_status("web", &Default::default(), &Patch::Merge(theirs)).await?;
                }
                let status = cx.status(&web).condition(Condition::new("Ours", true, "Seen", ""));
                let written = status.write().await;
                let _ = sender.try_send(written.as_ref().err().map(|error| error.is_conflict()));
                written?;
                Ok(Action::done())
            }
        },
    );
    manager.controller(reconciler).register().unwrap();
    let running = start(&manager);
    assert_eq!(next(&mut received).await, Some(true), "another writer was faster");
    assert_eq!(next(&mut received).await, None, "the retry reads the new state");
    let status = deployments.get("web").await.unwrap().status.unwrap();
    let names: Vec<_> = status.conditions.unwrap().into_iter().map(|c| c.type_).collect();
    assert_eq!(names, ["Theirs", "Ours"]);
    assert_eq!(status.replicas, Some(7));
    stop(&manager, running).await;
}

#[tokio::test(start_paused = true)]
async fn failed_clean_up_records_a_warning_event() {
    use evenkeel::k8s_openapi::api::events::v1::Event;
    let world = World::new().await;
    let mut object = map("a");
    object.metadata.finalizers = Some(vec!["example.com/x".to_owned()]);
    let maps = Api::<ConfigMap>::namespaced(world.admin(), "default");
    maps.create(&Default::default(), &object).await.unwrap();
    maps.delete("a", &Default::default()).await.unwrap();
    let manager = world.manager();
    let (sender, mut received) = tokio::sync::mpsc::channel(4096);
    let reconciler = evenkeel::reconciler_fn(move |_: Arc<ConfigMap>, cx: Context<ConfigMap>| {
        let sender = sender.clone();
        async move {
            let failing = |_| async { Err("the bucket is not empty".into()) };
            let ended = cx.finalize("example.com/x", failing).await;
            let _ = sender.try_send(());
            ended.map(|_| Action::done())
        }
    });
    manager.controller(reconciler).register().unwrap();
    let running = start(&manager);
    next(&mut received).await;
    next(&mut received).await;
    stop(&manager, running).await;
    let events = Api::<Event>::namespaced(world.admin(), "default");
    let events = events.list(&Default::default()).await.unwrap().items;
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].note.as_deref(), Some("example.com/x: the bucket is not empty"));
}

#[tokio::test(start_paused = true)]
async fn fields_unknown_to_the_type_survive_an_update() {
    use evenkeel::k8s_openapi::api::core::v1::ServiceAccount;
    use evenkeel::k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
    use std::borrow::Cow;

    /// A ServiceAccount type without its tokens.
    #[derive(Clone, Debug, Default, serde::Deserialize, serde::Serialize)]
    struct Account {
        metadata: ObjectMeta,
    }
    impl Resource for Account {
        type DynamicType = ();
        type Scope = evenkeel::k8s_openapi::NamespaceResourceScope;
        fn kind((): &()) -> Cow<'_, str> {
            "ServiceAccount".into()
        }
        fn group((): &()) -> Cow<'_, str> {
            "".into()
        }
        fn version((): &()) -> Cow<'_, str> {
            "v1".into()
        }
        fn plural((): &()) -> Cow<'_, str> {
            "serviceaccounts".into()
        }
        fn meta(&self) -> &ObjectMeta {
            &self.metadata
        }
        fn meta_mut(&mut self) -> &mut ObjectMeta {
            &mut self.metadata
        }
    }

    let world = World::new().await;
    let accounts = Api::<ServiceAccount>::namespaced(world.admin(), "default");
    let mut account = ServiceAccount::default();
    account.metadata.name = Some("a".to_owned());
    account.automount_service_account_token = Some(false);
    accounts.create(&Default::default(), &account).await.unwrap();
    let manager = world.manager();
    manager.caches::<Account>(TypeOptions::new()).unwrap();
    let running = start(&manager);
    let label = |account: &mut Account| {
        account.metadata.labels = Some([("a".to_owned(), "b".to_owned())].into());
    };
    let client = manager.client();
    let (_, changed) = client.create_or_update::<Account>(&key("a"), label).await.unwrap();
    assert_eq!(changed, evenkeel::OperationResult::Updated);
    let (_, changed) = client.create_or_update::<Account>(&key("a"), label).await.unwrap();
    assert_eq!(changed, evenkeel::OperationResult::None);
    let stored = accounts.get("a").await.unwrap();
    assert_eq!(stored.automount_service_account_token, Some(false));
    assert!(stored.metadata.labels.is_some());
    stop(&manager, running).await;
}

#[tokio::test(start_paused = true)]
async fn owned_apply_does_not_change_objects_of_other_controllers() {
    let world = World::new().await;
    world.create_map("owner").await;
    let theirs = world.create_map("child").await;
    let manager = world.manager();
    let (sender, mut received) = tokio::sync::mpsc::channel(4096);
    struct Maker(tokio::sync::mpsc::Sender<String>);
    impl Reconciler for Maker {
        type Object = ConfigMap;
        async fn reconcile(&self, cx: &Context<ConfigMap>) -> Result<Action> {
            if cx.key().name() == "owner" {
                let mut child = ConfigMap::default();
                child.metadata.name = Some("child".to_owned());
                let refused = cx.apply_owned(child.clone()).force().await.unwrap_err();
                let _ = self.0.try_send(refused.to_string());
                let (owner, found) =
                    (cx.object().unwrap(), cx.client().get(&cx.key().sibling("child")).await?);
                cx.client().adopt(&*owner, &*found.unwrap() as &ConfigMap).await?;
                let applied = cx.apply_owned(child).force().await?;
                let _ = self
                    .0
                    .try_send(format!("{}", evenkeel::owner::is_controller(&*owner, &*applied)));
            }
            Ok(Action::done())
        }
    }
    manager.controller(Maker(sender)).named("maker").register().unwrap();
    let running = start(&manager);
    let refused = next(&mut received).await;
    assert_eq!(
        refused,
        "apply ConfigMap default/child: the object exists and is not controlled by ConfigMap \
         default/owner; adopt it first"
    );
    assert_eq!(next(&mut received).await, "true");
    let maps = Api::<ConfigMap>::namespaced(world.admin(), "default");
    assert_eq!(maps.get("child").await.unwrap().metadata.uid, theirs.metadata.uid);
    stop(&manager, running).await;
}
