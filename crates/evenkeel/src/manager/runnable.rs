//! Work that is not a controller.

use std::future::Future;

use tokio_util::sync::CancellationToken;

use crate::error::Result;

/// Where something runs when an operator has several replicas, once there is leader election.
///
/// **There is no leader election yet**: every replica takes itself for the leader and runs
/// everything. Run one replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// On every replica, leader or not.
    Always,
    /// On the leader alone; as long as there is no leader election, on every replica.
    Leader,
}

/// Something that runs as long as the manager does. Returning early without an error is fine.
pub trait Runnable: Send + 'static {
    /// Where it runs. There is no default: a choice nobody sees is a choice nobody made.
    const WHEN: When;

    /// Runs; should end soon after `stop` says so.
    fn run(self, stop: Stop) -> impl Future<Output = Result<()>> + Send;
}

/// Tells when to end.
#[derive(Clone, Debug)]
pub struct Stop(pub(super) CancellationToken);

impl Stop {
    /// Resolves when it is time to end.
    pub async fn requested(&self) {
        self.0.cancelled().await;
    }

    /// Whether it is time to end.
    #[must_use]
    pub fn is_requested(&self) -> bool {
        self.0.is_cancelled()
    }
}
