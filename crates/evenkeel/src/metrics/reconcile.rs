//! Metrics of reconciles and of the time that keys spend in the workqueue.

use std::sync::LazyLock;

use super::{Buckets, Counter, Define, Family, Gauge, Histogram, wide_buckets};

/// The bounds of controller-runtime for the duration of a reconcile, in seconds.
static TIMES: LazyLock<Buckets> = LazyLock::new(|| {
    Buckets::new(&[
        0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8,
        0.9, 1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0,
        15.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0,
    ])
});

/// The families by controller.
#[derive(Debug)]
pub(crate) struct ReconcileFamilies {
    total: Family<Counter, 2>,
    errors: Family<Counter, 1>,
    terminal: Family<Counter, 1>,
    panics: Family<Counter, 1>,
    timeouts: Family<Counter, 1>,
    time: Family<Histogram, 1>,
    workers: Family<Gauge, 1>,
    queue_time: Family<Histogram, 2>,
    work_time: Family<Histogram, 2>,
    causes: Family<Counter, 2>,
    alarms: Family<Counter, 2>,
}

/// The metrics of one controller.
#[derive(Clone, Debug)]
pub(crate) struct ReconcileMetrics {
    pub(crate) success: Counter,
    pub(crate) requeue: Counter,
    pub(crate) requeue_after: Counter,
    pub(crate) error: Counter,
    pub(crate) errors: Counter,
    pub(crate) terminal: Counter,
    pub(crate) panics: Counter,
    pub(crate) timeouts: Counter,
    /// The duration of reconciles, which is also that of the work on a key.
    pub(crate) time: Histogram,
    pub(crate) queue_time: Histogram,
    /// By the number of the cause.
    pub(crate) causes: Box<[Counter]>,
    /// By the number of the alarm.
    pub(crate) alarms: Box<[Counter]>,
}

impl ReconcileFamilies {
    pub(super) fn new(define: &Define) -> Self {
        let controller = ["controller"];
        let queue = ["name", "controller"];
        Self {
            total: define.counters(
                "controller_runtime_reconcile_total",
                "Reconciles by controller and result.",
                ["controller", "result"],
            ),
            errors: define.counters(
                "controller_runtime_reconcile_errors_total",
                "Failed reconciles by controller.",
                controller,
            ),
            terminal: define.counters(
                "controller_runtime_terminal_reconcile_errors_total",
                "Reconciles that failed with a terminal error, by controller.",
                controller,
            ),
            panics: define.counters(
                "controller_runtime_reconcile_panics_total",
                "Reconciles that panicked, by controller.",
                controller,
            ),
            timeouts: define.counters(
                "controller_runtime_reconcile_timeouts_total",
                "Reconciles that exceeded their timeout, by controller.",
                controller,
            ),
            time: define.histograms(
                "controller_runtime_reconcile_time_seconds",
                "Duration of a reconcile by controller.",
                controller,
                TIMES.clone(),
            ),
            workers: define.gauges(
                "controller_runtime_max_concurrent_reconciles",
                "Number of workers by controller.",
                controller,
            ),
            queue_time: define.histograms(
                "workqueue_queue_duration_seconds",
                "How long a key is due before a worker takes it.",
                queue,
                wide_buckets(),
            ),
            work_time: define.histograms(
                "workqueue_work_duration_seconds",
                "How long a worker processes a key.",
                queue,
                wide_buckets(),
            ),
            causes: define.counters(
                "evenkeel_reconcile_causes_total",
                "Kinds of causes of reconciles; a reconcile can have several.",
                ["controller", "cause"],
            ),
            alarms: define.counters(
                "evenkeel_alarms_total",
                "Alarms of the journal: reconcile loops, contested fields, throttled keys and long \
                 reconciles.",
                ["controller", "alarm"],
            ),
        }
    }

    /// Returns the metrics of a controller, all of them zero at first.
    pub(crate) fn controller(
        &self,
        name: &str,
        workers: usize,
        causes: &[&str],
        alarms: &[&str],
    ) -> ReconcileMetrics {
        let total = |result| self.total.with([name, result]);
        self.workers.with([name]).set(workers as f64);
        let (time, work_time) = Histogram::pair(TIMES.clone(), wide_buckets());
        self.time.set([name], time.clone());
        self.work_time.set([name, name], work_time);
        ReconcileMetrics {
            success: total("success"),
            requeue: total("requeue"),
            requeue_after: total("requeue_after"),
            error: total("error"),
            errors: self.errors.with([name]),
            terminal: self.terminal.with([name]),
            panics: self.panics.with([name]),
            timeouts: self.timeouts.with([name]),
            time,
            queue_time: self.queue_time.with([name, name]),
            causes: causes.iter().map(|cause| self.causes.with([name, cause])).collect(),
            alarms: alarms.iter().map(|alarm| self.alarms.with([name, alarm])).collect(),
        }
    }
}
