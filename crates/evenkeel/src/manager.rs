//! Everything an operator runs, started in order and ended in order.
//!
//! There is no leader election yet: every replica takes itself for the leader. Run one replica.
//!
//! A manager owns one cluster's client and cache, the controllers, and whatever else must run. It
//! starts `HTTP → webhooks → caches → work on every replica → work of the leader` and ends them the
//! other way round: intake stops first, running reconciles get their grace, only then is anything
//! cancelled. There is no global state: two managers in one process do not meet.

mod args;

mod config;

mod lifecycle;

mod readiness;

mod runnable;

mod signal;

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use args::{Args, Program};
pub(crate) use config::Access;
pub use config::ConfigError;
pub use lifecycle::RunError;
pub use readiness::{Check, Readiness};
pub use runnable::{Runnable, Stop};

use crate::cache::{Cache, CacheOptions, DeclareError, Informer, ReadError, TypeOptions};
use crate::client::Client;
use crate::clock::Clock;
use crate::connect::Transport;
use crate::controller::{ControllerBuilder, ControllerHandle, WatchError, tried_on};
use crate::error::Result;
use crate::events::{self, EventRecorder, EventSender, EventWriter};
use crate::journal::Record;
use crate::kind::{Kind, Object};
use crate::random::Random;
use crate::reconcile::Reconciler;
use lifecycle::{Group, Lifecycle, Pending};

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
    client: Client,
    clock: Clock,
    random: Mutex<Random>,
    grace: Option<Duration>,
    on_reconcile: Option<OnReconcile>,
    lifecycle: Lifecycle,
    controllers: Mutex<Vec<ControllerHandle>>,
    kept: Mutex<Kept>,
    event_sender: EventSender,
    event_writer: EventWriter,
    stop: CancellationToken,
}

/// Called after each reconcile.
pub(crate) type OnReconcile = Arc<dyn Fn(&Record) + Send + Sync>;

/// Types that are cached for as long as the manager runs.
#[derive(Default)]
struct Kept {
    kinds: Vec<Kind>,
    /// What keeps them, while it runs.
    informers: Option<Vec<Informer>>,
}

impl Inner {
    /// Begins to watch what is kept.
    fn keep(&self) -> Result<Vec<Informer>, RunError> {
        let mut kept = self.kept.lock();
        let mut informers = Vec::with_capacity(kept.kinds.len());
        for kind in &kept.kinds {
            let failed = |error: ReadError| RunError::Failed {
                name: format!("cache of {kind}"),
                source: error.into(),
            };
            informers.push(self.client.cache().informer(kind).map_err(failed)?);
        }
        kept.informers = Some(informers.clone());
        Ok(informers)
    }

    /// Keeps nothing any more.
    fn release(&self) {
        let informers = self.kept.lock().informers.take();
        drop(informers);
    }
}

/// How a manager is made; see [`Manager::builder`].
///
/// [`build`](Self::build) takes a client, [`connect`](Self::connect) finds the cluster, and
/// [`connect_with_args`](Self::connect_with_args) does so as the command line says.
#[must_use]
pub struct ManagerBuilder {
    name: String,
    version: Option<String>,
    crds: Vec<CustomResourceDefinition>,
    kubeconfig: Option<PathBuf>,
    context: Option<String>,
    cache: CacheOptions,
    clock: Clock,
    seed: Option<u64>,
    grace: Option<Duration>,
    on_reconcile: Option<OnReconcile>,
}

/// Something that cannot be added to a manager.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// Two controllers of one manager cannot have one name.
    #[error("there is a controller {0:?} already; call `named` to give this one another name")]
    NameTaken(String),
    /// A type cannot be cached as the controller asks.
    #[error("controller {controller:?} cannot be registered")]
    Watch {
        /// The controller.
        controller: String,
        /// What is wrong.
        source: Box<WatchError>,
    },
    /// The manager is stopping or has stopped.
    #[error("the manager is stopping")]
    Stopping,
}

/// A manager that stopped before its caches were filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the manager stopped before its caches were filled")]
pub struct NotSynced;

