//! The watches of a controller, which enqueue keys.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use kube::core::DynamicObject;

use super::core::Core;
use crate::cache::event::ObjectEvent;
use crate::cache::{
    Cache, DeclareError, Entry, Informer, Meta, ReadError, Subscription, TypeOptions,
};
use crate::clusters::Cluster;
use crate::handler::{Handler, MapContext};
use crate::key::Key;
use crate::kind::{AnyObject, Kind, Object};
use crate::predicate::Predicate;
use crate::queue::{AddOptions, Cause, Change, LOW_PRIORITY, Origin};

/// A type that a controller watches, and the keys its events enqueue.
///
/// ```
/// use evenkeel::k8s_openapi::api::apps::v1::Deployment;
/// use evenkeel::k8s_openapi::api::core::v1::{ConfigMap, Secret};
/// use evenkeel::prelude::*;
///
/// let children = Watch::owned::<Deployment, ConfigMap>().filter(predicate::generation_changed());
/// let secrets = Watch::mapped_metadata::<Secret>(|meta, _| vec![meta.key().clone()])
///     .cached(TypeOptions::new().namespaces(["shop"]).metadata_only());
/// # let _ = (children, secrets);
/// ```
#[derive(Clone)]
#[must_use]
pub struct Watch {
    kind: Kind,
    handler: Handler,
    filter: Option<Predicate>,
    options: Option<TypeOptions>,
    /// Metadata suffices: the watch also works on a type that is cached whole.
    metadata_suffices: bool,
    /// Enqueues all objects at the resync interval.
    resync: bool,
    /// Watches engaged clusters, not the manager's own.
    remote: bool,
}

impl Watch {
    /// Watches objects of type `K` and enqueues the objects themselves, with periodic resync.
    pub fn object<K: Object>() -> Self {
        Self::kind(&Kind::of::<K>()).object()
    }

    /// Watches objects of type `C` and enqueues the `O` that controls them.
    pub fn owned<C: Object, O: Object>() -> Self {
        Self::kind(&Kind::of::<C>()).owned_by(&Kind::of::<O>())
    }

    /// Watches objects of type `C` and enqueues every `O` that owns them.
    pub fn owned_by_any<C: Object, O: Object>() -> Self {
        Self::kind(&Kind::of::<C>()).owned_by_any(&Kind::of::<O>())
    }

    /// Watches objects of type `W` and enqueues the keys that `map` returns. It is called with the
    /// object before and after a change.
    pub fn mapped<W: Object>(
        map: impl Fn(&W, &MapContext) -> Vec<Key> + Send + Sync + 'static,
    ) -> Self {
        WatchKind(Kind::of::<W>()).mapped_as(map)
    }

    /// Same as [`Watch::mapped`], by metadata: no object is decoded, and only metadata is requested
    /// from the server unless the type is cached whole for another reason.
    pub fn mapped_metadata<W: Object>(
        map: impl Fn(&Meta, &MapContext) -> Vec<Key> + Send + Sync + 'static,
    ) -> Self {
        Self::kind(&Kind::of::<W>()).mapped_metadata(map)
    }

    /// Watches objects of a kind that is known at run time; the methods of the returned value set
    /// which keys are enqueued.
    ///
    /// ```
    /// # use evenkeel::prelude::*;
    /// # use evenkeel::Kind;
    /// fn children(child: &Kind, parent: &Kind) -> Watch {
    ///     Watch::kind(child).owned_by(parent).filter(predicate::generation_changed())
    /// }
    /// ```
    pub fn kind(kind: &Kind) -> WatchKind {
        WatchKind(kind.clone())
    }

    fn new(kind: Kind, handler: Handler) -> Self {
        Self {
            kind,
            handler,
            filter: None,
            options: None,
            metadata_suffices: false,
            resync: false,
            remote: false,
        }
    }

    /// Returns the type that is watched.
    pub(super) fn watched_kind(&self) -> &Kind {
        &self.kind
    }

    /// Whether events enqueue the owners of the objects.
    pub(super) fn is_owned(&self) -> bool {
        matches!(self.handler, Handler::Owner { .. })
    }

