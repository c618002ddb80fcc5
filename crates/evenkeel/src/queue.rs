//! Keys on their way to workers.
//!
//! Between whoever notices that something may have to be done and whoever does it stands a
//! [`Queue`]. It holds keys, not events, and promises:
//!
//! - **One key, one worker.** A key is handed out to one worker at a time. Adds before that collapse
//!   into one hand-out; adds while it runs, however many, into one more after it.
//! - **Delays.** A key may be added for later. The earliest time wins, and an add without delay
//!   makes the key due now and takes the delay back.
//! - **Back-off.** A rate-limited add waits longer with each failure in a row, until
//!   [`Queue::forget`]. A [`TokenBucket`] may limit the retries of all keys together.
//! - **Priorities.** Higher first, first in first out among equals. A key goes up, to the tail of
//!   the higher class, and never down. [`Ageing`] keeps the lowest class from starving.
//! - **Causes.** Each key comes with why it is here; merging adds never loses a kind of cause.
//! - **Bounds.** There is one entry for each distinct key that is due, delayed or running, whatever
//!   happens to it, and a limited number for keys that are only remembered for their failures.
//!
//! There is no background task. Workers drive the queue: one of those that wait holds a timer, and
//! only while a key is delayed.
//!
//! ```
//! use evenkeel::Key;
//! use evenkeel::queue::{Cause, Queue};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let queue: Queue<Key> = Queue::default();
//! queue.add(Key::namespaced("shop", "web"), Cause::Start);
//! queue.add(Key::namespaced("shop", "web"), Cause::Requeue);
//!
//! let item = queue.get().await.unwrap();
//! assert_eq!(item.key.name(), "web");
//! assert_eq!(item.causes.to_string(), "start, requeue");
//! item.done();
//! assert_eq!(queue.len(), 0);
//! # }
//! ```

// The state and its steps, from the outside in.
mod core;

mod classes;

mod delays;

mod running;

mod list;

mod slots;

mod waiters;

// What goes in and what comes out.
mod cause;

mod item;

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
pub use self::limit::{Backoff, TokenBucket};
pub use self::snapshot::{Class, Snapshot};

/// The priority of work that can wait: objects of the initial list, and resync.
pub const LOW_PRIORITY: i32 = -100;

/// How a queue behaves. The defaults are those of a controller.
#[derive(Clone, Debug)]
pub struct QueueOptions {
    /// How long a key waits after each failure.
    pub backoff: Backoff,
    /// The limit on retries of all keys together. None unless set.
    pub bucket: Option<TokenBucket>,
    /// How low priorities get their turn.
    pub ageing: Ageing,
    /// For how many keys that are neither queued nor running their failures are remembered. Beyond
    /// that the oldest is forgotten. Controllers forget on success, so this holds only keys whose
    /// worker went away without a word.
    pub remembered_max: usize,
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

/// How keys of a low priority get their turn while higher ones keep coming.
///
/// Once the first key of a lower class has been due for `after`, one of every `share` hand-outs goes
/// to it, and to the next one like it, whatever is due above. So under any load the first key of a
/// class waits for `after` and at most `share` hand-outs more for each class that is older, the
/// whole class makes progress, and higher priorities keep all the other hand-outs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ageing {
    /// How long a key may be passed over. [`Duration::MAX`] makes priorities strict.
    pub after: Duration,
    /// Of how many hand-outs one goes to a key that was passed over for longer.
    pub share: u32,
}

/// One of ten hand-outs, after ten seconds.
impl Default for Ageing {
    fn default() -> Self {
        Self { after: Duration::from_secs(10), share: 10 }
    }
}

/// How a key is added. By default at once and at priority 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AddOptions {
    /// The delay until it is due. With `rate_limited`, the smaller delay of the two counts.
    pub after: Option<Duration>,
    /// The priority; 0 unless given.
    pub priority: Option<i32>,
    /// Whether this is a retry: counts a failure of the key and waits as [`QueueOptions::backoff`] and
    /// [`QueueOptions::bucket`] say.
    pub rate_limited: bool,
}

/// Keys on their way to workers. A handle: clones share one queue.
///
/// See the [module](self) for what it promises. `T` is the key; `C` collects why it was added. Both
/// are compared, merged and dropped while the queue is locked, so they have to be plain data.
pub struct Queue<T, C = Causes>(Arc<Shared<T, C>>);

