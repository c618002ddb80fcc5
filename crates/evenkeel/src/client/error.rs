//! What can go wrong between a reconciler and the API server, always naming what was tried.

use std::fmt;
use std::time::Duration;

use kube::core::Status;

use crate::cache::{DecodeError, ReadError};
use crate::key::Key;
use crate::kind::Kind;

/// A read or write that failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The API server refused; its own words say why.
    #[error("{request_info}: {}", answer(request_info, status))]
    Api {
        /// What was tried.
        request_info: RequestInfo,
        /// The server's answer.
        status: Box<Status>,
    },
    /// No answer came. A write may have happened or not; the next read of that object is a live
    /// one.
    #[error("{request_info}: no answer from the API server")]
    NoResponse {
        /// What was tried.
        request_info: RequestInfo,
        /// What broke.
        source: Box<kube::Error>,
    },
    /// The answer is not what was asked for.
    #[error("{request_info}: the answer does not decode")]
    InvalidResponse {
        /// What was tried.
        request_info: RequestInfo,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// The request was not sent, since it could not succeed.
    #[error("{request_info}: {reason}")]
    NotSent {
        /// What was tried.
        request_info: RequestInfo,
        /// Why not.
        reason: String,
    },
    /// The cache cannot answer.
    #[error(transparent)]
    Cache(#[from] ReadError),
    /// A cached object is not of the type it was read as.
    #[error(transparent)]
    Decode(#[from] DecodeError),
}

/// The server's answer in its own words, unless it does not have the type: it answers that with a
/// page that names nothing.
fn answer(request_info: &RequestInfo, status: &Status) -> String {
    match status.code == 404 && status.reason.is_empty() {
        true => request_info.kind.not_served(),
        false => status.message.clone(),
    }
}

/// What was tried, as in `create Deployment.apps shop/web`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestInfo {
    /// The verb.
    pub verb: &'static str,
    /// The type of object.
    pub kind: Kind,
    /// The subresource, if one was meant.
    pub subresource: Option<&'static str>,
    /// The object, or the namespace of a collection.
    pub target: Target,
}

/// What a request was about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// One object.
    Object(Key),
    /// All objects of a namespace, or of the cluster.
    Collection(Option<String>),
}

impl fmt::Display for RequestInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.kind)?;
        if let Some(subresource) = self.subresource {
            write!(f, "/{subresource}")?;
        }
        match &self.target {
            Target::Object(key) => write!(f, " {key}"),
            Target::Collection(Some(namespace)) => write!(f, " in {namespace}"),
            Target::Collection(None) => write!(f, " in all namespaces"),
        }
    }
}

impl Error {
    /// The API server's answer, if it gave one.
    #[must_use]
    pub fn status(&self) -> Option<&Status> {
        match self {
            Self::Api { status, .. } => Some(status),
            _ => None,
        }
    }

    fn reason_is(&self, reason: &str, code: u16) -> bool {
        self.status().is_some_and(|status| {
            status.reason == reason || status.reason.is_empty() && status.code == code
        })
    }

    /// The object, or its namespace, or its type does not exist.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.reason_is("NotFound", 404)
    }

    /// An object of that name exists already.
    #[must_use]
    pub fn is_already_exists(&self) -> bool {
        self.reason_is("AlreadyExists", 0)
    }

    /// Somebody else changed the object, or owns the field.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        self.reason_is("Conflict", 409)
    }

    /// The operator lacks the permission.
    #[must_use]
    pub fn is_forbidden(&self) -> bool {
        self.reason_is("Forbidden", 403)
    }

    /// The object was judged invalid.
    #[must_use]
    pub fn is_invalid(&self) -> bool {
        self.reason_is("Invalid", 422)
    }

    /// The object is not the one, or not of the version, that the request was meant for.
    pub(super) fn is_precondition(&self) -> bool {
        let Some(status) = self.status() else { return false };
        let mut causes = status.details.iter().flat_map(|details| &details.causes);
        if self.is_conflict() {
            // Apply answers a conflict for another manager's fields, too.
            return !causes.any(|cause| cause.reason == "FieldManagerConflict");
        }
        self.is_invalid() && causes.any(|cause| cause.field == "metadata.uid")
    }

    /// What the request goes on from is forgotten.
    pub(super) fn is_expired(&self) -> bool {
        self.reason_is("Expired", 410)
    }

    /// How long the server asked to be left alone.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        let seconds = self.status()?.details.as_ref()?.retry_after_seconds;
        (seconds > 0).then(|| Duration::from_secs(seconds.into()))
    }

    /// Whether a write may have been carried out although it failed for us.
    pub(crate) fn is_uncertain(&self) -> bool {
        match self {
            Self::NoResponse { .. } | Self::InvalidResponse { .. } => true,
            // A server or a proxy that ran out of time or broke may have passed the write on.
            Self::Api { status, .. } => status.code >= 500 && status.code != 501,
            _ => false,
        }
    }
}
