//! List and watch errors, by how the reflector handles them.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, StatusCode, header};
use kube::core::Status;

use crate::error::causes;
use crate::nulls;

/// The maximum accepted Retry-After.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(300);

/// The error of a list or watch. Cheap to clone: waiters and health checks store it.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The server returned an error status, or sent one in the stream.
    #[error("{}", display(.status))]
    Api { status: Arc<Status>, retry_after: Option<Duration> },
    /// There was no response to the request.
    #[error("cannot reach the API server: {message}")]
    Unreachable { refused: bool, message: Arc<str> },
    /// The connection was lost within a response.
    #[error("lost the connection to the API server: {0}")]
    Lost(Arc<str>),
    /// No data for this long, so the connection may be dead.
    #[error("no data from the API server for {0:?}")]
    ReadTimeout(Duration),
    /// The response is malformed.
    #[error("unexpected response from the API server: {0}")]
    Unexpected(Arc<str>),
    /// The server closed a watch immediately.
    #[error("the watch was closed within a second without an event")]
    ShortWatch,
    /// The stream ended before it had sent the whole state.
    #[error("the stream ended before all objects were sent")]
    Incomplete,
    /// The server was restored, emptied or replaced.
    #[error("the history of the API server was replaced")]
    OtherHistory,
}

impl Error {
    pub(super) fn unexpected(what: impl Into<Arc<str>>) -> Self {
        Self::Unexpected(what.into())
    }

    /// Returns the error of an error response.
    pub(super) fn response(code: StatusCode, headers: &HeaderMap, body: &[u8]) -> Self {
        let mut status = nulls::decode::<Status>(body)
            .ok()
            .filter(|status| !status.message.is_empty() || !status.reason.is_empty())
            .unwrap_or_else(|| status_from_text(code, body));
        status.code = code.as_u16();
        let retry_after = headers
            .get(header::RETRY_AFTER)
            .and_then(|value| value.to_str().ok())
            .and_then(|seconds| seconds.trim().parse().ok());
        Self::status(status, retry_after)
    }

    /// Returns the error of an error event.
    pub(super) fn event(status: Status) -> Self {
        Self::status(status, None)
    }

    fn status(status: Status, retry_after: Option<u64>) -> Self {
        let detail = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
        let retry_after = retry_after
            .or((detail > 0).then(|| detail.into()))
            .map(|seconds| Duration::from_secs(seconds).min(RETRY_AFTER_MAX));
        Self::Api { status: Arc::new(status), retry_after }
    }

    /// Returns the error of a request without response.
    pub(super) fn unreachable(error: &kube::Error) -> Self {
        let refused = causes(error).any(|cause| {
            cause
                .downcast_ref::<io::Error>()
                .is_some_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
        });
        Self::Unreachable { refused, message: describe(error) }
    }

    /// Returns the error of a lost connection.
    pub(super) fn lost(error: &(dyn std::error::Error + 'static)) -> Self {
        Self::Lost(describe(error))
    }

    /// Returns the status that the API server returned, if any.
    pub(crate) fn api(&self) -> Option<&Status> {
        match self {
            Self::Api { status, .. } => Some(status),
            _ => None,
        }
    }

    fn is(&self, reason: &str, code: u16) -> bool {
        self.api().is_some_and(|status| status.reason == reason || status.code == code)
    }

    /// Returns whether listing or watching is forbidden.
    pub(crate) fn is_forbidden(&self) -> bool {
        self.is("Forbidden", 403)
    }

    /// Returns whether the type is not served, for example because its CRD is missing.
    pub(crate) fn is_not_found(&self) -> bool {
        self.is("NotFound", 404)
    }

    /// Returns whether the requested resourceVersion has expired.
    pub(super) fn is_expired(&self) -> bool {
        self.is("Expired", 410) || self.is("Gone", 410)
    }

    /// Returns whether the requested resourceVersion is higher than that of the server, which may
    /// be behind or restored.
    pub(super) fn is_too_large(&self) -> bool {
        const MESSAGE: &str = "Too large resource version";
        self.api().is_some_and(|status| {
            let causes = status.details.as_ref().map_or(&[][..], |details| &details.causes);
            causes.iter().any(|cause| {
                // Servers before 1.18.6 send only the message.
                cause.reason == "ResourceVersionTooLarge" || cause.message == MESSAGE
            }) || status.message.contains(MESSAGE)
        })
    }

    /// Returns whether the server throttles requests.
    pub(super) fn is_too_many_requests(&self) -> bool {
        self.is("TooManyRequests", 429)
    }

    /// Returns whether the connection was refused.
    pub(super) fn is_refused(&self) -> bool {
        matches!(self, Self::Unreachable { refused: true, .. })
    }

    /// Returns whether the resourceVersion may still be valid, because the request did not reach
    /// the server: the watch can be retried without a relist.
    pub(super) fn can_resume(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::ReadTimeout(_) | Self::Lost(_) => true,
            Self::Api { status, .. } => {
                self.is_too_many_requests()
                    || (matches!(status.code, 502..=504) && !self.is_too_large())
            }
            Self::Unexpected(_) | Self::ShortWatch | Self::Incomplete | Self::OtherHistory => false,
        }
    }

    /// Returns the Retry-After of the server.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Api { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}

/// Returns a Status for an error response without one, as proxies send.
fn status_from_text(code: StatusCode, body: &[u8]) -> Status {
    let text = String::from_utf8_lossy(&body[..body.len().min(256)]);
    let message = match text.trim() {
        "" => code.canonical_reason().unwrap_or("unknown failure"),
        text => text,
    };
    Status::failure(message, "")
}

/// Formats a Status with its HTTP code.
fn display(status: &Status) -> String {
    let text = match (&*status.message, &*status.reason) {
        ("", "") => "unknown failure",
        ("", reason) => reason,
        (message, _) => message,
    };
    match status.code {
        0 => text.to_owned(),
        code => format!("{text} (HTTP {code})"),
    }
}

/// Returns the innermost cause, which is the most specific.
fn describe(error: &(dyn std::error::Error + 'static)) -> Arc<str> {
    causes(error).last().map_or_else(|| error.to_string(), ToString::to_string).into()
}
