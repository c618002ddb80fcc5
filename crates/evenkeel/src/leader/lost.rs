//! Why a process is no longer the leader.

use std::sync::Arc;
use std::time::Duration;

/// Why a process has lost the lease.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LeaderElectionLost {
    /// The lease could not be renewed in time.
    #[error("Lease {lease} was not renewed within {deadline:?}{}", last_error(error.as_deref()))]
    NotRenewed {
        /// The namespace and name of the Lease.
        lease: String,
        /// The renew deadline.
        deadline: Duration,
        /// The error of the last attempt.
        error: Option<Arc<str>>,
    },
    /// Another process holds the lease.
    #[error("Lease {lease} is held by {holder:?}")]
    Taken {
        /// The namespace and name of the Lease.
        lease: String,
        /// The other process; empty if none.
        holder: String,
    },
    /// The lease was deleted.
    #[error("Lease {lease} was deleted")]
    Deleted {
        /// The namespace and name of the Lease.
        lease: String,
    },
    /// The task that renews the lease panicked.
    #[error("the renewal of Lease {lease} panicked: {message}")]
    Panicked {
        /// The namespace and name of the Lease.
        lease: String,
        /// The message of the panic.
        message: String,
    },
}

fn last_error(error: Option<&str>) -> String {
    error.map(|error| format!("; the last attempt failed: {error}")).unwrap_or_default()
}
