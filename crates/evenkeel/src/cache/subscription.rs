//! Subscriptions: a handler and its task.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use evenkeel_types::watch;
use tokio::task::{AbortHandle, coop};
use tokio::time::{Instant, sleep_until};

use super::buffer::{Buffer, Item, LIMIT};
use super::error::SyncError;
use super::event::ObjectEvent;
use super::informer::Informer;
use super::shared::{HandleGuard, Shared};

/// A subscription of a handler to an informer; dropping it unsubscribes.
///
/// Like an [`Informer`] it keeps the watch running.
///
/// ```no_run
/// # async fn example(informer: &evenkeel::cache::Informer) -> evenkeel::Result<()> {
/// let subscription = informer.subscribe(|event| println!("{event:?}"));
/// subscription.wait_until_synced().await?; // every initial object was printed
/// drop(subscription);
/// # Ok(())
/// # }
/// ```
#[must_use = "dropping it ends the subscription"]
pub struct Subscription {
    informer: Informer,
    number: u64,
    task: Option<AbortHandle>,
    synced: watch::Receiver<bool>,
}

impl Subscription {
    fn new(
        handle: Arc<HandleGuard>,
        number: u64,
        task: Option<AbortHandle>,
        synced: watch::Receiver<bool>,
    ) -> Self {
        Self { informer: Informer(handle), number, task, synced }
    }

    /// Waits until the handler has been called for all initial objects.
    ///
    /// # Errors
    /// Same as [`Informer::wait_until_synced`].
    pub async fn wait_until_synced(&self) -> Result<(), SyncError> {
        self.informer.wait_until_synced().await?;
        let mut synced = self.synced.clone();
        match synced.wait_for(|synced| *synced).await {
            Ok(_) => Ok(()),
            Err(_) => Err(SyncError::Stopped { kind: self.informer.kind().clone() }),
        }
    }

    /// Returns the informer.
    #[must_use]
    pub fn informer(&self) -> &Informer {
        &self.informer
    }
}

impl Informer {
    /// Calls `handler` for each existing object, as `Added` with `initial`, and then for each
    /// change, until the subscription is dropped.
    ///
    /// The handler runs in its own task. If it lags behind by thousands of events, events of one
    /// object are merged. A panic of the handler is logged and counted.
    ///
    /// ```no_run
    /// # use evenkeel::prelude::*;
    /// # use evenkeel::k8s_openapi::api::core::v1::Pod;
    /// # async fn example(manager: &Manager) -> Result<()> {
    /// use evenkeel::{Kind, ObjectEvent};
    ///
    /// let informer = manager.cache().informer(&Kind::of::<Pod>())?;
    /// let subscription = informer.subscribe(|event| {
    ///     if let ObjectEvent::Deleted { old, .. } = event {
    ///         println!("deleted {}", old.meta().key());
    ///     }
    /// });
    /// subscription.wait_until_synced().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn subscribe(&self, handler: impl FnMut(ObjectEvent) + Send + 'static) -> Subscription {
        self.shared().subscribe(self.0.clone(), false, handler)
    }

    /// Same as [`Informer::subscribe`], with a periodic [`ObjectEvent::Resynced`] for each object.
    pub fn subscribe_resynced(
        &self,
        handler: impl FnMut(ObjectEvent) + Send + 'static,
    ) -> Subscription {
        self.shared().subscribe(self.0.clone(), true, handler)
    }
}

impl Shared {
    fn subscribe(
        self: &Arc<Self>,
        handle: Arc<HandleGuard>,
        resync: bool,
        handler: impl FnMut(ObjectEvent) + Send + 'static,
    ) -> Subscription {
        let period = self.random.lock().range(self.resync.mul_f64(0.9), self.resync.mul_f64(1.1));
        let buffer = Arc::new(Buffer::new(LIMIT));
        let (synced, is_synced) = watch::channel(false);
        let mut dispatcher = self.dispatcher.lock();
        let number = dispatcher.number();
        let mut task = None;
        if !dispatcher.stopped {
            let stored = self.contents.store.all(None).into_iter();
            let added = stored.map(|new| ObjectEvent::Added { new, initial: true });
            buffer.extend(added, dispatcher.synced);
            dispatcher.handlers.insert(number, buffer.clone());
            let delivery = deliver(self.clone(), buffer, synced, resync.then_some(period), handler);
            task = self.tasks.upgrade().and_then(|tasks| tasks.spawn(delivery));
        }
        drop(dispatcher);
        Subscription::new(handle, number, task, is_synced)
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.informer.shared().unsubscribe(self.number);
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").field("kind", self.informer.kind()).finish_non_exhaustive()
    }
}

/// Calls a handler with the events of its buffer, and with a resync in each period.
async fn deliver(
    shared: Arc<Shared>,
    buffer: Arc<Buffer>,
    synced: watch::Sender<bool>,
    period: Option<Duration>,
    mut handler: impl FnMut(ObjectEvent),
) {
    let period_or_day = period.unwrap_or(Duration::from_secs(86_400));
    let mut due = pin!(sleep_until(Instant::now() + period_or_day));
    loop {
        let item = tokio::select! {
            biased;
            () = &mut due, if period.is_some() => {
                let next = due.deadline() + period_or_day;
                due.as_mut().reset(next);
                shared.resync(&buffer);
                continue;
            }
            item = buffer.next() => item,
        };
        match item {
            Item::Synced => {
                synced.send_replace(true);
            }
            Item::Event(event) => {
                if catch_unwind(AssertUnwindSafe(|| handler(event))).is_err() {
                    shared.panics.fetch_add(1, Ordering::Relaxed);
                    tracing::error!(kind = %shared.decoder.kind(), "event handler panicked");
                }
            }
        }
        // Yields regularly, so that a busy handler does not block its thread.
        coop::consume_budget().await;
    }
}
