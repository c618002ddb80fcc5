//! Errors of reads and writes.

#[cfg(test)]
mod tests;

use std::io;
use std::time::Duration;

use kube::core::Status;

use crate::cache::{DecodeError, ReadError};
use crate::error::{BoxError, causes, chain};
use crate::kind::Kind;
use crate::request_info::RequestInfo;

/// The error of a read or write.
///
/// The questions have the names and the meaning of those in `k8s.io/apimachinery/pkg/api/errors`.
/// In a reconciler, [`Error::find`](crate::Error::find) finds it in any error:
///
/// ```no_run
/// # use evenkeel::prelude::*;
/// # use evenkeel::k8s_openapi::api::core::v1::ConfigMap;
/// # async fn reconcile(cx: &Context<ConfigMap>, map: ConfigMap) -> Result<Action> {
/// match cx.client().create(&map).await {
///     Err(error) if error.is_already_exists() => {}
///     Err(error) if error.is_forbidden() => return Err(terminal(error)),
///     created => drop(created?),
/// }
/// # Ok(Action::done())
/// # }
/// ```
///
/// It is a pointer, so that the results of reads are small.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct Error(Box<ErrorKind>);

/// What failed; see [`Error::kind`].
///
/// ```
/// use evenkeel::client::{Error, ErrorKind};
///
/// fn code(error: &Error) -> Option<u16> {
///     match error.kind() {
///         ErrorKind::Api { status, .. } => Some(status.code),
///         _ => None,
///     }
/// }
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
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
        source: BoxError,
    },
    /// The response does not decode.
    #[error("{request_info}: cannot decode the response")]
    InvalidResponse {
        /// The request.
        request_info: RequestInfo,
        /// The cause.
        source: BoxError,
    },
    /// The request was not sent because it is invalid.
    #[error("{request_info}: {reason}")]
    NotSent {
        /// The request.
        request_info: RequestInfo,
        /// The reason.
        reason: String,
    },
    /// The API server does not serve the kind.
    #[error("{}", kind.not_served())]
    NotServed {
        /// The kind.
        kind: Kind,
    },
    /// The cache cannot serve the read.
    #[error(transparent)]
    Cache(ReadError),
    /// A cached object does not decode as the requested type.
    #[error(transparent)]
    Decode(DecodeError),
}

/// Returns the message of the status, or names the type if the server does not serve it: that
/// response is a plain 404.
fn message(request_info: &RequestInfo, status: &Status) -> String {
    match status.code == 404 && status.reason.is_empty() {
        true => request_info.kind.not_served(),
        false => status.message.clone(),
    }
}

impl From<ErrorKind> for Error {
    fn from(kind: ErrorKind) -> Self {
        Self(Box::new(kind))
    }
}

impl From<ReadError> for Error {
    fn from(error: ReadError) -> Self {
        ErrorKind::Cache(error).into()
    }
}

impl From<DecodeError> for Error {
    fn from(error: DecodeError) -> Self {
        ErrorKind::Decode(error).into()
    }
}

impl Error {
    /// Returns what failed.
    #[must_use]
    pub fn kind(&self) -> &ErrorKind {
        &self.0
    }

    /// Returns the status that the API server returned, if any.
    #[must_use]
    pub fn status(&self) -> Option<&Status> {
        match &*self.0 {
            ErrorKind::Api { status, .. } => Some(status),
            _ => None,
        }
    }

    /// Returns whether the status has this reason, or a reason unknown to Kubernetes and this code.
    fn reason_is(&self, reason: &str, code: u16) -> bool {
        self.status().is_some_and(|status| {
            let unknown = !KNOWN_REASONS.contains(&status.reason.as_str());
            status.reason == reason || unknown && status.code == code
        })
    }

