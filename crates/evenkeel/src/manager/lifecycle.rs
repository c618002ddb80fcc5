//! Starts and stops runnables in order.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use futures_util::{FutureExt as _, future};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::task::{self, JoinSet};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::{Inner, RegisterError};
use crate::controller::message;
use crate::error::{BoxError, Result, chain};
use crate::random::Random;

/// How long to wait for cancelled tasks.
const CANCELLED: Duration = Duration::from_millis(200);

/// Runnables that start and stop together. The variants are in start order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Group {
    /// Probes and metrics.
    Http,
    /// Admission and conversion webhooks, which the initial lists may need.
    Webhooks,
    /// Runnables and controllers that do not need leader election.
    EveryReplica,
    /// Runnables and controllers of the leader; every replica runs them until there is leader
    /// election.
    LeaderElection,
}

impl Group {
    const COUNT: usize = 4;

    pub(super) fn of(needs_leader_election: bool) -> Self {
        if needs_leader_election { Self::LeaderElection } else { Self::EveryReplica }
    }
}

type Run = Pin<Box<dyn Future<Output = Result<()>> + Send>>;

/// A runnable that has not started.
pub(super) struct Pending {
    group: Group,
    name: String,
    run: Box<dyn FnOnce(CancellationToken) -> Run + Send>,
}

impl Pending {
    pub(super) fn new<F>(
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

/// The lifecycle state of a manager.
pub(super) struct Lifecycle {
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
    pub(super) fn push(&self, pending: Pending) -> Result<(), RegisterError> {
        let mut state = self.state.lock();
        if state.phase == Phase::Stopping {
            return Err(RegisterError::Stopping);
        }
        state.waiting.push(pending);
        self.added.notify_one();
        Ok(())
    }

    /// Waits until all runnables added before the run have started; returns false if the run has
    /// ended.
    pub(super) async fn started(&self) -> bool {
        let mut progress = self.progress.subscribe();
        let begun = progress.wait_for(|progress| *progress != Progress::New).await;
        begun.is_ok_and(|progress| *progress == Progress::Started)
    }

    /// Waits until the run has ended.
    pub(super) async fn ended(&self) {
        // The sender lives in `self`.
        let _ = self.progress.subscribe().wait_for(|now| *now == Progress::Ended).await;
    }

    fn begin(&self) -> Result<(), RunError> {
        let mut state = self.state.lock();
        if state.phase != Phase::New {
            return Err(RunError::AlreadyRun);
        }
        state.phase = Phase::Running;
        Ok(())
    }

    /// Takes the pending runnables in start order.
    fn take(&self) -> Vec<Pending> {
        let mut waiting = std::mem::take(&mut self.state.lock().waiting);
        waiting.sort_by_key(|pending| pending.group);
        waiting
    }

    fn close(&self) {
        let mut state = self.state.lock();
        state.phase = Phase::Stopping;
        state.waiting.clear();
        self.progress.send_replace(Progress::Ended);
    }
}

/// Why a run failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The manager has run before; it can run only once.
    #[error("the manager has been run before")]
    AlreadyRun,
    /// A runnable failed.
    #[error("{name} failed")]
    Failed {
        /// The runnable.
        name: String,
        /// Its error.
        source: BoxError,
    },
    /// Some runnables did not stop within the grace period and were cancelled.
    #[error("cancelled after the grace period: {}", names.join(", "))]
    ShutdownTimedOut {
        /// The runnables.
        names: Vec<String>,
        /// The error that stopped the manager, if it was one.
        #[source]
        after: Option<Box<RunError>>,
    },
}

/// The running tasks.
struct Tasks {
    set: JoinSet<Result<()>>,
    stops: [CancellationToken; Group::COUNT],
    running: HashMap<task::Id, (Group, String)>,
}

impl Tasks {
    fn new() -> Self {
        let stops = std::array::from_fn(|_| CancellationToken::new());
        Self { set: JoinSet::new(), stops, running: HashMap::new() }
    }

    fn start(&mut self, pending: Pending) {
        let Pending { group, name, run } = pending;
        let stop = self.stops[group as usize].clone();
        let task = self.set.spawn(async move { run(stop).await });
        self.running.insert(task.id(), (group, name));
    }

    /// Waits until a task ends and returns its error; pending forever if nothing runs.
    async fn ended(&mut self) -> Result<(), RunError> {
        let (id, result) = match self.set.join_next_with_id().await {
            Some(Ok((id, result))) => (id, result),
            Some(Err(error)) => {
                let id = error.id();
                let result = match error.try_into_panic() {
                    Ok(panic) => Err(format!("panicked: {}", message(&*panic)).into()),
                    Err(cancelled) => Err(cancelled.into()),
                };
                (id, result)
            }
            None => return future::pending().await,
        };
        let Some((_, name)) = self.running.remove(&id) else { return Ok(()) };
        result.map_err(|error| RunError::Failed { name, source: error.into_boxed() })
    }

