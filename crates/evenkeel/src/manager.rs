//! Everything an operator runs, started in order and ended in order.
//!
//! A manager owns one cluster's client and cache, the controllers, and whatever else must run. It
//! starts `HTTP → webhooks → caches → work on every replica → work of the leader` and ends them the
//! other way round: intake stops first, running reconciles get their grace, only then is anything
//! cancelled. There is no global state: two managers in one process do not meet.

mod config;

mod lifecycle;

mod readiness;

mod runnable;

mod signal;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

pub(crate) use config::Access;
pub use config::ConfigError;
pub use lifecycle::RunError;
pub use readiness::{Check, Readiness};
pub use runnable::{Runnable, Stop, When};

use crate::announce::{self, Announcer, Counter, Office};
use crate::cache::{Cache, CacheOptions, DeclareError, Informer, ReadError, TypeOptions};
use crate::client::Client;
use crate::clock::Clock;
use crate::controller::{Builder, ControllerHandle, WatchError};
use crate::kind::{Kind, Object};
use crate::random::Random;
use crate::reconcile::{BoxError, Reconciler};
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
    lifecycle: Lifecycle,
    controllers: Mutex<Vec<ControllerHandle>>,
    kept: Mutex<Kept>,
    counter: Counter,
    office: Office,
    stop: CancellationToken,
}

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
#[must_use]
pub struct ManagerBuilder {
    name: String,
    cache: CacheOptions,
    clock: Clock,
    seed: Option<u64>,
    grace: Option<Duration>,
}

/// Something that cannot be added to a manager.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// Two controllers of one manager cannot have one name.
    #[error("there is a controller {0:?} already; call `named` to give this one another name")]
    NameTaken(String),
    /// A type cannot be cached as the controller asks.
    #[error("controller {controller:?}: {source}")]
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

impl Manager {
    /// A manager for the cluster that `--kubeconfig` and `--context` on the command line, the
    /// variable `KUBECONFIG`, the pod the program runs in, or the user's own kubeconfig name; in
    /// this order.
    ///
    /// # Errors
    /// When none of them leads to a cluster; the error says what was tried.
    pub async fn from_args(name: &str) -> Result<Self, ConfigError> {
        Ok(Self::builder(name).build(config::from_args(arguments()).await?))
    }

    /// A manager of the author's choosing. `name` is the operator's: it is in the log and owns what
    /// is written outside of controllers.
    pub fn builder(name: &str) -> ManagerBuilder {
        ManagerBuilder {
            name: name.to_owned(),
            cache: CacheOptions::default(),
            clock: Clock::system(),
            seed: None,
            grace: Some(Duration::from_secs(30)),
        }
    }

    /// The operator's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Begins a controller; see [`Builder`] for what can be said of it.
    pub fn controller<R: Reconciler>(&self, reconciler: R) -> Builder<'_, R> {
        Builder::new(self, reconciler)
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

    /// Tells people of things by events in the name of `component`, for what is no controller or
    /// speaks of other objects than its own. Events are written while the manager runs.
    #[must_use]
    pub fn announcer(&self, component: &str) -> Announcer {
        self.0.counter.announcer(component)
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

    /// Adds something else that runs: before the start it waits for it, afterwards it starts now.
    ///
    /// # Errors
    /// When the manager is stopping.
    pub fn add<R: Runnable>(&self, runnable: R) -> Result<(), RegisterError> {
        let name = std::any::type_name::<R>().to_owned();
        self.spawn(&name, R::WHEN, move |stop| runnable.run(stop))
    }

    /// Adds a function that runs, on every replica or on the leader alone.
    ///
    /// # Errors
    /// When the manager is stopping.
    pub fn spawn<F>(
        &self,
        name: &str,
        when: When,
        run: impl FnOnce(Stop) -> F + Send + 'static,
    ) -> Result<(), RegisterError>
    where
        F: Future<Output = Result<(), BoxError>> + Send + 'static,
    {
        self.push(Pending::new(Group::of(when), name, move |stop| run(Stop(stop))))
    }

    pub(crate) fn add_controller<F>(
        &self,
        handle: ControllerHandle,
        when: When,
        run: impl FnOnce(CancellationToken) -> F + Send + 'static,
    ) -> Result<(), RegisterError>
    where
        F: Future<Output = Result<(), BoxError>> + Send + 'static,
    {
        let mut controllers = self.0.controllers.lock();
        if controllers.iter().any(|present| present.name() == handle.name()) {
            return Err(RegisterError::NameTaken(handle.name().to_owned()));
        }
        self.push(Pending::new(Group::of(when), handle.name(), run))?;
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

    /// The manager, on a cluster that `client` reaches.
    ///
    /// The client must not retry by itself (`kube::Config::default_retry` off): the runtime's own
    /// deadlines and back-offs would not be its own otherwise.
    #[must_use]
    pub fn build(self, client: kube::Client) -> Manager {
        let mut random = self.seed.map_or_else(Random::from_entropy, Random::new);
        let mut options = self.cache;
        options.seed = options.seed.or_else(|| Some(random.next()));
        let cache = Cache::new(client.clone(), options);
        let names = Random::new(random.next());
        let (counter, office) = announce::channel();
        Manager(Arc::new(Inner {
            client: Client::new(client, cache, &self.name, names),
            name: self.name.into(),
            clock: self.clock,
            random: Mutex::new(random),
            grace: self.grace,
            lifecycle: Lifecycle::default(),
            controllers: Mutex::default(),
            kept: Mutex::default(),
            counter,
            office,
            stop: CancellationToken::new(),
        }))
    }

    /// The manager of a run that repeats: `seed` for all randomness, `start` for the wall clock,
    /// which then follows tokio's.
    pub fn deterministic(self, seed: u64, start: Timestamp) -> Self {
        self.seed(seed).clock(Clock::starting_at(start))
    }
}

/// The command line. What is not text names no flag of ours.
fn arguments() -> impl Iterator<Item = String> {
    std::env::args_os().map(|argument| argument.to_string_lossy().into_owned())
}

impl std::fmt::Debug for Manager {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Manager")
            .field("name", &self.0.name)
            .field("controllers", &self.controllers())
            .finish_non_exhaustive()
    }
}
