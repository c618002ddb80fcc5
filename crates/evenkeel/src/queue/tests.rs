//! The promises of the queue, each as a test that can fail.

mod behaviour;

mod causes;

mod delay;

mod shutdown;

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use futures_util::FutureExt as _;

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
    let item = queue.get().await.expect("not shut down");
    (item.key, before.elapsed())
}

/// Polls a future once, so that it is waiting from now on.
async fn is_pending<F: Future + Unpin>(future: &mut F) -> bool {
    poll_fn(|cx| Poll::Ready(future.poll_unpin(cx).is_pending())).await
}
