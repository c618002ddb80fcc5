//! Plans: the workload of a run and the faults that are injected into it.
//!
//! A plan is data. A fault names the request or the watch event at which it happens by verb,
//! resource, object and occurrence, so that a stored plan survives small changes of the operator.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::workload::Step;

/// The workload of a run and its faults.
///
/// ```
/// use evenkeel_sim::Plan;
///
/// let plan: Plan = serde_json::from_str(
///     r#"{"faults": [{
///         "at": {"verb": "create", "resource": "deployments.apps", "nth": 1},
///         "effect": "crashAfter"
///     }]}"#,
/// )?;
/// assert_eq!(
///     plan.faults[0].to_string(),
///     "crash after create deployments.apps is committed, before the response"
/// );
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Plan {
    /// What the user does. An empty workload is that of the simulation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workload: Vec<Step>,
    /// The faults.
    #[serde(default)]
    pub faults: Vec<Fault>,
}

/// A fault and its place.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Fault {
    /// The request or event.
    pub at: At,
    /// What happens.
    pub effect: Effect,
}

/// A request of the operator, or a watch event that is delivered to it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct At {
    /// The verb of a request as in RBAC, `apply` for a server-side apply, or `event`.
    pub verb: String,
    /// The resource with its group, and its subresource if any: `deployments.apps`,
    /// `appservices.apps.example.com/status`.
    pub resource: String,
    /// The object as `namespace/name`; any if empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub object: String,
    /// The occurrence, from 1.
    pub nth: u32,
}

/// What happens at a request or event. All of it happens on real clusters: none breaks the contract
/// of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Effect {
    /// The operator crashes before the request is sent (F1).
    CrashBefore,
    /// The operator crashes after the request was committed, before the response arrives (F2).
    CrashAfter,
    /// The request is committed, and the connection is lost before the response (F3).
    LoseResponse,
    /// Another client changes the object just before the request (F4).
    Touch,
    /// Another client deletes the object just after the request (F15).
    DeleteObject,
    /// Another client deletes the object and creates it again just after the request (F15).
    RecreateObject,
    /// The request is rejected with this status: 401, 403, 429 with `Retry-After`, 500, 503 or 504
    /// (F5, F6, F16, F17).
    Reject(u16),
    /// The watch ends and can be resumed (F7).
    Cut,
    /// The connection of the watch is reset (F7).
    Reset,
    /// The watch gets an error event with code 410 (F8).
    Expire,
    /// The next watch ends at once, without an event (F8).
    EndEmpty,
    /// The watch is cut; events pass and are compacted before it can be resumed (F9).
    Gap,
    /// Events of the resource are delivered this many seconds late (F11).
    Lag(u32),
    /// Events of the resource are delivered only after the operator's next write (F11).
    LagUntilWrite,
    /// The watch gets no more events and is not closed (F18).
    Freeze,
    /// The operator restarts and its first list of the resource is older (F12).
    StaleRestart,
    /// The operator is stopped in order and started again.
    Restart,
    /// The API server is unreachable for this many seconds, and every watch ends (F20).
    Outage(u32),
}

impl Plan {
    /// Whether another client deletes objects.
    pub(crate) fn interferes(&self) -> bool {
        self.faults.iter().any(|fault| fault.effect.interferes())
    }

    /// Whether a fault hits watches.
    pub(crate) fn hits_watches(&self) -> bool {
        let outage = |fault: &Fault| matches!(fault.effect, Effect::Outage(_));
        self.faults.iter().any(|it| it.at.is_event() || it.at.verb == "watch" || outage(it))
    }
}

impl Effect {
    /// Whether another client deletes an object.
    pub(crate) fn interferes(self) -> bool {
        matches!(self, Self::DeleteObject | Self::RecreateObject)
    }
}

impl Fault {
    /// Returns a fault.
    #[must_use]
    pub fn new(at: At, effect: Effect) -> Self {
        Self { at, effect }
    }
}

impl At {
    /// Returns the place of the `nth` request with this verb for an object of a resource.
    #[must_use]
    pub fn new(verb: &str, resource: &str, object: &str, nth: u32) -> Self {
        let [verb, resource, object] = [verb, resource, object].map(str::to_owned);
        Self { verb, resource, object, nth }
    }

    /// Whether this is the delivery of a watch event.
    #[must_use]
    pub fn is_event(&self) -> bool {
        self.verb == "event"
    }
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.is_event() {
            true => write!(f, "watch event {} of {}", self.nth, self.resource)?,
            false => write!(f, "{} {}", self.verb, self.resource)?,
        }
        if !self.object.is_empty() {
            write!(f, " {}", self.object)?;
        }
        if !self.is_event() && self.nth > 1 {
            write!(f, " (request {} of this kind)", self.nth)?;
        }
        Ok(())
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = &self.at;
        match self.effect {
            Effect::CrashBefore => write!(f, "crash before {at} is sent"),
            Effect::CrashAfter => {
                write!(f, "crash after {at} is committed, before the response")
            }
            Effect::LoseResponse => write!(f, "{at} is committed and its response lost"),
            Effect::Touch => write!(f, "another client changes the object just before {at}"),
            Effect::DeleteObject => write!(f, "another client deletes the object after {at}"),
            Effect::RecreateObject => {
                write!(f, "another client deletes and recreates the object after {at}")
            }
            Effect::Reject(code) => write!(f, "{at} is rejected with {code}"),
            Effect::Cut => write!(f, "the watch is cut at {at}"),
            Effect::Reset => write!(f, "the connection is reset at {at}"),
            Effect::Expire => write!(f, "the watch expires (410) at {at}"),
            Effect::EndEmpty => write!(f, "the watch ends without an event at {at}"),
            Effect::Gap => write!(f, "events are missed from {at} on, then listed again"),
            Effect::Lag(seconds) => write!(f, "the cache lags {seconds} s from {at} on"),
            Effect::LagUntilWrite => {
                write!(f, "the cache lags from {at} until the operator's next write")
            }
            Effect::Freeze => write!(f, "the watch is silent from {at} on"),
            Effect::StaleRestart => write!(f, "restart at {at}, and the first list is older"),
            Effect::Restart => write!(f, "restart in order at {at}"),
            Effect::Outage(seconds) => {
                write!(f, "the API server is unreachable for {seconds} s from {at} on")
            }
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut number = 0;
        let mut line = |f: &mut fmt::Formatter<'_>, text: &dyn fmt::Display| {
            number += 1;
            writeln!(f, "  {number}. {text}")
        };
        for step in &self.workload {
            line(f, &format_args!("the user {step}"))?;
        }
        for fault in &self.faults {
            line(f, fault)?;
        }
        if number == 0 {
            writeln!(f, "  no faults")?;
        }
        Ok(())
    }
}
