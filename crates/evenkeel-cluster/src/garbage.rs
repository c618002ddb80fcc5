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

use self::graph::{Graph, Place, State};
use crate::discovery::{Type, Types};
use crate::options::ClusterOptions;

/// The name in `kube-controller-manager`.
pub(crate) const NAME: &str = "garbage-collector-controller";

/// How many objects are processed concurrently.
const WORKERS: usize = 8;

/// How long types may take to sync before processing starts without them, as upstream.
const SYNC: Duration = Duration::from_secs(30);

/// How often discovery is repeated when no CRD has changed, as upstream: a server may store a CRD
/// before it serves the type, and not every type has a CRD.
const REDISCOVER: Duration = Duration::from_secs(30);

/// How long to wait before a failed discovery is retried.
const RETRY: Duration = Duration::from_secs(1);

/// Registers the garbage collector.
pub(crate) fn register(manager: &Manager, _: &ClusterOptions) -> Result<(), BoxError> {
    let collector = Collector::new(manager);
    manager.spawn(NAME, |stop| collector.run(stop))?;
    Ok(())
}

struct Collector {
    client: Client,
    event_recorder: EventRecorder,
    graph: Mutex<Graph>,
    types: RwLock<Types>,
    queue: Queue<Uid, ()>,
    /// Types may have been added or removed.
    changed: Notify,
    /// CRDs that were deleted.
    undefined: Mutex<BTreeSet<String>>,
}

/// The result of processing an object.
enum Looked {
    /// Nothing to do until the object changes.
    Done,
    /// Requeue the object.
    Again,
}

impl Collector {
    fn new(manager: &Manager) -> Arc<Self> {
        Arc::new(Self {
            event_recorder: manager.event_recorder(NAME),
            client: manager.client().with_field_manager(NAME),
            graph: Mutex::default(),
            types: RwLock::default(),
            queue: Queue::default(),
            changed: Notify::new(),
            undefined: Mutex::default(),
        })
    }

    async fn run(self: Arc<Self>, stop: Stop) -> evenkeel::Result<()> {
        let mut workers = JoinSet::new();
        tokio::select! {
            biased;
            () = stop.requested() => {}
            never = self.follow_types(&mut workers) => match never {},
        }
        self.queue.shutdown();
        while workers.join_next().await.is_some() {}
        Ok(())
    }

    fn cache(&self) -> &Cache {
        self.client.cache()
    }

    /// Watches the discovered types. Workers start once the initial objects are listed.
    async fn follow_types(self: &Arc<Self>, workers: &mut JoinSet<()>) -> Infallible {
        // CRDs are watched before discovery, so that no type added meanwhile is missed.
        let _definitions = self.watch_definitions();
        let mut watched = BTreeMap::new();
        loop {
            match Types::discover(self.client.kube()).await {
                Ok(types) => self.follow(types, &mut watched).await,
                Err(error) => {
                    tracing::warn!(%error, "the types of the cluster cannot be told");
                    tokio::time::sleep(RETRY).await;
                    continue;
                }
            }
            while workers.len() < WORKERS {
                workers.spawn(self.clone().work());
            }
            // A timeout triggers discovery like a notification does.
            let _ = timeout(REDISCOVER, self.changed.notified()).await;
        }
    }

    /// Watches CRDs.
    fn watch_definitions(self: &Arc<Self>) -> Option<Subscription> {
        let collector = Arc::downgrade(self);
        let told = move |event: ObjectEvent| {
            let Some(collector) = collector.upgrade() else { return };
            let name = event.object().meta().key().name();
            match &event {
                ObjectEvent::Deleted { .. } => {
                    collector.undefined.lock().insert(name.to_owned());
                }
                _ => {
                    collector.undefined.lock().remove(name);
                }
            }
            collector.changed.notify_one();
        };
        match watch(self.cache(), &Kind::of::<CustomResourceDefinition>(), told) {
            Ok(subscription) => Some(subscription),
            Err(error) => {
                tracing::error!(%error, "custom resources that are defined later stay unnoticed");
                None
            }
        }
    }

