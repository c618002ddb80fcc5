//! Counts of reconciles: the metrics of a controller, and [`ReconcileCounts`] read from them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::journal::{Alarm, Outcome};
use crate::metrics::{ReconcileFamilies, ReconcileMetrics};
use crate::queue::{CauseKind, CauseKinds};

/// Reconcile counts by outcome since the controller was registered.
///
/// Each reconcile counts as one of `success`, `requeue`, `requeue_after` and `error`; `terminal`,
/// `panics` and `timeouts` are subsets of `error`.
///
/// ```no_run
/// # fn example(controller: &evenkeel::ControllerHandle) {
/// let counts = controller.reconcile_counts();
/// println!("{} succeeded, {} failed", counts.success, counts.error);
/// println!("{} of {} workers are busy", counts.active, counts.workers);
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReconcileCounts {
    /// Returned [`Action::done`](crate::Action::done).
    pub success: u64,
    /// Returned [`Action::requeue`](crate::Action::requeue).
    pub requeue: u64,
    /// Returned [`Action::requeue_after`](crate::Action::requeue_after).
    pub requeue_after: u64,
    /// Failed for any reason.
    pub error: u64,
    /// Failed with a terminal error, which is not retried.
    pub terminal: u64,
    /// Panicked.
    pub panics: u64,
    /// Exceeded the timeout.
    pub timeouts: u64,
    /// The number of reconciles running now.
    pub active: usize,
    /// The number of workers.
    pub workers: usize,
}

/// The counters behind [`ReconcileCounts`].
#[derive(Debug)]
pub(super) struct ReconcileCounters {
    metrics: ReconcileMetrics,
    workers: usize,
    /// The number of keys that are delayed after their reconcile.
    throttled: Arc<AtomicUsize>,
}

impl ReconcileCounters {
    pub(super) fn new(families: &ReconcileFamilies, controller: &str, workers: usize) -> Self {
        let causes = CauseKind::ALL.map(CauseKind::label);
        let metrics = families.controller(controller, workers, &causes, &Alarm::LABELS);
        Self { metrics, workers, throttled: Arc::default() }
    }

    /// Counts a key that is delayed after its reconcile until the returned guard is dropped.
    pub(super) fn throttle(&self) -> Throttled {
        self.throttled.fetch_add(1, Ordering::Relaxed);
        Throttled(self.throttled.clone())
    }

    /// Counts a reconcile that ended.
    pub(super) fn count(
        &self,
        outcome: &Outcome,
        causes: CauseKinds,
        queued_for: Duration,
        duration: Duration,
    ) {
        let metrics = &self.metrics;
        match outcome {
            Outcome::Done => metrics.success.inc(),
            Outcome::Requeue => metrics.requeue.inc(),
            Outcome::RequeueAfter(_) => metrics.requeue_after.inc(),
            failed => {
                metrics.error.inc();
                metrics.errors.inc();
                match failed {
                    Outcome::Terminal(_) => metrics.terminal.inc(),
                    Outcome::Panicked(_) => metrics.panics.inc(),
                    Outcome::TimedOut(_) => metrics.timeouts.inc(),
                    _ => {}
                }
            }
        }
        metrics.time.observe_duration(duration);
        metrics.queue_time.observe_duration(queued_for);
        for (kind, counter) in CauseKind::ALL.into_iter().zip(&metrics.causes) {
            if causes.contains(kind) {
                counter.inc();
            }
        }
    }

    pub(super) fn alarm(&self, alarm: &Alarm) {
        self.metrics.alarms[alarm.number()].inc();
    }

    /// Returns the counts. The workqueue counts the keys that are being `processed`, which saves two
    /// atomic operations per reconcile.
    pub(super) fn snapshot(&self, processed: usize) -> ReconcileCounts {
        let metrics = &self.metrics;
        ReconcileCounts {
            success: metrics.success.get(),
            requeue: metrics.requeue.get(),
            requeue_after: metrics.requeue_after.get(),
            error: metrics.error.get(),
            terminal: metrics.terminal.get(),
            panics: metrics.panics.get(),
            timeouts: metrics.timeouts.get(),
            active: processed.saturating_sub(self.throttled.load(Ordering::Relaxed)),
            workers: self.workers,
        }
    }
}

/// Guard of a throttled key.
pub(super) struct Throttled(Arc<AtomicUsize>);

impl Drop for Throttled {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
