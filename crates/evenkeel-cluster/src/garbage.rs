//! The garbage collector: what is owned by nothing that exists goes.
//!
//! It watches every type the server can delete, in metadata only, and keeps a [`graph`] of who owns
//! whom by uid. Objects whose owners may be gone are queued by uid, and each look at one
//! ([`Collector::attend`]) decides from what is, not from what happened: delete it, take references
//! off, let its dependents go, or leave it alone.
//!
//! The invariant: nothing is deleted whose owner might exist. An owner is absent only when its
//! deletion was seen, or when the server was asked for it, by name and in the dependent's namespace,
//! and has none with that uid. A deletion names uid and version of what was judged.

mod graph;

mod judge;

mod report;

#[cfg(test)]
mod tests;

mod write;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use evenkeel::cache::{Cache, Entry, Owner, Subscription, TypeOptions};
use evenkeel::client::Client;
use evenkeel::manager::{Stop, When};
use evenkeel::queue::{AddOptions, Item, Queue};
use evenkeel::{BoxError, Event, Key, Kind, Manager, Uid};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use parking_lot::{Mutex, RwLock};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::timeout;

use self::graph::{Graph, Place, State};
use self::report::Reporter;
use crate::discovery::Types;
use crate::settings::Settings;

/// As `kube-controller-manager` calls it.
pub(crate) const NAME: &str = "garbage-collector-controller";

/// How many objects are looked at side by side.
const WORKERS: usize = 8;

/// How long types may take to be listed before work begins without them, as upstream.
const SYNC: Duration = Duration::from_secs(30);

/// How long to wait before a discovery that failed is repeated.
const RETRY: Duration = Duration::from_secs(1);

/// Has the garbage collector run with the manager.
pub(crate) fn register(manager: &Manager, _: &Settings) -> Result<(), BoxError> {
    let client = manager.client().with_owner(NAME);
    let collector = Arc::new(Collector {
        reporter: Reporter::new(NAME, client.clone(), manager.clock().clone()),
        client,
        graph: Mutex::default(),
        types: RwLock::default(),
        queue: Queue::default(),
        changed: Notify::new(),
    });
    manager.spawn(NAME, When::Leader, |stop| collector.run(stop))?;
    Ok(())
}

struct Collector {
    client: Client,
    reporter: Reporter,
    graph: Mutex<Graph>,
    types: RwLock<Types>,
    queue: Queue<Uid, ()>,
    /// Types may have come or gone.
    changed: Notify,
}

/// What became of a look at an object.
enum Looked {
    /// Nothing is left to do until something changes.
    Done,
    /// Look again later.
    Again,
}

impl Collector {
    async fn run(self: Arc<Self>, stop: Stop) -> Result<(), BoxError> {
        let mut tasks = JoinSet::new();
        tasks.spawn(self.clone().work_on_types());
        stop.requested().await;
        self.queue.shutdown();
        tasks.shutdown().await;
        Ok(())
    }

    fn cache(&self) -> &Cache {
        self.client.cache()
    }

