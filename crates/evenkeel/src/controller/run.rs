//! Runs a controller: watches and sources, cache sync, workers, graceful shutdown.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{FutureExt as _, StreamExt as _, future};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Phase;
use super::core::Core;
use super::remote::Remote;
use super::watches::{Watch, WatchGuard};
use super::worker::{Worker, message};
use crate::cache::{Informer, SyncError};
use crate::error::{Error, Result};
use crate::handler::MapContext;
use crate::kind::Kind;
use crate::queue::Cause;
use crate::reconcile::Reconciler;
use crate::source::Source;

/// A controller that has not been started.
pub(crate) struct Controller<R, E> {
    pub(super) worker: Arc<Worker<R, E>>,
    pub(super) watched: Vec<Watch>,
    /// Types it reads without watching their changes.
    pub(super) reads: Vec<Kind>,
    pub(super) remote: Remote,
    pub(super) sources: Vec<Source>,
    pub(super) cache_sync_timeout: Duration,
}

impl<R: Reconciler<E>, E: Into<Error> + Send + 'static> Controller<R, E> {
    /// Runs until `stop`, then waits for running reconciles. Dropping the future cancels them.
    pub(crate) async fn run(self, stop: CancellationToken) -> Result<()> {
        let Self { worker, watched, reads, remote, sources, cache_sync_timeout } = self;
        let core = worker.core.clone();
        let ended = Ended(core.clone());
        let mut guards = Vec::with_capacity(watched.len());
        for watch in &watched {
            guards.push(core.attach(watch.clone())?);
        }
        let mut informers = Vec::with_capacity(reads.len());
        for kind in &reads {
            informers.push(core.cache().informer(kind)?);
        }
        let mut tasks = JoinSet::new();
        let remote = Arc::new(remote);
        let mut following = tasks.spawn(remote.clone().follow(core.clone()));
        let (late, early): (Vec<_>, Vec<_>) = sources.into_iter().partition(Source::looks_up);
        for source in early {
            tasks.spawn(enqueue_from(source, core.clone()));
        }
        let synced = synced(&core, &guards, &informers, cache_sync_timeout);
        tokio::select! {
            biased;
            () = stop.cancelled() => return Ok(()),
            () = synced => {}
        }
        for source in late {
            tasks.spawn(enqueue_from(source, core.clone()));
        }
        loop {
            if core.leadership.is_elected() {
                core.state.set(Phase::Standby);
            }
            let mandate = tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                mandate = core.leadership.granted() => mandate,
            };
            core.state.set(Phase::Running);
            tracing::info!(controller = %core.name, workers = core.workers, "starting workers");
            let mut working = JoinSet::new();
            for _ in 0..core.workers {
                working.spawn(worker.clone().work());
            }
            tokio::select! {
                biased;
                () = mandate.ended() => {}
                () = stop.cancelled() => {
                    // Intake stops first: events and sources add no keys after this.
                    drop((guards, tasks));
                    core.queue.shutdown();
                    // Workers of a paused controller end.
                    core.pause.set(false);
                    tokio::select! {
                        biased;
                        () = mandate.ended() => cancel(&mut working).await,
                        () = async { while working.join_next().await.is_some() {} } => {}
                    }
                    drop((ended, informers));
                    return Ok(());
                }
                never = keep_working(&worker, &mut working) => match never {},
            }
            // No longer the leader.
            cancel(&mut working).await;
            // The next leader may be stopped within a reconcile, so a later term of this process
            // reconciles every object, as a new process would.
            for (guard, watch) in guards.iter_mut().zip(&watched) {
                *guard = core.attach(watch.clone())?;
            }
            following.abort();
            following = tasks.spawn(remote.clone().follow(core.clone()));
        }
    }
}

/// Replaces workers that end.
async fn keep_working<R: Reconciler<E>, E: Into<Error> + Send + 'static>(
    worker: &Arc<Worker<R, E>>,
    working: &mut JoinSet<()>,
) -> Infallible {
    loop {
        // Panics of user code are caught in the reconcile, so this is not expected; a new worker
        // keeps the controller running.
        if let Some(ended) = working.join_next().await {
            let controller = &worker.core.name;
            tracing::error!(%controller, ?ended, "worker ended unexpectedly");
        }
        working.spawn(worker.clone().work());
    }
}

