//! The garbage collector: deletes objects whose owners no longer exist.
//!
//! It watches the metadata of every deletable type and keeps a [`graph`] of owners and dependents
//! by uid. Objects whose owners may be absent are enqueued by uid. [`Collector::process`] decides
//! from the current state, not from the event: it deletes the object, removes owner references,
//! orphans its dependents, or does nothing.
//!
//! Invariant: no object is deleted while one of its owners might exist. An owner is absent only if
//! its deletion was observed, or if a live read by name in the dependent's namespace returned no
//! object with that uid. A delete carries the uid and resourceVersion of the object that was
//! classified.

mod graph;

mod classify;

#[cfg(test)]
mod tests;

mod write;

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use evenkeel::cache::{Cache, Entry, Owner, Subscription, TypeOptions};
use evenkeel::client::{Client, Error};
use evenkeel::manager::Stop;
use evenkeel::queue::{AddOptions, Item, Queue};
use evenkeel::{BoxError, EventRecorder, Key, Kind, Manager, ObjectEvent, Uid};
use futures_util::FutureExt as _;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use parking_lot::{Mutex, RwLock};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::timeout;

use self::graph::{Graph, Identity, State};
use crate::discovery::{Type, Types};
use crate::options::ClusterOptions;

/// The name in `kube-controller-manager`.
pub(crate) const NAME: &str = "garbage-collector-controller";

/// How many objects are processed concurrently.
const WORKERS: usize = 8;

/// How long types may take to sync before processing starts without them, as upstream.
const SYNC_TIMEOUT: Duration = Duration::from_secs(30);

/// How often discovery is repeated when no CRD has changed, as upstream: a server may store a CRD
/// before it serves the type, and not every type has a CRD.
const REDISCOVER_INTERVAL: Duration = Duration::from_secs(30);

/// How long to wait before a failed discovery is retried.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Registers the garbage collector.
pub(crate) fn register(manager: &Manager, options: &ClusterOptions) -> Result<(), BoxError> {
    let collector = Collector::new(manager, options);
    manager.spawn(NAME, |stop| collector.run(stop))?;
    Ok(())
}

struct Collector {
    client: Client,
    event_recorder: EventRecorder,
    /// The resources that are watched, if not all.
    resources: Option<BTreeSet<String>>,
    graph: Mutex<Graph>,
    types: RwLock<Types>,
    queue: Queue<Uid, ()>,
    /// Types may have been added or removed.
    changed: Notify,
    /// CRDs that were deleted.
    deleted_crds: Mutex<BTreeSet<String>>,
}

/// The result of processing an object.
enum Outcome {
    /// Nothing to do until the object changes.
    Done,
    /// Requeue the object.
    Requeue,
}

impl Collector {
    fn new(manager: &Manager, options: &ClusterOptions) -> Arc<Self> {
        Arc::new(Self {
            resources: options.gc_resources.clone(),
            event_recorder: manager.event_recorder(NAME),
            client: manager.client().with_field_manager(NAME),
            graph: Mutex::default(),
            types: RwLock::default(),
            queue: Queue::default(),
            changed: Notify::new(),
            deleted_crds: Mutex::default(),
        })
    }

    async fn run(self: Arc<Self>, stop: Stop) -> evenkeel::Result<()> {
        let mut workers = JoinSet::new();
        tokio::select! {
            biased;
            () = stop.requested() => {}
            never = self.run_discovery(&mut workers) => match never {},
        }
        self.queue.shutdown();
        while workers.join_next().await.is_some() {}
        Ok(())
    }

    fn cache(&self) -> &Cache {
        self.client.cache()
    }

    /// Watches the discovered types. Workers start once the initial objects are listed.
    async fn run_discovery(self: &Arc<Self>, workers: &mut JoinSet<()>) -> Infallible {
        // CRDs are watched before discovery, so that no type added meanwhile is missed.
        let crds = self.watch_crds();
        if let Some(crds) = &crds
            && matches!(timeout(SYNC_TIMEOUT, crds.wait_until_synced()).await, Ok(Ok(())))
        {
            // The first discovery includes the types of the CRDs that were listed.
            _ = self.changed.notified().now_or_never();
        }
        let mut watched = BTreeMap::new();
        loop {
            let client = self.client.kube();
            let discovered = match &self.resources {
                Some(resources) => Types::discover_only(client, resources).await,
                None => Types::discover(client).await,
            };
            match discovered {
                Ok(types) => self.update_watches(types, &mut watched).await,
                Err(error) => {
                    tracing::warn!(%error, "discovery failed, retrying");
                    tokio::time::sleep(RETRY_DELAY).await;
                    continue;
                }
            }
            while workers.len() < WORKERS {
                workers.spawn(self.clone().run_worker());
            }
            match self.resources {
                // A timeout triggers discovery like a notification does.
                None => drop(timeout(REDISCOVER_INTERVAL, self.changed.notified()).await),
                Some(_) => self.changed.notified().await,
            }
        }
    }

