//! The fence of leader-bound work: its requests are sent only while this process holds the lease.
//!
//! The elector (`leader/elector.rs`) begins a term with the time up to which the lease is certainly
//! not held by another process, and moves that time with each renewal. The transport of leader-bound
//! work (`connect/transport.rs`) checks it before a request is sent, while it waits for the response,
//! and when the connection reads the body of the request: the last check is the one that counts if
//! the process was paused after the first.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use evenkeel_types::watch;
use http_body::{Body, Frame, SizeHint};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use crate::clock::MonotonicClock;
use crate::error::BoxError;

/// A request of leader-bound work was refused or dropped, because this process is not the leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this process is not the leader")]
pub(crate) struct NotLeader;

/// The current term of one lease. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Fence(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    clock: MonotonicClock,
    term: watch::Sender<Option<Term>>,
}

/// The time during which this process holds the lease without interruption.
#[derive(Clone, Debug)]
pub(crate) struct Term(Arc<TermInner>);

#[derive(Debug)]
struct TermInner {
    clock: MonotonicClock,
    /// In nanoseconds of the clock.
    deadline: AtomicU64,
    transitions: u64,
    ended: CancellationToken,
}

impl Fence {
    pub(crate) fn new(clock: MonotonicClock) -> Self {
        Self(Arc::new(Inner { clock, term: watch::Sender::new(None) }))
    }

    /// Begins a term that ends at `deadline` unless it is extended.
    pub(crate) fn begin(&self, deadline: Duration, transitions: u64) -> Term {
        let clock = self.0.clock.clone();
        let deadline = AtomicU64::new(nanos(deadline));
        let ended = CancellationToken::new();
        let term = Term(Arc::new(TermInner { clock, deadline, transitions, ended }));
        self.0.term.send_replace(Some(term.clone()));
        term
    }

    /// Ends the current term: requests are refused, and those in flight are dropped.
    pub(crate) fn end(&self) {
        if let Some(term) = self.0.term.send_replace(None) {
            term.0.ended.cancel();
        }
    }

    /// Returns the current term, if this process is the leader.
    pub(crate) fn term(&self) -> Result<Term, NotLeader> {
        let term = self.0.term.borrow().clone();
        term.filter(|term| !term.is_over()).ok_or(NotLeader)
    }

    /// Waits until this process is the leader.
    pub(crate) async fn elected(&self) -> Term {
        let mut terms = self.0.term.subscribe();
        loop {
            let found = terms.wait_for(Option::is_some).await.map(|term| term.clone());
            match found {
                Ok(Some(term)) if !term.is_over() => return term,
                // Over, but not ended yet.
                Ok(Some(term)) => term.ended().await,
                // The sender lives in `self`.
                Ok(None) | Err(_) => std::future::pending().await,
            }
        }
    }
}

impl Term {
    /// Extends the term.
    pub(crate) fn extend(&self, deadline: Duration) {
        self.0.deadline.fetch_max(nanos(deadline), Ordering::AcqRel);
    }

    /// Returns when the term ends unless it is extended.
    pub(crate) fn deadline(&self) -> Duration {
        Duration::from_nanos(self.0.deadline.load(Ordering::Acquire))
    }

    /// Returns how often the lease has changed hands, which increases with every term.
    pub(crate) fn transitions(&self) -> u64 {
        self.0.transitions
    }

    pub(crate) fn is_over(&self) -> bool {
        self.0.ended.is_cancelled() || self.0.clock.now() >= self.deadline()
    }

    /// Waits until the term has ended.
    pub(crate) async fn ended(&self) {
        self.0.ended.cancelled().await;
    }