/// Cancels reconciles. One that blocks its thread cannot be cancelled; its requests are refused.
async fn cancel(working: &mut JoinSet<()>) {
    let _ = tokio::time::timeout(CANCELLED, working.shutdown()).await;
}

/// How long to wait for cancelled reconciles.
const CANCELLED: Duration = Duration::from_millis(200);

/// Sets the phase and shuts down the queue when the controller ends, also if it is cancelled.
struct Ended(Arc<Core>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.state.set(Phase::Stopped);
        self.0.queue.shutdown();
    }
}

async fn enqueue_from(source: Source, core: Arc<Core>) {
    let (name, mut keys) = source.start(MapContext::new(core.cache().clone(), None));
    loop {
        match AssertUnwindSafe(keys.next()).catch_unwind().await {
            Ok(Some(key)) => core.queue.add(key, Cause::External(name.clone())),
            Ok(None) => return,
            Err(panic) => {
                let panic = message(&*panic);
                let controller = &core.name;
                tracing::error!(%controller, source = %name, panic, "source panicked");
                return;
            }
        }
    }
}

/// Waits until every watch and cache has synced.
///
/// After each `timeout` an error is logged that names the watch and the reason. The watches are
/// retried meanwhile, so that a permission granted late takes effect.
async fn synced(core: &Core, guards: &[WatchGuard], informers: &[Informer], timeout: Duration) {
    let mut waits: Vec<Wait<'_>> = Vec::with_capacity(guards.len() + informers.len());
    for guard in guards {
        waits.push(Wait {
            what: format!("watch of {}", guard.informer.kind()),
            informer: &guard.informer,
            done: Box::pin(wait_retrying(|| guard.subscription.wait_until_synced())),
        });
    }
    for informer in informers {
        waits.push(Wait {
            what: format!("cache of {}", informer.kind()),
            informer,
            done: Box::pin(wait_retrying(|| informer.wait_until_synced())),
        });
    }
    let left = |waits: &[Wait<'_>]| waits.iter().map(|wait| wait.what.clone()).collect();
    core.state.set(Phase::Syncing(left(&waits)));
    let mut deadline = Instant::now() + timeout;
    while !waits.is_empty() {
        let next = future::select_all(waits.iter_mut().map(|wait| wait.done.as_mut()));
        if let Ok(((), index, _)) = tokio::time::timeout_at(deadline, next).await {
            waits.remove(index);
            core.state.set(Phase::Syncing(left(&waits)));
            continue;
        }
        let stuck: Vec<String> = waits.iter().map(Wait::reason).collect();
        let error = format!("not synced after {timeout:?}: {}", stuck.join("; "));
        tracing::error!(controller = %core.name, error, "caches have not synced");
        core.state.set(Phase::SyncTimedOut(error));
        deadline += timeout;
    }
}

/// Waits until an informer has synced. Errors of the wait are ignored: the informer retries.
pub(crate) async fn wait_retrying<F: Future<Output = Result<(), SyncError>>>(wait: impl Fn() -> F) {
    loop {
        match wait().await {
            Ok(()) => return,
            // The cache stops with the manager, which cancels this wait.
            Err(SyncError::Stopped { .. }) => return future::pending().await,
            Err(SyncError::NotSynced { .. }) => tokio::time::sleep(PAUSE).await,
        }
    }
}

/// The interval between waits: for a refused type a wait fails immediately.
const PAUSE: Duration = Duration::from_secs(1);

/// A watch or cache that has not synced.
struct Wait<'a> {
    what: String,
    informer: &'a Informer,
    done: Pin<Box<dyn Future<Output = ()> + Send + 'a>>,
}

impl Wait<'_> {
    fn reason(&self) -> String {
        match self.informer.health().failure {
            Some(failure) => format!("{}: {failure}", self.what),
            None => format!("{}: no response from the API server", self.what),
        }
    }
}
