//! The workqueue.
//!
//! A [`Queue`] holds keys, not events, and guarantees, as client-go's workqueue and the priority
//! queue of controller-runtime:
//!
//! - **One worker per key.** A key is processed by one worker at a time. Adds before that are
//!   merged into one item; adds during processing are merged into one more item after it.
//! - **Delays.** A key can be added with a delay. The earliest time wins, and an add without delay
//!   makes the key due immediately.
//! - **Backoff.** The delay of a rate-limited add grows with each consecutive failure, until
//!   [`Queue::forget`]. A [`TokenBucket`] can limit the retries of all keys together.
//! - **Priorities.** Higher priorities first, first in first out within a priority. The priority of
//!   a queued key is raised, to the tail of the higher priority, and never lowered. [`Ageing`]
//!   prevents starvation of low priorities.
//! - **Causes.** Each key has the causes of its adds; merging never loses a kind of cause.
//! - **Bounds.** There is one entry per distinct key that is due, delayed or processed, and a
//!   limited number of entries that only store failures.
//!
//! There is no background task: one of the waiting workers holds a timer while a key is delayed.
//!
//! ```
//! use evenkeel::Key;
//! use evenkeel::queue::{Cause, Queue};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let queue: Queue<Key> = Queue::default();
//! queue.add(Key::namespaced("shop", "web"), Cause::External("billing".into()));
//! queue.add(Key::namespaced("shop", "web"), Cause::Requeue);
//!
//! let item = queue.get().await.unwrap();
//! assert_eq!(item.key.name(), "web");
//! assert_eq!(item.causes.to_string(), "billing external, requeue");
//! item.done();
//! assert_eq!(queue.len(), 0);
//! # }
//! ```

// The state machine.
mod core;

mod classes;

mod delays;

mod running;

mod list;

mod slots;

mod waiters;

// Its inputs and outputs.
mod cause;

mod item;

mod items;

mod limit;

mod snapshot;

#[cfg(test)]
mod tests;

use std::fmt;
use std::hash::{BuildHasher as _, Hash};
use std::sync::Arc;
use std::time::Duration;

use foldhash::fast::RandomState;
use parking_lot::Mutex;
use tokio::time::Instant;

pub use self::cause::{Cause, CauseKind, CauseKinds, Causes, Change, Merge, Origin};
use self::core::{Add, Core, Phase};
pub use self::item::{Drain, Get, Item};
pub use self::items::{ItemState, QueuedItem};
pub(crate) use self::limit::Tokens;
pub use self::limit::{Backoff, TokenBucket};
pub use self::snapshot::{Class, Snapshot};

/// The priority of initial lists and resyncs.
pub const LOW_PRIORITY: i32 = -100;

/// The options of a queue. The defaults are those of a controller.
///
/// ```
/// use std::time::Duration;
///
/// use evenkeel::queue::{Backoff, QueueOptions};
///
/// let backoff = Backoff::exponential(Duration::from_millis(100), Duration::from_secs(60));
/// let options = QueueOptions::new().backoff(backoff).remembered_max(1000);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct QueueOptions {
    /// The delay of a key after each failure.
    pub backoff: Backoff,
    /// The rate limit of the retries of all keys; `None` unless set.
    pub bucket: Option<TokenBucket>,
    /// How low priorities are kept from starving.
    pub ageing: Ageing,
    /// The maximum number of keys that are neither queued nor processed and have failures; the
    /// oldest is evicted. Controllers forget on success, so these are only keys that a worker did
    /// not requeue after a failure.
    pub remembered_max: usize,
}

impl QueueOptions {
    /// Returns the defaults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the [delay](Self::backoff) of a key after each failure.
    #[must_use]
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = backoff;
        self
    }

    /// Sets the [rate limit](Self::bucket) of the retries of all keys.
    #[must_use]
    pub fn bucket(mut self, bucket: TokenBucket) -> Self {
        self.bucket = Some(bucket);
        self
    }

    /// Sets how low priorities are [kept from starving](Self::ageing).
    #[must_use]
    pub fn ageing(mut self, ageing: Ageing) -> Self {
        self.ageing = ageing;
        self
    }

    /// Sets the [maximum number](Self::remembered_max) of remembered keys.
    #[must_use]
    pub fn remembered_max(mut self, keys: usize) -> Self {
        self.remembered_max = keys;
        self
    }
}

