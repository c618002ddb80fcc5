//! The manager: starts and stops everything an operator runs.
//!
//! A manager owns one cluster's client and cache, the controllers and other runnables. It starts
//! `webhooks → caches → runnables of every replica → runnables of the leader` and stops them
//! gracefully: intake stops first, running reconciles get the grace period, then what is left is
//! cancelled; webhooks stop last. With [leader election](crate::leader) the runnables of the leader
//! wait until this process is elected, and the lease is released when they have ended. There is no
//! global state: several managers can run in one process.

mod args;

mod bind;

mod builder;

mod collect;

#[cfg(unix)]
mod debug;

mod describe;

mod parent;

mod readiness;

mod run;

mod runnable;

mod servers;

mod signal;

mod webhooks;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::rbac::v1::PolicyRule;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

pub use bind::{BindAddress, BindAddressError};
pub use builder::ManagerBuilder;
pub use readiness::{Check, Readiness};
pub use run::RunError;
pub use runnable::{Runnable, Stop};

pub use crate::connect::ConfigError;
pub use crate::controller::environment::RegisterError;

use self::servers::Servers;
use crate::cache::{Cache, DeclareError, Informer, ReadError, TypeOptions};
use crate::client::Client;
use crate::clock::Clock;
use crate::clusters::Clusters;
use crate::controller::{ControllerBuilder, ControllerHandle, Environment, wait_retrying};
use crate::error::{Error, Result};
use crate::events::{EventRecorder, EventWriter};
use crate::kind::{Kind, Object};
use crate::leader::LeaderElectionHandle;
use crate::lifecycle::{Group, Pending, Stopping};
use crate::metrics::Registry;
use crate::reconcile::Reconciler;
use crate::webhook::Webhooks;

/// Runs controllers against one cluster.
///
/// ```no_run
/// use evenkeel::prelude::*;
/// # use evenkeel::k8s_openapi::api::core::v1::ConfigMap;
/// # struct Greeter;
/// # impl Reconciler for Greeter {
/// #     type Object = ConfigMap;
/// #     async fn reconcile(&self, _: &Context<ConfigMap>) -> Result<Action> { Ok(Action::done()) }
/// # }
///
/// #[tokio::main]
/// async fn main() -> Result<()> {
///     let manager = Manager::from_args("greeter").await?;
///     manager.controller(Greeter).workers(4).register()?;
///     Ok(manager.run().await?)
/// }
/// ```
#[derive(Clone)]
pub struct Manager(Arc<Inner>);

struct Inner {
    name: Arc<str>,
    environment: Environment,
    grace_period: Option<Duration>,
    cached_types: Mutex<CachedTypes>,
    event_writer: EventWriter,
    servers: Servers,
    #[cfg(feature = "otel")]
    otel: Option<(crate::otel::OtelExporter, crate::connect::Observer)>,
    webhooks: Arc<Webhooks>,
    stop: CancellationToken,
    version: Option<String>,
    crds: Vec<CustomResourceDefinition>,
    /// The permissions that were added by hand.
    rules: Vec<PolicyRule>,
    /// The flags in the description that is printed instead of running.
    described_flags: Option<Vec<&'static str>>,
}

/// Types that stay cached while the manager runs.
#[derive(Default)]
struct CachedTypes {
    kinds: Vec<Kind>,
    /// Their informers while the manager runs.
    informers: Option<Vec<Informer>>,
}

impl Inner {
    /// Starts the informers of the cached types.
    fn start_caches(&self) -> Result<Vec<Informer>, RunError> {
        let mut cached_types = self.cached_types.lock();
        let mut informers = Vec::with_capacity(cached_types.kinds.len());
        for kind in &cached_types.kinds {
            let failed = |error: ReadError| RunError::Failed {
                name: format!("cache of {kind}"),
                source: error.into(),
            };
            informers.push(self.environment.client.cache().informer(kind).map_err(failed)?);
        }
        cached_types.informers = Some(informers.clone());
        Ok(informers)
    }

