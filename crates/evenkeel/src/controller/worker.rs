//! A worker: processes one item from the workqueue at a time.

use std::any::Any;
use std::fmt;
use std::marker::PhantomData;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use parking_lot::Mutex;
use tokio::time::Instant;
use tracing::Instrument as _;

use super::TRACE_TARGET;
use super::core::Core;
use super::environment::{Environment, OnReconcile};
use super::throttle::{Throttle, ThrottleDelay};
use crate::clock::Clock;
use crate::clusters::Cluster;
use crate::context::{CompletedCleanups, Context, StatusFields};
use crate::error::{Error, Retry};
use crate::events::EventRecorder;
use crate::journal::{Alarm, AlarmDetector, Failure, OperationLog, Outcome, Record};
use crate::key::Key;
use crate::queue::{AddOptions, Cause, Causes, Item};
use crate::random::Random;
use crate::reconcile::{Action, Next, Reconciler, retry_policy};
use crate::tasks::Tasks;

/// What the workers of a controller need.
pub(super) struct Worker<R, E> {
    pub(super) core: Arc<Core>,
    reconciler: R,
    timeout: Duration,
    clock: Clock,
    event_recorder: EventRecorder,
    on_reconcile: Option<OnReconcile>,
    random: Mutex<Random>,
    alarms: Mutex<AlarmDetector>,
    throttle: Mutex<Throttle>,
    /// Timers of throttled keys.
    throttled: Tasks,
    completed_cleanups: Arc<CompletedCleanups>,
    status_fields: Arc<StatusFields>,
    marker: PhantomData<fn() -> E>,
}

