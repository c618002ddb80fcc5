//! The elector: acquires, renews and releases one Lease.
//!
//! The protocol is that of client-go. A candidate never compares times of the Lease with its own
//! clock: a lease has expired when its record has not changed for the lease duration, by the clock of
//! the candidate. Each write carries the resourceVersion of the state that it is based on, so of
//! several candidates one succeeds.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_types::watch;
use futures_util::future::{self, Either};
use tokio_util::sync::CancellationToken;

use super::elections::Seat;
use super::electors::Signals;
use super::lease::{Claim, Lease};
use super::lock::{Lock, LockError};
use super::lost::LeaderElectionLost;
use super::observer::{self, Latest, Seen};
use super::options::Settings;
use crate::client::Client;
use crate::clock::Clock;
use crate::events::{self, EventRecorder};
use crate::fence::Term;
use crate::random::Random;

/// A candidate for one Lease.
pub(super) struct Elector {
    seat: Arc<Seat>,
    settings: Settings,
    /// Wall-clock time, which is written to the Lease for people to read.
    wall: Clock,
    recorder: EventRecorder,
    random: Random,
}

/// The Lease as a candidate has seen it.
struct Observed {
    lease: Lease,
    /// When the record was seen first, by the clock of this process.
    since: Duration,
}

/// The Lease, held by this process.
struct Held {
    lease: Lease,
    /// When the request that acquired or renewed it was sent.
    sent: Duration,
}

/// How a term ended.
enum Ended {
    Released,
    Lost(LeaderElectionLost),
}

/// Why a lease was not renewed.
enum NotRenewed {
    Lost(LeaderElectionLost),
    /// It may succeed later.
    Failed(LockError),
}

impl Elector {
    pub(super) fn new(
        seat: Arc<Seat>,
        settings: Settings,
        wall: Clock,
        recorder: EventRecorder,
        random: Random,
    ) -> Self {
        Self { seat, settings, wall, recorder, random }
    }

    /// Runs until `signals` or until the lease is lost.
    ///
    /// # Errors
    /// When the lease is lost, unless the options are to stand for election again.
    pub(super) async fn run(
        mut self,
        client: Client,
        signals: Signals,
    ) -> Result<(), LeaderElectionLost> {
        let seat = self.seat.clone();
        let ended = EndTerm(seat.clone());
        seat.handle.stand_by();
        let client = match client.separate().await {
            Ok(separate) => separate,
            Err(error) => {
                let error = crate::error::chain(&error);
                tracing::warn!(error, "no separate connection for leader election");
                client
            }
        };
        let (sender, seen) = watch::channel(Seen::default());
        let random = Random::new(self.random.next());
        let observer = observer::run(client.transport().clone(), &seat.key, sender, random);
        let timeout = self.settings.timing.request_timeout();
        let lock = Lock::new(client, self.settings.clock.clone(), seat.key.clone(), timeout);
        let mut election =
            Election { elector: self, lock, seen, observed: None, last_transitions: None };
        let (election, observer) = (Box::pin(election.run(&signals)), Box::pin(observer));
        let outcome = match future::select(election, observer).await {
            Either::Left((outcome, _)) => outcome,
            Either::Right((never, _)) => match never {},
        };
        drop(ended);
        if outcome.is_ok() {
            seat.handle.idle();
        }
        outcome
    }
}

/// Ends the term when the elector ends, also if it is cancelled or panics.
struct EndTerm(Arc<Seat>);

impl Drop for EndTerm {
    fn drop(&mut self) {
        self.0.fence.end();
    }
}

/// A running election.
struct Election {
    elector: Elector,
    lock: Lock,
    seen: watch::Receiver<Seen>,
    observed: Option<Observed>,
    /// The transitions of the last Lease that was seen, also if it was deleted since.
    last_transitions: Option<u64>,
}

