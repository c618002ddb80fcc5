//! What a fault does.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::At;

/// What happens at a request or event. All of it happens on real clusters: none breaks the contract
/// of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Effect {
    /// The operator crashes before the request is sent.
    CrashBefore,
    /// The operator crashes after the request was committed, before the response arrives.
    CrashAfter,
    /// The request is committed, and the connection is lost before the response.
    LoseResponse,
    /// Another client changes the object just before the request.
    Touch,
    /// Another client deletes the object just after the request.
    DeleteObject,
    /// Another client deletes the object and creates it again just after the request.
    RecreateObject,
    /// Another client changes a field that the operator has set, just after the request.
    EditObject,
    /// The pod that the request creates is evicted by its node: its phase is `Failed` from then on.
    EvictPod,
    /// Just before the request, another client creates an object with the name, and deletes it after
    /// this many seconds.
    TakeName(u32),
    /// The request is rejected with this status: 401, 403, 429 with `Retry-After`, 500, 503 or 504
    /// (F5, F6, F16, F17).
    Reject(u16),
    /// Requests with the same verb and resource are rejected with 403 for this many seconds.
    Forbid(u32),
    /// Every request is rejected with 401 for this many seconds: the token has expired.
    Unauthorize(u32),
    /// No connection can be opened for this many seconds, while open watches continue: the
    /// certificate authority has changed.
    Untrust(u32),
    /// Requests for the object are rejected with 500 for this many seconds.
    Poison(u32),
    /// The watch ends and can be resumed.
    Cut,
    /// The connection of the watch is reset.
    Reset,
    /// The watch gets an error event with code 410; every object is listed and delivered again (F8,
    /// F10).
    Expire,
    /// The next watch ends at once, without an event.
    EndEmpty,
    /// The list has pages of one object, and the token of the second page has expired.
    ExpireContinue,
    /// The watch is cut; events pass and are compacted before it can be resumed.
    Gap,
    /// A bookmark with the version before the event is delivered, and the watch is cut.
    Bookmark,
    /// Events of the resource are delivered only after an event of another one.
    Reorder,
    /// Events of the resource are delivered this many seconds late.
    Lag(u32),
    /// Events of the resource are delivered only after the operator's next write.
    LagUntilWrite,
    /// The watch gets no more events and is not closed.
    Freeze,
    /// The operator restarts and its first list of the resource is older.
    StaleRestart,
    /// The operator is stopped gracefully and started again; a leader releases its lease.
    Restart,
    /// The process of the operator is paused for this many seconds, before the request is sent.
    Pause(u32),
    /// Requests of this replica for the lease get no response for this many seconds.
    PartitionLease(u32),
    /// Responses to requests of this replica for the lease are this many seconds late, for a minute.
    SlowRenew(u32),
    /// The clocks of the other replicas run at this percentage of real time.
    ClockRate(u32),
    /// An admission webhook denies the request.
    Deny,
    /// An admission webhook changes the objects of this and later writes of the resource.
    Mutate,
    /// The webhooks of the operator respond this many seconds late, for a minute.
    SlowWebhook(u32),
    /// The webhooks of the operator are unreachable for this many seconds.
    WebhookDown(u32),
    /// Watches end, and versions that the operator has seen are too large for this many seconds: the
    /// store of the server was restored.
    Restore(u32),
    /// The API server is unreachable for this many seconds, and every watch ends.
    Outage(u32),
    /// The API server restarts with its store: it is unreachable for a moment, every watch ends, and
    /// none can be resumed.
    RestartServer,
}

impl Effect {
    /// Whether another client deletes or changes an object.
    pub(crate) fn interferes(self) -> bool {
        matches!(
            self,
            Self::DeleteObject
                | Self::RecreateObject
                | Self::EditObject
                | Self::EvictPod
                | Self::TakeName(_)
        )
    }

    /// Whether watches end or get no events, or retries take long.
    pub(crate) fn hits_watches(self) -> bool {
        matches!(
            self,
            Self::Outage(_)
                | Self::RestartServer
                | Self::Restore(_)
                | Self::ExpireContinue
                | Self::Pause(_)
                | Self::PartitionLease(_)
                | Self::SlowRenew(_)
                | Self::ClockRate(_)
                | Self::Forbid(_)
                | Self::Unauthorize(_)
                | Self::Untrust(_)
                | Self::Poison(_)
                | Self::WebhookDown(_)
                | Self::SlowWebhook(_)
                | Self::TakeName(_)
        )
    }

