//! Several clusters under one manager.

use std::time::Duration;

use evenkeel::k8s_openapi::api::core::v1::{ConfigMap, Secret};
use evenkeel::k8s_openapi::api::events::v1::Event;
use evenkeel::kube::api::{DeleteParams, PostParams};
use evenkeel::kube::{Api, Client};
use evenkeel::prelude::*;
use evenkeel::{EngageError, Source};
use tokio::sync::mpsc;

use crate::harness::{Fault, World, key, map, next, quiet, start, stop, until};

/// Sends the cluster and the name of each reconciled object.
struct Seen(mpsc::Sender<String>);

impl Reconciler for Seen {
    type Object = ConfigMap;

    async fn reconcile(&self, cx: &Context<ConfigMap>) -> Result<Action> {
        let state = if cx.object().is_some() { "" } else { " gone" };
        let name = cx.cluster_name().unwrap_or("own");
        let _ = self.0.try_send(format!("{name} {}{state}", cx.key().name()));
        Ok(Action::done())
    }
}

async fn sorted(receiver: &mut mpsc::Receiver<String>, number: usize) -> Vec<String> {
    let mut all = Vec::new();
    for _ in 0..number {
        all.push(next(receiver).await);
    }
    all.sort();
    all
}

#[tokio::test(start_paused = true)]
async fn one_controller_reconciles_clusters_that_come_and_go() {
    let (own, east, west) = (World::new().await, World::new().await, World::new().await);
    own.create_map("o").await;
    east.create_map("a").await;
    west.create_map("a").await;
    let manager = own.manager();
    let (sender, mut seen) = mpsc::channel(64);
    let builder = manager.controller(Seen(sender)).named("seen");
    let controller = builder.clusters(ClusterSelection::Engaged).register().unwrap();
    manager.clusters().engage("east", east.client()).unwrap();
    let running = start(&manager);
    // Neither the manager's own cluster nor one that is not engaged is watched.
    assert_eq!(next(&mut seen).await, "east a");
    quiet(&mut seen).await;
    manager.clusters().engage("west", west.client()).unwrap();
    assert_eq!(next(&mut seen).await, "west a");
    // The same key in two clusters is two keys.
    for world in [&east, &west] {
        let maps = Api::<ConfigMap>::namespaced(world.admin(), "default");
        maps.delete("a", &DeleteParams::default()).await.unwrap();
    }
    assert_eq!(sorted(&mut seen, 2).await, ["east a gone", "west a gone"]);
    controller.enqueue(key("b").in_cluster("west"), "requested");
    assert_eq!(next(&mut seen).await, "west b gone");
    let records = controller.journal().records();
    assert_eq!(records.last().unwrap().key.cluster_name(), Some("west"));
    // A disengaged cluster is not watched, and its keys are dropped.
    assert!(manager.clusters().disengage("east").await);
    assert!(!manager.clusters().disengage("east").await);
    east.create_map("late").await;
    controller.enqueue(key("late").in_cluster("east"), "requested");
    quiet(&mut seen).await;
    assert!(controller.queue().is_empty());
    // It can be engaged again.
    manager.clusters().engage("east", east.client()).unwrap();
    assert_eq!(next(&mut seen).await, "east late");
    stop(&manager, running).await;
    let error = manager.clusters().engage("north", east.client()).unwrap_err();
    assert!(matches!(error, EngageError::Stopping));
}

#[tokio::test(start_paused = true)]
async fn own_cluster_can_be_included() {
    let (own, east) = (World::new().await, World::new().await);
    own.create_map("a").await;
    east.create_map("a").await;
    let manager = own.manager();
    let (sender, mut seen) = mpsc::channel(64);
    manager.controller(Seen(sender)).clusters(ClusterSelection::All).register().unwrap();
    manager.clusters().engage("east", east.client()).unwrap();
    let running = start(&manager);
    assert_eq!(sorted(&mut seen, 2).await, ["east a", "own a"]);
    stop(&manager, running).await;
}

/// Writes a Secret beside each ConfigMap, and an event.
struct Companions;

impl Reconciler for Companions {
    type Object = ConfigMap;