impl<R: Reconciler<E>, E: Into<Error> + Send + 'static> Worker<R, E> {
    pub(super) fn new(
        core: Arc<Core>,
        reconciler: R,
        timeout: Duration,
        environment: &Environment,
    ) -> Arc<Self> {
        // Not fenced: events of a leader that stops are written after its work has ended.
        let event_client = environment.client.with_field_manager(&core.name);
        Arc::new(Self {
            reconciler,
            timeout,
            clock: environment.clock.clone(),
            event_recorder: environment.event_sender.recorder(&core.name, event_client),
            on_reconcile: environment.on_reconcile.clone(),
            random: Mutex::new(environment.random()),
            alarms: Mutex::default(),
            throttle: Mutex::default(),
            throttled: Tasks::new(),
            completed_cleanups: Arc::default(),
            status_fields: Arc::default(),
            marker: PhantomData,
            core,
        })
    }

    /// Processes items until the queue is shut down.
    pub(super) async fn work(self: Arc<Self>) {
        let mut paused = self.core.pause.subscribe();
        loop {
            // The sender is in the core, so it exists.
            let _ = paused.wait_for(|paused| !paused).await;
            let item = tokio::select! {
                biased;
                _ = paused.wait_for(|paused| *paused) => continue,
                item = self.core.queue.get() => item,
            };
            let Some(item) = item else { return };
            self.process(item).await;
        }
    }

    async fn process(&self, mut item: Item<Key, Causes>) {
        let cluster = item.key.cluster_name().map(|name| self.core.clusters.get(name));
        // The keys of a disengaged cluster are dropped.
        let Ok(cluster) = cluster.map(|cluster| cluster.ok_or(())).transpose() else {
            self.core.queue.forget(&item.key);
            return item.done();
        };
        let causes = std::mem::take(&mut item.causes);
        let id = ReconcileId(self.random.lock().next());
        // At the highest level, so that every line logged inside it names the object.
        let span = tracing::error_span!(
            "reconcile",
            controller = %self.core.name,
            kind = self.core.kind.kind(),
            cluster = item.key.cluster_name(),
            namespace = item.key.namespace(),
            name = item.key.name(),
            reconcile_id = %id,
        );
        tracing::trace!(
            target: TRACE_TARGET,
            parent: &span,
            %causes,
            queued_nanos = u64::try_from(item.queued_for.as_nanos()).unwrap_or(u64::MAX),
            "taken from the workqueue"
        );
        let (started, begun) = (self.clock.now(), Instant::now());
        let operations = OperationLog::default();
        let ended = self
            .reconcile(&item, cluster.as_ref(), &causes, &operations)
            .instrument(span.clone())
            .await;
        let duration = begun.elapsed();

        let _entered = span.enter();
        let outcome = self.requeue(&item, ended);
        self.core.counters.count(&outcome, causes.kinds(), item.queued_for, duration);
        let collected = operations.take();
        let record = self.core.journal.push(Record {
            controller: self.core.name.clone(),
            kind: self.core.kind.clone(),
            key: item.key.clone(),
            causes,
            priority: item.priority,
            failures: item.failures,
            started,
            queue_duration: item.queued_for,
            duration,
            reads: collected.reads,
            writes: collected.writes,
            omitted: collected.omitted,
            outcome,
        });
        log(&record);
        if let Some(observe) = &self.on_reconcile {
            observe(&record);
        }
        let now = Instant::now();
        let alarms = self.alarms.lock().observe(&record, now);
        alarms.into_iter().for_each(|alarm| self.raise(alarm));
        let delay = self.throttle.lock().record(&item.key, now);
        match delay {
            Some(delay) => self.delay_done(item, &record, &delay),
            None => item.done(),
        }
    }

    /// Delays the next reconcile of a throttled key; other keys are not affected.
    fn delay_done(&self, item: Item<Key, Causes>, record: &Record, delay: &ThrottleDelay) {
        if delay.begins {
            let (causes, outcome) = (record.causes.to_string(), record.outcome.to_string());
            self.raise(Alarm::Throttled { key: item.key.clone(), causes, outcome });
        }
        let over = tokio::time::sleep(delay.delay);
        let throttled = self.core.counters.throttle();
        self.throttled.spawn(async move {
            over.await;
            item.done();
            drop(throttled);
        });
    }

    fn raise(&self, alarm: Alarm) {
        tracing::warn!(controller = %self.core.name, %alarm, "alarm raised");
        self.core.counters.alarm(&alarm);
        self.core.journal.alarm(alarm);
    }

    async fn reconcile(
        &self,
        item: &Item<Key, Causes>,
        cluster: Option<&Cluster>,
        causes: &Causes,
        operations: &OperationLog,
    ) -> Ended {
        let (client, event_recorder) = match cluster {
            None => (self.core.client.clone(), self.event_recorder.clone()),
            Some(cluster) => {
                let events = cluster.client().with_shared_field_manager(&self.core.name);
                let client = self.core.client.in_cluster(cluster.client());
                (client, self.event_recorder.with_client(events))
            }
        };
        let client = client.recording(operations.clone());
        let run = async {
            let kind = self.core.kind.clone();
            let key = item.key.without_cluster();
            let context = Context {
                object: client.get_as::<R::Object>(kind.clone(), &key).await?,
                key,
                kind,
                client,
                cluster: cluster.map(|cluster| cluster.shared_name().clone()),
                clusters: self.core.clusters.clone(),
                causes: causes.clone(),
                failures: item.failures,
                clock: self.clock.clone(),
                completed_cleanups: self.completed_cleanups.clone(),
                status_fields: self.status_fields.clone(),
                event_recorder,
                fencing_token: self.core.leadership.transitions(),
            };
            // Boxed: the layers around it would each hold a copy of the future, and without
            // optimization one of several hundred bytes per awaited call overflows the stack.
            let reconcile = Box::pin(self.reconciler.reconcile(&context));
            reconcile.await.map_err(Into::<Error>::into)
        };
        let run = async {
            match self.limited(&item.key, run).await {
                Some(Ok(action)) => Ended::Done(action),
                Some(Err(error)) => Ended::Failed(retry_policy(&*error), error.into()),
                None => Ended::TimedOut(self.timeout),
            }
        };
        let disengaged = async {
            match cluster {
                Some(cluster) => cluster.disengaged().await,
                None => std::future::pending().await,
            }
        };
        let run = async {
            tokio::select! {
                biased;
                ended = run => ended,
                () = disengaged => Ended::Done(Action::done()),
            }
        };
        // All user code runs inside this block, destructors and `Display` of errors included. A
        // panic may leave the reconciler's own state inconsistent; the runtime shares no state with
        // it that could be.
        let ended = AssertUnwindSafe(run).catch_unwind().await;
        ended.unwrap_or_else(|panic| Ended::Panicked(message(&*panic)))
    }

    /// Runs a reconcile with the timeout, and raises an alarm if it takes long.
    async fn limited<T>(&self, key: &Key, run: impl Future<Output = T>) -> Option<T> {
        tokio::pin!(run);
        if let Ok(result) = tokio::time::timeout(self.timeout.min(LONG), &mut run).await {
            return Some(result);
        }
        let left = self.timeout.checked_sub(LONG).filter(|left| !left.is_zero())?;
        let (key, workers, timeout) = (key.clone(), self.core.workers, self.timeout);
        self.raise(Alarm::LongRunning { key, running: LONG, workers, timeout });
        tokio::time::timeout(left, run).await.ok()
    }

    /// Requeues the key as the result requires, and returns the outcome.
    fn requeue(&self, item: &Item<Key, Causes>, ended: Ended) -> Outcome {
        let retry = || {
            let options = AddOptions { rate_limited: true, ..AddOptions::default() };
            item.requeue(options, Cause::Retry(item.failures + 1));
        };
        match ended {
            Ended::Done(action) => self.next(item, action),
            Ended::TimedOut(limit) => {
                retry();
                Outcome::TimedOut(limit)
            }
            Ended::Panicked(message) => {
                retry();
                Outcome::Panicked(message)
            }
            Ended::Failed(Retry::BackOff, failure) => {
                retry();
                Outcome::Failed(failure)
            }
            Ended::Failed(Retry::After(delay), failure) => {
                let options = AddOptions { after: Some(delay), ..AddOptions::default() };
                item.requeue(options, Cause::Retry(item.failures + 1));
                Outcome::Failed(failure)
            }
            Ended::Failed(Retry::Never, failure) => {
                self.core.queue.forget(&item.key);
                Outcome::Terminal(failure)
            }
        }
    }

    fn next(&self, item: &Item<Key, Causes>, action: Action) -> Outcome {
        let priority = action.priority();
        match action.next() {
            Next::Done => {
                self.core.queue.forget(&item.key);
                Outcome::Done
            }
            Next::Requeue => {
                let options = AddOptions { rate_limited: true, priority, after: None };
                item.requeue(options, Cause::Requeue);
                Outcome::Requeue
            }
            Next::After(delay) => {
                self.core.queue.forget(&item.key);
                let options = AddOptions { after: Some(delay), priority, rate_limited: false };
                item.requeue(options, Cause::RequeueAfter(delay));
                Outcome::RequeueAfter(delay)
            }
        }
    }
}

