//! A cluster of the test's choosing.

use std::time::Duration;

use evenkeel::cache::CacheOptions;
use evenkeel::{Manager, chain};
use evenkeel_cluster::{Delays, Plan, Plans, Settings};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use parking_lot::Mutex;
use tokio::task::JoinSet;

use crate::backend::Backend;
use crate::guard::{self, SpinGuard, SpinGuardHandle};
use crate::{DEFAULT_TIMEOUT, TestCluster, fail};

/// When the wall clock of a cluster in virtual time starts.
const EPOCH: i64 = 1_767_225_600;

/// How a test's cluster is made; see [`TestCluster::builder`].
#[derive(Clone, Debug)]
#[must_use]
pub struct Builder {
    settings: Settings,
    api_only: bool,
    virtual_time: Option<u64>,
    timeout: Duration,
    spin_limit: u32,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            settings: Settings::default(),
            api_only: false,
            virtual_time: None,
            timeout: DEFAULT_TIMEOUT,
            spin_limit: guard::DEFAULT_SPIN_LIMIT,
        }
    }
}

impl Builder {
    /// How the cluster behaves: nodes, which controllers run. Replaces what [`plans`](Self::plans)
    /// and [`delays`](Self::delays) set before.
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// Sets what happens to the containers of simulated pods: `choose` returns the [`Plan`] of a
    /// pod, or nothing for one that runs and becomes ready. The annotation
    /// [`PLAN_ANNOTATION`](crate::PLAN_ANNOTATION) of a pod takes precedence.
    ///
    /// Pods are simulated where [`TestCluster::simulates_pods`]; plans have no effect elsewhere.
    ///
    /// ```
    /// use evenkeel_test::{Plan, TestCluster};
    ///
    /// let builder = TestCluster::builder().plans(|pod| {
    ///     let image = pod.spec.as_ref()?.containers.first()?.image.as_deref()?;
    ///     image.ends_with(":missing").then(Plan::image_pull_error)
    /// });
    /// # drop(builder);
    /// ```
    pub fn plans(mut self, choose: impl Fn(&Pod) -> Option<Plan> + Send + Sync + 'static) -> Self {
        self.settings.plans = Plans::new(choose);
        self
    }

    /// How long simulated pods take to be scheduled, to start, to become ready, to complete and to
    /// stop; no time unless set, and 50 ms to stop.
    pub fn delays(mut self, delays: Delays) -> Self {
        self.settings.delays = delays;
        self
    }

    /// Only the API server, no controllers: nothing happens but what the test does.
    pub fn api_only(mut self) -> Self {
        self.api_only = true;
        self
    }

    /// Time passes only while everything waits, and the run repeats from `seed`: uids, names, times,
    /// order. Needs tokio's single-threaded runtime, as `#[tokio::test]` has it; back ends outside
    /// of this process ignore it. The clusters of one test share the time; each cluster's wall clock
    /// starts at the same date.
    ///
    /// **Nothing outside of the runtime is waited for.** Whenever the runtime has nothing to do, the
    /// clock jumps to the next timer. If a reconciler calls an HTTP fake that runs in another
    /// thread or process, or behind a socket, that is the very moment it waits for the answer, and
    /// every timeout fires first. There are three ways out:
    /// - serve the fake in memory within the test's runtime, over [`tokio::io::duplex`] for
    ///   instance, or put a trait in front of the API that the test implements;
    /// - make the call in [`tokio::task::spawn_blocking`]: the clock stands still until it returns;
    /// - run this test in real time, without `virtual_time`.
    pub fn virtual_time(mut self, seed: u64) -> Self {
        self.virtual_time = Some(seed);
        self
    }

    /// How long [`TestCluster::eventually`] waits; thirty seconds unless set.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// How many reconciles of one object in a burst fail the test, as a controller that keeps itself
    /// busy; 500 unless set. Up to 25 a second do not count.
    pub fn spin_limit(mut self, reconciles: u32) -> Self {
        self.spin_limit = reconciles;
        self
    }

    /// Starts it. Unless the test has a `tracing` subscriber, warnings are written to its output,
    /// which `cargo test` shows when the test fails; `RUST_LOG` asks for more.
    ///
    /// # Panics
    /// When it cannot be started.
    pub async fn start(self) -> TestCluster {
        evenkeel::logging::init_in_test();
        let mut settings = self.settings;
        let found = Backend::detect().unwrap_or_else(|missing| cannot_start(&missing));
        let virtual_time = self.virtual_time.filter(|_| found.is_embedded());
        if let Some(seed) = virtual_time {
            if !is_paused() {
                tokio::time::pause();
            }
            settings.seed = Some(seed);
            let start = Timestamp::from_second(EPOCH).unwrap_or_default();
            settings.clock = Some(evenkeel::Clock::starting_at(start));
        }
        let backend = match found.start(&settings, self.api_only).await {
            Ok(backend) => backend,
            Err(error) => cannot_start(&*error),
        };
        let open = CacheOptions { on_demand: true, ..CacheOptions::default() };
        let observer = Manager::builder("test").cache(open).build(backend.client());
        let namespace = match backend.namespace().await {
            Ok(namespace) => namespace,
            Err(error) => fail(&format!("no namespace for the test: {}", chain(&*error))),
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

/// Whether tokio's clock stands still: because of another cluster of the test, or
/// `#[tokio::test(start_paused = true)]`. Tokio has no question for it and panics when it is paused
/// again, but a clock that runs cannot show one time twice while the machine's moves on.
#[expect(clippy::disallowed_methods, reason = "tells a paused clock from one that runs")]
fn is_paused() -> bool {
    let (then, machine) = (tokio::time::Instant::now(), std::time::Instant::now());
    while std::time::Instant::now() == machine {
        std::hint::spin_loop();
    }
    tokio::time::Instant::now() == then
}

fn cannot_start(error: &(dyn std::error::Error + 'static)) -> ! {
    fail(&format!("the cluster cannot be started: {}", chain(error)))
}