    fn runs(&self, group: Group) -> bool {
        self.running.values().any(|(running, _)| *running == group)
    }
}

pub(super) async fn run(inner: &Inner) -> Result<(), RunError> {
    inner.lifecycle.begin()?;
    // If this future is dropped, everything it started stops.
    let guard = RunGuard(inner);
    // Runnables record events until they end, so the event writer stops last.
    let ended = CancellationToken::new();
    let random = Random::new(inner.random.lock().next());
    let events =
        inner.event_writer.run(inner.client.clone(), inner.clock.clone(), random, ended.clone());
    let work = async {
        let outcome = work(inner).await;
        ended.cancel();
        outcome
    };
    let (outcome, ()) = future::join(work, events).await;
    // Handlers that block their thread cannot be awaited.
    let _ = timeout(CANCELLED, inner.client.cache().stop()).await;
    drop(guard);
    outcome
}

async fn work(inner: &Inner) -> Result<(), RunError> {
    tracing::info!(manager = %inner.name, "starting manager");
    let mut tasks = Tasks::new();
    let outcome = serve(inner, &mut tasks).await;
    inner.lifecycle.close();
    end(inner, &mut tasks, outcome).await
}

/// Starts the runnables in order and runs until the manager is stopped or one fails.
async fn serve(inner: &Inner, tasks: &mut Tasks) -> Result<(), RunError> {
    if inner.stop.is_cancelled() {
        return Ok(());
    }
    let (first, then): (Vec<_>, Vec<_>) =
        inner.lifecycle.take().into_iter().partition(|pending| pending.group < Group::EveryReplica);
    first.into_iter().for_each(|pending| tasks.start(pending));
    let cached = cached(inner);
    tokio::pin!(cached);
    loop {
        tokio::select! {
            biased;
            // A stop before the start starts nothing.
            () = inner.stop.cancelled() => return Ok(()),
            ended = tasks.ended() => ended?,
            cached = &mut cached => break cached?,
        }
    }
    then.into_iter().for_each(|pending| tasks.start(pending));
    inner.lifecycle.progress.send_replace(Progress::Started);
    loop {
        tokio::select! {
            biased;
            () = inner.stop.cancelled() => return Ok(()),
            () = inner.lifecycle.added.notified() => {
                inner.lifecycle.take().into_iter().for_each(|pending| tasks.start(pending));
            }
            ended = tasks.ended() => ended?,
        }
    }
}

/// Starts the informers of the cached types, and waits until each has synced or failed to list: a
/// forbidden type does not block the others.
async fn cached(inner: &Inner) -> Result<(), RunError> {
    for informer in inner.start_caches()? {
        if let Err(error) = informer.wait_until_synced().await {
            tracing::error!(manager = %inner.name, error = chain(&error), "cache failed to sync");
        }
    }
    Ok(())
}

/// Stops the runnables in order within the grace period, then cancels the rest.
async fn end(
    inner: &Inner,
    tasks: &mut Tasks,
    mut outcome: Result<(), RunError>,
) -> Result<(), RunError> {
    match &outcome {
        Ok(()) => tracing::info!(manager = %inner.name, "stopping manager"),
        Err(error) => {
            let (manager, error) = (&inner.name, chain(error));
            tracing::error!(%manager, error, "stopping manager after an error");
        }
    }
    let deadline = inner.grace_period.map(|grace| Instant::now() + grace);
    for group in [Group::EveryReplica, Group::LeaderElection, Group::Webhooks, Group::Http] {
        tasks.stops[group as usize].cancel();
        while tasks.runs(group) {
            let ended = match deadline {
                Some(deadline) => tokio::time::timeout_at(deadline, tasks.ended()).await,
                None => Ok(tasks.ended().await),
            };
            let Ok(ended) = ended else {
                let mut names: Vec<String> =
                    tasks.running.drain().map(|(_, (_, name))| name).collect();
                names.sort_unstable();
                // A task that blocks its thread cannot be cancelled.
                let _ = timeout(CANCELLED, tasks.set.shutdown()).await;
                return Err(RunError::ShutdownTimedOut {
                    names,
                    after: outcome.err().map(Box::new),
                });
            };
            if let Err(error) = ended {
                let (manager, text) = (&inner.name, chain(&error));
                tracing::error!(%manager, error = text, "error while stopping");
                outcome = outcome.and(Err(error));
            }
        }
    }
    outcome
}

/// Cleans up when a run ends or is cancelled.
struct RunGuard<'a>(&'a Inner);

impl Drop for RunGuard<'_> {
    fn drop(&mut self) {
        self.0.lifecycle.close();
        self.0.release_caches();
        // The first poll stops all watches; only a run that is not cancelled waits for them.
        let _ = self.0.client.cache().stop().now_or_never();
    }
}
