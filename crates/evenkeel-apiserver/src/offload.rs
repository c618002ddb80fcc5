//! Heavy requests, away from the threads that serve all connections.
//!
//! A request through a socket that parses megabytes or encodes a large list runs on a blocking
//! thread. At most [`Limits::heavy_in_flight`] run concurrently, round-robin by user; small
//! requests never wait for them. In-process requests are not moved, which keeps virtual time in one
//! thread.
//!
//! [`Limits::heavy_in_flight`]: crate::limits::Limits::heavy_in_flight

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task;

use crate::status::Status;
use crate::throttle::{Throttle, User};

/// Whether a request is cancelled, for work that checks it between two steps.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cancellation(Arc<CancellationState>);

#[derive(Debug, Default)]
struct CancellationState {
    cancelled: AtomicBool,
    notify: Notify,
}

/// Held by the task of the request; dropping it cancels the work.
pub(crate) struct DropGuard(Cancellation);

impl Cancellation {
    /// Returns a guard that cancels when dropped.
    pub(crate) fn drop_guard(&self) -> DropGuard {
        DropGuard(self.clone())
    }

    /// Fails once cancelled.
    pub(crate) fn check(&self) -> Result<(), Status> {
        if self.0.cancelled.load(Ordering::Relaxed) { Err(Status::timed_out()) } else { Ok(()) }
    }

    async fn cancelled(&self) {
        let notified = self.0.notify.notified();
        if self.check().is_ok() {
            notified.await;
        }
    }
}

impl Drop for DropGuard {
    fn drop(&mut self) {
        self.0.0.cancelled.store(true, Ordering::Relaxed);
        self.0.0.notify.notify_waiters();
    }
}

/// Runs `work` on its own thread when the user's slot is granted.
///
/// Once cancelled, the work ends at its next await or [`Cancellation::check`].
pub(crate) async fn run<T: Send + 'static>(
    throttle: &Throttle,
    user: &User,
    cancellation: &Cancellation,
    work: impl Future<Output = Result<T, Status>> + Send + 'static,
) -> Result<T, Status> {
    let slot = throttle.heavy_slot(user).await?;
    let runtime = Handle::current();
    let cancellation = cancellation.clone();
    let job = task::spawn_blocking(move || {
        let _slot = slot;
        runtime.block_on(async {
            tokio::select! {
                biased;
                () = cancellation.cancelled() => Err(Status::timed_out()),
                outcome = work => outcome,
            }
        })
    });
    job.await.unwrap_or_else(|error| {
        tracing::error!(%error, "task of a heavy request failed");
        Err(Status::internal("the request could not be completed"))
    })
}
