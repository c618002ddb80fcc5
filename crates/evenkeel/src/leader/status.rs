//! The state of an election, for health checks and metrics.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::lost::LeaderElectionLost;
use super::options::Settings;
use crate::clock::MonotonicClock;
use crate::key::Key;
use crate::metrics::LeaderMetrics;

/// How long a lease may be expired, or the API server unreachable, before the health check fails; as
/// in kube-controller-manager.
const TOLERANCE: Duration = Duration::from_secs(20);

/// A handle to the election for one Lease; see
/// [`Manager::leader_elections`](crate::Manager::leader_elections).
///
/// ```no_run
/// # fn example(manager: &evenkeel::Manager) {
/// for election in manager.leader_elections() {
///     let role = if election.is_leader() { "leader" } else { "standby" };
///     println!("{}: {} is {role}; held by {}", election.lease(), election.identity(), election.holder());
/// }
/// # }
/// ```
#[derive(Clone)]
pub struct LeaderElectionHandle(Arc<Inner>);

struct Inner {
    lease: Key,
    identity: Arc<str>,
    /// How long the lease and the contact to the API server may be older than now.
    limit: Duration,
    clock: MonotonicClock,
    state: Mutex<State>,
    metrics: LeaderMetrics,
}

#[derive(Default)]
struct State {
    phase: Phase,
    /// The holder that was seen last.
    holder: Arc<str>,
    /// When the last successful renewal was sent, or the lease was last read.
    contact: Duration,
    slow_paths: u64,
}

#[derive(Default)]
enum Phase {
    /// The manager does not run.
    #[default]
    Idle,
    Standby,
    Leader,
    Lost(LeaderElectionLost),
}

impl LeaderElectionHandle {
    pub(super) fn new(lease: Key, settings: &Settings, metrics: LeaderMetrics) -> Self {
        let limit = settings.timing.lease_duration + TOLERANCE;
        let (identity, clock) = (settings.identity.clone(), settings.clock.clone());
        let state = Mutex::default();
        Self(Arc::new(Inner { lease, identity, limit, clock, state, metrics }))
    }

    /// Returns the namespace and name of the Lease.
    #[must_use]
    pub fn lease(&self) -> &Key {
        &self.0.lease
    }

    /// Returns the name of this process in the Lease.
    #[must_use]
    pub fn identity(&self) -> &str {
        &self.0.identity
    }

    /// Returns whether this process is the leader.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        matches!(self.0.state.lock().phase, Phase::Leader)
    }

    /// Returns the identity of the leader that was seen last; empty if there was none.
    #[must_use]
    pub fn holder(&self) -> Arc<str> {
        self.0.state.lock().holder.clone()
    }

    /// Returns how often a renewal found the Lease changed and had to read it.
    #[must_use]
    pub fn slow_paths(&self) -> u64 {
        self.0.state.lock().slow_paths
    }

    /// Checks the election, for readiness probes: it fails if this process holds a lease that it could
    /// not renew and still runs, and if a standby has not reached the API server for as long.
    ///
    /// # Errors
    /// Why it fails.
    pub fn check(&self) -> Result<(), String> {
        self.check_leader()?;
        let state = self.0.state.lock();
        match (&state.phase, self.overdue(&state)) {
            (Phase::Standby, Some(silent)) => {
                let (lease, silent) = (&self.0.lease, silent.as_secs());
                Err(format!("Lease {lease} could not be read for {silent} s"))
            }
            _ => Ok(()),
        }
    }

    /// Checks the election, for liveness probes: it fails if this process holds or has lost a lease
    /// that it could not renew and still runs.
    ///
    /// A standby always passes: a restart would not help it to reach the API server, but cost it its
    /// caches.
    ///
    /// # Errors
    /// Why it fails.
    pub fn check_leader(&self) -> Result<(), String> {
        let state = self.0.state.lock();
        let Some(silent) = self.overdue(&state) else { return Ok(()) };
        match &state.phase {
            Phase::Lost(lost) => Err(format!("leader election lost: {lost}")),
            Phase::Leader => {
                let (lease, silent) = (&self.0.lease, silent.as_secs());
                Err(format!("failed to renew leadership on Lease {lease} for {silent} s"))
            }
            Phase::Idle | Phase::Standby => Ok(()),
        }
    }

    /// Returns the time since the last contact, if it is too long ago.
    fn overdue(&self, state: &State) -> Option<Duration> {
        let silent = self.0.clock.now().saturating_sub(state.contact);
        (silent > self.0.limit).then_some(silent)
    }

    /// The election begins, or begins again.
    pub(super) fn stand_by(&self) {
        let mut state = self.0.state.lock();
        if matches!(state.phase, Phase::Idle) {
            state.contact = self.0.clock.now();
        }
        state.phase = Phase::Standby;
    }

    /// The Lease was read.
    pub(super) fn observed(&self, holder: &str) {
        let mut state = self.0.state.lock();
        state.contact = self.0.clock.now();
        if *state.holder != *holder {
            tracing::info!(lease = %self.0.lease, leader = holder, "new leader");
            state.holder = holder.into();
        }
    }

    /// The Lease was acquired or renewed by a request that was sent at `sent`.
    pub(super) fn renewed(&self, sent: Duration) {
        self.0.metrics.set_leader(true);
        let mut state = self.0.state.lock();
        state.phase = Phase::Leader;
        state.holder = self.0.identity.clone();
        state.contact = sent;
    }

    pub(super) fn took_slow_path(&self) {
        self.0.metrics.slowpath();
        self.0.state.lock().slow_paths += 1;
    }

    pub(super) fn lost(&self, lost: LeaderElectionLost) {
        self.0.metrics.set_leader(false);
        self.0.state.lock().phase = Phase::Lost(lost);
    }

    /// The election has ended.
    pub(super) fn idle(&self) {
        self.0.metrics.set_leader(false);
        self.0.state.lock().phase = Phase::Idle;
    }
}

impl std::fmt::Debug for LeaderElectionHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LeaderElection")
            .field("lease", &self.0.lease)
            .field("is_leader", &self.is_leader())
            .field("holder", &self.holder())
            .finish_non_exhaustive()
    }
}