impl Manager {
    /// A manager for a program whose command line is the manager's: short for
    /// [`Manager::builder`]`(name).`[`connect_with_args`](ManagerBuilder::connect_with_args)`()`.
    ///
    /// # Errors
    /// As [`connect_with_args`](ManagerBuilder::connect_with_args).
    pub async fn from_args(name: &str) -> Result<Self, ConfigError> {
        Self::builder(name).connect_with_args().await
    }

    /// A manager with options. `name` is the operator's: it is in the log and in `--help`, and it is
    /// the field manager of what is written outside of controllers.
    ///
    /// ```no_run
    /// use evenkeel::cache::CacheOptions;
    /// use evenkeel::prelude::*;
    ///
    /// # async fn example() -> Result<()> {
    /// let manager = Manager::builder("greeter")
    ///     .version(env!("CARGO_PKG_VERSION"))
    ///     .cache(CacheOptions { budget: 256 << 20, ..CacheOptions::default() })
    ///     .connect_with_args()
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn builder(name: &str) -> ManagerBuilder {
        ManagerBuilder {
            name: name.to_owned(),
            version: None,
            crds: Vec::new(),
            kubeconfig: None,
            context: None,
            cache: CacheOptions::default(),
            clock: Clock::system(),
            seed: None,
            grace: Some(Duration::from_secs(30)),
            on_reconcile: None,
        }
    }

