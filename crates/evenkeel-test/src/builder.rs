//! A cluster of the test's choosing.

use std::time::Duration;

use evenkeel::Manager;
use evenkeel_cluster::Settings;
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::task::JoinSet;

use crate::backend::Backend;
use crate::{PATIENCE, TestCluster, fail};

/// When the wall clock of a cluster in virtual time starts.
const EPOCH: i64 = 1_767_225_600;

/// How a test's cluster is made; see [`TestCluster::builder`].
#[derive(Clone, Debug)]
#[must_use]
pub struct Builder {
    settings: Settings,
    bare: bool,
    virtual_time: Option<u64>,
    patience: Duration,
}

impl Default for Builder {
    fn default() -> Self {
        Self { settings: Settings::default(), bare: false, virtual_time: None, patience: PATIENCE }
    }
}

impl Builder {
    /// How the cluster behaves: nodes, delays, which controllers run.
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// Only the API server, no controllers: nothing happens but what the test does.
    pub fn bare(mut self) -> Self {
        self.bare = true;
        self
    }

    /// Time passes only when everybody waits, and the run repeats from `seed`: uids, names, times,
    /// order. Needs tokio's single-threaded runtime, as `#[tokio::test]` has it; back ends outside
    /// of this process ignore it.
    pub fn virtual_time(mut self, seed: u64) -> Self {
        self.virtual_time = Some(seed);
        self
    }

    /// How long [`TestCluster::eventually`] waits; thirty seconds unless set.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Starts it.
    ///
    /// # Panics
    /// When it cannot be started.
    pub async fn start(self) -> TestCluster {
        let mut settings = self.settings;
        let found = Backend::find().unwrap_or_else(|missing| cannot_start(&missing));
        if let (Some(seed), true) = (self.virtual_time, found.is_embedded()) {
            tokio::time::pause();
            settings.seed = Some(seed);
            let start = Timestamp::from_second(EPOCH).unwrap_or_default();
            settings.clock = Some(evenkeel::Clock::starting_at(start));
        }
        let backend = match found.start(&settings, self.bare).await {
            Ok(backend) => backend,
            Err(error) => cannot_start(&*error),
        };
        let observer = Manager::builder("test").build(backend.client());
        let namespace = match backend.namespace().await {
            Ok(namespace) => namespace,
            Err(error) => fail(&format!("no namespace for the test: {error}")),
        };
        TestCluster {
            backend,
            namespace,
            observer,
            patience: self.patience,
            accounts: Mutex::default(),
            managers: Vec::new(),
            running: JoinSet::new(),
        }
    }
}

fn cannot_start(error: &dyn std::error::Error) -> ! {
    fail(&format!("the cluster cannot be started: {error}"))
}
