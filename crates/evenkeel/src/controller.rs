//! One reconciler with its watches, its queue and its workers.

mod builder;

mod context;

mod pace;

mod run;

mod counts;

mod watches;

mod worker;

use std::sync::Arc;

use tokio::sync::watch;

pub use builder::ControllerBuilder;
pub use context::Context;
pub use counts::ReconcileCounts;
pub use watches::{Watch, WatchError, WatchGuard};

use crate::journal::Journal;
use crate::key::Key;
use crate::queue::{Cause, Queue};
use counts::ReconcileCounters;
pub(crate) use run::tried_on;
use watches::Watches;
pub(crate) use worker::message;

/// A registered controller, to look at and to reach into while it runs.
#[derive(Clone)]
pub struct ControllerHandle {
    name: Arc<str>,
    journal: Journal,
    queue: Queue<Key>,
    watches: Watches,
    state: State,
    counters: Arc<ReconcileCounters>,
}

/// Where a controller stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It has not been started.
    New,
    /// Its sources have not all delivered what there is; these are left.
    Syncing(Vec<String>),
    /// A source cannot deliver; says which and why. It is tried on.
    Stuck(String),
    /// Its workers run.
    Running,
    /// It has ended.
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

    /// Waits until the workers run; false if the controller has ended.
    async fn running(&self) -> bool {
        let mut phases = self.0.subscribe();
        let settled = |phase: &Phase| matches!(phase, Phase::Running | Phase::Stopped);
        phases.wait_for(settled).await.is_ok_and(|phase| *phase == Phase::Running)
    }
}

impl ControllerHandle {
    /// The controller's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where it stands.
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.state.get()
    }

    /// Waits until everything it watches and reads is in the cache and its workers run; false if it
    /// has ended.
    pub async fn synced(&self) -> bool {
        self.state.running().await
    }

    /// What it did lately, and why.
    #[must_use]
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// The keys it has still to look at.
    #[must_use]
    pub fn queue(&self) -> &Queue<Key> {
        &self.queue
    }

    /// How often its reconciles came to what.
    #[must_use]
    pub fn reconcile_counts(&self) -> ReconcileCounts {
        self.counters.snapshot()
    }

    /// Has it look at `key` now; `why` appears in the journal.
    pub fn enqueue(&self, key: Key, why: &str) {
        self.queue.add(key, Cause::External(why.into()));
    }

    /// Adds a watch while the controller runs; it lasts as long as what is returned is held.
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
