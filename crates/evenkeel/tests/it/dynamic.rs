//! Reconcilers of types that are known only at run time.

use evenkeel::k8s_openapi::api::core::v1::ConfigMap;
use evenkeel::k8s_openapi::api::events::v1::Event;
use evenkeel::k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use evenkeel::kube::Api;
use evenkeel::kube::core::{DynamicObject, GroupVersionKind, TypeMeta};
use evenkeel::owner;
use evenkeel::prelude::*;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::harness::{World, key, map, next, quiet, start, stop, until};

/// A CRD with a status subresource and these fields in `status` and in its conditions.
fn crd(status: &[&str], condition: &[&str]) -> CustomResourceDefinition {
    let integers = |names: &[&str]| -> serde_json::Map<String, Value> {
        names.iter().map(|name| ((*name).to_owned(), json!({"type": "integer"}))).collect()
    };
    let mut condition = integers(condition);
    for name in ["type", "status", "reason", "message", "lastTransitionTime"] {
        condition.insert(name.to_owned(), json!({"type": "string"}));
    }
    let mut status = integers(status);
    status.insert("phase".to_owned(), json!({"type": "string"}));
    let item = json!({"type": "object", "properties": condition});
    status.insert("conditions".to_owned(), json!({"type": "array", "items": item}));
    serde_json::from_value(json!({
        "metadata": {"name": "websites.example.com"},
        "spec": {
            "group": "example.com",
            "names": {"kind": "Website", "plural": "websites"},
            "scope": "Namespaced",
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": {"width": {"type": "integer"}}},
                    "status": {"type": "object", "properties": status},
                }}},
            }],
        },
    }))
    .unwrap()
}

fn gvk(kind: &str) -> GroupVersionKind {
    GroupVersionKind::gvk("example.com", "v1", kind)
}

fn website(name: &str) -> DynamicObject {
    let types = TypeMeta { api_version: "example.com/v1".to_owned(), kind: "Website".to_owned() };
    let metadata = map(name).metadata;
    DynamicObject { types: Some(types), metadata, data: json!({"spec": {"width": 3}}) }
}

