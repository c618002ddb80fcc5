//! Work on much data, away from the threads that serve all connections.
//!
//! A request through a socket that has to parse megabytes or encode a large list runs on a thread
//! for blocking work. So many run at once as [`Limits::heavy_in_flight`] says, in turns from user
//! to user; small requests never wait for them. Requests in process are not moved, which keeps
//! virtual time in one thread.
//!
//! [`Limits::heavy_in_flight`]: crate::limits::Limits::heavy_in_flight

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task;

use crate::core::Core;
use crate::status::Status;
use crate::throttle::User;

/// Whether there is still a client to answer, for work that checks it between two pieces.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cancellation(Arc<CancellationState>);

#[derive(Debug, Default)]
struct CancellationState {
    cancelled: AtomicBool,
    notify: Notify,
}

/// Held by the request's own task, which ends when its client has gone or its time is over.
pub(crate) struct DropGuard(Cancellation);

impl Cancellation {
    /// A client that is there until the result is dropped.
    pub(crate) fn drop_guard(&self) -> DropGuard {
        DropGuard(self.clone())
    }

    /// Fails once the client has gone.
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

/// Runs `work` on a thread of its own when it is the user's turn.
///
/// Without a client that waits for it the work ends at its next await or [`Client::check`].
pub(crate) async fn run<T: Send + 'static>(
    core: &Core,
    user: &User,
    cancellation: &Cancellation,
    work: impl Future<Output = Result<T, Status>> + Send + 'static,
) -> Result<T, Status> {
    let slot = core.throttle.heavy_slot(user).await?;
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
        tracing::error!(%error, "a request failed");
        Err(Status::internal("the request could not be completed"))
    })
}
