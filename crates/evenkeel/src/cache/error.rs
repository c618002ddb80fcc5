//! What can go wrong when a type is declared, waited for or read. Each names its fix.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::overlay::Doubt;
use crate::kind::Kind;

/// A declaration that cannot be had.
#[derive(Clone, Debug, thiserror::Error)]
pub enum DeclareError {
    /// The same type was declared otherwise before.
    #[error("{kind} is declared twice, and not alike: {difference}; declare it in one place")]
    Conflict {
        /// The type.
        kind: Kind,
        /// What differs.
        difference: String,
    },
    /// Whole objects are wanted where somebody else has only metadata cached.
    #[error(
        "{kind} is cached as metadata alone, as {} declared it, and is needed whole here; declare \
         it whole there, or say `metadata_only` here too", declarer(.by.as_deref())
    )]
    NotWhole {
        /// The type.
        kind: Kind,
        /// The controller that declared it, if it was one.
        by: Option<Arc<str>>,
    },
    /// Holding all Secrets of a cluster takes an explicit word.
    #[error(
        "caching all Secrets of the cluster: name their namespaces or labels, declare them \
         `metadata_only`, or say `cluster_wide_secrets` if all of them are really needed"
    )]
    Secrets,
    /// The options contradict themselves or the type.
    #[error("{kind} cannot be declared like this: {problem}")]
    Invalid {
        /// The type.
        kind: Kind,
        /// What is wrong.
        problem: Arc<str>,
    },
    /// The type is not declared at all.
    #[error("{kind} is not declared; call `Cache::declare` for it first")]
    Undeclared {
        /// The type.
        kind: Kind,
    },
    /// An index of this name exists.
    #[error("{kind} has an index {name:?} already; give the other one another name")]
    IndexExists {
        /// The type.
        kind: Kind,
        /// The name of the index.
        name: String,
    },
}

/// Why the server does not give us a type.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct Trouble {
    /// What the API server said, or what kept us from hearing it.
    pub message: Arc<str>,
    /// What kind of trouble it is.
    pub reason: Reason,
}

/// The kinds of trouble that differ in what helps against them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The credentials do not allow to list and watch the type.
    Forbidden,
    /// The server does not have the type.
    Missing,
    /// Anything else; it is tried again.
    Other,
}

/// A type that is not there in time.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SyncError {
    /// It has not been listed.
    #[error("{kind} is not synced{}", said(.last.as_ref()))]
    NotSynced {
        /// The type.
        kind: Kind,
        /// The last thing that went wrong.
        last: Option<Trouble>,
    },
    /// The cache has been stopped.
    #[error("{kind} is no longer watched: the cache has been stopped")]
    Stopped {
        /// The type.
        kind: Kind,
    },
}

/// A read that the cache cannot answer.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ReadError {
    /// Nobody declared the type, and nothing is watched without being asked for.
    #[error(
        "{kind} is not cached; add `.reads::<{}>()` to the controller that reads it or \
         `Manager::caches` for the whole operator, or ask the server with `live()`", kind.kind()
    )]
    Undeclared {
        /// The type.
        kind: Kind,
    },
    /// The type has not been listed yet.
    #[error("{kind} is not synced yet{}", said(.last.as_ref()))]
    NotSynced {
        /// The type.
        kind: Kind,
        /// The last thing that went wrong.
        last: Option<Trouble>,
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
         of the type, or read live from the server"
    )]
    OutsideNamespaces {
        /// The type.
        kind: Kind,
        /// The namespace that was asked for.
        namespace: String,
        /// The namespaces there are.
        namespaces: BTreeSet<String>,
    },
    /// There is no such index.
    #[error("{kind} has no index {name:?}; add it with `Cache::index`")]
    NoIndex {
        /// The type.
        kind: Kind,
        /// The name of the index.
        name: String,
    },
    /// The outcome of a write of our own to these objects is not known, so they have to be read
    /// from the server first. [`Cache::resolved`](super::Cache::resolved) takes what was read.
    #[error("{kind}: the outcome of a write to {} is not known", listed(.doubts))]
    Uncertain {
        /// The type.
        kind: Kind,
        /// The objects, in order.
        doubts: Vec<Doubt>,
    },
}

fn said(last: Option<&Trouble>) -> String {
    last.map(|trouble| format!(": {trouble}")).unwrap_or_default()
}

fn listed(doubts: &[Doubt]) -> String {
    let keys: Vec<_> = doubts.iter().map(|doubt| doubt.key().as_str()).collect();
    keys.join(", ")
}

/// Who declared a type.
pub(super) fn declarer(by: Option<&str>) -> String {
    by.map_or_else(|| "the operator".to_owned(), |name| format!("controller {name:?}"))
}