impl Default for QueueOptions {
    fn default() -> Self {
        Self {
            backoff: Backoff::default(),
            bucket: None,
            ageing: Ageing::default(),
            remembered_max: 10_000,
        }
    }
}

/// Priority ageing: keeps low priorities from starving while keys of higher priority are added.
///
/// Once the first key of a lower priority has been due for `after`, one of every `share` items is
/// taken from there. Under any load that key waits for `after` and at most `share` more items for
/// each priority that has waited longer, and higher priorities keep all other items.
///
/// ```
/// use std::time::Duration;
///
/// use evenkeel::queue::{Ageing, QueueOptions};
///
/// let strict = Ageing { after: Duration::MAX, ..Ageing::default() };
/// let options = QueueOptions::new().ageing(strict);
/// # let _ = options;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ageing {
    /// How long a key waits before ageing applies. [`Duration::MAX`] makes priorities strict.
    pub after: Duration,
    /// One of this many items is taken from an aged priority.
    pub share: u32,
}

/// One of ten items, after ten seconds.
impl Default for Ageing {
    fn default() -> Self {
        Self { after: Duration::from_secs(10), share: 10 }
    }
}

/// The options of an add. By default without delay and at priority 0.
///
/// ```
/// use std::time::Duration;
///
/// use evenkeel::queue::{AddOptions, Cause, Queue, QueueOptions};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let queue: Queue<&str> = Queue::new(QueueOptions::new());
/// queue.add_with("later", AddOptions::new().after(Duration::from_secs(5)), Cause::Requeue);
/// assert_eq!((queue.len(), queue.waiting()), (0, 1));
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AddOptions {
    /// The delay until the key is due; with `rate_limited`, the smaller of both delays.
    pub after: Option<Duration>,
    /// The priority; 0 unless set.
    pub priority: Option<i32>,
    /// Whether this is a retry: counts a failure of the key and applies [`QueueOptions::backoff`]
    /// and [`QueueOptions::bucket`].
    pub rate_limited: bool,
}

impl AddOptions {
    /// Returns the defaults.
    #[must_use]
    pub const fn new() -> Self {
        Self { after: None, priority: None, rate_limited: false }
    }

    /// Sets the [delay](Self::after) until the key is due.
    #[must_use]
    pub const fn after(mut self, delay: Duration) -> Self {
        self.after = Some(delay);
        self
    }

    /// Sets the [priority](Self::priority).
    #[must_use]
    pub const fn priority(mut self, priority: i32) -> Self {
        self.priority = Some(priority);
        self
    }

    /// Makes the add a [retry](Self::rate_limited).
    #[must_use]
    pub const fn rate_limited(mut self) -> Self {
        self.rate_limited = true;
        self
    }
}

/// A workqueue. Clones share one queue.
///
/// See the [module](self) for its guarantees. `T` is the key, `C` the merged causes. Both are
/// compared, merged and dropped while the queue is locked, so they must be plain data.
///
/// ```
/// use evenkeel::queue::{Cause, Queue, QueueOptions};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let queue: Queue<&str> = Queue::new(QueueOptions::new());
/// queue.add("web", Cause::Requeue);
/// queue.add("web", Cause::Requeue); // still one key
/// let item = queue.get().await.unwrap();
/// assert_eq!(item.key, "web");
/// item.done();
/// # }
/// ```
pub struct Queue<T, C = Causes>(Arc<Shared<T, C>>);

struct Shared<T, C> {
    core: Mutex<Core<T, C>>,
    hasher: RandomState,
    /// The start of the queue's clock.
    start: Instant,
}

impl<T, C> Queue<T, C> {
    /// Creates an empty queue.
    #[must_use]
    pub fn new(options: QueueOptions) -> Self {
        Self(Arc::new(Shared {
            core: Mutex::new(Core::new(options)),
            hasher: RandomState::default(),
            start: Instant::now(),
        }))
    }

    /// Waits for the next item.
    ///
    /// Returns `None` once the queue is shut down and, if it drains, empty. Cancel safe: a dropped
    /// future has taken no key, and passes its wake-up to another worker.
    ///
    /// Needs a tokio runtime with time enabled once keys are delayed.
    pub fn get(&self) -> Get<'_, T, C>
    where
        T: Clone,
    {
        Get::new(self)
    }

