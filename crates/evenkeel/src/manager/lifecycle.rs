//! Starting in order, noticing what ends, ending in order.

use std::future::Future;
use std::pin::Pin;

use futures_util::{FutureExt as _, future};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::runnable::When;
use super::{Inner, RegisterError};
use crate::cache::Informer;
use crate::random::Random;
use crate::reconcile::{BoxError, chain};

/// What is started, and later ended, together. The order is that of the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Group {
    /// Serves probes and metrics.
    Http,
    /// Serves admission and conversion, which listing may already need.
    Webhooks,
    /// Work of every replica.
    Always,
    /// Work of the leader.
    Leader,
}

impl Group {
    const COUNT: usize = 4;

    pub(super) fn of(when: When) -> Self {
        match when {
            When::Always => Self::Always,
            When::Leader => Self::Leader,
        }
    }
}

type Run = Pin<Box<dyn Future<Output = Result<(), BoxError>> + Send>>;

/// Something that is to run.
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
        F: Future<Output = Result<(), BoxError>> + Send + 'static,
    {
        Self { group, name: name.to_owned(), run: Box::new(|stop| Box::pin(run(stop))) }
    }
}

/// Where a manager is in its life.
#[derive(Default)]
pub(super) struct Lifecycle {
    state: Mutex<State>,
    /// Something was added.
    added: Notify,
}

#[derive(Default)]
struct State {
    phase: Phase,
    /// What is to be started.
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

    fn begin(&self) -> Result<(), RunError> {
        let mut state = self.state.lock();
        if state.phase != Phase::New {
            return Err(RunError::RunBefore);
        }
        state.phase = Phase::Running;
        Ok(())
    }

    /// What is to be started, in the order of the start.
    fn take(&self) -> Vec<Pending> {
        let mut waiting = std::mem::take(&mut self.state.lock().waiting);
        waiting.sort_by_key(|pending| pending.group);
        waiting
    }

    fn close(&self) {
        let mut state = self.state.lock();
        state.phase = Phase::Stopping;
        state.waiting.clear();
    }
}

/// How a run ended, if not in order.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// A manager runs once.
    #[error("the manager has been run before")]
    RunBefore,
    /// Something that must run did not.
    #[error("{name}: {source}")]
    Failed {
        /// What.
        name: String,
        /// Why.
        source: BoxError,
    },
    /// Something did not end within the grace period and was cancelled.
    #[error("cancelled, since they did not end within the grace period: {}", names.join(", "))]
    Late {
        /// What.
        names: Vec<String>,
        /// Why the manager was ending, if for an error.
        #[source]
        after: Option<Box<RunError>>,
    },
}

/// What runs.
struct Tasks {
    set: JoinSet<Done>,
    stops: [CancellationToken; Group::COUNT],
    running: Vec<(Group, String)>,
}

struct Done {
    group: Group,
    name: String,
    result: Result<(), BoxError>,
}

impl Tasks {
    fn new() -> Self {
        let stops = std::array::from_fn(|_| CancellationToken::new());
        Self { set: JoinSet::new(), stops, running: Vec::new() }
    }

    fn start(&mut self, pending: Pending) {
        let Pending { group, name, run } = pending;
        self.running.push((group, name.clone()));
        let running = run(self.stops[group as usize].clone());
        self.set.spawn(async move {
            let ended = std::panic::AssertUnwindSafe(running).catch_unwind().await;
            let result = ended.unwrap_or_else(|_| Err("it panicked".into()));
            Done { group, name, result }
        });
    }

    /// Takes in what ended; an error is the manager's.
    fn ended(
        &mut self,
        done: Option<Result<Done, tokio::task::JoinError>>,
    ) -> Result<(), RunError> {
        let Some(Ok(Done { group, name, result })) = done else { return Ok(()) };
        if let Some(at) = self.running.iter().position(|running| *running == (group, name.clone()))
        {
            self.running.swap_remove(at);
        }
        result.map_err(|source| RunError::Failed { name, source })
    }
}

