//! Configures and starts a test cluster.

use std::time::Duration;

use evenkeel::{Manager, chain};
use evenkeel_cluster::{ClusterOptions, Delays, PodSimulation, PodSimulations};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use parking_lot::Mutex;
use tokio::task::JoinSet;

use crate::backend::Backend;
use crate::guard::{self, SpinGuard, SpinGuardHandle};
use crate::{DEFAULT_TIMEOUT, TestCluster, fail};

/// The start of the wall clock in virtual time, in seconds since the Unix epoch.
const EPOCH: i64 = 1_767_225_600;

/// Builds a [`TestCluster`]; see [`TestCluster::builder`].
///
/// ```
/// use std::time::Duration;
///
/// use evenkeel_test::{Delays, TestCluster};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let cluster = TestCluster::builder()
///     .virtual_time(1)
///     .delays(Delays::new().ready(Duration::from_secs(5)))
///     .timeout(Duration::from_secs(60))
///     .start()
///     .await;
/// # cluster.stop().await;
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct TestClusterBuilder {
    options: ClusterOptions,
    api_only: bool,
    virtual_time: Option<u64>,
    timeout: Duration,
    spin_limit: u32,
}

impl Default for TestClusterBuilder {
    fn default() -> Self {
        Self {
            options: ClusterOptions::default(),
            api_only: false,
            virtual_time: None,
            timeout: DEFAULT_TIMEOUT,
            spin_limit: guard::DEFAULT_SPIN_LIMIT,
        }
    }
}

impl TestClusterBuilder {
    /// Sets the options of the embedded cluster: nodes, enabled controllers. Overrides earlier
    /// calls of [`pod_simulations`](Self::pod_simulations) and [`delays`](Self::delays).
    pub fn cluster_options(mut self, options: ClusterOptions) -> Self {
        self.options = options;
        self
    }

    /// Sets the simulated outcome of containers: `choose` returns the [`PodSimulation`] of a pod,
    /// or `None` for a pod that runs and becomes ready. The annotation
    /// [`POD_SIMULATION_ANNOTATION`](crate::POD_SIMULATION_ANNOTATION) of a pod takes precedence.
    ///
    /// Has no effect unless [`TestCluster::simulates_pods`] returns true.
    ///
    /// ```
    /// use evenkeel_test::{PodSimulation, TestCluster};
    ///
    /// let builder = TestCluster::builder().pod_simulations(|pod| {
    ///     let image = pod.spec.as_ref()?.containers.first()?.image.as_deref()?;
    ///     image.ends_with(":missing").then(PodSimulation::image_pull_error)
    /// });
    /// # drop(builder);
    /// ```
    pub fn pod_simulations(
        mut self,
        choose: impl Fn(&Pod) -> Option<PodSimulation> + Send + Sync + 'static,
    ) -> Self {
        self.options.pod_simulations = PodSimulations::new(choose);
        self
    }

    /// Sets how long simulated pods take to be scheduled, to start, to become ready, to complete
    /// and to stop. The default is zero, and 50 ms to stop.
    pub fn delays(mut self, delays: Delays) -> Self {
        self.options.delays = delays;
        self
    }

    /// Runs only the API server, without the built-in controllers and nodes.
    pub fn api_only(mut self) -> Self {
        self.api_only = true;
        self
    }

    /// Runs the test in virtual time: the clock advances only while all tasks wait, and uids,
    /// names, times and order are reproducible from `seed`. Needs tokio's single-threaded runtime,
    /// the default of `#[tokio::test]`; other back ends ignore it. Clusters of one test share the
    /// clock; the wall clock of each starts at the same date.
    ///
    /// **The clock does not wait for anything outside of the runtime.** Whenever the runtime is
    /// idle, it advances to the next timer. If a reconciler calls an HTTP fake that runs in another
    /// thread or process, or behind a socket, the runtime is idle while it waits for the response,
    /// and every timeout fires first. There are three solutions:
    /// - serve the fake in memory within the test's runtime, over [`tokio::io::duplex`] for
    ///   instance, or put a trait in front of the API that the test implements;
    /// - make the call in [`tokio::task::spawn_blocking`], which stops the clock until it returns;
    /// - run this test in real time, without `virtual_time`.
    pub fn virtual_time(mut self, seed: u64) -> Self {
        self.virtual_time = Some(seed);
        self
    }

    /// Sets how long [`TestCluster::eventually`] and its siblings wait. The default is 30 seconds.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets the number of reconciles of one object in a burst that fails the test, because the
    /// controller spins. The default is 500. Up to 25 reconciles a second do not count.
    pub fn spin_limit(mut self, reconciles: u32) -> Self {
        self.spin_limit = reconciles;
        self
    }

    /// Starts the cluster. Unless the test sets a `tracing` subscriber, warnings are logged to the
    /// test output, which `cargo test` prints for failed tests; `RUST_LOG` sets another level.
    ///
    /// # Panics
    /// If the cluster cannot be started.
    pub async fn start(self) -> TestCluster {
        evenkeel::logging::init_in_test();
        let mut options = self.options;
        let found = Backend::detect().unwrap_or_else(|missing| cannot_start(&missing));
        let virtual_time = self.virtual_time.filter(|_| found.is_embedded());
        if let Some(seed) = virtual_time {
            if !is_paused() {
                tokio::time::pause();
            }
            options.seed = Some(seed);
            let start = Timestamp::from_second(EPOCH).unwrap_or_default();
            options.clock = Some(evenkeel::Clock::starting_at(start));
        }
        let backend = match found.start(&options, self.api_only).await {
            Ok(backend) => backend,
            Err(error) => cannot_start(&*error),
        };
        let open = backend.cache_options().on_demand();
        let observer = Manager::builder("test").cache(open).build(backend.client());
        let namespace = match backend.namespace().await {
            Ok(namespace) => namespace,
            Err(error) => fail(&format!("cannot create the test namespace: {}", chain(&*error))),
        };
        TestCluster {
            backend,
            namespace,
            observer,
            timeout: self.timeout,
            guard: SpinGuardHandle(SpinGuard::new(self.spin_limit, virtual_time.is_some())),
            accounts: Mutex::default(),
            running: JoinSet::new(),
        }
    }
}

/// Whether tokio's clock is paused, by another cluster of the test or by
/// `#[tokio::test(start_paused = true)]`. Tokio cannot be queried for it and panics if it is paused
/// twice. A running clock advances whenever the system clock does.
#[expect(clippy::disallowed_methods, reason = "compares the paused clock with the system clock")]
fn is_paused() -> bool {
    let (then, machine) = (tokio::time::Instant::now(), std::time::Instant::now());
    while std::time::Instant::now() == machine {
        std::hint::spin_loop();
    }
    tokio::time::Instant::now() == then
}

fn cannot_start(error: &(dyn std::error::Error + 'static)) -> ! {
    fail(&format!("cannot start the cluster: {}", chain(error)))
}