    /// Returns whether the object, its namespace or its type does not exist.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(*self.0, ErrorKind::NotServed { .. }) || self.reason_is("NotFound", 404)
    }

    /// Returns whether an object of that name already exists.
    #[must_use]
    pub fn is_already_exists(&self) -> bool {
        self.status().is_some_and(|status| status.reason == "AlreadyExists")
    }

    /// Returns whether the object has changed, or another field manager owns an applied field.
    ///
    /// [`retry_on_conflict`](super::retry_on_conflict) reads the object and tries again.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        self.reason_is("Conflict", 409)
    }

    /// Returns whether the permission is missing.
    #[must_use]
    pub fn is_forbidden(&self) -> bool {
        self.reason_is("Forbidden", 403)
    }

    /// Returns whether the credentials are missing or invalid.
    #[must_use]
    pub fn is_unauthorized(&self) -> bool {
        self.reason_is("Unauthorized", 401)
    }

    /// Returns whether the object is invalid.
    #[must_use]
    pub fn is_invalid(&self) -> bool {
        self.reason_is("Invalid", 422)
    }

    /// Returns whether the resourceVersion or continue token has expired (410).
    #[must_use]
    pub fn is_expired(&self) -> bool {
        self.reason_is("Expired", 410) || self.reason_is("Gone", 410)
    }

    /// Returns whether the request timed out, at the server or while the client waited for the
    /// response.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        match &*self.0 {
            ErrorKind::NoResponse { source, .. } => causes(&**source).any(|cause| {
                let error = cause.downcast_ref::<io::Error>();
                error.is_some_and(|error| error.kind() == io::ErrorKind::TimedOut)
            }),
            _ => self.is_server_timeout() || self.reason_is("Timeout", 504),
        }
    }

    fn is_server_timeout(&self) -> bool {
        self.status().is_some_and(|status| status.reason == "ServerTimeout")
    }

    /// Returns whether the server throttles requests (429).
    ///
    /// An eviction that a PodDisruptionBudget forbids is such an error, too.
    #[must_use]
    pub fn is_too_many_requests(&self) -> bool {
        self.status().is_some_and(|status| status.reason == "TooManyRequests" || status.code == 429)
    }

    /// Returns whether the same request may succeed later without a change: the server timed out,
    /// throttled the request, failed internally, was unavailable or did not respond, it requested
    /// [a retry](Error::retry_after), or the cache has not synced yet.
    ///
    /// A conflict is not: the object must be read again first. If the outcome of a write
    /// [is unknown](Error::is_outcome_unknown), a repeated create can return
    /// [`is_already_exists`](Error::is_already_exists).
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match &*self.0 {
            ErrorKind::NoResponse { .. } => true,
            ErrorKind::Cache(error) => matches!(error, ReadError::NotSynced { .. }),
            ErrorKind::Api { status, .. } => {
                self.is_timeout()
                    || self.is_too_many_requests()
                    || self.reason_is("InternalError", 500)
                    || self.reason_is("ServiceUnavailable", 503)
                    || status.code == 502
                    || self.retry_after().is_some()
            }
            ErrorKind::InvalidResponse { .. }
            | ErrorKind::NotSent { .. }
            | ErrorKind::NotServed { .. }
            | ErrorKind::Decode(_) => false,
        }
    }

    /// Returns whether the cache does not contain the type or the namespace: declare it, for
    /// example with [`reads`](crate::controller::ControllerBuilder::reads), or use a
    /// [live](super::Client::live) read.
    #[must_use]
    pub fn is_not_cached(&self) -> bool {
        let ErrorKind::Cache(error) = &*self.0 else { return false };
        matches!(error, ReadError::Undeclared { .. } | ReadError::OutsideNamespaces { .. })
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

    /// Returns the retry delay that the server requested.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        let seconds = self.status()?.details.as_ref()?.retry_after_seconds;
        (seconds > 0).then(|| Duration::from_secs(seconds.into()))
    }

    /// Returns the message without the request, for the journal.
    pub(super) fn message(&self) -> String {
        match &*self.0 {
            ErrorKind::Api { status, .. } => status.message.clone(),
            ErrorKind::NoResponse { source, .. } => format!("no response: {}", chain(&**source)),
            ErrorKind::NotSent { reason, .. } => reason.clone(),
            error => chain(error),
        }
    }

    /// Returns whether the outcome of the write is unknown: it may have been persisted.
    ///
    /// The next read of the object is a live read, so a reconcile that is retried sees the outcome.
    #[must_use]
    pub fn is_outcome_unknown(&self) -> bool {
        match &*self.0 {
            ErrorKind::NoResponse { .. } | ErrorKind::InvalidResponse { .. } => true,
            // The write may have been persisted before the server or a proxy failed or timed out.
            ErrorKind::Api { status, .. } => status.code >= 500 && status.code != 501,
            _ => false,
        }
    }
}

/// The status reasons of Kubernetes. As in apimachinery, a code decides only for other reasons.
const KNOWN_REASONS: [&str; 19] = [
    "Unauthorized",
    "Forbidden",
    "NotFound",
    "AlreadyExists",
    "Conflict",
    "Gone",
    "Invalid",
    "ServerTimeout",
    "StorageReadError",
    "Timeout",
    "TooManyRequests",
    "BadRequest",
    "MethodNotAllowed",
    "NotAcceptable",
    "RequestEntityTooLarge",
    "UnsupportedMediaType",
    "InternalError",
    "Expired",
    "ServiceUnavailable",
];