    /// Exports traces until `stop`, if that is enabled.
    async fn export_traces(&self, stop: CancellationToken) {
        #[cfg(feature = "otel")]
        if let Some((exporter, observer)) = &self.otel {
            exporter.run(observer, stop.clone()).await;
        }
        drop(stop);
    }

    /// Releases the informers.
    fn release_caches(&self) {
        let informers = self.cached_types.lock().informers.take();
        drop(informers);
    }
}

/// The manager stopped before its caches had synced.
///
/// ```no_run
/// use evenkeel::manager::NotSynced;
///
/// # async fn example(manager: &evenkeel::Manager) {
/// if let Err(NotSynced) = manager.wait_until_synced().await {
///     println!("stopped before the start");
/// }
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the manager stopped before its caches had synced")]
pub struct NotSynced;

impl Manager {
    /// Creates a manager from the command line: short for
    /// [`Manager::builder`]`(name).`[`connect_with_args`](ManagerBuilder::connect_with_args)`()`.
    ///
    /// # Errors
    /// Same as [`connect_with_args`](ManagerBuilder::connect_with_args).
    pub async fn from_args(name: &str) -> Result<Self, ConfigError> {
        Self::builder(name).connect_with_args().await
    }

    /// Returns a builder. `name` is the operator's name in logs and `--help`, and the field manager
    /// of writes outside of controllers.
    ///
    /// ```no_run
    /// use evenkeel::cache::CacheOptions;
    /// use evenkeel::prelude::*;
    ///
    /// # async fn example() -> Result<()> {
    /// let manager = Manager::builder("greeter")
    ///     .version(env!("CARGO_PKG_VERSION"))
    ///     .cache(CacheOptions::new().budget(256 << 20))
    ///     .connect_with_args()
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn builder(name: &str) -> ManagerBuilder {
        ManagerBuilder::new(name)
    }

    /// Returns the operator's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Returns a builder of a controller that runs `reconciler`.
    pub fn controller<R, E>(&self, reconciler: R) -> ControllerBuilder<'_, R, E>
    where
        R: Reconciler<E, Object: Object>,
        E: Into<Error> + Send + 'static,
    {
        let kind = Kind::of::<R::Object>();
        ControllerBuilder::new(&self.0.environment, kind, reconciler)
    }

    /// Returns a builder of a controller that runs `reconciler` for objects of a kind that is known
    /// at run time.
    ///
    /// The object is a `DynamicObject`, or another type that the objects decode as, such as
    /// `kube::core::Object<Spec, Status>`.
    ///
    /// ```no_run
    /// use evenkeel::k8s_openapi::api::core::v1::ConfigMap;
    /// use evenkeel::kube::core::{DynamicObject, GroupVersionKind};
    /// use evenkeel::prelude::*;
    ///
    /// struct Copies;
    ///
    /// impl Reconciler for Copies {
    ///     type Object = DynamicObject;
    ///
    ///     async fn reconcile(&self, cx: &Context<DynamicObject>) -> Result<Action> {
    ///         let Some(object) = cx.object() else { return Ok(Action::done()) };
    ///         let mut map = ConfigMap::default();
    ///         map.metadata.name = Some(cx.key().name().to_owned());
    ///         map.data = Some([("spec".to_owned(), object.data["spec"].to_string())].into());
    ///         cx.apply_owned(map).await?;
    ///         cx.event("Copied", &format!("Copied the {}", cx.kind()));
    ///         Ok(Action::done())
    ///     }
    /// }
    ///
    /// async fn register(manager: &Manager, gvk: &GroupVersionKind) -> Result<()> {
    ///     let kind = manager.client().discover(gvk).await?;
    ///     manager.dynamic_controller(&kind, Copies).owns::<ConfigMap>().register()?;
    ///     Ok(())
    /// }
    /// ```
    pub fn dynamic_controller<R, E>(
        &self,
        kind: &Kind,
        reconciler: R,
    ) -> ControllerBuilder<'_, R, E>
    where
        R: Reconciler<E>,
        E: Into<Error> + Send + 'static,
    {
        ControllerBuilder::new(&self.0.environment, kind.clone(), reconciler)
    }

