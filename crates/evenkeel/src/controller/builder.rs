//! The builder of controllers.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use kube::core::DynamicObject;

use super::ControllerHandle;
use super::core::{Core, Pause, RegisteredTypes, State};
use super::counts::ReconcileCounters;
use super::environment::{Environment, RegisterError};
use super::remote::Remote;
use super::run::Controller;
use super::watches::{self, Watch, WatchError};
use super::worker::Worker;
use crate::cache::{Cache, DeclareError, TypeOptions};
use crate::clusters::ClusterSelection;
use crate::error::Error;
use crate::handler::MapContext;
use crate::journal::Journal;
use crate::key::Key;
use crate::kind::{Kind, Object};
use crate::leader::Elections;
use crate::predicate::Predicate;
use crate::queue::{Queue, QueueOptions};
use crate::reconcile::Reconciler;
use crate::source::Source;

/// The number of reconciles in a controller's journal.
const JOURNAL: usize = 256;

/// The default timeout of a reconcile.
const TIMEOUT: Duration = Duration::from_secs(600);

/// The default timeout of the initial cache sync, as in controller-runtime.
const SYNC_TIMEOUT: Duration = Duration::from_secs(120);

/// Builds a controller; [`register`](ControllerBuilder::register) adds it to the manager.
///
/// | to | call |
/// |---|---|
/// | reconcile on changes of children | [`owns`](Self::owns), [`owns_with`](Self::owns_with) |
/// | … of any other objects | [`watches`](Self::watches), [`watches_with`](Self::watches_with) |
/// | … of types known at run time | [`owns_kind`](Self::owns_kind), [`watches_kind`](Self::watches_kind) |
/// | … by metadata alone, as for Secrets | [`watch`](Self::watch) with [`Watch::mapped_metadata`] |
/// | … of systems outside the cluster | [`source`](Self::source) |
/// | read another type from the cache | [`reads`](Self::reads), [`reads_with`](Self::reads_with), [`reads_kind`](Self::reads_kind) |
/// | set how the reconciled type is cached | [`cached`](Self::cached) |
/// | ignore some events | [`filter_object`](Self::filter_object), [`filter`](Self::filter) |
/// | reconcile objects of several clusters | [`clusters`](Self::clusters) |
/// | reconcile in parallel | [`workers`](Self::workers) |
/// | run on every replica | [`needs_leader_election`](Self::needs_leader_election) |
/// | limit a reconcile | [`reconcile_timeout`](Self::reconcile_timeout) |
///
/// ```no_run
/// # use evenkeel::k8s_openapi::api::apps::v1::Deployment;
/// # use evenkeel::k8s_openapi::api::core::v1::{ConfigMap, Secret};
/// use evenkeel::prelude::*;
///
/// # fn register(manager: &Manager, websites: impl Reconciler<Object = ConfigMap>) -> Result<()> {
/// manager
///     .controller(websites)
///     .named("websites")
///     .owns::<Deployment>()
///     .watches(|secret: &Secret, _: &MapContext| vec![Key::of(secret)])
///     .filter_object(predicate::generation_changed())
///     .workers(4)
///     .reconcile_timeout(Duration::from_secs(30))
///     .register()?;
/// # Ok(())
/// # }
/// ```
#[must_use = "a controller runs once it is registered"]
pub struct ControllerBuilder<'m, R, E = Error> {
    environment: &'m Environment,
    reconciler: R,
    /// The type that the controller reconciles.
    kind: Kind,
    name: Option<String>,
    primary: Watch,
    watches: Vec<Watch>,
    reads: Vec<(Kind, Option<TypeOptions>)>,
    sources: Vec<Source>,
    filter: Option<Predicate>,
    clusters: ClusterSelection,
    needs_leader_election: bool,
    lease: Option<String>,
    workers: usize,
    timeout: Duration,
    cache_sync_timeout: Duration,
    queue: QueueOptions,
    marker: PhantomData<fn() -> E>,
}

