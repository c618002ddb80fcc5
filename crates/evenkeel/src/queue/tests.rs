//! The promises of the queue, each as a test that can fail.

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

/// The next key if there is one now.
fn poll<T: Clone, C>(queue: &Queue<T, C>) -> Option<Item<T, C>> {
    queue.get().now_or_never().flatten()
}

/// All keys that are due now, in the order in which they come.
fn drained<C>(queue: &Queue<&'static str, C>) -> Vec<&'static str> {
    std::iter::from_fn(|| poll(queue).map(|item| item.key)).collect()
}

/// The next key and how much virtual time it took to come.
async fn timed(queue: &Plain) -> (&'static str, Duration) {
    let before = Instant::now();
    let item = soon(queue.get()).await.expect("not shut down");
    (item.key, before.elapsed())
}

/// The outcome of a future that must not hang. The clock is virtual, so a failure takes no time.
async fn soon<F: Future>(future: F) -> F::Output {
    let year = Duration::from_secs(60 * 60 * 24 * 365);
    tokio::time::timeout(year, future).await.expect("somebody wakes it")
}

/// Polls a future once, so that it is waiting from now on.
async fn is_pending<F: Future + Unpin>(future: &mut F) -> bool {
    poll_fn(|cx| Poll::Ready(future.poll_unpin(cx).is_pending())).await
}

fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}
