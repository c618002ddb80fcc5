//! Triggers that are not objects in the cache: channels, streams, intervals.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{Stream, StreamExt as _, stream};
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;

use crate::handler::MapContext;
use crate::key::Key;

/// How many triggers a channel holds before its sender has to wait, as in controller-runtime.
const BUFFER: usize = 1024;

/// A timer takes no period of nothing, and nobody wants one.
const SHORTEST: Duration = Duration::from_millis(1);

/// A source of keys from outside the cluster.
pub struct Source {
    name: Arc<str>,
    keys: Keys,
    /// It looks things up in the cache, which has to be there first.
    looks_up: bool,
}

type Keys = Box<dyn FnOnce(MapContext) -> BoxStream + Send>;
type BoxStream = Pin<Box<dyn Stream<Item = Key> + Send>>;

impl Source {
    /// Keys sent by hand, as when an external system calls back.
    #[must_use]
    pub fn channel(name: &str) -> (KeySender, Self) {
        let (sender, mut receiver) = mpsc::channel(BUFFER);
        let keys = stream::poll_fn(move |cx| receiver.poll_recv(cx));
        (KeySender(sender), Self::stream(name, keys))
    }

    /// Keys from a stream; the source ends with it.
    pub fn stream(name: &str, keys: impl Stream<Item = Key> + Send + 'static) -> Self {
        Self { name: name.into(), keys: Box::new(|_| Box::pin(keys)), looks_up: false }
    }

    /// The keys `which` names, once the controller's types are cached and then every `period`.
    pub fn interval(
        name: &str,
        period: Duration,
        which: impl Fn(&MapContext) -> Vec<Key> + Send + 'static,
    ) -> Self {
        let keys = move |cx: MapContext| -> BoxStream {
            let mut ticks = tokio::time::interval(period.max(SHORTEST));
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            let batches = stream::unfold((ticks, which, cx), |(mut ticks, which, cx)| async {
                ticks.tick().await;
                let keys = catch_unwind(AssertUnwindSafe(|| which(&cx))).unwrap_or_else(|_| {
                    tracing::error!("the function of an interval panicked; it is asked again");
                    Vec::new()
                });
                Some((stream::iter(keys), (ticks, which, cx)))
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
#[derive(Clone, Debug)]
pub struct KeySender(mpsc::Sender<Key>);

impl KeySender {
    /// Has the controller look at `key`. Waits while very many are pending; false when the
    /// controller is gone.
    pub async fn send(&self, key: Key) -> bool {
        self.0.send(key).await.is_ok()
    }
}
