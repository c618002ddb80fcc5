//! Counts of reconciles by outcome, for metrics.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::journal::Outcome;

/// Reconcile counts by outcome since the controller was registered.
///
/// Each reconcile counts as one of `success`, `requeue`, `requeue_after` and `error`; `terminal`,
/// `panics` and `timeouts` are subsets of `error`.
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
#[derive(Debug, Default)]
pub(super) struct ReconcileCounters {
    success: AtomicU64,
    requeue: AtomicU64,
    requeue_after: AtomicU64,
    error: AtomicU64,
    terminal: AtomicU64,
    panics: AtomicU64,
    timeouts: AtomicU64,
    active: AtomicUsize,
    workers: usize,
}

impl ReconcileCounters {
    pub(super) fn new(workers: usize) -> Self {
        Self { workers, ..Self::default() }
    }

    /// Counts a running reconcile until the returned guard is dropped.
    pub(super) fn begin(&self) -> Active<'_> {
        self.active.fetch_add(1, Ordering::Relaxed);
        Active(self)
    }

    pub(super) fn count(&self, outcome: &Outcome) {
        let error = &self.error;
        let counters: &[&AtomicU64] = match outcome {
            Outcome::Done => &[&self.success],
            Outcome::Requeue => &[&self.requeue],
            Outcome::RequeueAfter(_) => &[&self.requeue_after],
            Outcome::Failed(_) => &[error],
            Outcome::Terminal(_) => &[error, &self.terminal],
            Outcome::Panicked(_) => &[error, &self.panics],
            Outcome::TimedOut(_) => &[error, &self.timeouts],
        };
        for counter in counters {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn snapshot(&self) -> ReconcileCounts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ReconcileCounts {
            success: read(&self.success),
            requeue: read(&self.requeue),
            requeue_after: read(&self.requeue_after),
            error: read(&self.error),
            terminal: read(&self.terminal),
            panics: read(&self.panics),
            timeouts: read(&self.timeouts),
            active: self.active.load(Ordering::Relaxed),
            workers: self.workers,
        }
    }
}

/// Guard of a running reconcile.
pub(super) struct Active<'a>(&'a ReconcileCounters);

impl Drop for Active<'_> {
    fn drop(&mut self) {
        self.0.active.fetch_sub(1, Ordering::Relaxed);
    }
}
