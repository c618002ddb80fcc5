//! A semaphore with a limit per user.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::User;

pub(super) struct FairSemaphore {
    all: Arc<Semaphore>,
    total: usize,
    users: Mutex<HashMap<Arc<str>, Arc<Semaphore>>>,
    waiting: AtomicUsize,
}

/// Acquired permits; dropping it releases them.
#[derive(Debug)]
pub(crate) struct Permit {
    own: OwnedSemaphorePermit,
    all: OwnedSemaphorePermit,
}

/// The number of users whose semaphores are kept without permits.
const USERS: usize = 256;

/// Waiting requests per permit.
const WAITERS_PER_PERMIT: usize = 4;

impl FairSemaphore {
    pub(super) fn new(total: usize) -> Self {
        let total = total.clamp(1, u32::MAX as usize / 2);
        Self {
            all: Arc::new(Semaphore::new(total)),
            total,
            users: Mutex::default(),
            waiting: AtomicUsize::new(0),
        }
    }

    /// Acquires permits if they are available.
    pub(super) fn try_acquire(&self, user: &User, permits: usize) -> Option<Permit> {
        let permits = self.clamp(user, permits);
        let own = self.user_semaphore(user).try_acquire_many_owned(permits).ok()?;
        let all = self.all.clone().try_acquire_many_owned(permits).ok()?;
        Some(Permit { own, all })
    }

    /// Waits for permits, at most the limit of a user. Returns `None` if too many requests wait.
    pub(super) async fn acquire(&self, user: &User, permits: usize) -> Option<Permit> {
        let permits = self.clamp(user, permits);
        let _waiting =
            Waiting::begin(&self.waiting, self.total.saturating_mul(WAITERS_PER_PERMIT))?;
        let own = self.user_semaphore(user).acquire_many_owned(permits).await.ok()?;
        let all = self.all.clone().acquire_many_owned(permits).await.ok()?;
        Some(Permit { own, all })
    }

    /// Returns the maximum number of permits of one user.
    fn user_limit(&self, user: &User) -> usize {
        if user.is_anonymous() { self.total.div_ceil(8) } else { (self.total * 3).div_ceil(4) }
    }

    fn clamp(&self, user: &User, permits: usize) -> u32 {
        u32::try_from(permits.min(self.user_limit(user))).unwrap_or(u32::MAX)
    }

    fn user_semaphore(&self, user: &User) -> Arc<Semaphore> {
        let mut users = self.users.lock();
        if let Some(own) = users.get(user.name()) {
            return own.clone();
        }
        if users.len() >= USERS {
            // A permit keeps its semaphore, so one that only the map holds is not in use.
            users.retain(|_, own| Arc::strong_count(own) > 1);
        }
        let own = Arc::new(Semaphore::new(self.user_limit(user)));
        users.insert(user.name().clone(), own.clone());
        own
    }

    #[cfg(test)]
    pub(super) fn users(&self) -> usize {
        self.users.lock().len()
    }
}

impl Permit {
    pub(super) fn size(&self) -> usize {
        self.own.num_permits()
    }

    /// Merges two permits of one user.
    pub(super) fn merge(&mut self, other: Self) {
        // Both are of one semaphore and user: `merge` panics otherwise.
        if Arc::ptr_eq(self.own.semaphore(), other.own.semaphore()) {
            self.own.merge(other.own);
            self.all.merge(other.all);
        }
    }
}

struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn begin(count: &'a AtomicUsize, max: usize) -> Option<Self> {
        let this = Self(count);
        (count.fetch_add(1, Ordering::Relaxed) < max).then_some(this)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