    /// The operator's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Begins a controller; see [`ControllerBuilder`] for what can be said of it.
    pub fn controller<R: Reconciler>(&self, reconciler: R) -> ControllerBuilder<'_, R> {
        ControllerBuilder::new(self, reconciler)
    }

    /// The client: cached reads, writes as the operator.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.0.client
    }

    /// The cache.
    #[must_use]
    pub fn cache(&self) -> &Cache {
        self.0.client.cache()
    }

    /// Where wall-clock time comes from.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        &self.0.clock
    }

    /// Returns a recorder of Kubernetes events as `component`, for code outside of controllers and
    /// for events about objects other than the reconciled one. Events are written while the manager
    /// runs.
    #[must_use]
    pub fn event_recorder(&self, component: &str) -> EventRecorder {
        self.0.event_sender.recorder(component)
    }

    /// Keeps a type in the cache for as long as the manager runs, whoever reads it.
    ///
    /// # Errors
    /// When the type cannot be cached like this.
    pub fn caches<K: Object>(&self, options: TypeOptions) -> Result<(), DeclareError> {
        let kind = Kind::of::<K>();
        self.cache().declare(&kind, options)?;
        let mut kept = self.0.kept.lock();
        if let Some(informers) = &mut kept.informers
            && let Ok(informer) = self.cache().informer(&kind)
        {
            informers.push(informer);
        }
        kept.kinds.push(kind);
        Ok(())
    }

    /// Files objects of type `K` under the values that `values` gives, for
    /// `list::<K>().index(name, value)`. The type must be cached, now or later.
    ///
    /// # Errors
    /// When there is an index of that name.
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
        let group = Group::of(runnable.needs_leader_election());
        self.push(Pending::new(group, name, move |stop| runnable.run(Stop(stop))))
    }

    /// Adds a function that needs leader election; see [`Runnable::needs_leader_election`].
    ///
    /// # Errors
    /// When the manager is stopping.
    pub fn spawn<F>(
        &self,
        name: &str,
        run: impl FnOnce(Stop) -> F + Send + 'static,
    ) -> Result<(), RegisterError>
    where
        F: Future<Output = Result<()>> + Send + 'static,
    {
        self.push(Pending::new(Group::of(true), name, move |stop| run(Stop(stop))))
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

    pub(crate) fn add_controller<F>(
        &self,
        handle: ControllerHandle,
        needs_leader_election: bool,
        run: impl FnOnce(CancellationToken) -> F + Send + 'static,
    ) -> Result<(), RegisterError>
    where
        F: Future<Output = Result<()>> + Send + 'static,
    {
        let mut controllers = self.0.controllers.lock();
        if controllers.iter().any(|present| present.name() == handle.name()) {
            return Err(RegisterError::NameTaken(handle.name().to_owned()));
        }
        self.push(Pending::new(Group::of(needs_leader_election), handle.name(), run))?;
        controllers.push(handle);
        Ok(())
    }

    fn push(&self, pending: Pending) -> Result<(), RegisterError> {
        self.0.lifecycle.push(pending)
    }

    /// The controllers, in the order they were registered.
    #[must_use]
    pub fn controllers(&self) -> Vec<ControllerHandle> {
        self.0.controllers.lock().clone()
    }

    /// Whether everything that should run does, and what does not.
    #[must_use]
    pub fn readiness(&self) -> Readiness {
        readiness::of(&self.controllers(), self.cache())
    }

    /// Waits until the manager runs, every type it caches is listed and the workers of every
    /// controller that is registered by then have started.
    ///
    /// A type that the API server refuses or does not serve is waited for without end;
    /// [`readiness`](Manager::readiness) names it.
    ///
    /// # Errors
    /// When the manager stops before that.
    pub async fn synced(&self) -> Result<(), NotSynced> {
        let synced = async {
            if !self.0.lifecycle.started().await {
                return Err(NotSynced);
            }
            let informers = self.0.kept.lock().informers.clone().unwrap_or_default();
            for informer in &informers {
                tried_on(|| informer.synced()).await;
            }
            for controller in self.controllers() {
                if !controller.synced().await {
                    return Err(NotSynced);
                }
            }
            Ok(())
        };
        tokio::select! {
            biased;
            () = self.0.lifecycle.ended() => Err(NotSynced),
            synced = synced => synced,
        }
    }

    /// Has [`run`](Manager::run) end in order.
    pub fn stop(&self) {
        self.0.stop.cancel();
    }

    /// Runs everything until the process is asked to end, or something that must run fails.
    ///
    /// The first SIGINT or SIGTERM ends in order, the second at once. After the first the process
    /// ends within the grace period whatever happens: if threads are blocked by then, or if what the
    /// program does after this returned takes longer, it exits with code 1.
    ///
    /// # Errors
    /// What a runnable ended with, and what did not end in time.
    pub async fn run(self) -> Result<(), RunError> {
        let stop = self.0.stop.clone();
        signal::watch(self.0.grace, move || stop.cancel()).await;
        lifecycle::run(&self.0).await
    }

    /// Runs everything until `end` resolves or [`stop`](Manager::stop) is called; signals are left
    /// to the program.
    ///
    /// # Errors
    /// As [`run`](Manager::run).
    pub async fn run_until(self, end: impl Future<Output = ()>) -> Result<(), RunError> {
        let ended = lifecycle::run(&self.0);
        tokio::pin!(ended);
        tokio::select! {
            biased;
            ended = &mut ended => return ended,
            () = end => self.stop(),
        }
        ended.await
    }

    pub(crate) fn on_reconcile(&self) -> Option<OnReconcile> {
        self.0.on_reconcile.clone()
    }

    /// A stream of randomness of its own for each who asks.
    pub(crate) fn random(&self) -> Random {
        Random::new(self.0.random.lock().next())
    }
}

impl ManagerBuilder {
    /// What goes for all types of the cache.
    pub fn cache(mut self, options: CacheOptions) -> Self {
        self.cache = options;
        self
    }

    /// Where wall-clock time comes from.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Makes jitter and identifiers repeat.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// How long running work may take to end; 30 seconds unless set, without end if none.
    pub fn grace(mut self, grace: Option<Duration>) -> Self {
        self.grace = grace;
        self
    }

    /// Calls `observe` with the record of each reconcile of each controller, for tests and metrics.
    /// It runs on the worker, so it should be quick.
    pub fn on_reconcile(mut self, observe: impl Fn(&Record) + Send + Sync + 'static) -> Self {
        self.on_reconcile = Some(Arc::new(observe));
        self
    }