/// A reconcile that takes longer raises an alarm.
const LONG: Duration = Duration::from_secs(60);

/// Identifies a reconcile in logs and traces. Formatted only if a subscriber is interested.
#[derive(Clone, Copy)]
struct ReconcileId(u64);

impl fmt::Display for ReconcileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// How a reconcile ended.
enum Ended {
    Done(Action),
    Failed(Retry, Failure),
    Panicked(String),
    TimedOut(Duration),
}

/// Returns the message of a panic.
pub(crate) fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".into())
}

/// Logs a reconcile with a constant message and fields. The object is in the span.
fn log(record: &Record) {
    macro_rules! log {
        ($level:ident, $message:literal) => {
            tracing::$level!(
                outcome = %record.outcome.summary(),
                duration = ?record.duration,
                causes = %format_args!("{:#.2}", record.causes),
                writes = record.summary().map(tracing::field::display),
                error = record.outcome.error().map(tracing::field::display),
                $message
            )
        };
    }
    match &record.outcome {
        Outcome::Failed(_) | Outcome::TimedOut(_) => log!(warn, "reconcile failed"),
        Outcome::Terminal(_) | Outcome::Panicked(_) => log!(error, "reconcile failed"),
        Outcome::Done | Outcome::Requeue | Outcome::RequeueAfter(_) => {
            match record.changes().next() {
                Some(_) => log!(info, "reconciled"),
                None => log!(debug, "reconciled"),
            }
        }
    }
}