    /// Also enqueues at the resync interval of the type, every ten hours unless its cache options
    /// set another. By default only the reconciled type is resynced.
    pub fn resynced(mut self) -> Self {
        self.resync = true;
        self
    }

    /// Drops events that do not match `predicate`.
    pub fn filter(mut self, predicate: Predicate) -> Self {
        self.filter = Some(match self.filter {
            Some(present) => present.and(predicate),
            None => predicate,
        });
        self
    }

    /// Watches all [engaged clusters](crate::Clusters) instead of the manager's own, for children in
    /// other clusters than the reconciled object.
    ///
    /// The keys are those of the reconciled objects in the manager's own cluster, unless the
    /// controller [reconciles objects of engaged clusters](super::ControllerBuilder::clusters). An
    /// owner cannot be in another cluster, so they are found by a label or an annotation:
    ///
    /// ```
    /// use evenkeel::k8s_openapi::api::core::v1::ConfigMap;
    /// use evenkeel::prelude::*;
    ///
    /// let copies = Watch::mapped(|copy: &ConfigMap, _| {
    ///     let original = copy.labels().get("example.com/copy-of");
    ///     original.map(|name| Key::of(copy).sibling(name)).into_iter().collect()
    /// });
    /// # let _ =
    /// copies.in_engaged_clusters();
    /// ```
    pub fn in_engaged_clusters(mut self) -> Self {
        self.remote = true;
        self
    }

    pub(super) fn is_remote(&self) -> bool {
        self.remote
    }

    /// Requests only metadata from the server.
    pub fn metadata_only(mut self) -> Self {
        self.options = Some(self.options.unwrap_or_default().metadata_only());
        self
    }

    /// Sets how the type is cached: namespaces, selectors, transforms and so on.
    pub fn cached(mut self, options: TypeOptions) -> Self {
        self.options = Some(options);
        self
    }

    /// Declares the type at registration. Other controllers may still declare the type whole, so a
    /// watch for which metadata suffices declares nothing yet.
    pub(super) fn declare(&self, cache: &Cache, controller: &str) -> Result<(), DeclareError> {
        if self.metadata_suffices && self.options.is_none() {
            return Ok(());
        }
        declare(cache, &self.kind, self.options.clone(), controller)
    }

    /// Declares the type when the controller starts.
    fn declare_at_start(&self, cache: &Cache, controller: &str) -> Result<(), DeclareError> {
        if self.metadata_suffices && self.options.is_none() && !cache.is_declared(&self.kind) {
            let options = TypeOptions::default().metadata_only();
            return cache.declare(&self.kind, options.declared_by(controller));
        }
        self.declare(cache, controller)
    }
}

/// A watch of a kind that is known at run time, before it is set which keys are enqueued; see
/// [`Watch::kind`].
///
/// ```
/// use evenkeel::prelude::*;
///
/// fn parents(child: &Kind) -> Watch {
///     Watch::kind(child).mapped(|object, _| {
///         let parent = object.labels().get("example.com/parent");
///         parent.map(|name| Key::of(object).sibling(name)).into_iter().collect()
///     })
/// }
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct WatchKind(Kind);

impl WatchKind {
    /// Enqueues the objects themselves, with periodic resync.
    pub fn object(self) -> Watch {
        Watch::new(self.0, Handler::Object).resynced()
    }

    /// Enqueues the object of kind `owner` that controls the object.
    pub fn owned_by(self, owner: &Kind) -> Watch {
        Watch::new(self.0, Handler::Owner { owner: owner.clone(), every: false })
    }

    /// Enqueues every object of kind `owner` that owns the object.
    pub fn owned_by_any(self, owner: &Kind) -> Watch {
        Watch::new(self.0, Handler::Owner { owner: owner.clone(), every: true })
    }

    /// Enqueues the keys that `map` returns. It is called with the object before and after a
    /// change.
    pub fn mapped(
        self,
        map: impl Fn(&DynamicObject, &MapContext) -> Vec<Key> + Send + Sync + 'static,
    ) -> Watch {
        self.mapped_as(map)
    }

