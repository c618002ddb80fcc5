//! The worker's side: waiting for a key, having it, and waiting for the end.

use std::fmt;
use std::hash::Hash;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

use super::core::Taken;
use super::{AddOptions, Merge, Queue};

/// A key that a worker has, and that no other worker gets until this is dropped.
///
/// Dropping it, by [`done`](Self::done) or because the worker panicked or was cancelled, ends the
/// run; if the key was added meanwhile it is queued again then. Ending a run says nothing about
/// success: see [`Queue::forget`] and [`Item::requeue`].
pub struct Item<T, C> {
    /// What to work on.
    pub key: T,
    /// Why.
    pub causes: C,
    /// The priority at which it was queued.
    pub priority: i32,
    /// How long it was due before it was handed out.
    pub queued_for: Duration,
    /// How often it has failed in a row.
    pub failures: u32,
    run: u32,
    queue: Queue<T, C>,
}

impl<T, C> Item<T, C> {
    /// Ends the run.
    pub fn done(self) {}

    /// Queues the key again. It is handed out when its time has come and this run has ended.
    ///
    /// As [`Queue::add_with`], except that it keeps this item's priority unless given another.
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
            // Those whose time has come are due before this one is again.
            if core.delays.first().is_some() {
                core.mature(self.queue.now());
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
    /// Set from the first time it found nothing.
    id: Option<u64>,
    /// Set while it watches the clock for everybody.
    pub(super) timer: Option<Pin<Box<Sleep>>>,
}

impl<'a, T, C> Get<'a, T, C> {
    pub(super) fn new(queue: &'a Queue<T, C>) -> Self {
        Self { queue, id: None, timer: None }
    }

    /// Sets the timer for the first delayed key; ready if that is due already.
    fn watch_clock(&mut self, cx: &mut Context<'_>, at: Option<Instant>) -> Poll<()> {
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
                None if !core.is_over() => {
                    let first_due = core.delays.first();
                    Err(core.waiters.sleep(id, cx.waker(), first_due))
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
            if this.watch_clock(cx, at).is_pending() {
                return Poll::Pending;
            }
        }
    }
}

/// A worker that no longer wants a key must not keep the wake-up or the office it had.
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
#[must_use = "the intake has stopped, but nothing waits for the end"]
pub struct Drain<'a, T, C> {
    queue: &'a Queue<T, C>,
    /// How often the queue had been shut down when this began.
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
            if core.closed != self.closed || (core.is_over() && core.running.len() == 0) {
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
