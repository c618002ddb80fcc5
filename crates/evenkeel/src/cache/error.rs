//! Errors of declarations, cache sync and reads.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::overlay::UnknownOutcome;
use crate::kind::Kind;

/// Why a type cannot be declared.
///
/// ```no_run
/// use evenkeel::cache::TypeOptions;
/// use evenkeel::k8s_openapi::api::core::v1::Secret;
///
/// # fn example(manager: &evenkeel::Manager) {
/// if let Err(error) = manager.caches::<Secret>(TypeOptions::new().metadata_only()) {
///     println!("declared elsewhere with other options: {error}");
/// }
/// # }
/// ```
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeclareError {
    /// The type is declared with different options.
    #[error("{kind} is declared twice with different options: {difference}")]
    Conflict {
        /// The type.
        kind: Kind,
        /// What differs.
        difference: String,
    },
    /// Whole objects are needed, but the type is declared `metadata_only`.
    #[error(
        "{kind} is declared `metadata_only` by {}, and whole objects are needed here; declare it \
         whole there, or use `metadata_only` here", declarer(.by.as_deref())
    )]
    NotWhole {
        /// The type.
        kind: Kind,
        /// The controller that declared it, if any.
        by: Option<Arc<str>>,
    },
    /// Caching all Secrets of a cluster requires an explicit option.
    #[error(
        "caching all Secrets of the cluster requires `cluster_wide_secrets`; restrict them by \
         namespaces or labels, or declare them `metadata_only`"
    )]
    Secrets,
    /// The options are invalid.
    #[error("invalid options for {kind}: {problem}")]
    Invalid {
        /// The type.
        kind: Kind,
        /// The problem.
        problem: Arc<str>,
    },
    /// The type is not declared.
    #[error("{kind} is not declared; call `Cache::declare` first")]
    Undeclared {
        /// The type.
        kind: Kind,
    },
    /// An index of this name already exists.
    #[error("{kind} already has an index {name:?}")]
    IndexExists {
        /// The type.
        kind: Kind,
        /// The name of the index.
        name: String,
    },
}

/// The error of listing or watching a type.
///
/// ```no_run
/// # fn example(cache: &evenkeel::cache::Cache) {
/// for failure in cache.health().into_iter().filter_map(|health| health.failure) {
///     println!("{failure}");
/// }
/// # }
/// ```
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct WatchFailure {
    /// The message of the API server or of the connection.
    pub message: Arc<str>,
    /// The reason.
    pub reason: FailureReason,
}

/// The reason of a [`WatchFailure`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FailureReason {
    /// Listing or watching is forbidden.
    Forbidden,
    /// The type is not served.
    NotServed,
    /// Any other error; retried.
    Other,
}

/// Why waiting for a cache sync failed.
///
/// ```no_run
/// use evenkeel::cache::{Informer, SyncError};
///
/// # async fn example(informer: &Informer) {
/// if let Err(SyncError::NotSynced { .. }) = informer.wait_until_synced().await {
///     println!("{:?}", informer.health().failure);
/// }
/// # }
/// ```
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SyncError {
    /// The type has not synced.
    #[error("{kind} is not synced")]
    NotSynced {
        /// The type.
        kind: Kind,
        /// The last error of its list or watch.
        #[source]
        last: Option<WatchFailure>,
    },
    /// The cache has been stopped.
    #[error("{kind} is no longer watched: the cache has been stopped")]
    Stopped {
        /// The type.
        kind: Kind,
    },
}

/// Why the cache cannot serve a read.
///
/// ```no_run
/// use evenkeel::cache::{Cache, ReadError};
/// use evenkeel::k8s_openapi::api::core::v1::Pod;
/// use evenkeel::{Key, Kind};
///
/// # fn example(cache: &Cache) {
/// match cache.get(&Kind::of::<Pod>(), &Key::namespaced("shop", "web")) {
///     Err(ReadError::NotSynced { .. }) => println!("not listed yet"),
///     found => println!("{found:?}"),
/// }
/// # }
/// ```
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The type is not declared.
    #[error(
        "{kind} is not cached; add `.reads::<{}>()` to the controller that reads it or \
         `Manager::caches` to the operator, or read from the server with `live()`", kind.kind()
    )]
    Undeclared {
        /// The type.
        kind: Kind,
    },
    /// The type has not synced yet.
    #[error("{kind} is not synced yet")]
    NotSynced {
        /// The type.
        kind: Kind,
        /// The last error of its list or watch.
        #[source]
        last: Option<WatchFailure>,
    },
    /// The cache has been stopped.
    #[error("{kind} is no longer cached: the cache has been stopped")]
    Stopped {
        /// The type.
        kind: Kind,
    },
    /// The type is declared for other namespaces.
    #[error(
        "{kind} is cached only in {namespaces:?}, not in {namespace:?}; add it to the namespaces \
         of the type, or read from the server with `live()`"
    )]
    OutsideNamespaces {
        /// The type.
        kind: Kind,
        /// The requested namespace.
        namespace: String,
        /// The cached namespaces.
        namespaces: BTreeSet<String>,
    },
    /// The index does not exist.
    #[error("{kind} has no index {name:?}; add it with `Cache::index`")]
    NoIndex {
        /// The type.
        kind: Kind,
        /// The name of the index.
        name: String,
    },
    /// The outcome of an own write to these objects is unknown, so they must be read from the
    /// server. A read of the [`Client`](crate::client::Client) does so.
    #[error("{kind}: the outcome of a write to {} is unknown", keys(.outcomes))]
    UnknownOutcome {
        /// The type.
        kind: Kind,
        /// The objects, in order.
        outcomes: Vec<UnknownOutcome>,
    },
}

fn keys(outcomes: &[UnknownOutcome]) -> String {
    let keys: Vec<_> = outcomes.iter().map(|outcome| outcome.key().as_str()).collect();
    keys.join(", ")
}

/// Names the declarer of a type.
pub(super) fn declarer(by: Option<&str>) -> String {
    by.map_or_else(|| "the operator".to_owned(), |name| format!("controller {name:?}"))
}