    /// Watches CRDs.
    fn watch_crds(self: &Arc<Self>) -> Option<Subscription> {
        let collector = Arc::downgrade(self);
        let on_event = move |event: ObjectEvent| {
            let Some(collector) = collector.upgrade() else { return };
            let name = event.object().meta().key().name();
            match &event {
                ObjectEvent::Deleted { .. } => {
                    collector.deleted_crds.lock().insert(name.to_owned());
                }
                _ => {
                    collector.deleted_crds.lock().remove(name);
                }
            }
            collector.changed.notify_one();
        };
        match watch(self.cache(), &Kind::of::<CustomResourceDefinition>(), on_event) {
            Ok(subscription) => Some(subscription),
            Err(error) => {
                tracing::error!(%error, "cannot watch CRDs, custom resources added later are not garbage-collected");
                None
            }
        }
    }

    /// Starts watches of added types and stops those of removed types.
    async fn update_watches(
        self: &Arc<Self>,
        types: Types,
        watched: &mut BTreeMap<Kind, Subscription>,
    ) {
        let wanted: BTreeSet<Kind> = types
            .iter()
            .filter(|found| is_collectable(found) && self.is_selected(&found.kind))
            .map(|found| found.kind.clone())
            .collect();
        let complete = types.stale.is_empty();
        *self.types.write() = types;
        let removed: Vec<Kind> =
            watched.keys().filter(|kind| complete && !wanted.contains(*kind)).cloned().collect();
        let mut added = false;
        for kind in &wanted {
            if watched.contains_key(kind) {
                continue;
            }
            added = true;
            match self.watch(kind) {
                Ok(subscription) => drop(watched.insert(kind.clone(), subscription)),
                Err(error) => {
                    tracing::error!(%error, %kind, "cannot watch type, its objects are not garbage-collected")
                }
            }
        }
        if added && timeout(SYNC_TIMEOUT, wait_for_sync(watched)).await.is_err() {
            tracing::warn!("timed out waiting for all types to sync, proceeding");
        }
        let mut due = Vec::new();
        for kind in &removed {
            watched.remove(kind);
            let renewed = watched.iter().any(|(other, subscription)| {
                let listed =
                    || matches!(subscription.wait_until_synced().now_or_never(), Some(Ok(())));
                other.is(kind.group(), kind.kind()) && listed()
            });
            let crd = format!("{}.{}", kind.plural(), kind.group());
            let mut graph = self.graph.lock();
            // Objects that were not listed in another version, and those whose CRD is deleted, do
            // not exist. A type that is merely not served may still have objects.
            if renewed || self.deleted_crds.lock().remove(&crd) {
                graph.remove_kind(kind, &mut due);
            } else {
                graph.forget_kind(kind);
            }
        }
        if added {
            // Their owners may be of a type that was not known before.
            due.extend(self.graph.lock().with_unknown_owner());
        }
        self.enqueue(due);
    }

    fn is_selected(&self, kind: &Kind) -> bool {
        let Some(resources) = &self.resources else { return true };
        match kind.group() {
            "" => resources.contains(kind.plural()),
            group => resources.contains(&format!("{}.{group}", kind.plural())),
        }
    }

    fn watch(self: &Arc<Self>, kind: &Kind) -> Result<Subscription, BoxError> {
        let collector = Arc::downgrade(self);
        let observed = kind.clone();
        watch(self.cache(), kind, move |event: ObjectEvent| {
            if let Some(collector) = collector.upgrade() {
                collector.observe(&observed, &event);
            }
        })
    }