    /// Follows the types there are; workers begin once what is there at the start is known.
    async fn work_on_types(self: Arc<Self>) {
        let definitions = self.watch_definitions();
        let mut watched = BTreeMap::new();
        let mut workers = JoinSet::new();
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
            self.changed.notified().await;
            // Held to here: a definition that comes during discovery must not be missed.
            let _ = &definitions;
        }
    }

    /// Notices when definitions of custom resources come, change and go.
    fn watch_definitions(self: &Arc<Self>) -> Option<Subscription> {
        let collector = Arc::downgrade(self);
        let told = move |event: Event| {
            let replaced = event
                .old()
                .zip(event.new())
                .is_none_or(|(old, new)| old.meta().version() != new.meta().version());
            if let Some(collector) = collector.upgrade().filter(|_| replaced) {
                collector.changed.notify_one();
            }
        };
        match watch(self.cache(), &Kind::of::<CustomResourceDefinition>(), told) {
            Ok(subscription) => Some(subscription),
            Err(error) => {
                tracing::error!(%error, "custom resources that are defined later stay unnoticed");
                None
            }
        }
    }

    /// Watches types that came, and forgets those that went.
    async fn follow(self: &Arc<Self>, types: Types, watched: &mut BTreeMap<Kind, Subscription>) {
        let wanted: Vec<Kind> =
            types.iter().filter(|found| is_collected(found)).map(kind).collect();
        let whole = types.stale.is_empty();
        *self.types.write() = types;
        let gone: Vec<Kind> =
            watched.keys().filter(|kind| whole && !wanted.contains(kind)).cloned().collect();
        let mut due = Vec::new();
        for kind in &gone {
            watched.remove(kind);
            self.graph.lock().gone_with(kind, &mut due);
        }
        let mut added = Vec::new();
        for kind in wanted {
            if watched.contains_key(&kind) {
                continue;
            }
            let collector = Arc::downgrade(self);
            let observed = kind.clone();
            let told = move |event: Event| {
                if let Some(collector) = collector.upgrade() {
                    collector.observe(&observed, &event);
                }
            };
            match watch(self.cache(), &kind, told) {
                Ok(subscription) => {
                    added.push(kind.clone());
                    watched.insert(kind, subscription);
                }
                Err(error) => tracing::error!(%error, %kind, "cannot be garbage-collected"),
            }
        }
        let synced = async {
            for kind in &added {
                if let Some(subscription) = watched.get(kind)
                    && let Err(error) = subscription.synced().await
                {
                    tracing::warn!(%error, %kind, "is garbage-collected without being listed");
                }
            }
        };
        if timeout(SYNC, synced).await.is_err() {
            tracing::warn!("not all types could be listed, proceeding anyway");
        }
        if !added.is_empty() {
            // Their owners may be of a type that was not known before.
            due.extend(self.graph.lock().unknown());
        }
        self.enqueue(due);
    }

    /// Tells the graph of a change, and queues whom it concerns.
    fn observe(&self, kind: &Kind, event: &Event) {
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

    /// What the cache has where an owner reference points, if it is what is meant.
    fn cached(&self, owner: &Owner, child: &Key) -> Option<(Place, State)> {
        let place = self.place(owner, child)?;
        let entry = self.entry(&place)?;
        let meant = *entry.meta().uid() == owner.uid;
        meant.then(|| (place, State::of(entry.meta())))
    }

    /// Where an owner reference points; none when its type is not known, or needs a namespace that
    /// the child does not have.
    fn place(&self, owner: &Owner, child: &Key) -> Option<Place> {
        let kind = self.types.read().named(&owner.group, &owner.kind)?.clone();
        let namespace = child.namespace().filter(|_| kind.namespaced());
        if kind.namespaced() && namespace.is_none() {
            return None;
        }
        let key = Key::new(namespace, &owner.name);
        Some(Place { kind, key })
    }

    /// The object at a place, as far as the cache knows.
    fn entry(&self, place: &Place) -> Option<Arc<Entry>> {
        if !self.cache().is_declared(&place.kind) {
            return None;
        }
        self.cache().get(&place.kind, &place.key).ok().flatten()
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

    /// Does what is left to do about one object.
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

fn kind(found: &crate::discovery::Type) -> Kind {
    found.kind.clone()
}

/// Events are owned by nobody and own nothing; everything else that can be watched can be garbage.
fn is_collected(found: &crate::discovery::Type) -> bool {
    found.can(&["delete", "list", "watch"]) && found.kind.plural() != "events"
}

/// Watches a type: as others have declared it, or else in metadata only.
fn watch(
    cache: &Cache,
    kind: &Kind,
    told: impl FnMut(Event) + Send + 'static,
) -> Result<Subscription, BoxError> {
    if !cache.is_declared(kind) {
        cache.declare(kind, TypeOptions::new().metadata_only().optional())?;
    }
    Ok(cache.informer(kind)?.subscribe(told))
}