    /// The operator's own version for `--version`: `env!("CARGO_PKG_VERSION")` in the program's
    /// crate. A library cannot know it.
    pub fn version(mut self, version: &str) -> Self {
        self.version = Some(version.to_owned());
        self
    }

    /// A CustomResourceDefinition that the operator needs; the flag `--print-crds` prints it. It is
    /// not installed: that takes permissions that an operator should not have.
    pub fn crd<K: CustomResourceExt>(mut self) -> Self {
        self.crds.push(K::crd());
        self
    }

    /// The kubeconfig to connect with, instead of what the environment names.
    pub fn kubeconfig(mut self, path: impl Into<Option<PathBuf>>) -> Self {
        self.kubeconfig = path.into();
        self
    }

    /// The context of the kubeconfig, instead of its current one.
    pub fn context(mut self, name: impl Into<Option<String>>) -> Self {
        self.context = name.into();
        self
    }

    /// The manager, on the cluster that is named by [`kubeconfig`](Self::kubeconfig), the variable
    /// `KUBECONFIG`, the service account of the pod the program runs in, or `~/.kube/config`; in
    /// this order.
    ///
    /// For programs with a command line of their own, which also set up their own log, with
    /// [`logging::init`](crate::logging::init) for instance.
    ///
    /// # Errors
    /// When none of them leads to a cluster; the error names what was tried.
    pub async fn connect(mut self) -> Result<Manager, ConfigError> {
        let transport = config::connect(self.kubeconfig.take(), self.context.take()).await?;
        Ok(self.over(transport))
    }

    /// Parses the command line, starts the log, and [connects](Self::connect) as the flags say.
    ///
    /// | flag | |
    /// |---|---|
    /// | `--kubeconfig FILE` | instead of [`kubeconfig`](Self::kubeconfig) |
    /// | `--context NAME` | instead of [`context`](Self::context) |
    /// | `--log-level LEVEL` | see [`logging::init`](crate::logging::init) |
    /// | `--print-crds` | prints the YAML of every [`crd`](Self::crd) and exits |
    /// | `--help`, `--version` | print and exit |
    ///
    /// Any other argument ends the process with exit code 2. A program with flags of its own parses
    /// them itself and calls [`connect`](Self::connect).
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub async fn connect_with_args(mut self) -> Result<Manager, ConfigError> {
        let program =
            Program { name: &self.name, version: self.version.as_deref(), crds: &self.crds };
        let Args { kubeconfig, context, .. } = program.start(std::env::args_os().skip(1));
        self.kubeconfig = kubeconfig.or(self.kubeconfig);
        self.context = context.or(self.context);
        self.connect().await
    }

    /// The manager, on a cluster that `client` reaches.
    ///
    /// The client must not retry by itself (`kube::Config::default_retry` off): the runtime's own
    /// deadlines and back-offs would not be its own otherwise.
    #[must_use]
    pub fn build(self, client: kube::Client) -> Manager {
        self.over(client.into())
    }

    fn over(self, transport: Transport) -> Manager {
        let mut random = self.seed.map_or_else(Random::from_entropy, Random::new);
        let mut options = self.cache;
        options.seed = options.seed.or_else(|| Some(random.next()));
        let cache = Cache::over(transport.clone(), options);
        let names = Random::new(random.next());
        let (event_sender, event_writer) = events::channel();
        Manager(Arc::new(Inner {
            client: Client::new(transport, cache, &self.name, names),
            name: self.name.into(),
            clock: self.clock,
            random: Mutex::new(random),
            grace: self.grace,
            on_reconcile: self.on_reconcile,
            lifecycle: Lifecycle::default(),
            controllers: Mutex::default(),
            kept: Mutex::default(),
            event_sender,
            event_writer,
            stop: CancellationToken::new(),
        }))
    }

    /// The manager of a run that repeats: `seed` for all randomness, `start` for the wall clock,
    /// which then follows tokio's.
    pub fn deterministic(self, seed: u64, start: Timestamp) -> Self {
        self.seed(seed).clock(Clock::starting_at(start))
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