    /// Returns the client: cached reads, and writes with the operator's name as field manager.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.0.environment.client
    }

    /// Returns the client of leader-bound work other than reconcilers: its requests, also those of its
    /// `kube` client, are refused unless this process is the leader. Without leader election it is the
    /// same as [`client`](Manager::client).
    #[must_use]
    pub fn leader_client(&self) -> Client {
        let environment = &self.0.environment;
        environment.elections.leadership(None).client(&environment.client).clone()
    }

    /// Returns the fencing token of the current term, if this process is the leader; see
    /// [`Context::fencing_token`](crate::Context::fencing_token).
    #[must_use]
    pub fn fencing_token(&self) -> Option<u64> {
        self.0.environment.elections.leadership(None).transitions()
    }

    /// Waits until this process is the leader; returns immediately without leader election.
    pub async fn elected(&self) {
        self.0.environment.elections.leadership(None).granted().await;
    }

    /// Returns the elections that this process takes part in: that of the manager first, then those
    /// of controllers with [their own lease](ControllerBuilder::lease).
    #[must_use]
    pub fn leader_elections(&self) -> Vec<LeaderElectionHandle> {
        self.0.environment.elections.handles()
    }

    /// Returns the cache.
    #[must_use]
    pub fn cache(&self) -> &Cache {
        self.0.environment.client.cache()
    }

    /// Returns the registry of the manager's metrics, for metrics of the operator; see
    /// [`metrics`](crate::metrics).
    #[must_use]
    pub fn metrics(&self) -> &Registry {
        &self.0.environment.metrics.registry
    }

    /// Returns the clusters besides the manager's own.
    #[must_use]
    pub fn clusters(&self) -> &Clusters {
        &self.0.environment.clusters
    }

    /// Returns the wall clock.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        &self.0.environment.clock
    }

    /// Returns a recorder of Kubernetes events as `component`, for code outside of controllers and
    /// for events about objects other than the reconciled one. Events are written while the manager
    /// runs.
    #[must_use]
    pub fn event_recorder(&self, component: &str) -> EventRecorder {
        let Environment { client, event_sender, .. } = &self.0.environment;
        event_sender.recorder(component, client.clone())
    }

    /// Caches a type while the manager runs, whether or not a controller watches it.
    ///
    /// ```no_run
    /// # use evenkeel::k8s_openapi::api::core::v1::Node;
    /// use evenkeel::prelude::*;
    ///
    /// # fn example(manager: &Manager) -> Result<()> {
    /// manager.caches::<Node>(TypeOptions::new().eager::<Node>())?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// When the type is declared with conflicting options.
    pub fn caches<K: Object>(&self, options: TypeOptions) -> Result<(), DeclareError> {
        self.caches_kind(&Kind::of::<K>(), options)
    }

    /// Same as [`caches`](Manager::caches), for a type whose kind is known at run time.
    ///
    /// # Errors
    /// When the type is declared with conflicting options.
    pub fn caches_kind(&self, kind: &Kind, options: TypeOptions) -> Result<(), DeclareError> {
        self.cache().declare(kind, options)?;
        let mut cached_types = self.0.cached_types.lock();
        if let Some(informers) = &mut cached_types.informers
            && let Ok(informer) = self.cache().informer(kind)
        {
            informers.push(informer);
        }
        cached_types.kinds.push(kind.clone());
        Ok(())
    }

    /// Indexes objects of type `K` by the values that `values` returns, for
    /// `list::<K>().index(name, value)`. The type may be declared later.
    ///
    /// ```no_run
    /// use evenkeel::k8s_openapi::api::core::v1::Pod;
    ///
    /// # async fn example(manager: &evenkeel::Manager) -> evenkeel::Result<()> {
    /// manager.index("node", |pod: &Pod| {
    ///     pod.spec.iter().filter_map(|spec| spec.node_name.clone()).collect()
    /// })?;
    /// let pods = manager.client().list::<Pod>().index("node", "worker-1").await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// When an index of that name exists.
    pub fn index<K: Object>(
        &self,
        name: &str,
        values: impl Fn(&K) -> Vec<String> + Send + Sync + 'static,
    ) -> Result<(), DeclareError> {
        self.cache().index::<K>(name, values)
    }

    /// Adds a runnable. It starts with the manager, or immediately if the manager is running.
    ///
    /// # Errors
    /// When the manager is stopping.
    pub fn add<R: Runnable>(&self, runnable: R) -> Result<(), RegisterError> {
        let name = std::any::type_name::<R>();
        if !runnable.needs_leader_election() {
            let run = move |stop| runnable.run(Stop(stop));
            return self.push(Pending::new(Group::of(false), name, run));
        }
        self.spawn(name, move |stop| runnable.run(stop))
    }

    /// Adds a function that needs leader election; see [`Runnable::needs_leader_election`]. It should
    /// use [`leader_client`](Manager::leader_client).
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # fn example(manager: &evenkeel::Manager) -> evenkeel::Result<()> {
    /// manager.spawn("reporter", |stop| async move {
    ///     while !stop.is_requested() {
    ///         println!("still running");
    ///         tokio::select! {
    ///             () = stop.requested() => {}
    ///             () = tokio::time::sleep(Duration::from_secs(60)) => {}
    ///         }
    ///     }
    ///     Ok(())
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// When the manager is stopping, or a lost leader becomes a standby
    /// ([`LeaderElection::reelect`](crate::leader::LeaderElection::reelect)): the function cannot be
    /// called again.
    pub fn spawn<F>(
        &self,
        name: &str,
        run: impl FnOnce(Stop) -> F + Send + 'static,
    ) -> Result<(), RegisterError>
    where
        F: Future<Output = Result<()>> + Send + 'static,
    {
        let elections = &self.0.environment.elections;
        if elections.reelect() {
            return Err(RegisterError::RunsOnce(name.to_owned()));
        }
        let leadership = elections.leadership(None);
        self.push(Pending::new(Group::of(true), name, move |stop| {
            leadership.run_once(stop, |stop| run(Stop(stop)))
        }))
    }

    /// Adds a function that needs leader election and is called in each term of this process;
    /// otherwise as [`spawn`](Manager::spawn).
    ///
    /// # Errors
    /// When the manager is stopping.
    pub fn spawn_each_term<F>(
        &self,
        name: &str,
        run: impl Fn(Stop) -> F + Send + Sync + 'static,
    ) -> Result<(), RegisterError>
    where
        F: Future<Output = Result<()>> + Send + 'static,
    {
        let leadership = self.0.environment.elections.leadership(None);
        self.push(Pending::new(Group::of(true), name, move |stop| {
            leadership.run_each_term(stop, move |stop| run(Stop(stop)))
        }))
    }

    /// Adds a function that runs on every replica; otherwise as [`spawn`](Manager::spawn).
    ///
    /// # Errors
    /// When the manager is stopping.
    pub fn spawn_without_leader_election<F>(
        &self,
        name: &str,
        run: impl FnOnce(Stop) -> F + Send + 'static,
    ) -> Result<(), RegisterError>
    where
        F: Future<Output = Result<()>> + Send + 'static,
    {
        self.push(Pending::new(Group::of(false), name, move |stop| run(Stop(stop))))
    }

    fn push(&self, pending: Pending) -> Result<(), RegisterError> {
        self.0.environment.lifecycle.push(pending).map_err(|Stopping| RegisterError::Stopping)
    }

    /// Returns the controllers in the order of registration.
    #[must_use]
    pub fn controllers(&self) -> Vec<ControllerHandle> {
        self.0.environment.controllers()
    }

    /// Returns the readiness of the controllers, caches, elections and webhooks. A standby is ready.
    ///
    /// ```no_run
    /// # fn example(manager: &evenkeel::Manager) {
    /// for check in manager.readiness().checks {
    ///     println!("{}: {}", check.name, check.problem.as_deref().unwrap_or("ready"));
    /// }
    /// # }
    /// ```
    #[must_use]
    pub fn readiness(&self) -> Readiness {
        readiness::of(&self.controllers(), self.cache(), &self.leader_elections(), &self.0.webhooks)
    }

    /// Waits until the manager runs, its webhooks are served, its caches have synced and the workers
    /// of all controllers registered by then have started, or stand by.
    ///
    /// There is no timeout: a type that the API server refuses or does not serve blocks this until
    /// it is available. [`readiness`](Manager::readiness) names it.
    ///
    /// # Errors
    /// When the manager stops before that.
    pub async fn wait_until_synced(&self) -> Result<(), NotSynced> {
        let synced = async {
            if !self.0.environment.lifecycle.started().await {
                return Err(NotSynced);
            }
            self.0.webhooks.wait_until_ready().await;
            let informers = self.0.cached_types.lock().informers.clone().unwrap_or_default();
            for informer in &informers {
                wait_retrying(|| informer.wait_until_synced()).await;
            }
            for controller in self.controllers() {
                if !controller.wait_until_synced().await {
                    return Err(NotSynced);
                }
            }
            Ok(())
        };
        tokio::select! {
            biased;
            () = self.0.environment.lifecycle.ended() => Err(NotSynced),
            synced = synced => synced,
        }
    }

    /// Returns the permissions that the registered controllers need, and those of
    /// [`ManagerBuilder::rule`]: the ClusterRole that `evenkeel manifests` renders. What a test needs
    /// besides shows in its access report.
    #[must_use]
    pub fn rules(&self) -> Vec<PolicyRule> {
        describe::rules_of(&self.0)
    }

    /// Stops the manager: [`run`](Manager::run) shuts down gracefully and returns.
    pub fn stop(&self) {
        self.0.stop.cancel();
    }

    /// Runs until SIGINT or SIGTERM, or until a runnable fails.
    ///
    /// The first signal shuts down gracefully, the second exits immediately. After the first signal
    /// the process exits within the grace period: with code 1 if threads are blocked by then, or if
    /// the program takes longer after this has returned.
    ///
    /// # Errors
    /// The error of a runnable, [`RunError::ShutdownTimedOut`] if some did not stop within the grace
    /// period, or [`RunError::LeaderElectionLost`] if this process was the leader and is no longer:
    /// the process should exit.
    pub async fn run(self) -> Result<(), RunError> {
        if self.0.described_flags.is_some() {
            return describe::print(&self.0);
        }
        let stop = self.0.stop.clone();
        signal::watch(self.0.grace_period, move || stop.cancel()).await;
        run::run(&self.0).await
    }

    /// Runs until `end` resolves or [`stop`](Manager::stop) is called. Installs no signal handlers.
    ///
    /// # Errors
    /// Same as [`run`](Manager::run).
    pub async fn run_until(self, end: impl Future<Output = ()>) -> Result<(), RunError> {
        let ended = run::run(&self.0);
        tokio::pin!(ended);
        tokio::select! {
            biased;
            ended = &mut ended => return ended,
            () = end => self.stop(),
        }
        ended.await
    }
}

impl std::fmt::Debug for Manager {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Manager")
            .field("name", &self.0.name)
            .field("controllers", &self.controllers())
            .finish_non_exhaustive()
    }
}
