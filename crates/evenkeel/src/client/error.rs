//! Errors of reads and writes.

use std::time::Duration;

use kube::core::Status;

use crate::cache::{DecodeError, ReadError};
use crate::error::chain;
use crate::request_info::RequestInfo;

/// The error of a read or write.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The API server rejected the request.
    #[error("{request_info}: {}", message(request_info, status))]
    Api {
        /// The request.
        request_info: RequestInfo,
        /// The returned status.
        status: Box<Status>,
    },
    /// There was no response. The outcome of a write is unknown; the next read of the object is a
    /// live read.
    #[error("{request_info}: no response from the API server")]
    NoResponse {
        /// The request.
        request_info: RequestInfo,
        /// The cause.
        source: Box<kube::Error>,
    },
    /// The response does not decode.
    #[error("{request_info}: cannot decode the response")]
    InvalidResponse {
        /// The request.
        request_info: RequestInfo,
        /// The cause.
        source: serde_json::Error,
    },
    /// The request was not sent because it is invalid.
    #[error("{request_info}: {reason}")]
    NotSent {
        /// The request.
        request_info: RequestInfo,
        /// The reason.
        reason: String,
    },
    /// The cache cannot serve the read.
    #[error(transparent)]
    Cache(#[from] ReadError),
    /// A cached object does not decode as the requested type.
    #[error(transparent)]
    Decode(#[from] DecodeError),
}

/// Returns the message of the status, or names the type if the server does not serve it: that
/// response is a plain 404.
fn message(request_info: &RequestInfo, status: &Status) -> String {
    match status.code == 404 && status.reason.is_empty() {
        true => request_info.kind.not_served(),
        false => status.message.clone(),
    }
}

impl Error {
    /// Returns the status that the API server returned, if any.
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

    /// Returns whether the object, its namespace or its type does not exist.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.reason_is("NotFound", 404)
    }

    /// Returns whether an object of that name already exists.
    #[must_use]
    pub fn is_already_exists(&self) -> bool {
        self.reason_is("AlreadyExists", 0)
    }

    /// Returns whether the object has changed, or another field manager owns an applied field.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        self.reason_is("Conflict", 409)
    }

    /// Returns whether the permission is missing.
    #[must_use]
    pub fn is_forbidden(&self) -> bool {
        self.reason_is("Forbidden", 403)
    }

    /// Returns whether the object is invalid.
    #[must_use]
    pub fn is_invalid(&self) -> bool {
        self.reason_is("Invalid", 422)
    }

    /// Returns whether the uid or resourceVersion precondition failed.
    pub(super) fn is_precondition(&self) -> bool {
        let Some(status) = self.status() else { return false };
        let mut causes = status.details.iter().flat_map(|details| &details.causes);
        if self.is_conflict() {
            // A field manager conflict is a Conflict, too.
            return !causes.any(|cause| cause.reason == "FieldManagerConflict");
        }
        self.is_invalid() && causes.any(|cause| cause.field == "metadata.uid")
    }

    /// Returns whether the resourceVersion or continue token has expired.
    pub(super) fn is_expired(&self) -> bool {
        self.reason_is("Expired", 410)
    }

    /// Returns the retry delay that the server requested.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        let seconds = self.status()?.details.as_ref()?.retry_after_seconds;
        (seconds > 0).then(|| Duration::from_secs(seconds.into()))
    }

    /// Returns the message without the request, for the journal.
    pub(super) fn message(&self) -> String {
        match self {
            Self::Api { status, .. } => status.message.clone(),
            Self::NoResponse { source, .. } => format!("no response: {}", chain(&**source)),
            Self::NotSent { reason, .. } => reason.clone(),
            error => error.to_string(),
        }
    }

    /// Returns whether the outcome of the write is unknown.
    pub(crate) fn is_outcome_unknown(&self) -> bool {
        match self {
            Self::NoResponse { .. } | Self::InvalidResponse { .. } => true,
            // The write may have been persisted before the server or a proxy failed or timed out.
            Self::Api { status, .. } => status.code >= 500 && status.code != 501,
            _ => false,
        }
    }
}