    /// Runs `work` until the term ends.
    pub(crate) async fn guard<T>(&self, work: impl Future<Output = T>) -> Result<T, NotLeader> {
        let (mut work, mut ended) = (pin!(work), pin!(self.0.ended.cancelled()));
        std::future::poll_fn(|cx| {
            // A task that was paused beyond the deadline is polled before the elector ends the term.
            if ended.as_mut().poll(cx).is_ready() || self.is_over() {
                return Poll::Ready(Err(NotLeader));
            }
            work.as_mut().poll(cx).map(Ok)
        })
        .await
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// A body of a request or response that fails when the term is over.
pub(crate) struct FencedBody<B> {
    body: B,
    term: Option<(Term, Pin<Box<WaitForCancellationFutureOwned>>)>,
}

impl<B> FencedBody<B> {
    pub(crate) fn new(body: B, term: Option<Term>) -> Self {
        let term = term.map(|term| {
            let ended = Box::pin(term.0.ended.clone().cancelled_owned());
            (term, ended)
        });
        Self { body, term }
    }
}

impl<B> Body for FencedBody<B>
where
    B: Body<Error: Into<BoxError>> + Unpin,
{
    type Data = B::Data;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, BoxError>>> {
        if let Some((term, ended)) = &mut self.term
            && (ended.as_mut().poll(cx).is_ready() || term.is_over())
        {
            return Poll::Ready(Some(Err(NotLeader.into())));
        }
        Pin::new(&mut self.body).poll_frame(cx).map_err(Into::into)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use http_body_util::{BodyExt as _, Full};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn a_term_is_over_at_its_deadline_unless_it_is_extended() {
        let fence = Fence::new(MonotonicClock::tokio());
        assert_eq!(fence.term().err(), Some(NotLeader));
        let term = fence.begin(10 * SECOND, 3);
        tokio::time::sleep(9 * SECOND).await;
        term.extend(12 * SECOND);
        term.extend(11 * SECOND);
        tokio::time::sleep(2 * SECOND).await;
        assert_eq!(fence.term().map(|term| term.transitions()), Ok(3));
        tokio::time::sleep(SECOND).await;
        assert_eq!(fence.term().err(), Some(NotLeader), "although the elector has not ended it");
    }

    #[tokio::test(start_paused = true)]
    async fn work_in_flight_is_dropped_when_the_term_ends_or_its_deadline_has_passed() {
        let clock = MonotonicClock::tokio();
        let fence = Fence::new(clock.clone());
        let term = fence.begin(10 * SECOND, 0);
        let end = async {
            tokio::time::sleep(SECOND).await;
            fence.end();
        };
        let hangs = term.guard(std::future::pending::<()>());
        assert_eq!(futures_util::future::join(hangs, end).await.0, Err(NotLeader));
        let term = fence.begin(clock.now() + 10 * SECOND, 1);
        assert_eq!(term.guard(async { 1 }).await, Ok(1));
        // A process that is paused does not end its terms in time.
        let work = term.guard(tokio::time::sleep(11 * SECOND));
        assert_eq!(work.await, Err(NotLeader));
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_is_not_sent_after_the_deadline() {
        let fence = Fence::new(MonotonicClock::tokio());
        let term = fence.begin(10 * SECOND, 0);
        let body = || Full::new(bytes::Bytes::from_static(b"{}"));
        let before = FencedBody::new(body(), Some(term.clone()));
        assert_eq!(before.collect().await.unwrap().to_bytes(), "{}");
        tokio::time::advance(10 * SECOND).await;
        let after = FencedBody::new(body(), Some(term));
        assert!(after.collect().await.unwrap_err().is::<NotLeader>());
        assert!(FencedBody::new(body(), None).collect().await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_work_starts_with_the_next_term_that_is_not_over() {
        let fence = Fence::new(MonotonicClock::tokio());
        let mut waiting = pin!(fence.elected());
        assert!(waiting.as_mut().now_or_never().is_none());
        fence.begin(Duration::ZERO, 1);
        assert!(waiting.as_mut().now_or_never().is_none(), "it is over");
        fence.end();
        fence.begin(10 * SECOND, 2);
        assert_eq!(waiting.await.transitions(), 2);
    }
}
