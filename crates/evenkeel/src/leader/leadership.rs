//! What leader-bound work waits for, and what ends it.

use std::future::Future;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::elections::Seat;
use crate::client::Client;
use crate::error::Result;
use crate::fence::Term;

/// The leadership that a controller or runnable needs; none if it runs on every replica, or without
/// leader election.
#[derive(Clone)]
pub(crate) struct Leadership(pub(super) Option<Arc<Seat>>);

/// The time during which work may run.
pub(crate) struct Mandate(Option<Term>);

impl Mandate {
    /// Waits until the work must end at once.
    pub(crate) async fn ended(&self) {
        match &self.0 {
            Some(term) => term.ended().await,
            None => std::future::pending().await,
        }
    }
}

impl Leadership {
    /// Waits until work may run.
    pub(crate) async fn granted(&self) -> Mandate {
        match &self.0 {
            Some(seat) => Mandate(Some(seat.fence.elected().await)),
            None => Mandate(None),
        }
    }

    /// Returns whether work may have to wait.
    pub(crate) fn is_elected(&self) -> bool {
        self.0.is_some()
    }

    /// Returns the client of the work: `client`, fenced if it is leader-bound.
    pub(crate) fn client<'a>(&'a self, client: &'a Client) -> &'a Client {
        self.0.as_ref().map_or(client, |seat| &seat.client)
    }

    /// Returns how often the lease has changed hands up to the current term.
    pub(crate) fn transitions(&self) -> Option<u64> {
        Some(self.0.as_ref()?.fence.term().ok()?.transitions())
    }

    /// Runs work once this process is the leader, until it ends or the term does.
    pub(crate) async fn run_once<F>(
        self,
        stop: CancellationToken,
        run: impl FnOnce(CancellationToken) -> F,
    ) -> Result<()>
    where
        F: Future<Output = Result<()>>,
    {
        let mandate = tokio::select! {
            biased;
            () = stop.cancelled() => return Ok(()),
            mandate = self.granted() => mandate,
        };
        tokio::select! {
            biased;
            () = mandate.ended() => Ok(()),
            ended = run(stop) => ended,
        }
    }

    /// Runs work in each term of this process.
    pub(crate) async fn run_each_term<F>(
        self,
        stop: CancellationToken,
        run: impl Fn(CancellationToken) -> F,
    ) -> Result<()>
    where
        F: Future<Output = Result<()>>,
    {
        loop {
            let mandate = tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                mandate = self.granted() => mandate,
            };
            tokio::select! {
                biased;
                () = mandate.ended() => {}
                ended = run(stop.clone()) => {
                    ended?;
                    // Done for this term.
                    tokio::select! {
                        biased;
                        () = stop.cancelled() => return Ok(()),
                        () = mandate.ended() => {}
                    }
                }
            }
        }
    }
}
