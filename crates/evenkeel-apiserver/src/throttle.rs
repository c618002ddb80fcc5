//! Enforces the [`Limits`] of bytes and of heavy work, shared fairly between users. How many
//! requests run concurrently is decided in `flow_control.rs`.
//!
//! The pipeline acquires permits before it reads, processes and responds, and dropping a permit
//! releases it. Requests themselves are not read here.

mod fair_semaphore;
mod round_robin;

use std::sync::Arc;

use crate::identity::Identity;
use crate::limits::Limits;
use crate::status::Status;

use self::fair_semaphore::FairSemaphore;
pub(crate) use self::fair_semaphore::Permit;
use self::round_robin::RoundRobin;
pub(crate) use self::round_robin::Slot;

/// The semaphores of all limits.
pub(crate) struct Throttle {
    pub(crate) limits: Limits,
    bodies: FairSemaphore,
    responses: FairSemaphore,
    heavy_waiting: FairSemaphore,
    heavy_slots: Arc<RoundRobin>,
}

/// The user that a request is accounted to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct User {
    name: Arc<str>,
    anonymous: bool,
}

/// Memory is reserved in units of this many bytes.
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
            bodies: FairSemaphore::new(limits.body_bytes / UNIT),
            responses: FairSemaphore::new(limits.response_bytes / UNIT),
            heavy_waiting: FairSemaphore::new(limits.heavy_waiting),
            heavy_slots: Arc::new(RoundRobin::new(limits.heavy_in_flight)),
            limits,
        }
    }

    /// Extends `held` to `bytes` of a request body.
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

    /// Waits for permits for a buffered response of about `bytes`.
    pub(crate) async fn reserve_response(
        &self,
        user: &User,
        bytes: usize,
    ) -> Result<Permit, Status> {
        let permits = bytes.div_ceil(UNIT);
        self.responses.acquire(user, permits).await.ok_or_else(Status::overloaded)
    }

    /// Waits for a slot for heavy work. The number of waiting requests is bounded.
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
