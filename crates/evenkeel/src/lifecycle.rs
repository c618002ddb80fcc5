//! The lifecycle of a manager: runnables that wait for their start, and the progress of the run.

use std::future::Future;
use std::pin::Pin;

use evenkeel_types::watch;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::error::Result;

/// Runnables that start and stop together. The variants are in start order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Group {
    /// Servers of webhooks, metrics and health. They start before the caches, since API servers may
    /// need a conversion webhook to serve a list, and stop last.
    Servers,
    /// Runnables and controllers that do not need leader election.
    EveryReplica,
    /// Runnables and controllers of the leader. They wait for the election themselves, so that a
    /// standby fills its caches.
    LeaderElection,
}

impl Group {
    pub(crate) const COUNT: usize = 3;

    pub(crate) fn of(needs_leader_election: bool) -> Self {
        if needs_leader_election { Self::LeaderElection } else { Self::EveryReplica }
    }
}

type Run = Pin<Box<dyn Future<Output = Result<()>> + Send>>;

/// A runnable that has not started.
pub(crate) struct Pending {
    pub(crate) group: Group,
    pub(crate) name: String,
    pub(crate) run: Box<dyn FnOnce(CancellationToken) -> Run + Send>,
}

impl Pending {
    pub(crate) fn new<F>(
        group: Group,
        name: &str,
        run: impl FnOnce(CancellationToken) -> F + Send + 'static,
    ) -> Self
    where
        F: Future<Output = Result<()>> + Send + 'static,
    {
        Self { group, name: name.to_owned(), run: Box::new(|stop| Box::pin(run(stop))) }
    }
}

/// The manager is stopping or has stopped.
pub(crate) struct Stopping;

/// The lifecycle state of a manager.
pub(crate) struct Lifecycle {
    state: Mutex<State>,
    /// Notified when a runnable is added.
    added: Notify,
    progress: watch::Sender<Progress>,
}

/// The progress of a run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Progress {
    New,
    /// All runnables added before the run have started.
    Started,
    Ended,
}

impl Default for Lifecycle {
    fn default() -> Self {
        let progress = watch::Sender::new(Progress::New);
        Self { state: Mutex::default(), added: Notify::new(), progress }
    }
}

#[derive(Default)]
struct State {
    phase: Phase,
    /// Runnables to start.
    waiting: Vec<Pending>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    New,
    Running,
    Stopping,
}

impl Lifecycle {
    /// Adds a runnable.
    ///
    /// # Errors
    /// When the manager is stopping.
    pub(crate) fn push(&self, pending: Pending) -> Result<(), Stopping> {
        let mut state = self.state.lock();
        if state.phase == Phase::Stopping {
            return Err(Stopping);
        }
        state.waiting.push(pending);
        self.added.notify_one();
        Ok(())
    }

    /// Waits until all runnables added before the run have started; returns false if the run has
    /// ended.
    pub(crate) async fn started(&self) -> bool {
        let mut progress = self.progress.subscribe();
        let begun = progress.wait_for(|progress| *progress != Progress::New).await;
        begun.is_ok_and(|progress| *progress == Progress::Started)
    }

    /// Waits until the run has ended.
    pub(crate) async fn ended(&self) {
        // The sender lives in `self`.
        let _ = self.progress.subscribe().wait_for(|now| *now == Progress::Ended).await;
    }

    /// Begins the run; returns false if it has begun before.
    pub(crate) fn begin(&self) -> bool {
        let mut state = self.state.lock();
        let first = state.phase == Phase::New;
        if first {
            state.phase = Phase::Running;
        }
        first
    }

    /// Reports that all runnables added before the run have started.
    pub(crate) fn set_started(&self) {
        self.progress.send_replace(Progress::Started);
    }

    /// Waits until a runnable is added.
    pub(crate) async fn added(&self) {
        self.added.notified().await;
    }

    /// Takes the pending runnables in start order.
    pub(crate) fn take(&self) -> Vec<Pending> {
        let mut waiting = std::mem::take(&mut self.state.lock().waiting);
        waiting.sort_by_key(|pending| pending.group);
        waiting
    }

    /// Ends the run: drops the pending runnables and refuses new ones.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.phase = Phase::Stopping;
        state.waiting.clear();
        self.progress.send_replace(Progress::Ended);
    }
}