    async fn reconcile(&self, cx: &Context<ConfigMap>) -> Result<Action> {
        if cx.object().is_none() {
            return Ok(Action::done());
        }
        let mut secret = Secret::default();
        secret.metadata.name = Some(cx.key().name().to_owned());
        cx.apply_owned(secret).await?;
        cx.event("Applied", "Applied the Secret");
        Ok(Action::done())
    }
}

async fn companion(client: Client, name: &str) -> Option<Secret> {
    Api::<Secret>::namespaced(client, "default").get_opt(name).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn children_and_events_are_written_to_the_cluster_of_the_object() {
    let (own, east, west) = (World::new().await, World::new().await, World::new().await);
    east.create_map("a").await;
    west.create_map("b").await;
    let manager = own.manager();
    let secrets = TypeOptions::new().cluster_wide_secrets();
    let builder = manager.controller(Companions).named("companions").owns_with::<Secret>(secrets);
    let controller = builder.clusters(ClusterSelection::Engaged).register().unwrap();
    for (name, world) in [("east", &east), ("west", &west)] {
        manager.clusters().engage(name, world.client()).unwrap();
    }
    let running = start(&manager);
    until(|| controller.reconcile_counts().success >= 2).await;
    // A deleted child is restored: its owner is found in the same cluster.
    let before = controller.reconcile_counts().success;
    let secrets = Api::<Secret>::namespaced(west.admin(), "default");
    secrets.delete("b", &DeleteParams::default()).await.unwrap();
    until(|| controller.reconcile_counts().success > before).await;
    stop(&manager, running).await;
    let secret = companion(east.admin(), "a").await.unwrap();
    let manager = secret.metadata.managed_fields.unwrap()[0].manager.clone();
    assert_eq!(manager.as_deref(), Some("companions"));
    assert!(companion(west.admin(), "b").await.is_some());
    assert!(companion(own.admin(), "a").await.is_none());
    for (world, expected) in [(&own, 0), (&east, 1), (&west, 1)] {
        let events = Api::<Event>::namespaced(world.admin(), "default");
        assert_eq!(events.list(&Default::default()).await.unwrap().items.len(), expected);
    }
}

/// Copies each ConfigMap of the manager's own cluster to all others.
struct Copies;

impl Reconciler for Copies {
    type Object = ConfigMap;

    async fn reconcile(&self, cx: &Context<ConfigMap>) -> Result<Action> {
        let Some(map) = cx.object() else { return Ok(Action::done()) };
        for name in cx.cluster_names() {
            let Some(client) = cx.cluster(&name) else { continue };
            let mut copy = ConfigMap { data: map.data.clone(), ..ConfigMap::default() };
            copy.metadata.name = map.metadata.name.clone();
            copy.metadata.namespace = map.metadata.namespace.clone();
            client.apply(&copy).force().await?;
        }
        Ok(Action::done())
    }
}

#[tokio::test(start_paused = true)]
async fn object_in_one_cluster_has_children_in_others() {
    let (own, east) = (World::new().await, World::new().await);
    own.create_map("a").await;
    let manager = own.manager();
    let back = Watch::mapped(|copy: &ConfigMap, cx| {
        assert_eq!(cx.cluster_name(), Some("east"));
        vec![Key::of(copy)]
    });
    let all: Source = manager.clusters().changes(|cx| cx.select::<ConfigMap>().keys());
    let builder = manager.controller(Copies).watch(back.in_engaged_clusters()).source(all);
    let controller = builder.register().unwrap();
    let running = start(&manager);
    until(|| controller.reconcile_counts().success >= 1).await;
    manager.clusters().engage("east", east.client()).unwrap();
    let east_maps = Api::<ConfigMap>::namespaced(east.admin(), "default");
    until(|| controller.reconcile_counts().success >= 2).await;
    let client = manager.clusters().get("east").unwrap().client().clone();
    client.wait_for::<ConfigMap>(&key("a"), |copy| copy.is_some()).await.unwrap();
    // A deleted copy is restored.
    let before = controller.reconcile_counts().success;
    east_maps.delete("a", &DeleteParams::default()).await.unwrap();
    until(|| controller.reconcile_counts().success > before).await;
    client.wait_for::<ConfigMap>(&key("a"), |copy| copy.is_some()).await.unwrap();
    let records = controller.journal().records();
    let last = records.last().unwrap();
    assert_eq!(last.key.cluster_name(), None);
    assert!(
        records.iter().any(|it| it.causes.to_string().contains("east:default/a")),
        "{records:?}"
    );
    stop(&manager, running).await;
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_hangs_delays_no_other_and_can_be_disengaged() {
    let (own, east, west) = (World::new().await, World::new().await, World::new().await);
    east.rule(|_| Fault::Hang);
    west.create_map("a").await;
    let manager = own.manager();
    let (sender, mut seen) = mpsc::channel(64);
    let builder = manager.controller(Seen(sender)).named("seen");
    let controller = builder.clusters(ClusterSelection::Engaged).register().unwrap();
    for (name, world) in [("east", &east), ("west", &west)] {
        manager.clusters().engage(name, world.client()).unwrap();
    }
    let running = start(&manager);
    assert_eq!(next(&mut seen).await, "west a");
    // The only worker waits for the cache of the cluster, until the cluster is disengaged.
    controller.enqueue(key("a").in_cluster("east"), "requested");
    until(|| controller.reconcile_counts().active == 1).await;
    let begun = tokio::time::Instant::now();
    assert!(manager.clusters().disengage("east").await);
    west.create_map("b").await;
    assert_eq!(next(&mut seen).await, "west b");
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    stop(&manager, running).await;
}

#[tokio::test(start_paused = true)]
async fn types_of_engaged_clusters_are_checked_at_registration() {
    let manager = World::new().await.manager();
    let engaged = |builder: evenkeel::controller::ControllerBuilder<'_, Companions>| {
        builder.clusters(ClusterSelection::Engaged).register()
    };
    let error = engaged(manager.controller(Companions).named("all").owns::<Secret>()).unwrap_err();
    assert!(evenkeel::chain(&error).contains("cluster_wide_secrets"), "{error:?}");
    let metadata = TypeOptions::new().metadata_only();
    engaged(manager.controller(Companions).named("one").reads_with::<Secret>(metadata)).unwrap();
    let whole = TypeOptions::new().cluster_wide_secrets();
    let other = manager.controller(Companions).named("other").owns_with::<Secret>(whole);
    let error = engaged(other).unwrap_err();
    assert!(matches!(error, RegisterError::Watch { .. }), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn invalid_and_repeated_names_are_rejected() {
    let own = World::new().await;
    let clusters = own.manager().clusters().clone();
    for name in ["", "a%b"] {
        let error = clusters.engage(name, own.client()).unwrap_err();
        assert!(matches!(error, EngageError::InvalidName { .. }), "{error}");
    }
    clusters.engage("east", own.client()).unwrap();
    let error = clusters.engage("east", own.client()).unwrap_err();
    assert_eq!(error.to_string(), "a cluster named \"east\" is already engaged");
    assert_eq!(clusters.list().iter().map(|it| it.name().to_owned()).collect::<Vec<_>>(), ["east"]);
}

#[tokio::test(start_paused = true)]
async fn indexes_exist_in_each_cluster() {
    let (own, east) = (World::new().await, World::new().await);
    let maps = Api::<ConfigMap>::namespaced(east.admin(), "default");
    let mut labelled = map("a");
    labelled.data = Some([("team".to_owned(), "blue".to_owned())].into());
    maps.create(&PostParams::default(), &labelled).await.unwrap();
    let manager = own.manager();
    manager.clusters().index("team", |map: &ConfigMap| {
        map.data.iter().filter_map(|data| data.get("team").cloned()).collect()
    });
    let (sender, mut seen) = mpsc::channel(64);
    let builder = manager.controller(Seen(sender));
    builder.clusters(ClusterSelection::Engaged).register().unwrap();
    let cluster = manager.clusters().engage("east", east.client()).unwrap();
    let running = start(&manager);
    next(&mut seen).await;
    let found = cluster.client().list::<ConfigMap>().index("team", "blue").await.unwrap();
    assert_eq!(found.len(), 1);
    stop(&manager, running).await;
}