/// Writes a ConfigMap, the status and an event for each object, and has a finalizer.
struct Websites(mpsc::Sender<&'static str>);

impl Reconciler for Websites {
    type Object = DynamicObject;

    async fn reconcile(&self, cx: &Context<DynamicObject>) -> Result<Action> {
        let clean_up = |_| {
            let _ = self.0.try_send("cleaned up");
            async { Ok(()) }
        };
        let Some(website) = cx.finalize("example.com/pages", clean_up).await? else {
            return Ok(Action::done());
        };
        let mut child = map("");
        child.metadata.name = Some(format!("{}-pages", cx.key().name()));
        child.metadata.namespace = None;
        child.data = Some([("width".to_owned(), website.data["spec"]["width"].to_string())].into());
        cx.apply_owned(child).await?;
        let written = cx
            .status(&website)
            .set_in(|website| website.data["status"]["phase"] = json!("Filled"))
            .condition(Condition::new("Ready", true, "Filled", "All pages are here"))
            .write()
            .await?;
        cx.event("Filled", &format!("Filled the {}", cx.kind().kind()));
        let _ = self.0.try_send(if written.is_some() { "changed" } else { "unchanged" });
        Ok(Action::done())
    }
}

#[tokio::test(start_paused = true)]
async fn dynamic_reconciler_has_children_finalizers_status_and_events() {
    let world = World::new().await;
    let manager = world.manager();
    let client = manager.client();
    let crd = crd(&["observedGeneration"], &["observedGeneration"]);
    client.install_crd_from(&crd).await.unwrap();
    let kind = client.discover(&gvk("Website")).await.unwrap();
    assert_eq!((kind.plural(), kind.namespaced()), ("websites", true));

    let (sender, mut received) = mpsc::channel(4096);
    let controller = manager
        .dynamic_controller(&kind, Websites(sender))
        .owns::<ConfigMap>()
        .filter_object(predicate::generation_changed())
        .register()
        .unwrap();
    assert_eq!(controller.name(), "website");
    let running = start(&manager);
    let websites = client.dynamic(&kind);
    let created = websites.create(&website("a")).await.unwrap();
    assert_eq!(next(&mut received).await, "changed");

    let maps = Api::<ConfigMap>::namespaced(world.admin(), "default");
    let pages = maps.get("a-pages").await.unwrap();
    assert_eq!(pages.data.as_ref().unwrap()["width"], "3");
    assert!(owner::is_controller(&*created, &pages));
    let reference = &pages.metadata.owner_references.as_ref().unwrap()[0];
    let referenced = (reference.api_version.as_str(), reference.kind.as_str());
    assert_eq!(referenced, ("example.com/v1", "Website"));
    let stored = websites.get(&key("a")).await.unwrap().unwrap();
    assert_eq!(stored.metadata.finalizers.as_deref().unwrap(), ["example.com/pages"]);
    let status = &stored.data["status"];
    assert_eq!((&status["phase"], &status["observedGeneration"]), (&json!("Filled"), &json!(1)));
    assert_eq!(status["conditions"][0]["observedGeneration"], 1);

    // A change of the child enqueues its owner, which reverts it.
    while let Ok(Some(_)) = tokio::time::timeout(Duration::from_secs(1), received.recv()).await {}
    maps.delete("a-pages", &Default::default()).await.unwrap();
    assert_eq!(next(&mut received).await, "unchanged");
    assert!(maps.get_opt("a-pages").await.unwrap().is_some());

    assert!(websites.delete_by_key(&key("a")).await.unwrap());
    while next(&mut received).await != "cleaned up" {}
    until(|| manager.cache().get(&kind, &key("a")).unwrap().is_none()).await;
    stop(&manager, running).await;
    let events = Api::<Event>::namespaced(world.admin(), "default");
    let events = events.list(&Default::default()).await.unwrap().items;
    let filled = events.iter().find(|event| event.reason.as_deref() == Some("Filled")).unwrap();
    assert_eq!(filled.note.as_deref(), Some("Filled the Website"));
    let regarding = filled.regarding.as_ref().unwrap();
    assert_eq!(regarding.api_version.as_deref(), Some("example.com/v1"));
    assert_eq!(regarding.uid, created.metadata.uid);
}

#[tokio::test(start_paused = true)]
async fn status_omits_the_automatic_fields_that_the_schema_lacks() {
    for (status, condition) in [(&[][..], &["observedGeneration"][..]), (&[], &[])] {
        let world = World::new().await;
        let manager = world.manager();
        let client = manager.client();
        client.install_crd_from(&crd(status, condition)).await.unwrap();
        let kind = client.discover(&gvk("Website")).await.unwrap();
        let (sender, mut received) = mpsc::channel(4096);
        let controller = manager
            .dynamic_controller(&kind, Websites(sender))
            .filter_object(predicate::generation_changed())
            .register()
            .unwrap();
        let running = start(&manager);
        client.dynamic(&kind).create(&website("a")).await.unwrap();
        assert_eq!(next(&mut received).await, "changed");
        let stored = client.dynamic(&kind).get(&key("a")).await.unwrap().unwrap();
        let (status, first) = (&stored.data["status"], &stored.data["status"]["conditions"][0]);
        assert_eq!(status["phase"], "Filled");
        assert!(status.get("observedGeneration").is_none());
        assert_eq!(first.get("observedGeneration").is_some(), !condition.is_empty());

        // The schema is known now: the next update is sent once.
        quiet(&mut received).await;
        world.requests();
        client.dynamic(&kind).create(&website("b")).await.unwrap();
        assert_eq!(next(&mut received).await, "changed");
        let requests = world.requests();
        let status = requests.iter().filter(|request| request.contains("b/status"));
        assert_eq!(status.count(), 1, "{requests:?}");
        assert_eq!(controller.reconcile_counts().error, 0);
        stop(&manager, running).await;
    }
}

#[tokio::test(start_paused = true)]
async fn rejected_status_is_the_error_of_the_first_attempt() {
    struct Wrong(mpsc::Sender<evenkeel::client::Error>);
    impl Reconciler for Wrong {
        type Object = DynamicObject;
        async fn reconcile(&self, cx: &Context<DynamicObject>) -> Result<Action> {
            let Some(website) = cx.object() else { return Ok(Action::done()) };
            let update =
                cx.status(&website).set_in(|website| website.data["status"]["phase"] = json!(7));
            let _ = self.0.try_send(update.write().await.unwrap_err());
            Ok(Action::done())
        }
    }

    let world = World::new().await;
    let manager = world.manager();
    let client = manager.client();
    let crd = crd(&["observedGeneration"], &["observedGeneration"]);
    client.install_crd_from(&crd).await.unwrap();
    let kind = client.discover(&gvk("Website")).await.unwrap();
    let (sender, mut received) = mpsc::channel(16);
    manager.dynamic_controller(&kind, Wrong(sender)).register().unwrap();
    let running = start(&manager);
    client.dynamic(&kind).create(&website("a")).await.unwrap();
    let error = next(&mut received).await;
    assert!(error.is_invalid(), "{error}");
    stop(&manager, running).await;
}

#[tokio::test(start_paused = true)]
async fn kinds_known_at_run_time_are_watched_and_read() {
    struct Reads(Kind, mpsc::Sender<(Key, bool)>);
    impl Reconciler for Reads {
        type Object = ConfigMap;
        async fn reconcile(&self, cx: &Context<ConfigMap>) -> Result<Action> {
            let found = cx.client().dynamic(&self.0).get(cx.key()).await?;
            let _ = self.1.try_send((cx.key().clone(), found.is_some()));
            Ok(Action::done())
        }
    }

    let world = World::new().await;
    world.create_map("a").await;
    let manager = world.manager();
    let client = manager.client();
    client.install_crd_from(&crd(&[], &[])).await.unwrap();
    let kind = client.discover(&gvk("Website")).await.unwrap();
    let (sender, mut received) = mpsc::channel(4096);
    manager
        .controller(Reads(kind.clone(), sender))
        .watches_kind(&kind, |website, _| match website.data["spec"]["width"].as_i64() {
            Some(3) => vec![Key::of(website)],
            _ => Vec::new(),
        })
        .register()
        .unwrap();
    let running = start(&manager);
    assert_eq!(next(&mut received).await, (key("a"), false));
    client.dynamic(&kind).create(&website("a")).await.unwrap();
    assert_eq!(next(&mut received).await, (key("a"), true));

    quiet(&mut received).await;
    let wide = Patch::Merge(json!({"spec": {"width": 4}}));
    client.dynamic(&kind).patch(&key("a"), &wide).await.unwrap();
    // The state before the change is mapped, too.
    assert_eq!(next(&mut received).await, (key("a"), true));
    let wider = Patch::Merge(json!({"spec": {"width": 5}}));
    client.dynamic(&kind).patch(&key("a"), &wider).await.unwrap();
    quiet(&mut received).await;
    stop(&manager, running).await;
}

#[tokio::test(start_paused = true)]
async fn dynamic_child_is_owned_by_a_typed_object() {
    struct Parent(Kind, mpsc::Sender<Key>);
    impl Reconciler for Parent {
        type Object = ConfigMap;
        async fn reconcile(&self, cx: &Context<ConfigMap>) -> Result<Action> {
            let Some(_) = cx.object() else { return Ok(Action::done()) };
            let mut child = website(cx.key().name());
            child.metadata.namespace = None;
            cx.apply_owned_dynamic(&self.0, child).await?;
            let _ = self.1.try_send(cx.key().clone());
            Ok(Action::done())
        }
    }

    let world = World::new().await;
    let parent = world.create_map("a").await;
    let manager = world.manager();
    let client = manager.client();
    client.install_crd_from(&crd(&[], &[])).await.unwrap();
    let kind = client.discover(&gvk("Website")).await.unwrap();
    let (sender, mut received) = mpsc::channel(4096);
    let controller = manager.controller(Parent(kind.clone(), sender)).owns_kind(&kind);
    controller.register().unwrap();
    let running = start(&manager);
    next(&mut received).await;
    let child = client.dynamic(&kind).get(&key("a")).await.unwrap().unwrap();
    assert!(owner::is_controller(&parent, &*child));
    while let Ok(Some(_)) = tokio::time::timeout(Duration::from_secs(1), received.recv()).await {}
    assert!(client.dynamic(&kind).delete_by_key(&key("a")).await.unwrap());
    next(&mut received).await;
    assert!(client.dynamic(&kind).get(&key("a")).await.unwrap().is_some());
    stop(&manager, running).await;
}

#[tokio::test(start_paused = true)]
async fn kind_that_is_not_served_is_named() {
    let world = World::new().await;
    let manager = world.manager();
    let client = manager.client();
    let error = client.discover(&gvk("Website")).await.unwrap_err();
    assert!(error.is_not_found(), "{error}");
    let message = "the API server does not serve Website.example.com/v1: install its CRD, or a \
                   version of the CRD that serves \"v1\"";
    assert_eq!(error.to_string(), message);
    client.install_crd_from(&crd(&[], &[])).await.unwrap();
    assert!(client.discover(&gvk("Page")).await.unwrap_err().is_not_found());
    let pods = client.discover(&GroupVersionKind::gvk("", "v1", "Pod")).await.unwrap();
    assert_eq!(pods, Kind::of::<evenkeel::k8s_openapi::api::core::v1::Pod>());
    let deployments = GroupVersionKind::gvk("apps", "v1", "Deployment");
    let deployments = client.discover(&deployments).await.unwrap();
    assert_eq!(deployments, Kind::of::<evenkeel::k8s_openapi::api::apps::v1::Deployment>());
    world.rule(|_| crate::harness::Fault::Respond(503, "{}"));
    assert!(client.discover(&gvk("Website")).await.unwrap_err().is_retryable());
}
