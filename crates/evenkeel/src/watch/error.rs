//! What can go wrong between the API server and the sink, sorted by what is to be done about it.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, StatusCode, header};
use kube::core::Status;

use crate::nulls;

/// Longer waits than this are not taken from a server.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(300);

/// Why a list or a watch did not work. Cheap to clone: waiters and health checks keep one.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The server answered with a failure, or sent one in the stream.
    #[error("{}", told(.status))]
    Api { status: Arc<Status>, retry_after: Option<Duration> },
    /// There was no answer to the request.
    #[error("cannot reach the API server: {message}")]
    Unreachable { refused: bool, message: Arc<str> },
    /// The connection broke within an answer.
    #[error("lost the connection to the API server: {0}")]
    Lost(Arc<str>),
    /// Nothing came for this long, so the connection may be dead.
    #[error("the API server was silent for {0:?}")]
    Silent(Duration),
    /// The answer is not what the API promises.
    #[error("unexpected answer from the API server: {0}")]
    Unexpected(Arc<str>),
    /// The server opened a watch and closed it at once.
    #[error("the watch was closed within a second and without an event")]
    ShortWatch,
    /// The stream ended before it had sent the whole state.
    #[error("the stream ended before all objects were sent")]
    Incomplete,
    /// The server was restored, emptied or replaced.
    #[error("the API server has another history than the one that was followed")]
    OtherHistory,
}

impl Error {
    pub(super) fn unexpected(what: impl Into<Arc<str>>) -> Self {
        Self::Unexpected(what.into())
    }

    /// A failure the server sent as the status of an answer.
    pub(super) fn answer(code: StatusCode, headers: &HeaderMap, body: &[u8]) -> Self {
        let mut status = nulls::decode::<Status>(body)
            .ok()
            .filter(|status| !status.message.is_empty() || !status.reason.is_empty())
            .unwrap_or_else(|| plain(code, body));
        status.code = code.as_u16();
        let asked = headers
            .get(header::RETRY_AFTER)
            .and_then(|value| value.to_str().ok())
            .and_then(|seconds| seconds.trim().parse().ok());
        Self::status(status, asked)
    }

    /// A failure the server sent as an event.
    pub(super) fn event(status: Status) -> Self {
        Self::status(status, None)
    }

    fn status(status: Status, asked: Option<u64>) -> Self {
        let detail = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
        let retry_after = asked
            .or((detail > 0).then(|| detail.into()))
            .map(|seconds| Duration::from_secs(seconds).min(LONGEST_RETRY_AFTER));
        Self::Api { status: Arc::new(status), retry_after }
    }

    /// A request that got no answer.
    pub(super) fn unreachable(error: &kube::Error) -> Self {
        let refused = causes(error).any(|cause| {
            cause
                .downcast_ref::<io::Error>()
                .is_some_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
        });
        Self::Unreachable { refused, message: describe(error) }
    }

    /// An answer that broke off.
    pub(super) fn lost(error: &(dyn std::error::Error + 'static)) -> Self {
        Self::Lost(describe(error))
    }

    /// The API's own account of the failure, if it gave one.
    pub(crate) fn api(&self) -> Option<&Status> {
        match self {
            Self::Api { status, .. } => Some(status),
            _ => None,
        }
    }

    fn is(&self, reason: &str, code: u16) -> bool {
        self.api().is_some_and(|status| status.reason == reason || status.code == code)
    }

    /// The credentials do not allow to list or watch this.
    pub(crate) fn is_forbidden(&self) -> bool {
        self.is("Forbidden", 403)
    }

    /// The type is not served, as when its definition is missing.
    pub(crate) fn is_not_found(&self) -> bool {
        self.is("NotFound", 404)
    }

    /// The version asked for is too old to be had.
    pub(super) fn is_expired(&self) -> bool {
        self.is("Expired", 410) || self.is("Gone", 410)
    }

    /// The version asked for is one this server does not have yet, or no longer knows after it was
    /// restored.
    pub(super) fn is_too_large(&self) -> bool {
        const MESSAGE: &str = "Too large resource version";
        self.api().is_some_and(|status| {
            let causes = status.details.as_ref().map_or(&[][..], |details| &details.causes);
            causes.iter().any(|cause| {
                // Servers before 1.18.6 had the message alone.
                cause.reason == "ResourceVersionTooLarge" || cause.message == MESSAGE
            }) || status.message.contains(MESSAGE)
        })
    }

    /// The server has too much to do.
    pub(super) fn is_too_many_requests(&self) -> bool {
        self.is("TooManyRequests", 429)
    }

    /// Nobody takes connections at the server's address.
    pub(super) fn is_refused(&self) -> bool {
        matches!(self, Self::Unreachable { refused: true, .. })
    }

    /// The server could not be asked, so it has said nothing about the version we resume from: a
    /// watch may be tried again as it was, and no list is due.
    pub(super) fn leaves_version_good(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Silent(_) | Self::Lost(_) => true,
            Self::Api { status, .. } => {
                self.is_too_many_requests()
                    || (matches!(status.code, 502..=504) && !self.is_too_large())
            }
            Self::Unexpected(_) | Self::ShortWatch | Self::Incomplete | Self::OtherHistory => false,
        }
    }

    /// How long the server asked us to stay away.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Api { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}

/// A status for an answer that has none, as proxies send.
fn plain(code: StatusCode, body: &[u8]) -> Status {
    let text = String::from_utf8_lossy(&body[..body.len().min(256)]);
    let message = match text.trim() {
        "" => code.canonical_reason().unwrap_or("unknown failure"),
        text => text,
    };
    Status::failure(message, "")
}

/// A status in words, with the code that says what kind of failure it is.
fn told(status: &Status) -> String {
    let words = match (&*status.message, &*status.reason) {
        ("", "") => "unknown failure",
        ("", reason) => reason,
        (message, _) => message,
    };
    match status.code {
        0 => words.to_owned(),
        code => format!("{words} (HTTP {code})"),
    }
}

fn causes<'a>(
    error: &'a (dyn std::error::Error + 'static),
) -> impl Iterator<Item = &'a (dyn std::error::Error + 'static)> {
    std::iter::successors(Some(error), |&cause| cause.source())
}

/// The innermost cause says most, and says it without the wrappings that repeat it.
fn describe(error: &(dyn std::error::Error + 'static)) -> Arc<str> {
    causes(error).last().map_or_else(|| error.to_string(), ToString::to_string).into()
}