struct Shared<T, C> {
    core: Mutex<Core<T, C>>,
    hasher: RandomState,
    /// The zero of the queue's clock.
    start: Instant,
}

impl<T, C> Queue<T, C> {
    /// An empty queue.
    #[must_use]
    pub fn new(options: QueueOptions) -> Self {
        Self(Arc::new(Shared {
            core: Mutex::new(Core::new(options)),
            hasher: RandomState::default(),
            start: Instant::now(),
        }))
    }

    /// Waits for the next key.
    ///
    /// None once the queue is shut down and, if it drains, empty. Cancel safe: a future that is
    /// dropped has taken no key, and if it was about to, another one is woken for it.
    ///
    /// Needs a tokio runtime with time enabled as soon as keys are delayed.
    pub fn get(&self) -> Get<'_, T, C>
    where
        T: Clone,
    {
        Get::new(self)
    }

    /// Stops at once: whoever waits gets none, what is queued is dropped, later adds are ignored.
    ///
    /// Keys that are with a worker stay with it until it is done, and are not handed out again. To
    /// wait for them, call [`shutdown_with_drain`](Self::shutdown_with_drain) next. Calling this
    /// twice is harmless.
    pub fn shutdown(&self) {
        self.step(Core::close);
    }

    /// Stops the intake now, and lets the work end.
    ///
    /// Later adds are ignored and delayed keys are dropped. Keys that are due, or are due again after
    /// their present run, are still handed out; workers get none after the last of them. The future
    /// resolves when every key is done, or at [`shutdown`](Self::shutdown), which gives up on them.
    /// It does not work by itself: without workers it waits forever.
    pub fn shutdown_with_drain(&self) -> Drain<'_, T, C> {
        Drain::new(self)
    }

    /// Whether the intake has stopped.
    #[must_use]
    pub fn is_shut_down(&self) -> bool {
        self.step(|core| core.phase != Phase::Open)
    }

    /// How many keys are due. Those due again when their present run ends count too.
    #[must_use]
    pub fn len(&self) -> usize {
        let now = self.now();
        self.step(|core| {
            core.mature(now);
            core.classes.len() + core.again
        })
    }

    /// Whether no key is due.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many keys wait for their time.
    #[must_use]
    pub fn waiting(&self) -> usize {
        let now = self.now();
        self.step(|core| {
            core.mature(now);
            core.delays.len()
        })
    }

    /// How many keys are with a worker.
    #[must_use]
    pub fn processing(&self) -> usize {
        self.step(|core| core.running.len())
    }

    /// Takes one step under the lock, then wakes whomever it concerns.
    fn step<R>(&self, step: impl FnOnce(&mut Core<T, C>) -> R) -> R {
        #[cfg(test)]
        tests::point();
        let (result, wake) = {
            let mut core = self.0.core.lock();
            (step(&mut core), core.settle())
        };
        #[cfg(test)]
        tests::point();
        wake.now();
        result
    }

    /// What the queue's clock shows. Reading it is a good part of the cost of a step, so only those
    /// steps do it that need it.
    fn now(&self) -> u64 {
        limit::nanos(self.0.start.elapsed())
    }

    /// When the queue's clock will show `at`.
    fn instant(&self, at: u64) -> Instant {
        self.0.start + Duration::from_nanos(at)
    }
}

impl<T: Clone + Eq + Hash, C: Merge> Queue<T, C> {
    /// Adds a key at priority 0, due now.
    pub fn add(&self, key: T, cause: impl Into<C>) {
        self.add_with(key, AddOptions::default(), cause);
    }

    /// Adds a key.
    ///
    /// One that is queued already is not queued twice: it is due at the earlier of the two times,
    /// has the higher of the two priorities, and both causes. One that is with a worker is handed
    /// out once more after that.
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

    /// Forgets the failures of a key, as after a success or when it is not to be tried again.
    ///
    /// That ends neither its run nor a delay it is waiting for.
    pub fn forget(&self, key: &T) {
        let hash = self.hash(key);
        self.step(|core| core.forget(hash, key));
    }

    /// How often a key has been added with the rate limit since it was last forgotten.
    #[must_use]
    pub fn failures(&self, key: &T) -> u32 {
        let hash = self.hash(key);
        self.step(|core| core.slots.find(hash, key).map_or(0, |slot| core.slots[slot].failures))
    }

    fn hash(&self, key: &T) -> u32 {
        // Half of the bits: see `slots`.
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