    /// Same as [`mapped`](WatchKind::mapped), by metadata; see [`Watch::mapped_metadata`].
    pub fn mapped_metadata(
        self,
        map: impl Fn(&Meta, &MapContext) -> Vec<Key> + Send + Sync + 'static,
    ) -> Watch {
        let map = move |entry: &Entry, cx: &MapContext| map(entry.meta(), cx);
        let watch = Watch::new(self.0, Handler::Map(Arc::new(map)));
        Watch { metadata_suffices: true, ..watch }
    }

    fn mapped_as<W: AnyObject>(
        self,
        map: impl Fn(&W, &MapContext) -> Vec<Key> + Send + Sync + 'static,
    ) -> Watch {
        let map = move |entry: &Entry, cx: &MapContext| match entry.decode::<W>() {
            Ok(object) => map(&object, cx),
            Err(error) => {
                tracing::error!(%error, "failed to decode object for map function");
                Vec::new()
            }
        };
        Watch::new(self.0, Handler::Map(Arc::new(map)))
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "watch of {}", self.kind)
    }
}

/// Why a watch cannot be started.
///
/// ```no_run
/// # use evenkeel::k8s_openapi::api::core::v1::{ConfigMap, Secret};
/// use evenkeel::controller::WatchError;
/// use evenkeel::prelude::*;
///
/// # fn example(controller: &ControllerHandle) {
/// match controller.watch(Watch::owned::<Secret, ConfigMap>()) {
///     Ok(guard) => std::mem::forget(guard), // watches as long as the controller runs
///     Err(WatchError::Declare(error)) => println!("other options are declared: {error}"),
///     Err(error) => println!("{error}"),
/// }
/// # }
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WatchError {
    /// The type is declared with conflicting cache options.
    #[error(transparent)]
    Declare(#[from] DeclareError),
    /// The type cannot be watched.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// Declares a type with `options`, or whole with the options of other declarations.
pub(super) fn declare(
    cache: &Cache,
    kind: &Kind,
    options: Option<TypeOptions>,
    controller: &str,
) -> Result<(), DeclareError> {
    match options {
        Some(options) => cache.declare(kind, options.declared_by(controller)),
        None => cache.declare_whole(kind, controller),
    }
}

/// Keeps a watch running until it is dropped.
///
/// ```no_run
/// use evenkeel::k8s_openapi::api::core::v1::{ConfigMap, Secret};
/// use evenkeel::prelude::*;
///
/// # fn example(controller: &ControllerHandle) -> Result<()> {
/// let guard = controller.watch(Watch::owned::<Secret, ConfigMap>())?;
/// drop(guard); // removes the watch
/// # Ok(())
/// # }
/// ```
pub struct WatchGuard {
    pub(super) subscription: Subscription,
    pub(super) informer: Informer,
}

impl fmt::Debug for WatchGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "watch of {}", self.informer.kind())
    }
}

impl Core {
    /// Connects a watch in the manager's own cluster to the queue.
    pub(super) fn attach(&self, watch: Watch) -> Result<WatchGuard, WatchError> {
        self.attach_to(watch, self.cache(), None)
    }

    /// Connects a watch in a cluster, with its cache, to the queue.
    pub(super) fn attach_to(
        &self,
        watch: Watch,
        cache: &Cache,
        cluster: Option<&Cluster>,
    ) -> Result<WatchGuard, WatchError> {
        watch.declare_at_start(cache, &self.name)?;
        let informer = cache.informer(&watch.kind)?;
        let cluster = cluster.map(|cluster| cluster.shared_name().clone());
        let cx = MapContext::new(cache.clone(), cluster.clone());
        let (queue, all) = (self.queue.clone(), self.filter.clone());
        let own = Origin::own(watch.kind.clone());
        // The cluster of the keys: that of the watch, unless the reconciled objects are elsewhere.
        let keys_in = cluster.clone().filter(|_| self.selection.includes_engaged());
        let itself = watch.kind == self.kind && keys_in == cluster;
        let resync = watch.resync;
        let on_event = move |event: ObjectEvent| {
            let passes = |filter: &Option<Predicate>| {
                filter.as_ref().is_none_or(|filter| passes(filter, &event))
            };
            if !passes(&all) || !passes(&watch.filter) {
                return;
            }
            for key in watch.handler.keys(&event, &cx) {
                let object = event.object();
                let origin = if itself && key == *object.meta().key() {
                    own.clone()
                } else {
                    let changed = object.meta().key();
                    let changed = match &cluster {
                        Some(cluster) => changed.in_cluster(cluster),
                        None => changed.clone(),
                    };
                    Origin::other(object.kind().clone(), changed)
                };
                let key = match &keys_in {
                    Some(cluster) if key.cluster_name().is_none() => key.in_cluster(cluster),
                    _ => key,
                };
                let options =
                    AddOptions { priority: Some(priority(&event)), ..AddOptions::default() };
                queue.add_with(key, options, cause(&event, origin));
            }
        };
        let subscription = match resync {
            true => informer.subscribe_resynced(on_event),
            false => informer.subscribe(on_event),
        };
        Ok(WatchGuard { subscription, informer })
    }
}