    /// Shuts down the queue: waiting workers get `None`, queued keys are dropped, later adds are
    /// ignored.
    ///
    /// Items that are being processed are not affected. To wait for them, call
    /// [`shutdown_with_drain`](Self::shutdown_with_drain) next. Idempotent.
    pub fn shutdown(&self) {
        self.step(Core::close);
    }

    /// Shuts down the queue after the due keys have been processed.
    ///
    /// Later adds are ignored and delayed keys are dropped. Keys that are due, or due again after
    /// their current processing, are still processed; then workers get `None`. The future resolves
    /// when all items are done, or on [`shutdown`](Self::shutdown). Without workers it never
    /// resolves.
    pub fn shutdown_with_drain(&self) -> Drain<'_, T, C> {
        Drain::new(self)
    }

    /// Returns whether the queue is shutting down or shut down.
    #[must_use]
    pub fn is_shut_down(&self) -> bool {
        self.step(|core| core.phase != Phase::Open)
    }

    /// Returns the number of due keys, including those due again after their current processing.
    #[must_use]
    pub fn len(&self) -> usize {
        let now = self.now();
        self.step(|core| {
            core.promote_due(now);
            core.classes.len() + core.again
        })
    }

    /// Returns whether no key is due.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of delayed keys.
    #[must_use]
    pub fn waiting(&self) -> usize {
        let now = self.now();
        self.step(|core| {
            core.promote_due(now);
            core.delays.len()
        })
    }

    /// Returns the number of keys being processed.
    #[must_use]
    pub fn processing(&self) -> usize {
        self.step(|core| core.running.len())
    }

    /// Runs one step under the lock, then wakes the workers it affects.
    fn step<R>(&self, step: impl FnOnce(&mut Core<T, C>) -> R) -> R {
        #[cfg(test)]
        tests::point();
        let (result, wake) = {
            let mut core = self.0.core.lock();
            (step(&mut core), core.wake_after_step())
        };
        #[cfg(test)]
        tests::point();
        wake.now();
        result
    }

    /// Returns the time of the queue's clock. Reading it is a significant part of the cost of a
    /// step, so only steps that need it do.
    fn now(&self) -> u64 {
        limit::nanos(self.0.start.elapsed())
    }

    /// Converts a time of the queue's clock.
    fn instant(&self, at: u64) -> Instant {
        self.0.start + Duration::from_nanos(at)
    }
}

impl<T: Clone + Eq + Hash, C: Merge> Queue<T, C> {
    /// Adds a key at priority 0, without delay.
    pub fn add(&self, key: T, cause: impl Into<C>) {
        self.add_with(key, AddOptions::default(), cause);
    }

    /// Adds a key.
    ///
    /// A key that is already queued is merged: it is due at the earlier time, has the higher
    /// priority, and both causes. A key that is being processed is processed once more after that.
    pub fn add_with(&self, key: T, options: AddOptions, cause: impl Into<C>) {
        let AddOptions { after, priority, rate_limited } = options;
        let add = Add {
            after,
            priority: priority.unwrap_or_default(),
            rate_limited,
            cause: cause.into(),
        };
        let (now, hash) = (self.now(), self.hash(&key));
        self.step(|core| core.add(now, hash, key, add));
    }

    /// Resets the failures of a key, after a success or a terminal error.
    ///
    /// Neither its processing nor a pending delay is affected.
    pub fn forget(&self, key: &T) {
        let hash = self.hash(key);
        self.step(|core| core.forget(hash, key));
    }

    /// Returns the number of rate-limited adds of a key since it was last forgotten.
    #[must_use]
    pub fn failures(&self, key: &T) -> u32 {
        let hash = self.hash(key);
        self.step(|core| core.slots.find(hash, key).map_or(0, |slot| core.slots[slot].failures))
    }

    fn hash(&self, key: &T) -> u32 {
        // 32 bits suffice: see `slots`.
        self.0.hasher.hash_one(key) as u32
    }
}

impl<T, C> Default for Queue<T, C> {
    fn default() -> Self {
        Self::new(QueueOptions::default())
    }
}

impl<T, C> Clone for Queue<T, C> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T, C> fmt::Debug for Queue<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (due, waiting, processing) = self
            .step(|core| (core.classes.len() + core.again, core.delays.len(), core.running.len()));
        f.debug_struct("Queue")
            .field("due", &due)
            .field("waiting", &waiting)
            .field("processing", &processing)
            .finish_non_exhaustive()
    }
}