impl Election {
    async fn run(&mut self, signals: &Signals) -> Result<(), LeaderElectionLost> {
        let (seat, lease) = (self.elector.seat.clone(), self.elector.seat.key.clone());
        loop {
            tracing::info!(%lease, identity = self.identity(), "attempting to acquire leader lease");
            let Some(held) = self.acquire(&signals.withdraw).await else { return Ok(()) };
            tracing::info!(%lease, "successfully acquired lease");
            let uid = held.lease.uid().map(str::to_owned);
            self.record_event(uid.clone(), "became leader");
            let ended = self.lead(held, signals).await;
            seat.fence.end();
            self.record_event(uid, "stopped leading");
            match ended {
                Ended::Released => return Ok(()),
                Ended::Lost(lost) => {
                    seat.handle.lost(lost.clone());
                    if !self.elector.settings.reelect || signals.withdraw.is_cancelled() {
                        return Err(lost);
                    }
                    tracing::warn!(error = %lost, "leader election lost, standing by");
                    self.observed = None;
                    seat.handle.stand_by();
                }
            }
        }
    }

    /// Records an event of the Lease, as client-go does.
    fn record_event(&self, uid: Option<String>, what: &str) {
        let regarding = events::reference(&self.lock.kind, &self.lock.key, uid, None);
        let note = format!("{} {what}", self.identity());
        self.elector.recorder.event(&regarding, "LeaderElection", &note);
    }

    fn identity(&self) -> &str {
        &self.elector.settings.identity
    }

    fn now(&self) -> Duration {
        self.elector.settings.clock.now()
    }

