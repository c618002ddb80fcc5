//! Sources of keys other than watches: channels, streams, intervals.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{Stream, StreamExt as _, stream};
use tokio::sync::mpsc;
use tokio::time::{Interval, MissedTickBehavior};

use crate::handler::MapContext;
use crate::key::Key;

/// The capacity of a channel source, as in controller-runtime.
const BUFFER: usize = 1024;

/// The minimum interval; tokio does not accept zero.
const SHORTEST: Duration = Duration::from_millis(1);

/// A source of keys other than a watch.
///
/// ```no_run
/// # use evenkeel::k8s_openapi::api::core::v1::ConfigMap;
/// use evenkeel::prelude::*;
///
/// # async fn example(manager: Manager, buckets: impl Reconciler<Object = ConfigMap>) -> Result<()> {
/// let (sender, changes) = Source::channel("bucket changes");
/// manager.controller(buckets).source(changes).register()?;
/// sender.send(Key::namespaced("shop", "images")).await;
/// # Ok(())
/// # }
/// ```
pub struct Source {
    name: Arc<str>,
    keys: Keys,
    /// Whether the source reads the cache, so that it starts after the cache sync.
    looks_up: bool,
}

type Keys = Box<dyn FnOnce(MapContext) -> BoxStream + Send>;
type BoxStream = Pin<Box<dyn Stream<Item = Key> + Send>>;

impl Source {
    /// Returns a source of keys that the sender sends, for example from a callback of an external
    /// system.
    #[must_use]
    pub fn channel(name: &str) -> (KeySender, Self) {
        let (sender, mut receiver) = mpsc::channel(BUFFER);
        let keys = stream::poll_fn(move |cx| receiver.poll_recv(cx));
        (KeySender(sender), Self::stream(name, keys))
    }

    /// Returns a source of the keys of a stream; it ends with the stream.
    pub fn stream(name: &str, keys: impl Stream<Item = Key> + Send + 'static) -> Self {
        Self { name: name.into(), keys: Box::new(|_| Box::pin(keys)), looks_up: false }
    }

    /// Returns a source that enqueues the keys `which` returns, after the cache sync and then every
    /// `period`.
    pub fn interval(
        name: &str,
        period: Duration,
        which: impl Fn(&MapContext) -> Vec<Key> + Send + 'static,
    ) -> Self {
        // The first tick is that of the start.
        let ticks = stream::unfold(None, move |ticks: Option<Interval>| async move {
            let mut ticks = ticks.unwrap_or_else(|| {
                let mut ticks = tokio::time::interval(period.max(SHORTEST));
                ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
                ticks
            });
            ticks.tick().await;
            Some(((), Some(ticks)))
        });
        Self::lookups(name, which, ticks)
    }

    /// Returns a source that enqueues the keys `which` returns at each item of `ticks`.
    pub(crate) fn lookups(
        name: &str,
        which: impl Fn(&MapContext) -> Vec<Key> + Send + 'static,
        ticks: impl Stream<Item = ()> + Send + 'static,
    ) -> Self {
        let keys = move |cx: MapContext| -> BoxStream {
            let batches = ticks.map(move |()| {
                let keys = catch_unwind(AssertUnwindSafe(|| which(&cx))).unwrap_or_else(|_| {
                    tracing::error!("function of a source panicked");
                    Vec::new()
                });
                stream::iter(keys)
            });
            Box::pin(batches.flatten())
        };
        Self { name: name.into(), keys: Box::new(keys), looks_up: true }
    }

    pub(crate) fn looks_up(&self) -> bool {
        self.looks_up
    }

    pub(crate) fn start(self, cx: MapContext) -> (Arc<str>, BoxStream) {
        (self.name, (self.keys)(cx))
    }
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "source {}", self.name)
    }
}

/// Sends keys to a controller; see [`Source::channel`].
///
/// ```no_run
/// use evenkeel::{Key, KeySender};
///
/// # async fn example(sender: KeySender) {
/// if !sender.send(Key::namespaced("shop", "images")).await {
///     println!("the controller has stopped");
/// }
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct KeySender(mpsc::Sender<Key>);

impl KeySender {
    /// Enqueues `key`. Waits while the channel is full; returns false if the controller has
    /// stopped.
    pub async fn send(&self, key: Key) -> bool {
        self.0.send(key).await.is_ok()
    }
}
