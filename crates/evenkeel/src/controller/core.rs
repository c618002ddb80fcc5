//! The core of a controller, which its handle, its watches and its workers share.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_types::watch;

use super::Phase;
use super::counts::ReconcileCounters;
use crate::cache::Cache;
use crate::client::Client;
use crate::clusters::{ClusterSelection, Clusters};
use crate::journal::Journal;
use crate::key::Key;
use crate::kind::Kind;
use crate::leader::Leadership;
use crate::predicate::Predicate;
use crate::queue::Queue;

/// The types of a controller, from which its permissions follow.
#[derive(Clone, Debug)]
pub(crate) struct RegisteredTypes {
    pub(crate) reconciled: Kind,
    /// Children, which the controller also writes.
    pub(crate) owned: Vec<Kind>,
    /// Other types whose events enqueue keys.
    pub(crate) watched: Vec<Kind>,
    /// Types that are only read.
    pub(crate) read: Vec<Kind>,
}

pub(super) struct Core {
    pub(super) name: Arc<str>,
    /// The type that the controller reconciles.
    pub(super) kind: Kind,
    /// Writes with the controller's name as field manager.
    pub(super) client: Client,
    pub(super) queue: Queue<Key>,
    pub(super) journal: Journal,
    pub(super) types: RegisteredTypes,
    /// The filter of all watches.
    pub(super) filter: Option<Predicate>,
    /// The clusters whose objects it reconciles.
    pub(super) selection: ClusterSelection,
    pub(super) clusters: Clusters,
    pub(super) workers: usize,
    /// The timeout of a reconcile.
    pub(super) timeout: Duration,
    /// What the workers wait for.
    pub(super) leadership: Leadership,
    pub(super) state: State,
    pub(super) pause: Pause,
    pub(super) counters: ReconcileCounters,
}

impl Core {
    pub(super) fn cache(&self) -> &Cache {
        self.client.cache()
    }
}

/// Whether workers take keys from the workqueue.
pub(super) struct Pause(watch::Sender<bool>);

impl Pause {
    pub(super) fn new() -> Self {
        Self(watch::Sender::new(false))
    }

    pub(super) fn set(&self, paused: bool) {
        self.0.send_replace(paused);
    }

    pub(super) fn get(&self) -> bool {
        *self.0.borrow()
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<bool> {
        self.0.subscribe()
    }
}

/// The phase, which can be awaited.
pub(super) struct State(watch::Sender<Phase>);

impl State {
    pub(super) fn new() -> Self {
        Self(watch::Sender::new(Phase::New))
    }

    pub(super) fn set(&self, phase: Phase) {
        self.0.send_replace(phase);
    }

    pub(super) fn get(&self) -> Phase {
        self.0.borrow().clone()
    }

    /// Waits until the workers run or stand by; returns false if the controller has stopped.
    pub(super) async fn synced(&self) -> bool {
        let mut phases = self.0.subscribe();
        let done =
            |phase: &Phase| matches!(phase, Phase::Standby | Phase::Running | Phase::Stopped);
        phases.wait_for(done).await.is_ok_and(|phase| *phase != Phase::Stopped)
    }
}