impl<'m, R: Reconciler<E>, E: Into<Error> + Send + 'static> ControllerBuilder<'m, R, E> {
    pub(crate) fn new(environment: &'m Environment, kind: Kind, reconciler: R) -> Self {
        Self {
            environment,
            reconciler,
            name: None,
            primary: Watch::kind(&kind).object(),
            kind,
            watches: Vec::new(),
            reads: Vec::new(),
            sources: Vec::new(),
            filter: None,
            clusters: ClusterSelection::Own,
            needs_leader_election: true,
            lease: None,
            workers: 1,
            timeout: TIMEOUT,
            cache_sync_timeout: SYNC_TIMEOUT,
            queue: QueueOptions::default(),
            marker: PhantomData,
        }
    }

    /// Sets the controller's name: in logs, in metrics, and as the field manager of its writes. The
    /// lower-case kind unless set.
    pub fn named(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// Reconciles the owner when an object of type `C` that it controls changes.
    pub fn owns<C: Object>(self) -> Self {
        self.owns_kind(&Kind::of::<C>())
    }

    /// Same as [`owns`](ControllerBuilder::owns), with cache options for the type:
    /// `.owns_with::<Secret>(TypeOptions::new().labels(ours))`.
    pub fn owns_with<C: Object>(self, options: TypeOptions) -> Self {
        let watch = Watch::kind(&Kind::of::<C>()).owned_by(&self.kind);
        self.watch(watch.cached(options))
    }

    /// Reconciles every owner, not only the controller, when an object of type `C` changes.
    pub fn owns_any<C: Object>(self) -> Self {
        let watch = Watch::kind(&Kind::of::<C>()).owned_by_any(&self.kind);
        self.watch(watch)
    }

    /// Same as [`owns`](ControllerBuilder::owns), for a type whose kind is known at run time.
    pub fn owns_kind(self, kind: &Kind) -> Self {
        let watch = Watch::kind(kind).owned_by(&self.kind);
        self.watch(watch)
    }

    /// Reconciles the keys that `map` returns when an object of type `W` changes.
    pub fn watches<W: Object>(
        self,
        map: impl Fn(&W, &MapContext) -> Vec<Key> + Send + Sync + 'static,
    ) -> Self {
        self.watch(Watch::mapped(map))
    }

    /// Same as [`watches`](ControllerBuilder::watches), with cache options for the type.
    pub fn watches_with<W: Object>(
        self,
        options: TypeOptions,
        map: impl Fn(&W, &MapContext) -> Vec<Key> + Send + Sync + 'static,
    ) -> Self {
        self.watch(Watch::mapped(map).cached(options))
    }

    /// Same as [`watches`](ControllerBuilder::watches), for a type whose kind is known at run time.
    pub fn watches_kind(
        self,
        kind: &Kind,
        map: impl Fn(&DynamicObject, &MapContext) -> Vec<Key> + Send + Sync + 'static,
    ) -> Self {
        self.watch(Watch::kind(kind).mapped(map))
    }

    /// Adds a watch made with [`Watch::owned`], [`Watch::mapped_metadata`] and so on.
    pub fn watch(mut self, watch: Watch) -> Self {
        self.watches.push(watch);
        self
    }

    /// Adds a source of keys other than a watch.
    pub fn source(mut self, source: Source) -> Self {
        self.sources.push(source);
        self
    }

    /// Caches objects of type `K` for the reconciler to read; their changes enqueue nothing.
    pub fn reads<K: Object>(mut self) -> Self {
        self.reads.push((Kind::of::<K>(), None));
        self
    }

    /// Same as [`reads`](ControllerBuilder::reads), with cache options for the type.
    pub fn reads_with<K: Object>(mut self, options: TypeOptions) -> Self {
        self.reads.push((Kind::of::<K>(), Some(options)));
        self
    }

    /// Same as [`reads`](ControllerBuilder::reads), for a type whose kind is known at run time.
    pub fn reads_kind(mut self, kind: &Kind) -> Self {
        self.reads.push((kind.clone(), None));
        self
    }

    /// Drops events of the reconciled type that do not match `predicate`.
    pub fn filter_object(mut self, predicate: Predicate) -> Self {
        self.primary = self.primary.filter(predicate);
        self
    }

    /// Sets how the reconciled type is cached: namespaces, selectors, decoded on arrival or on
    /// first read.
    pub fn cached(mut self, options: TypeOptions) -> Self {
        self.primary = self.primary.cached(options);
        self
    }

    /// Drops events of all watches that do not match `predicate`; sources are not filtered.
    pub fn filter(mut self, predicate: Predicate) -> Self {
        self.filter = Some(match self.filter {
            Some(present) => present.and(predicate),
            None => predicate,
        });
        self
    }

    /// Sets the clusters whose objects are reconciled; the manager's own unless set.
    ///
    /// In [engaged clusters](crate::Clusters) all watches and reads of the controller apply to each
    /// cluster. The keys that a watch in a cluster enqueues are those of the same cluster, unless a
    /// map function returns a key with a cluster. The reconciler gets the client of the object's
    /// cluster.
    ///
    /// A cluster that does not respond does not delay the others, and the controller starts without
    /// waiting for engaged clusters: reads of the reconciler wait for the cache of its cluster.
    pub fn clusters(mut self, clusters: ClusterSelection) -> Self {
        self.clusters = clusters;
        self
    }

    /// Sets whether the controller runs on the leader only, if [leader election](crate::leader) is
    /// enabled; true unless set.
    ///
    /// On a standby it fills its caches and its queue, and starts its workers when it is elected.
    pub fn needs_leader_election(mut self, needs_leader_election: bool) -> Self {
        self.needs_leader_election = needs_leader_election;
        self
    }

    /// Elects the leader of this controller with a Lease of its own, so that the controllers of an
    /// operator can run on different replicas. Controllers with the same name share the Lease.
    ///
    /// It has the options of the manager's [leader election](crate::leader), and no effect if that is
    /// not enabled.
    pub fn lease(mut self, name: &str) -> Self {
        self.lease = Some(name.to_owned());
        self
    }

    /// Sets how many objects are reconciled concurrently; one unless set.
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = workers.max(1);
        self
    }

    /// Sets the timeout after which a reconcile is cancelled and retried; ten minutes unless set,
    /// none if [`Duration::MAX`].
    ///
    /// A reconcile occupies a worker. One that runs longer than a minute raises an
    /// [alarm](crate::journal::Alarm::LongRunning). Cancellation takes effect at an `.await`:
    /// blocking calls belong in `tokio::task::spawn_blocking`.
    pub fn reconcile_timeout(mut self, limit: Duration) -> Self {
        self.timeout = limit;
        self
    }

    /// Sets the timeout of the initial cache sync, after which an error is logged; two minutes
    /// unless set.
    pub fn cache_sync_timeout(mut self, limit: Duration) -> Self {
        self.cache_sync_timeout = limit;
        self
    }

    /// Sets the backoff, rate limit and ageing of the workqueue.
    pub fn queue(mut self, options: QueueOptions) -> Self {
        self.queue = options;
        self
    }

    /// Adds the controller to the manager. It starts with the manager, or immediately if the
    /// manager is running.
    ///
    /// # Errors
    /// When the name is taken, a type is declared with conflicting cache options, or the manager is
    /// stopping.
    pub fn register(self) -> Result<ControllerHandle, RegisterError> {
        let Self { environment, reconciler, kind, name, primary, watches, reads, sources, .. } =
            self;
        let name: Arc<str> = name.unwrap_or_else(|| kind.kind().to_lowercase()).into();
        let leadership = match self.needs_leader_election {
            true => environment.elections.leadership(self.lease.as_deref()),
            false => Elections::none(),
        };
        let client = leadership.client(&environment.client).with_field_manager(&name);
        let watches: Vec<Watch> = [primary].into_iter().chain(watches).collect();
        let declarations = Declarations::new(self.clusters, &watches, &reads);
        let caches = (client.cache(), environment.clusters.declarations());
        declarations.declare(caches, &name).map_err(|error| RegisterError::Watch {
            controller: name.to_string(),
            source: Box::new(WatchError::Declare(error)),
        })?;
        let core = Arc::new(Core {
            counters: ReconcileCounters::new(&environment.metrics.reconciles, &name, self.workers),
            types: declarations.types(&kind),
            name,
            kind,
            client,
            queue: Queue::new(self.queue),
            journal: Journal::new(JOURNAL),
            filter: self.filter,
            selection: self.clusters,
            clusters: environment.clusters.clone(),
            workers: self.workers,
            timeout: self.timeout,
            leadership,
            state: State::new(),
            pause: Pause::new(),
        });
        let Declarations { watched, reads, remote } = declarations;
        let controller = Controller {
            worker: Worker::new(core.clone(), reconciler, self.timeout, environment),
            watched,
            reads: reads.into_iter().map(|(kind, _)| kind).collect(),
            remote,
            sources,
            cache_sync_timeout: self.cache_sync_timeout,
        };
        let handle = ControllerHandle(core);
        environment
            .add(handle.clone(), self.needs_leader_election, move |stop| controller.run(stop))?;
        Ok(handle)
    }
}

