//! Tests of the guarantees of the queue.

mod behaviour;

mod causes;

mod delay;

mod model;

mod schedule;

mod shutdown;

mod snapshot;

mod wake;

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use futures_util::FutureExt as _;
use proptest::prelude::ProptestConfig;

pub(super) use self::schedule::point;
use super::*;

type Plain = Queue<&'static str, ()>;

const MS: Duration = Duration::from_millis(1);

fn after(after: Duration) -> AddOptions {
    AddOptions { after: Some(after), ..AddOptions::default() }
}

fn priority(priority: i32) -> AddOptions {
    AddOptions { priority: Some(priority), ..AddOptions::default() }
}

fn rate_limited() -> AddOptions {
    AddOptions { rate_limited: true, ..AddOptions::default() }
}

/// Returns the next item if one is due.
fn poll<T: Clone, C>(queue: &Queue<T, C>) -> Option<Item<T, C>> {
    queue.get().now_or_never().flatten()
}

/// Returns all due keys in order.
fn drained<C>(queue: &Queue<&'static str, C>) -> Vec<&'static str> {
    std::iter::from_fn(|| poll(queue).map(|item| item.key)).collect()
}

/// Returns the next key and the virtual time until it was due.
async fn timed(queue: &Plain) -> (&'static str, Duration) {
    let before = Instant::now();
    let item = soon(queue.get()).await.expect("not shut down");
    (item.key, before.elapsed())
}

/// Awaits a future with a timeout in virtual time.
async fn soon<F: Future>(future: F) -> F::Output {
    let year = Duration::from_secs(60 * 60 * 24 * 365);
    tokio::time::timeout(year, future).await.expect("woken")
}

/// Polls a future once, so that it waits.
async fn is_pending<F: Future + Unpin>(future: &mut F) -> bool {
    poll_fn(|cx| Poll::Ready(future.poll_unpin(cx).is_pending())).await
}

fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}