    fn claim(&self) -> Claim<'_> {
        let Settings { identity, labels, timing, .. } = &self.elector.settings;
        let now = self.elector.wall.now();
        Claim { identity, duration: timing.lease_duration, now, labels }
    }

    /// Waits until this process has the lease; `None` if it withdraws.
    async fn acquire(&mut self, withdraw: &CancellationToken) -> Option<Held> {
        let clock = self.elector.settings.clock.clone();
        let retry_period = self.elector.settings.timing.retry_period;
        let mut current = false;
        loop {
            if withdraw.is_cancelled() {
                return None;
            }
            // A request that may already have acquired the lease is not abandoned at once.
            let give_up = async {
                withdraw.cancelled().await;
                clock.sleep_until(clock.now() + retry_period).await;
            };
            let attempt = tokio::select! {
                biased;
                attempt = self.try_acquire(current) => attempt,
                () = give_up => return None,
            };
            let failed = match attempt {
                Ok(Some(held)) if withdraw.is_cancelled() => {
                    self.release(held.lease).await;
                    return None;
                }
                Ok(Some(held)) => return Some(held),
                Ok(None) => false,
                Err(error) => {
                    let (lease, race) = (&self.lock.key, error.is_race());
                    let error = error.message();
                    match race {
                        true => tracing::debug!(%lease, %error, "another candidate was faster"),
                        false => tracing::warn!(%lease, %error, "failed to acquire lease"),
                    }
                    true
                }
            };
            current = self.wait(withdraw, failed).await?;
        }
    }

    /// Tries to acquire the lease, if it is free. With `current`, the state that was observed is used
    /// without reading the Lease.
    async fn try_acquire(&mut self, current: bool) -> Result<Option<Held>, LockError> {
        if !current {
            match self.lock.get().await? {
                Some(lease) => self.observe(lease),
                None => self.observe_absent(),
            }
        }
        let sent = self.now();
        let lease = match &self.observed {
            Some(observed) if !self.is_free(observed, sent) => return Ok(None),
            Some(observed) => {
                let mut lease = observed.lease.clone();
                lease.acquire(&self.claim(), lease.transitions().saturating_add(1));
                self.lock.update(&lease).await?
            }
            None => {
                // The fencing token increases even if the Lease was deleted.
                let transitions = self.last_transitions.map_or(0, |last| last.saturating_add(1));
                let lease = Lease::new(&self.lock.key, &self.claim(), transitions);
                self.lock.create(&lease).await?
            }
        };
        self.last_transitions = Some(lease.transitions());
        Ok(Some(Held { lease, sent }))
    }

    fn is_free(&self, observed: &Observed, now: Duration) -> bool {
        let Observed { lease, since } = observed;
        let holder = lease.holder();
        holder.is_empty() || holder == self.identity() || *since + lease.duration() <= now
    }

    /// Waits until the lease may be free; returns whether the observed state is current, or `None` if
    /// this process withdraws.
    async fn wait(&mut self, withdraw: &CancellationToken, failed: bool) -> Option<bool> {
        let timing = self.elector.settings.timing;
        let clock = self.elector.settings.clock.clone();
        let retry = clock.now() + timing.jittered(&mut self.elector.random);
        let jitter = self.elector.random.range(Duration::ZERO, timing.retry_period / 4);
        loop {
            let expiry = self.observed.as_ref().map(|it| it.since + it.lease.duration() + jitter);
            let watched = self.seen.borrow().watched && !failed;
            let until = expiry.filter(|_| watched).unwrap_or(retry);
            tokio::select! {
                biased;
                () = withdraw.cancelled() => return None,
                changed = self.seen.changed() => {
                    if changed.is_err() {
                        // The observer has ended, which it does only with this future.
                        return None;
                    }
                    let latest = self.seen.borrow_and_update().latest.clone();
                    match latest {
                        Latest::Present(lease) => self.observe((*lease).clone()),
                        Latest::Absent if self.observed.is_some() => {
                            self.observe_absent();
                            return Some(true);
                        }
                        Latest::Absent | Latest::Unknown => {}
                    }
                    let released = |it: &Observed| it.lease.holder().is_empty();
                    if self.observed.as_ref().is_some_and(released) {
                        return Some(true);
                    }
                }
                () = clock.sleep_until(until) => return Some(false),
            }
        }
    }

    /// Remembers a state of the Lease, and since when its record has not changed.
    fn observe(&mut self, lease: Lease) {
        let now = self.now();
        self.last_transitions = Some(lease.transitions());
        self.elector.seat.handle.observed(lease.holder());
        match &mut self.observed {
            Some(observed) if lease.is_older_than(&observed.lease) => {}
            Some(observed) if lease.is_same_record(&observed.lease) => observed.lease = lease,
            _ => self.observed = Some(Observed { lease, since: now }),
        }
    }

    fn observe_absent(&mut self) {
        self.elector.seat.handle.observed("");
        self.observed = None;
    }

    /// Renews the lease until it is released or lost.
    async fn lead(&mut self, held: Held, signals: &Signals) -> Ended {
        let Held { mut lease, sent } = held;
        let timing = self.elector.settings.timing;
        let clock = self.elector.settings.clock.clone();
        let term = self.elector.seat.fence.begin(sent + timing.renew_deadline, lease.transitions());
        self.elector.seat.handle.renewed(sent);
        let mut next = sent + timing.retry_period;
        let mut error = None;
        let mut lost_since = None;
        loop {
            tokio::select! {
                biased;
                () = clock.sleep_until(term.deadline()) => {
                    return self.not_renewed(error);
                }
                () = signals.release.cancelled() => return self.end(lease).await,
                Ok(()) = self.seen.changed() => {
                    if !self.is_suspicious(&lease) {
                        continue;
                    }
                }
                () = clock.sleep_until(next) => {}
            }
            let sent = clock.now();
            let renewed = tokio::select! {
                biased;
                () = clock.sleep_until(term.deadline()) => return self.not_renewed(error),
                () = signals.release.cancelled() => return self.end(lease).await,
                renewed = self.renew(&lease) => renewed,
            };
            match renewed {
                Ok(held) => {
                    self.extend(&term, held.sent);
                    lease = held.lease;
                    next = held.sent + timing.retry_period;
                    (error, lost_since) = (None, None);
                }
                Err(NotRenewed::Lost(lost)) => return Ended::Lost(lost),
                Err(NotRenewed::Failed(failure)) => {
                    let message = failure.message();
                    let since = *lost_since.get_or_insert(sent);
                    let (lease, failing) = (&self.lock.key, clock.now().saturating_sub(since));
                    tracing::warn!(%lease, error = %message, ?failing, "failed to renew lease");
                    error = Some(message);
                    // A request that timed out has already waited.
                    next = clock.now().max(sent + timing.retry_period);
                }
            }
        }
    }

    fn extend(&self, term: &Term, sent: Duration) {
        term.extend(sent + self.elector.settings.timing.renew_deadline);
        self.elector.seat.handle.renewed(sent);
    }

    fn not_renewed(&self, error: Option<Arc<str>>) -> Ended {
        let (lease, deadline) = (self.lease(), self.elector.settings.timing.renew_deadline);
        Ended::Lost(LeaderElectionLost::NotRenewed { lease, deadline, error })
    }

    fn lease(&self) -> String {
        self.lock.key.to_string()
    }

    /// Returns whether the watch has seen that another process changed the Lease, so that the next
    /// renewal should not wait.
    fn is_suspicious(&mut self, held: &Lease) -> bool {
        match &self.seen.borrow_and_update().latest {
            Latest::Present(lease) => {
                lease.holder() != &*self.elector.settings.identity && !lease.is_older_than(held)
            }
            Latest::Absent => true,
            Latest::Unknown => false,
        }
    }

    /// Renews the lease. The state that was written last is usually the current one; otherwise the
    /// Lease is read.
    async fn renew(&mut self, held: &Lease) -> Result<Held, NotRenewed> {
        let mut lease = held.clone();
        lease.renew(&self.claim());
        let sent = self.now();
        match self.lock.update(&lease).await {
            Ok(lease) => return Ok(Held { lease, sent }),
            Err(error) if error.is_race() => {}
            Err(error) => return Err(NotRenewed::Failed(error)),
        }
        let found = self.lock.get().await.map_err(NotRenewed::Failed)?;
        let Some(mut lease) = found else {
            return Err(NotRenewed::Lost(LeaderElectionLost::Deleted { lease: self.lease() }));
        };
        if lease.holder() != self.identity() {
            let holder = lease.holder().to_owned();
            return Err(NotRenewed::Lost(LeaderElectionLost::Taken {
                lease: self.lease(),
                holder,
            }));
        }
        self.elector.seat.handle.took_slow_path();
        lease.renew(&self.claim());
        let sent = self.now();
        match self.lock.update(&lease).await {
            Ok(lease) => Ok(Held { lease, sent }),
            Err(error) => Err(NotRenewed::Failed(error)),
        }
    }

    /// Ends a term at which all work has ended.
    async fn end(&mut self, lease: Lease) -> Ended {
        self.elector.seat.fence.end();
        if self.elector.settings.release_on_stop {
            self.release(lease).await;
        }
        Ended::Released
    }

    /// Releases the lease. If that fails, it expires.
    async fn release(&mut self, lease: Lease) {
        let clock = self.elector.settings.clock.clone();
        let limit = self.elector.settings.timing.retry_period;
        match clock.timeout(limit, self.try_release(lease)).await {
            Some(Ok(())) => tracing::info!(lease = %self.lock.key, "released lease"),
            Some(Err(error)) => {
                let (lease, error) = (&self.lock.key, error.message());
                tracing::warn!(%lease, %error, "failed to release lease, which expires");
            }
            None => {
                let lease = &self.lock.key;
                tracing::warn!(%lease, ?limit, "lease not released in time, it expires");
            }
        }
    }

    async fn try_release(&mut self, mut lease: Lease) -> Result<(), LockError> {
        loop {
            lease.release(self.elector.wall.now());
            match self.lock.update(&lease).await {
                Err(error) if error.is_race() => {}
                done => return done.map(drop),
            }
            // A renewal of this process may have been committed without a response.
            match self.lock.get().await? {
                Some(found) if found.holder() == self.identity() => lease = found,
                Some(_) | None => return Ok(()),
            }
        }
    }
}
