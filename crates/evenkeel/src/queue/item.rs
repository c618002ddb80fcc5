//! The futures of workers, and the items they receive.

use std::fmt;
use std::hash::Hash;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

use super::core::Taken;
use super::{AddOptions, Merge, Queue};

/// A key that a worker processes; no other worker gets it until this is dropped.
///
/// Dropping it, by [`done`](Self::done) or because the worker panicked or was cancelled, ends the
/// processing; if the key was added during it, it is queued again. Success is reported with
/// [`Queue::forget`], a retry with [`Item::requeue`].
///
/// ```
/// use evenkeel::queue::{AddOptions, Cause, Queue, QueueOptions};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let queue: Queue<&str> = Queue::new(QueueOptions::new());
/// queue.add("web", Cause::Requeue);
/// let item = queue.get().await.unwrap();
/// item.requeue(AddOptions::new().rate_limited(), Cause::Retry(1));
/// item.done(); // the key is now waiting for its backoff
/// assert_eq!(queue.failures(&"web"), 1);
/// # }
/// ```
pub struct Item<T, C> {
    /// The key.
    pub key: T,
    /// The causes.
    pub causes: C,
    /// The priority.
    pub priority: i32,
    /// How long the key was due.
    pub queued_for: Duration,
    /// The number of consecutive failures.
    pub failures: u32,
    run: u32,
    queue: Queue<T, C>,
}

impl<T, C> Item<T, C> {
    /// Ends the processing.
    pub fn done(self) {}

    /// Adds the key again. It is processed when it is due and this item has been dropped.
    ///
    /// Same as [`Queue::add_with`], but the default priority is that of this item.
    pub fn requeue(&self, options: AddOptions, cause: impl Into<C>)
    where
        T: Clone + Eq + Hash,
        C: Merge,
    {
        let priority = Some(options.priority.unwrap_or(self.priority));
        self.queue.add_with(self.key.clone(), AddOptions { priority, ..options }, cause);
    }
}

impl<T, C> Drop for Item<T, C> {
    fn drop(&mut self) {
        self.queue.step(|core| {
            // Delayed keys that are due come before this one.
            if core.delays.first().is_some() {
                core.promote_due(self.queue.now());
            }
            core.done(self.run);
        });
    }
}

impl<T: fmt::Debug, C: fmt::Debug> fmt::Debug for Item<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Item")
            .field("key", &self.key)
            .field("causes", &self.causes)
            .field("priority", &self.priority)
            .field("queued_for", &self.queued_for)
            .field("failures", &self.failures)
            .finish_non_exhaustive()
    }
}

/// The future of [`Queue::get`].
#[must_use = "futures do nothing unless polled"]
pub struct Get<'a, T, C> {
    queue: &'a Queue<T, C>,
    /// Set once the future has waited.
    id: Option<u64>,
    /// Set while this worker holds the timer of the queue.
    pub(super) timer: Option<Pin<Box<Sleep>>>,
}

impl<'a, T, C> Get<'a, T, C> {
    pub(super) fn new(queue: &'a Queue<T, C>) -> Self {
        Self { queue, id: None, timer: None }
    }

    /// Sets the timer of the first delayed key; ready if it is due.
    fn poll_timer(&mut self, cx: &mut Context<'_>, at: Option<Instant>) -> Poll<()> {
        let Some(at) = at else {
            self.timer = None;
            return Poll::Pending;
        };
        let timer = match &mut self.timer {
            Some(timer) => {
                if timer.deadline() != at {
                    timer.as_mut().reset(at);
                }
                timer
            }
            none => none.insert(Box::pin(tokio::time::sleep_until(at))),
        };
        timer.as_mut().poll(cx)
    }
}

impl<T: Clone, C> Future for Get<'_, T, C> {
    type Output = Option<Item<T, C>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        loop {
            let (now, id) = (this.queue.now(), &mut this.id);
            let found = this.queue.step(|core| match core.take(now) {
                None if !core.is_finished() => {
                    let first_due = core.delays.first();
                    Err(core.waiters.wait(id, cx.waker(), first_due))
                }
                found => {
                    core.waiters.leave(id);
                    Ok(found)
                }
            });
            let at = match found {
                Err(at) => at.map(|at| this.queue.instant(at)),
                Ok(found) => {
                    this.timer = None;
                    return Poll::Ready(found.map(|taken| this.queue.item(taken)));
                }
            };
            if this.poll_timer(cx, at).is_pending() {
                return Poll::Pending;
            }
        }
    }
}

/// A dropped future passes on its wake-up and the timer.
impl<T, C> Drop for Get<'_, T, C> {
    fn drop(&mut self) {
        let id = &mut self.id;
        if id.is_some() {
            self.queue.step(|core| core.waiters.leave(id));
        }
    }
}

impl<T, C> fmt::Debug for Get<'_, T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Get").field("timekeeper", &self.timer.is_some()).finish_non_exhaustive()
    }
}

/// The future of [`Queue::shutdown_with_drain`].
#[must_use = "futures do nothing unless polled"]
pub struct Drain<'a, T, C> {
    queue: &'a Queue<T, C>,
    /// The number of shutdowns before this.
    closed: u32,
}

impl<'a, T, C> Drain<'a, T, C> {
    pub(super) fn new(queue: &'a Queue<T, C>) -> Self {
        let now = queue.now();
        let closed = queue.step(|core| {
            core.drain(now);
            core.closed
        });
        Self { queue, closed }
    }
}

impl<T, C> Future for Drain<'_, T, C> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.queue.step(|core| {
            if core.closed != self.closed || (core.is_finished() && core.running.len() == 0) {
                return Poll::Ready(());
            }
            core.waiters.await_drained(cx.waker());
            Poll::Pending
        })
    }
}

impl<T, C> fmt::Debug for Drain<'_, T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Drain").finish_non_exhaustive()
    }
}

impl<T, C> Queue<T, C> {
    fn item(&self, taken: Taken<T, C>) -> Item<T, C> {
        let Taken { key, causes, priority, queued_for, failures, run } = taken;
        Item { key, causes, priority, queued_for, failures, run, queue: self.clone() }
    }
}