    /// Returns how long the operator is disturbed, in seconds. An object whose requests fail does not
    /// disturb it, and a restored server is as usual once everything is listed again.
    pub(crate) fn seconds(self) -> u32 {
        match self {
            Self::Forbid(seconds)
            | Self::Unauthorize(seconds)
            | Self::Untrust(seconds)
            | Self::Lag(seconds)
            | Self::Pause(seconds)
            | Self::PartitionLease(seconds)
            | Self::WebhookDown(seconds)
            | Self::Outage(seconds)
            | Self::TakeName(seconds) => seconds,
            Self::SlowRenew(_) | Self::SlowWebhook(_) => 60,
            _ => 0,
        }
    }

    /// Whether both are the same fault, except for how long it lasts.
    pub(crate) fn is_same_kind(self, other: Self) -> bool {
        match (self, other) {
            (Self::Reject(one), Self::Reject(two)) => one == two,
            _ => std::mem::discriminant(&self) == std::mem::discriminant(&other),
        }
    }

    /// Describes the effect at a place.
    pub(super) fn describe(self, at: &At, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CrashBefore => write!(f, "crash before {at} is sent"),
            Self::CrashAfter => {
                write!(f, "crash after {at} is committed, before the response")
            }
            Self::LoseResponse => write!(f, "{at} is committed and its response lost"),
            Self::Touch => write!(f, "another client changes the object just before {at}"),
            Self::DeleteObject => write!(f, "another client deletes the object after {at}"),
            Self::RecreateObject => {
                write!(f, "another client deletes and recreates the object after {at}")
            }
            Self::EditObject => write!(f, "another client edits the object after {at}"),
            Self::EvictPod => write!(f, "the node evicts the pod of {at}"),
            Self::TakeName(seconds) => {
                write!(f, "another client has an object of that name for {seconds} s from {at} on")
            }
            Self::Reject(code) => write!(f, "{at} is rejected with {code}"),
            Self::Forbid(seconds) => {
                write!(f, "{at} and the like are rejected with 403 for {seconds} s")
            }
            Self::Unauthorize(seconds) => {
                write!(f, "every request is rejected with 401 for {seconds} s from {at} on")
            }
            Self::Untrust(seconds) => {
                write!(f, "no connection can be opened for {seconds} s from {at} on")
            }
            Self::Poison(seconds) => {
                write!(f, "requests for the object fail for {seconds} s from {at} on")
            }
            Self::Cut => write!(f, "the watch is cut at {at}"),
            Self::Reset => write!(f, "the connection is reset at {at}"),
            Self::Expire => write!(f, "the watch expires (410) at {at}"),
            Self::EndEmpty => write!(f, "the watch ends without an event at {at}"),
            Self::ExpireContinue => write!(f, "the second page of the list expires at {at}"),
            Self::Gap => write!(f, "events are missed from {at} on, then listed again"),
            Self::Bookmark => write!(f, "a bookmark is delivered and the watch cut at {at}"),
            Self::Reorder => write!(f, "{at} is delivered after one of another resource"),
            Self::Lag(seconds) => write!(f, "the cache lags {seconds} s from {at} on"),
            Self::LagUntilWrite => {
                write!(f, "the cache lags from {at} until the operator's next write")
            }
            Self::Freeze => write!(f, "the watch is silent from {at} on"),
            Self::StaleRestart => write!(f, "restart at {at}, and the first list is older"),
            Self::Restart => write!(f, "graceful restart at {at}"),
            Self::Pause(seconds) => write!(f, "the process is paused for {seconds} s at {at}"),
            Self::PartitionLease(seconds) => {
                write!(f, "the lease is unreachable for {seconds} s from {at} on")
            }
            Self::SlowRenew(seconds) => {
                write!(f, "responses for the lease are {seconds} s late from {at} on")
            }
            Self::ClockRate(percent) => {
                write!(f, "the clocks of the other replicas run at {percent} % from {at} on")
            }
            Self::Deny => write!(f, "an admission webhook denies {at}"),
            Self::Mutate => write!(f, "an admission webhook changes objects from {at} on"),
            Self::SlowWebhook(seconds) => {
                write!(f, "the operator's webhooks are {seconds} s late from {at} on")
            }
            Self::WebhookDown(seconds) => {
                write!(f, "the operator's webhooks are unreachable for {seconds} s from {at} on")
            }
            Self::Restore(seconds) => write!(
                f,
                "the store is restored at {at}: known versions are too large for {seconds} s"
            ),
            Self::Outage(seconds) => {
                write!(f, "the API server is unreachable for {seconds} s from {at} on")
            }
            Self::RestartServer => write!(f, "the API server restarts at {at}"),
        }
    }
}
