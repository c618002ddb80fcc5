//! Controllers: a reconciler with its watches, its workqueue and its workers.

mod builder;

mod throttle;

mod run;

mod counts;

mod watches;

mod worker;

use std::sync::Arc;

use tokio::sync::watch;

pub use builder::ControllerBuilder;
pub use counts::ReconcileCounts;
pub use watches::{Watch, WatchError, WatchGuard};

pub use crate::context::Context;
use crate::journal::Journal;
use crate::key::Key;
use crate::queue::{Cause, Queue};
use counts::ReconcileCounters;
pub(crate) use run::wait_retrying;
use watches::Watches;
pub(crate) use worker::message;

/// A handle to a registered controller.
#[derive(Clone)]
pub struct ControllerHandle {
    name: Arc<str>,
    journal: Journal,
    queue: Queue<Key>,
    watches: Watches,
    state: State,
    counters: Arc<ReconcileCounters>,
}

/// The phase of a controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The controller has not started.
    New,
    /// The controller waits for these watches and caches to sync.
    Syncing(Vec<String>),
    /// The caches have not synced within the timeout, for this reason. The watches are retried.
    SyncTimedOut(String),
    /// The workers run.
    Running,
    /// The controller has stopped.
    Stopped,
}

#[derive(Clone)]
pub(crate) struct State(Arc<watch::Sender<Phase>>);

impl State {
    fn new() -> Self {
        Self(Arc::new(watch::Sender::new(Phase::New)))
    }

    fn set(&self, phase: Phase) {
        self.0.send_replace(phase);
    }

    fn get(&self) -> Phase {
        self.0.borrow().clone()
    }

    /// Waits until the workers run; returns false if the controller has stopped.
    async fn running(&self) -> bool {
        let mut phases = self.0.subscribe();
        let done = |phase: &Phase| matches!(phase, Phase::Running | Phase::Stopped);
        phases.wait_for(done).await.is_ok_and(|phase| *phase == Phase::Running)
    }
}

impl ControllerHandle {
    /// Returns the controller's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the controller's phase.
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.state.get()
    }

    /// Waits until the caches of the types it watches and reads have synced and its workers run.
    ///
    /// Returns false if the controller has stopped.
    pub async fn wait_until_synced(&self) -> bool {
        self.state.running().await
    }

    /// Returns the journal of its latest reconciles.
    #[must_use]
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// Returns its workqueue.
    #[must_use]
    pub fn queue(&self) -> &Queue<Key> {
        &self.queue
    }

    /// Returns the reconcile counts by outcome.
    #[must_use]
    pub fn reconcile_counts(&self) -> ReconcileCounts {
        self.counters.snapshot()
    }

    /// Adds `key` to the workqueue; `reason` is the cause in the journal.
    pub fn enqueue(&self, key: Key, reason: &str) {
        self.queue.add(key, Cause::External(reason.into()));
    }

    /// Adds a watch to the running controller; dropping the returned guard removes it.
    ///
    /// # Errors
    /// When the type is not cached.
    pub fn watch(&self, watch: Watch) -> Result<WatchGuard, WatchError> {
        self.watches.attach(watch)
    }
}

impl std::fmt::Debug for ControllerHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Controller")
            .field("name", &self.name)
            .field("phase", &self.phase())
            .finish()
    }
}