    /// Starts watches of added types and stops those of removed types.
    async fn follow(self: &Arc<Self>, types: Types, watched: &mut BTreeMap<Kind, Subscription>) {
        let wanted: BTreeSet<Kind> = types
            .iter()
            .filter(|found| is_collected(found))
            .map(|found| found.kind.clone())
            .collect();
        let whole = types.stale.is_empty();
        *self.types.write() = types;
        let gone: Vec<Kind> =
            watched.keys().filter(|kind| whole && !wanted.contains(*kind)).cloned().collect();
        let mut added = false;
        for kind in &wanted {
            if watched.contains_key(kind) {
                continue;
            }
            added = true;
            match self.watch(kind) {
                Ok(subscription) => drop(watched.insert(kind.clone(), subscription)),
                Err(error) => tracing::error!(%error, %kind, "cannot be garbage-collected"),
            }
        }
        if added && timeout(SYNC, synced(watched)).await.is_err() {
            tracing::warn!("not all types could be listed, proceeding anyway");
        }
        let mut due = Vec::new();
        for kind in &gone {
            watched.remove(kind);
            let renewed = watched.iter().any(|(other, subscription)| {
                let listed =
                    || matches!(subscription.wait_until_synced().now_or_never(), Some(Ok(())));
                other.is(kind.group(), kind.kind()) && listed()
            });
            let definition = format!("{}.{}", kind.plural(), kind.group());
            let mut graph = self.graph.lock();
            // Objects that were not listed in another version, and those whose CRD is deleted, do
            // not exist. A type that is merely not served may still have objects.
            if renewed || self.undefined.lock().remove(&definition) {
                graph.gone_with(kind, &mut due);
            } else {
                graph.forget(kind);
            }
        }
        if added {
            // Their owners may be of a type that was not known before.
            due.extend(self.graph.lock().unknown());
        }
        self.enqueue(due);
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
                graph.gone(old.meta().uid(), &mut due);
            }
        }
        if let Some(new) = event.new() {
            let meta = new.meta();
            let lookup = |owner: &Owner| self.cached(owner, meta.key());
            graph.seen(kind, meta, lookup, &mut due);
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
    fn cached(&self, owner: &Owner, child: &Key) -> Option<(Place, State)> {
        let place = self.place(owner, child)?;
        if !self.cache().is_declared(&place.kind) {
            return None;
        }
        let entry = self.cache().get(&place.kind, &place.key).ok()??;
        let meant = *entry.meta().uid() == owner.uid;
        meant.then(|| (place, State::of(entry.meta())))
    }

    /// Returns where an owner reference points; `None` if its type is unknown, or namespaced and
    /// the child is cluster-scoped.
    fn place(&self, owner: &Owner, child: &Key) -> Option<Place> {
        let kind = self.types.read().named(&owner.group, &owner.kind)?.clone();
        let namespace = child.namespace().filter(|_| kind.namespaced());
        if kind.namespaced() && namespace.is_none() {
            return None;
        }
        let key = Key::new(namespace, &owner.name);
        Some(Place { kind, key })
    }

    /// Returns the object at a place if it has this uid.
    async fn entry(&self, place: &Place, uid: &Uid) -> Result<Option<Arc<Entry>>, Error> {
        let found = self.client.dynamic(&place.kind).peek(&place.key).await?;
        Ok(found.filter(|entry| entry.meta().uid() == uid))
    }

    async fn work(self: Arc<Self>) {
        while let Some(item) = self.queue.get().await {
            self.attend_to(&item).await;
        }
    }

    async fn attend_to(&self, item: &Item<Uid, ()>) {
        let again = match self.attend(&item.key).await {
            Ok(Looked::Done) => false,
            Ok(Looked::Again) => true,
            Err(error) => {
                tracing::warn!(uid = %item.key, %error, "garbage collection failed, and is retried");
                true
            }
        };
        if again {
            item.requeue(AddOptions { rate_limited: true, ..AddOptions::default() }, ());
        } else {
            self.queue.forget(&item.key);
        }
    }

    /// Processes one object.
    async fn attend(&self, uid: &Uid) -> Result<Looked, BoxError> {
        let Some(found) = self.graph.lock().find(uid) else { return Ok(Looked::Done) };
        match found.state {
            State::Unseen | State::Deleting => Ok(Looked::Done),
            State::Live => self.judge(uid, &found).await,
            State::Orphaning => self.orphan(uid, &found.place).await,
            State::Foreground => self.release(uid, &found.place).await,
        }
    }
}

/// Events have no owners or dependents. All other types that can be watched are collected.
fn is_collected(found: &Type) -> bool {
    let is_event = found.kind.is("", "Event") || found.kind.is("events.k8s.io", "Event");
    found.can(&["delete", "list", "watch"]) && !is_event
}

/// Waits until all types are synced.
async fn synced(watched: &BTreeMap<Kind, Subscription>) {
    for (kind, subscription) in watched {
        if let Err(error) = subscription.wait_until_synced().await {
            tracing::warn!(%error, %kind, "is garbage-collected without being listed");
        }
    }
}

/// Watches a type: as already declared, or else its metadata only.
fn watch(
    cache: &Cache,
    kind: &Kind,
    told: impl FnMut(ObjectEvent) + Send + 'static,
) -> Result<Subscription, BoxError> {
    if !cache.is_declared(kind) {
        cache.declare(kind, TypeOptions::new().metadata_only().optional())?;
    }
    Ok(cache.informer(kind)?.subscribe(told))
}
