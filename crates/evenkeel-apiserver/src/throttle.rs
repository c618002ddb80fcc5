//! Who gets how much of the server at once.
//!
//! Holds the counters behind [`Limits`]. Nothing in here looks at a request: the pipeline asks for
//! places before it reads, works and answers, and a place is given back when it is dropped.

mod fair_semaphore;
mod round_robin;

use std::sync::Arc;

use tokio::time;

use crate::identity::Identity;
use crate::limits::Limits;
use crate::status::Status;

use self::fair_semaphore::FairSemaphore;
pub(crate) use self::fair_semaphore::Permit;
use self::round_robin::RoundRobin;
pub(crate) use self::round_robin::Slot;

/// Counts what requests take.
pub(crate) struct Throttle {
    pub(crate) limits: Limits,
    reads: FairSemaphore,
    writes: FairSemaphore,
    bodies: FairSemaphore,
    responses: FairSemaphore,
    heavy_waiting: FairSemaphore,
    heavy_slots: Arc<RoundRobin>,
}

/// The user that a request is counted for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct User {
    name: Arc<str>,
    anonymous: bool,
}

/// What a request does to stored objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
}

/// Memory is counted in these.
const UNIT: usize = 4096;

impl User {
    pub(crate) fn of(identity: &Identity) -> Self {
        Self { name: identity.user.as_str().into(), anonymous: !identity.is_authenticated() }
    }

    pub(crate) fn name(&self) -> &Arc<str> {
        &self.name
    }

    pub(crate) fn is_anonymous(&self) -> bool {
        self.anonymous
    }
}

impl Throttle {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            reads: FairSemaphore::new(limits.reads_in_flight),
            writes: FairSemaphore::new(limits.writes_in_flight),
            bodies: FairSemaphore::new(limits.body_bytes / UNIT),
            responses: FairSemaphore::new(limits.response_bytes / UNIT),
            heavy_waiting: FairSemaphore::new(limits.heavy_waiting),
            heavy_slots: Arc::new(RoundRobin::new(limits.heavy_in_flight)),
            limits,
        }
    }

    /// Waits a little for a place among the requests in flight.
    pub(crate) async fn in_flight(&self, user: &User, access: Access) -> Result<Permit, Status> {
        let semaphore = match access {
            Access::Read => &self.reads,
            Access::Write => &self.writes,
        };
        if let Some(permit) = semaphore.try_acquire(user, 1) {
            return Ok(permit);
        }
        let acquired = time::timeout(self.limits.queue_wait, semaphore.acquire(user, 1)).await;
        acquired.ok().flatten().ok_or_else(Status::overloaded)
    }

    /// Makes `held` cover `bytes` of a request body.
    pub(crate) fn reserve_body(
        &self,
        user: &User,
        held: &mut Option<Permit>,
        bytes: usize,
    ) -> Result<(), Status> {
        let have = held.as_ref().map_or(0, Permit::size);
        let Some(more) = bytes.div_ceil(UNIT).checked_sub(have).filter(|more| *more > 0) else {
            return Ok(());
        };
        let more = self.bodies.try_acquire(user, more).ok_or_else(Status::overloaded)?;
        match held {
            Some(held) => held.merge(more),
            None => *held = Some(more),
        }
        Ok(())
    }

    /// Waits for room for a response of about `bytes` that is made as a whole.
    pub(crate) async fn reserve_response(
        &self,
        user: &User,
        bytes: usize,
    ) -> Result<Permit, Status> {
        let permits = bytes.div_ceil(UNIT);
        self.responses.acquire(user, permits).await.ok_or_else(Status::overloaded)
    }

    /// Waits for the turn to work on much data at once. At most so many wait.
    pub(crate) async fn heavy_slot(&self, user: &User) -> Result<Slot, Status> {
        let _waiting = self.heavy_waiting.try_acquire(user, 1).ok_or_else(Status::overloaded)?;
        Ok(self.heavy_slots.wait(user.name()).await)
    }

    /// Waits until no heavy request is running.
    pub(crate) async fn idle(&self) {
        self.heavy_slots.idle().await;
    }
}

#[cfg(test)]
mod tests;
