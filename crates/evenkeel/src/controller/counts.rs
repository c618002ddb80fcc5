//! How often what happened, for metrics.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::journal::Outcome;

/// What a controller's reconciles came to since it was registered.
///
/// Each reconcile is one of `success`, `requeue`, `requeue_after` and `error`; the rest are among the
/// errors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReconcileCounts {
    /// Ended with nothing left to do.
    pub success: u64,
    /// Asked to be run again soon.
    pub requeue: u64,
    /// Asked to be run again later.
    pub requeue_after: u64,
    /// Failed, for whatever reason.
    pub error: u64,
    /// Failed and were not retried.
    pub terminal: u64,
    /// Panicked.
    pub panics: u64,
    /// Took longer than they may.
    pub timeouts: u64,
    /// How many run at this moment.
    pub active: usize,
    /// How many may run at once.
    pub workers: usize,
}

/// Counts as reconciles begin and end.
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

    /// One more is at work for as long as what is returned is held.
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

/// A reconcile at work; dropped with it, however it ends.
pub(super) struct Active<'a>(&'a ReconcileCounters);

impl Drop for Active<'_> {
    fn drop(&mut self) {
        self.0.active.fetch_sub(1, Ordering::Relaxed);
    }
}
