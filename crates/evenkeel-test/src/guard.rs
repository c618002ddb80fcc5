//! Ends an operator that keeps itself busy, and fails the test that runs it.
//!
//! In virtual time the clock stands still while anything runs, so a reconciler whose own write
//! causes its next run holds up every deadline of the test; the runtime slows such a key down but
//! does not end it. So reconciles are counted: too many of one object in a short time stop the
//! manager, and the test fails with the name of the controller and of the object.

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

/// How many reconciles of one object beyond [`ALLOWED_RATE`] are a spin, unless the builder sets it. An
/// object with hundreds of children that change one after another stays below.
pub(crate) const DEFAULT_SPIN_LIMIT: u32 = 500;

/// Reconciles a second of one object that are no spin however long they go on: more than the
/// runtime lets a key do that runs hot, and less than a spin does before that.
const ALLOWED_RATE: f64 = 25.0;

/// Objects that were quiet are forgotten this often.
const SWEEP_INTERVAL: Duration = Duration::from_secs(60);

/// What `virtual_time` cannot do; part of messages.
pub(crate) const VIRTUAL_TIME_HINT: &str = "in virtual time the clock moves on whenever this runtime has \
    nothing to do, so what is answered from outside of it (another thread, process or socket) \
    comes after every timeout; serve fakes in memory within the test's runtime, call them in \
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
    /// How many it is beyond the rate.
    excess: f64,
    at: Instant,
    /// When it last was not.
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

/// The test's own hold on its guard: a test that does not stop its cluster fails for a spin too.
pub(crate) struct SpinGuardHandle(pub(crate) SpinGuard);

impl Deref for SpinGuardHandle {
    type Target = SpinGuard;

    fn deref(&self) -> &SpinGuard {
        &self.0
    }
}

impl Drop for SpinGuardHandle {
    fn drop(&mut self) {
        // The managers hold the guard, and the guard holds them.
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

    /// From now on the manager is stopped when one of its controllers spins.
    pub(crate) fn watch(&self, manager: &Manager) {
        self.0.managers.lock().push(manager.clone());
    }

    /// The managers that run.
    pub(crate) fn managers(&self) -> Vec<Manager> {
        self.0.managers.lock().clone()
    }

    /// Takes in a reconcile.
    pub(crate) fn observe(&self, record: &Record) {
        let now = Instant::now();
        let mut counts = self.0.counts.lock();
        if self.0.virtual_time
            && let Outcome::TimedOut(limit) = record.outcome
            && !std::mem::replace(&mut counts.hinted, true)
        {
            tracing::warn!(
                "a reconcile of {} {} timed out after {limit:?}: {VIRTUAL_TIME_HINT}",
                record.kind,
                record.key
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
             {period:.1?}, so each reconcile causes the next one. The last: {record}"
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

    /// Resolves when the test must fail, with the reason.
    pub(crate) async fn failed(&self) -> String {
        let mut failures = self.0.failure.subscribe();
        let failure = match failures.wait_for(Option::is_some).await {
            Ok(failure) => failure.clone(),
            // The sender is as old as this.
            Err(_) => None,
        };
        match failure {
            Some(failure) => failure,
            None => std::future::pending().await,
        }
    }

    /// Why the test must fail, if it must.
    pub(crate) fn failure(&self) -> Option<String> {
        self.0.failure.borrow().clone()
    }

    /// What may explain that something did not happen in time: reconciles that still run although
    /// virtual time passed.
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
