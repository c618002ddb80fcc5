//! Runs a manager: starts and stops the runnables in order.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::OnceLock;
use std::time::Duration;

use futures_util::{FutureExt as _, future};
use tokio::task::{self, JoinSet};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use super::Inner;
use crate::controller::{Environment, message};
use crate::error::{BoxError, Result, chain};
use crate::leader::{Electors, InvalidLeaderElection, LeaderElectionLost};
use crate::lifecycle::{Group, Pending};

/// How long to wait for cancelled tasks.
const CANCELLED: Duration = Duration::from_millis(200);

/// Why a run failed.
///
/// ```no_run
/// use evenkeel::manager::RunError;
///
/// # async fn example(manager: evenkeel::Manager) {
/// match manager.run().await {
///     Err(RunError::ShutdownTimedOut { names, .. }) => println!("cancelled {names:?}"),
///     Err(error) => println!("{}", evenkeel::chain(&error)),
///     Ok(()) => {}
/// }
/// # }
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The manager has run before; it can run only once.
    #[error("the manager has been run before")]
    AlreadyRun,
    /// The options of leader election are invalid.
    #[error("invalid options of leader election")]
    InvalidLeaderElection(#[source] InvalidLeaderElection),
    /// This process is no longer the leader. Leader-bound work was cancelled.
    #[error("leader election lost")]
    LeaderElectionLost(#[source] LeaderElectionLost),
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
    let Environment { client, clusters, clock, lifecycle, .. } = &inner.environment;
    inner.environment.elections.validate().map_err(RunError::InvalidLeaderElection)?;
    if !lifecycle.begin() {
        return Err(RunError::AlreadyRun);
    }
    // If this future is dropped, everything it started stops.
    let guard = RunGuard(inner);
    // Runnables record events until they end, so the event writer stops last.
    let ended = CancellationToken::new();
    let random = inner.environment.random();
    let events = inner.event_writer.run(clock.clone(), random, ended.clone());
    let deadline = OnceLock::new();
    let work = async {
        let outcome = work(inner, &deadline).await;
        ended.cancel();
        outcome
    };
    let late = async {
        ended.cancelled().await;
        after(deadline.get().copied().flatten()).await;
    };
    let traces = inner.export_traces(ended.clone());
    let emitted = async {
        tokio::select! {
            biased;
            ((), ()) = future::join(events, traces) => {}
            () = late => {}
        }
    };
    let (outcome, ()) = future::join(work, emitted).await;
    // Handlers that block their thread cannot be awaited.
    let _ = timeout(CANCELLED, future::join(client.cache().stop(), clusters.stop())).await;
    drop(guard);
    outcome
}

/// Runs until the manager is stopped; sets `deadline` to the end of the grace period, if it has one.
async fn work(inner: &Inner, deadline: &OnceLock<Option<Instant>>) -> Result<(), RunError> {
    tracing::info!(manager = %inner.name, "starting manager");
    let mut tasks = Tasks::new();
    let mut electors = Electors::default();
    let outcome = serve(inner, &mut tasks, &mut electors).await;
    inner.environment.lifecycle.close();
    electors.withdraw();
    let end_of_grace = inner.grace_period.map(|grace| Instant::now() + grace);
    let deadline = *deadline.get_or_init(|| end_of_grace);
    let outcome = end(inner, &mut tasks, outcome, deadline).await;
    // Work that was cancelled may have requests on their way: its lease is left to expire.
    let drained = !matches!(outcome, Err(RunError::ShutdownTimedOut { .. }));
    let held = tokio::select! {
        biased;
        held = electors.stop(drained) => held.map_err(RunError::LeaderElectionLost),
        () = after(deadline) => Ok(()),
    };
    outcome.and(held)
}

/// Waits until `deadline`, if there is one.
async fn after(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => future::pending().await,
    }
}

/// Starts the runnables in order and runs until the manager is stopped or one fails.
async fn serve(inner: &Inner, tasks: &mut Tasks, electors: &mut Electors) -> Result<(), RunError> {
    if inner.stop.is_cancelled() {
        return Ok(());
    }
    let pending = inner.environment.lifecycle.take();
    let (servers, pending): (Vec<_>, Vec<_>) =
        pending.into_iter().partition(|pending| pending.group == Group::Servers);
    servers.into_iter().for_each(|server| tasks.start(server));
    let mut caches = pin!(async {
        inner.webhooks.wait_until_attempted().await;
        cached(inner).await
    });
    loop {
        tokio::select! {
            biased;
            // A stop before the start starts nothing else.
            () = inner.stop.cancelled() => return Ok(()),
            cached = caches.as_mut() => break cached?,
            ended = tasks.ended() => ended?,
        }
    }
    pending.into_iter().for_each(|pending| tasks.start(pending));
    start_electors(inner, electors);
    inner.environment.lifecycle.set_started();
    loop {
        tokio::select! {
            biased;
            () = inner.stop.cancelled() => return Ok(()),
            () = inner.environment.lifecycle.added() => {
                inner.environment.lifecycle.take().into_iter().for_each(|pending| tasks.start(pending));
                // A controller may have brought its own lease.
                start_electors(inner, electors);
            }
            lost = electors.lost() => return Err(RunError::LeaderElectionLost(lost)),
            ended = tasks.ended() => ended?,
        }
    }
}

fn start_electors(inner: &Inner, electors: &mut Electors) {
    let Environment { elections, clock, event_sender, .. } = &inner.environment;
    electors.start(elections, clock, event_sender, || inner.environment.random());
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
    deadline: Option<Instant>,
) -> Result<(), RunError> {
    match &outcome {
        Ok(()) => tracing::info!(manager = %inner.name, "stopping manager"),
        Err(error) => {
            let (manager, error) = (&inner.name, chain(error));
            tracing::error!(%manager, error, "stopping manager after an error");
        }
    }
    for group in [Group::EveryReplica, Group::LeaderElection, Group::Servers] {
        tasks.stops[group as usize].cancel();
        while tasks.runs(group) {
            let ended = match deadline {
                Some(deadline) => timeout_at(deadline, tasks.ended()).await,
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
        self.0.environment.lifecycle.close();
        self.0.environment.elections.end();
        self.0.release_caches();
        // The first poll stops all watches; only a run that is not cancelled waits for them.
        let _ = self.0.environment.client.cache().stop().now_or_never();
        self.0.environment.clusters.abort();
    }
}
