//! Runnables: work of a manager that is not a controller.

use std::future::Future;

use tokio_util::sync::CancellationToken;

use crate::error::Result;

/// Work that runs alongside the controllers of a manager.
///
/// ```
/// use evenkeel::Result;
/// use evenkeel::manager::{Runnable, Stop};
///
/// struct Probe;
///
/// impl Runnable for Probe {
///     fn needs_leader_election(&self) -> bool {
///         false
///     }
///
///     async fn run(self, stop: Stop) -> Result<()> {
///         stop.requested().await;
///         Ok(())
///     }
/// }
///
/// fn add(manager: &evenkeel::Manager) -> Result<()> {
///     Ok(manager.add(Probe)?)
/// }
/// ```
pub trait Runnable: Send + 'static {
    /// Returns whether this runs on the leader only, if [leader election](crate::leader) is enabled;
    /// true unless overridden.
    ///
    /// It starts when this process is elected, and is cancelled at once if the lease is lost.
    fn needs_leader_election(&self) -> bool {
        true
    }

    /// Runs until it is done or `stop` is requested. Returning early without an error is fine.
    fn run(self, stop: Stop) -> impl Future<Output = Result<()>> + Send;
}

/// A stop request from the manager.
///
/// ```
/// use std::time::Duration;
///
/// use evenkeel::manager::Stop;
///
/// async fn report(stop: Stop) -> evenkeel::Result<()> {
///     while !stop.is_requested() {
///         tokio::select! {
///             () = stop.requested() => {}
///             () = tokio::time::sleep(Duration::from_secs(60)) => println!("still running"),
///         }
///     }
///     Ok(())
/// }
/// ```
#[derive(Clone, Debug)]
pub struct Stop(pub(super) CancellationToken);

impl Stop {
    /// Waits until the manager stops.
    pub async fn requested(&self) {
        self.0.cancelled().await;
    }

    /// Returns whether the manager is stopping.
    #[must_use]
    pub fn is_requested(&self) -> bool {
        self.0.is_cancelled()
    }
}