/// The types that a controller needs in caches.
struct Declarations {
    /// In the manager's own cluster. The first is the reconciled type; there are none if its objects
    /// are only those of engaged clusters.
    watched: Vec<Watch>,
    reads: Vec<(Kind, Option<TypeOptions>)>,
    /// In engaged clusters.
    remote: Remote,
}

impl Declarations {
    fn new(
        selection: ClusterSelection,
        watches: &[Watch],
        reads: &[(Kind, Option<TypeOptions>)],
    ) -> Self {
        let own = |watch: &&Watch| selection.includes_own() && !watch.is_remote();
        let engaged = |watch: &&Watch| selection.includes_engaged() || watch.is_remote();
        let select = |included: bool| if included { reads.to_vec() } else { Vec::new() };
        Self {
            watched: watches.iter().filter(own).cloned().collect(),
            remote: Remote {
                watches: watches.iter().filter(engaged).cloned().collect(),
                reads: select(selection.includes_engaged()),
            },
            reads: select(selection.includes_own()),
        }
    }

    /// Declares the types in the cache of the manager's own cluster, and in that of engaged ones.
    fn declare(&self, (own, engaged): (&Cache, &Cache), name: &str) -> Result<(), DeclareError> {
        self.remote.declare(engaged, name)?;
        for (kind, options) in &self.reads {
            watches::declare(own, kind, options.clone(), name)?;
        }
        self.watched.iter().try_for_each(|watch| watch.declare(own, name))
    }

    fn types(&self, reconciled: &Kind) -> RegisteredTypes {
        let (owned, other): (Vec<_>, Vec<_>) =
            self.watched.iter().skip(1).partition(|watch| watch.is_owned());
        let kinds = |watches: Vec<&Watch>| {
            watches.into_iter().map(|watch| watch.watched_kind().clone()).collect()
        };
        RegisteredTypes {
            reconciled: reconciled.clone(),
            owned: kinds(owned),
            watched: kinds(other),
            read: self.reads.iter().map(|(kind, _)| kind.clone()).collect(),
        }
    }
}