pub(super) async fn run(inner: &Inner) -> Result<(), RunError> {
    inner.lifecycle.begin()?;
    // Whatever runs may announce until it has ended, so events end last.
    let ended = CancellationToken::new();
    let random = Random::new(inner.random.lock().next());
    let events = inner.office.run(inner.client.clone(), inner.clock.clone(), random, ended.clone());
    let work = async {
        let outcome = work(inner).await;
        ended.cancel();
        outcome
    };
    let (outcome, ()) = future::join(work, events).await;
    inner.client.cache().stop().await;
    outcome
}

async fn work(inner: &Inner) -> Result<(), RunError> {
    // Whatever becomes of this future, nothing can be added to a manager that has run.
    let closed = Closed(&inner.lifecycle);
    tracing::info!(manager = %inner.name, "starting");
    let mut tasks = Tasks::new();
    let mut waiting = inner.lifecycle.take().into_iter().peekable();
    while let Some(pending) = waiting.next_if(|pending| pending.group < Group::Always) {
        tasks.start(pending);
    }
    let kept = tokio::select! {
        biased;
        () = inner.stop.cancelled() => Vec::new(),
        kept = cached(inner) => kept?,
    };
    waiting.for_each(|pending| tasks.start(pending));
    let outcome = serve(inner, &mut tasks).await;
    drop(closed);
    let outcome = end(inner, &mut tasks, outcome).await;
    drop(kept);
    outcome
}

/// Starts the informers the manager keeps, and waits until each is synced or known to be in
/// trouble: one that is forbidden keeps nobody else waiting.
async fn cached(inner: &Inner) -> Result<Vec<Informer>, RunError> {
    let kinds = inner.kept.lock().clone();
    let mut informers = Vec::with_capacity(kinds.len());
    for kind in &kinds {
        let informer = inner.client.cache().informer(kind).map_err(|error| RunError::Failed {
            name: format!("cache of {kind}"),
            source: error.into(),
        })?;
        informers.push(informer);
    }
    for informer in &informers {
        if let Err(error) = informer.synced().await {
            tracing::error!(manager = %inner.name, "{error}");
        }
    }
    Ok(informers)
}

/// Runs until it is time to stop or something fails.
async fn serve(inner: &Inner, tasks: &mut Tasks) -> Result<(), RunError> {
    loop {
        tokio::select! {
            biased;
            () = inner.stop.cancelled() => return Ok(()),
            () = inner.lifecycle.added.notified() => {
                inner.lifecycle.take().into_iter().for_each(|pending| tasks.start(pending));
            }
            done = tasks.set.join_next(), if !tasks.set.is_empty() => tasks.ended(done)?,
        }
    }
}

/// Ends everything in order within the grace period, then cancels what is left.
async fn end(
    inner: &Inner,
    tasks: &mut Tasks,
    mut outcome: Result<(), RunError>,
) -> Result<(), RunError> {
    match &outcome {
        Ok(()) => tracing::info!(manager = %inner.name, "stopping"),
        Err(error) => tracing::error!(manager = %inner.name, "stopping: {}", chain(error)),
    }
    let deadline = inner.grace.map(|grace| Instant::now() + grace);
    for group in [Group::Always, Group::Leader, Group::Webhooks, Group::Http] {
        tasks.stops[group as usize].cancel();
        while tasks.running.iter().any(|(running, _)| *running == group) {
            let done = match deadline {
                Some(deadline) => tokio::time::timeout_at(deadline, tasks.set.join_next()).await,
                None => Ok(tasks.set.join_next().await),
            };
            let Ok(done) = done else {
                let mut names: Vec<String> =
                    tasks.running.drain(..).map(|(_, name)| name).collect();
                names.sort_unstable();
                tasks.set.shutdown().await;
                return Err(RunError::Late { names, after: outcome.err().map(Box::new) });
            };
            if let Err(error) = tasks.ended(done) {
                tracing::error!(manager = %inner.name, "while stopping: {}", chain(&error));
                outcome = outcome.and(Err(error));
            }
        }
    }
    outcome
}

struct Closed<'a>(&'a Lifecycle);

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}