    /// Updates the graph with an event and enqueues the affected objects.
    fn observe(&self, kind: &Kind, event: &ObjectEvent) {
        let mut due = Vec::new();
        let mut graph = self.graph.lock();
        if let Some(old) = event.old() {
            let replaced = event.new().is_none_or(|new| new.meta().uid() != old.meta().uid());
            if replaced {
                graph.remove(old.meta().uid(), &mut due);
            }
        }
        if let Some(new) = event.new() {
            let meta = new.meta();
            let lookup = |owner: &Owner| self.cached_owner(owner, meta.key());
            graph.upsert(kind, meta, lookup, &mut due);
        }
        drop(graph);
        self.enqueue(due);
    }

    fn enqueue(&self, due: Vec<Uid>) {
        for uid in due {
            self.queue.add(uid, ());
        }
    }

    /// Returns the cached object that an owner reference names, if its uid matches.
    fn cached_owner(&self, owner: &Owner, child: &Key) -> Option<(Identity, State)> {
        let identity = self.resolve_owner(owner, child)?;
        if !self.cache().is_declared(&identity.kind) {
            return None;
        }
        let entry = self.cache().get(&identity.kind, &identity.key).ok()??;
        let same_uid = *entry.meta().uid() == owner.uid;
        same_uid.then(|| (identity, State::of(entry.meta())))
    }

    /// Returns where an owner reference points; `None` if its type is unknown, or namespaced and
    /// the child is cluster-scoped.
    fn resolve_owner(&self, owner: &Owner, child: &Key) -> Option<Identity> {
        let kind = self.types.read().find(&owner.group, &owner.kind)?.clone();
        let namespace = child.namespace().filter(|_| kind.namespaced());
        if kind.namespaced() && namespace.is_none() {
            return None;
        }
        let key = Key::new(namespace, &owner.name);
        Some(Identity { kind, key })
    }

    /// Returns the object at a place if it has this uid.
    async fn read_object(
        &self,
        identity: &Identity,
        uid: &Uid,
    ) -> Result<Option<Arc<Entry>>, Error> {
        let found = self.client.dynamic(&identity.kind).peek(&identity.key).await?;
        Ok(found.filter(|entry| entry.meta().uid() == uid))
    }

    async fn run_worker(self: Arc<Self>) {
        while let Some(item) = self.queue.get().await {
            self.process_item(&item).await;
        }
    }

    async fn process_item(&self, item: &Item<Uid, ()>) {
        let again = match self.process(&item.key).await {
            Ok(Outcome::Done) => false,
            Ok(Outcome::Requeue) => true,
            Err(error) => {
                tracing::warn!(uid = %item.key, %error, "garbage collection of object failed, requeued");
                true
            }
        };
        if again {
            item.requeue(AddOptions::new().rate_limited(), ());
        } else {
            self.queue.forget(&item.key);
        }
    }

    /// Processes one object.
    async fn process(&self, uid: &Uid) -> Result<Outcome, BoxError> {
        let Some(found) = self.graph.lock().find(uid) else { return Ok(Outcome::Done) };
        match found.state {
            State::Unseen | State::Deleting => Ok(Outcome::Done),
            State::Live => self.attempt_to_delete(uid, &found).await,
            State::Orphaning => self.orphan_dependents(uid, &found.identity).await,
            State::Foreground => self.release_foreground(uid, &found.identity).await,
        }
    }
}

/// Events have no owners or dependents. All other types that can be watched are collected.
fn is_collectable(found: &Type) -> bool {
    let is_event = found.kind.is("", "Event") || found.kind.is("events.k8s.io", "Event");
    found.supports(&["delete", "list", "watch"]) && !is_event
}

/// Waits until all types are synced.
async fn wait_for_sync(watched: &BTreeMap<Kind, Subscription>) {
    for (kind, subscription) in watched {
        if let Err(error) = subscription.wait_until_synced().await {
            tracing::warn!(%error, %kind, "cannot list type, proceeding without it");
        }
    }
}

/// Watches a type: as already declared, or else its metadata only.
fn watch(
    cache: &Cache,
    kind: &Kind,
    on_event: impl FnMut(ObjectEvent) + Send + 'static,
) -> Result<Subscription, BoxError> {
    if !cache.is_declared(kind) {
        cache.declare(kind, TypeOptions::new().metadata_only().optional())?;
    }
    Ok(cache.informer(kind)?.subscribe(on_event))
}
