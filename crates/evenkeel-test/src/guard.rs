//! Detects controllers that spin, and fails the test.
//!
//! In virtual time the clock does not advance while a task runs, so a reconciler whose write causes
//! its next reconcile keeps every timeout of the test from firing. The workqueue slows such a key
//! down but does not stop it. The guard counts reconciles: too many of one object in a short time
//! stop the manager, and the test fails with the names of the controller and the object.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use evenkeel::journal::{Outcome, Record};
use evenkeel::{Key, Manager};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::fail;

/// The default number of reconciles of one object beyond [`ALLOWED_RATE`] that count as a spin. An
/// object with hundreds of dependents that change one after another stays below.
pub(crate) const DEFAULT_SPIN_LIMIT: u32 = 500;

/// The reconciles of one object per second that never count as a spin: more than the rate limiter
/// allows for a hot key, and less than a spinning key reaches before it is limited.
const ALLOWED_RATE: f64 = 25.0;

/// The interval at which idle objects are removed.
const SWEEP_INTERVAL: Duration = Duration::from_secs(60);

/// Explains the limits of `virtual_time` in messages.
pub(crate) const VIRTUAL_TIME_HINT: &str = "in virtual time the clock advances whenever this \
    runtime is idle, so every timeout fires before a response from outside of it (another thread, \
    process or socket) arrives; serve fakes in memory within the test's runtime, call them in \
    `spawn_blocking`, or run this test without `virtual_time`";

/// Counts the reconciles of all managers of a test.
#[derive(Clone)]
pub(crate) struct SpinGuard(Arc<Inner>);

struct Inner {
    limit: u32,
    virtual_time: bool,
    counts: Mutex<Counts>,
    managers: Mutex<Vec<Manager>>,
    /// Why the test must fail.
    failure: watch::Sender<Option<String>>,
}

struct Counts {
    swept: Instant,
    rates: HashMap<(Arc<str>, Key), ReconcileRate>,
    /// Whether the hint about timeouts has been logged.
    hinted: bool,
}

/// The reconciles of one object.
struct ReconcileRate {
    /// The number of reconciles beyond [`ALLOWED_RATE`].
    excess: f64,
    at: Instant,
    /// When `excess` was last zero.
    since: Instant,
    count: u64,
}

impl ReconcileRate {
    fn new(now: Instant) -> Self {
        Self { excess: 0.0, at: now, since: now, count: 0 }
    }

    fn decay(&mut self, now: Instant) {
        self.excess -= now.duration_since(self.at).as_secs_f64() * ALLOWED_RATE;
        self.at = now;
    }
}

/// The guard as held by the test cluster. Fails the test on drop, for tests that do not stop their
/// cluster.
pub(crate) struct SpinGuardHandle(pub(crate) SpinGuard);

impl Deref for SpinGuardHandle {
    type Target = SpinGuard;

    fn deref(&self) -> &SpinGuard {
        &self.0
    }
}

impl Drop for SpinGuardHandle {
    fn drop(&mut self) {
        // Breaks the reference cycle: the managers hold the guard, and the guard holds them.
        let managers = std::mem::take(&mut *self.0.0.managers.lock());
        drop(managers);
        if let Some(failure) = self.failure().filter(|_| !std::thread::panicking()) {
            fail(&failure);
        }
    }
}

impl SpinGuard {
    pub(crate) fn new(limit: u32, virtual_time: bool) -> Self {
        let counts = Counts { swept: Instant::now(), rates: HashMap::new(), hinted: false };
        Self(Arc::new(Inner {
            limit,
            virtual_time,
            counts: Mutex::new(counts),
            managers: Mutex::default(),
            failure: watch::Sender::new(None),
        }))
    }

    /// Registers a manager, which is stopped when a controller spins.
    pub(crate) fn watch(&self, manager: &Manager) {
        self.0.managers.lock().push(manager.clone());
    }

    /// Returns the registered managers.
    pub(crate) fn managers(&self) -> Vec<Manager> {
        self.0.managers.lock().clone()
    }

    /// Counts a reconcile and stops all managers if the object exceeds the limit.
    pub(crate) fn observe(&self, record: &Record) {
        let now = Instant::now();
        let mut counts = self.0.counts.lock();
        if self.0.virtual_time
            && let Outcome::TimedOut(limit) = record.outcome
            && !std::mem::replace(&mut counts.hinted, true)
        {
            tracing::warn!(
                kind = %record.kind,
                object = %record.key,
                ?limit,
                hint = VIRTUAL_TIME_HINT,
                "a reconcile timed out in virtual time"
            );
        }
        if now.duration_since(counts.swept) > SWEEP_INTERVAL {
            counts.swept = now;
            counts.rates.retain(|_, rate| {
                rate.decay(now);
                rate.excess > 0.0
            });
        }
        let id = (record.controller.clone(), record.key.clone());
        let rate = counts.rates.entry(id).or_insert_with(|| ReconcileRate::new(now));
        rate.decay(now);
        if rate.excess < 0.0 {
            *rate = ReconcileRate::new(now);
        }
        rate.excess += 1.0;
        rate.count += 1;
        if rate.excess < f64::from(self.0.limit) {
            return;
        }
        let (count, period) = (rate.count, now.duration_since(rate.since));
        drop(counts);
        let (controller, kind, key) = (&record.controller, &record.kind, &record.key);
        let failure = format!(
            "controller {controller:?} spins: it reconciled {kind} {key} {count} times within \
             {period:.1?}, so each reconcile causes the next one. The last reconcile: {record}"
        );
        self.0.failure.send_if_modified(|present| match present {
            Some(_) => false,
            None => {
                *present = Some(failure);
                true
            }
        });
        for manager in self.managers() {
            manager.stop();
        }
    }

    /// Waits until a controller spins and returns the failure.
    pub(crate) async fn failed(&self) -> String {
        let mut failures = self.0.failure.subscribe();
        let failure = match failures.wait_for(Option::is_some).await {
            Ok(failure) => failure.clone(),
            // Unreachable: `self` owns the sender.
            Err(_) => None,
        };
        match failure {
            Some(failure) => failure,
            None => std::future::pending().await,
        }
    }

    /// Returns why the test must fail, if it must.
    pub(crate) fn failure(&self) -> Option<String> {
        self.0.failure.borrow().clone()
    }

    /// Returns a hint for timeouts: reconciles that are still running although virtual time passed.
    pub(crate) fn hint(&self) -> String {
        let controllers = self.managers().into_iter().flat_map(|manager| manager.controllers());
        let active: Vec<String> = controllers
            .filter(|controller| self.0.virtual_time && controller.reconcile_counts().active > 0)
            .map(|controller| format!("{:?}", controller.name()))
            .collect();
        match active.is_empty() {
            true => String::new(),
            false => format!(
                "\nA reconcile of {} is still running: {VIRTUAL_TIME_HINT}.",
                active.join(", ")
            ),
        }
    }
}