/// An event passes if the predicate panics: an extra reconcile costs less than a missed one.
fn passes(filter: &Predicate, event: &ObjectEvent) -> bool {
    catch_unwind(AssertUnwindSafe(|| filter.passes(event))).unwrap_or_else(|_| {
        let object = event.object();
        tracing::error!(
            predicate = ?filter,
            kind = %object.kind(),
            key = %object.meta().key(),
            "predicate panicked"
        );
        true
    })
}

fn cause(event: &ObjectEvent, origin: Origin) -> Cause {
    match event {
        ObjectEvent::Added { initial: true, .. } => Cause::Listed(origin),
        ObjectEvent::Added { .. } => Cause::Created(origin),
        ObjectEvent::Updated { old, new } => Cause::Updated(origin, change(old, new)),
        ObjectEvent::Resynced { .. } => Cause::Resync(origin),
        ObjectEvent::Deleted { .. } => Cause::Deleted(origin),
    }
}

fn change(old: &Entry, new: &Entry) -> Change {
    let (from, to) = (old.meta(), new.meta());
    let change = Change {
        generation: (from.generation() != to.generation())
            .then(|| (from.generation(), to.generation())),
        labels: !from.labels().eq(to.labels()),
        annotations: old.annotations_json() != new.annotations_json(),
        finalizers: !from.finalizers().eq(to.finalizers()),
        owners: from.owners() != to.owners(),
        deletion: !from.is_deleting() && to.is_deleting(),
        replaced: from.uid() != to.uid(),
        ..Change::default()
    };
    change.or_rest(from.version() != to.version(), to.generation() != 0)
}

/// Initial objects and resyncs have a lower priority than changes.
fn priority(event: &ObjectEvent) -> i32 {
    match event {
        ObjectEvent::Added { initial: true, .. } | ObjectEvent::Resynced { .. } => LOW_PRIORITY,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::Deployment;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_change_names_what_differs_between_two_versions() {
        let entry = |meta: &Value| Entry::of(Kind::of::<Deployment>(), &json!({"metadata": meta}));
        let old = json!({"name": "web", "uid": "u", "resourceVersion": "10", "generation": 3});
        let changed = |field: &str, value: Value| {
            let mut new = old.clone();
            new["resourceVersion"] = json!("11");
            new[field] = value;
            change(&entry(&old), &entry(&new)).to_string()
        };
        let owner = json!([{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "v"}]);
        for (field, value, expected) in [
            ("generation", json!(4), "generation 3→4"),
            ("labels", json!({"a": "b"}), "labels"),
            ("annotations", json!({"a": "b"}), "annotations"),
            ("finalizers", json!(["example.com/x"]), "finalizers"),
            ("ownerReferences", owner, "owners"),
            ("deletionTimestamp", json!("2026-01-01T00:00:00Z"), "deletion"),
            ("uid", json!("v"), "replaced"),
            ("resourceVersion", json!("11"), "status"),
            ("resourceVersion", json!("10"), ""),
        ] {
            assert_eq!(changed(field, value), expected, "{field}");
        }
        let [old, new] = ["10", "11"].map(|it| entry(&json!({"name": "a", "resourceVersion": it})));
        assert_eq!(change(&old, &new).to_string(), "content", "no generation, so no status");
    }
}
