//! The plan: which faults are injected, at which requests.

use std::fmt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::yaml;

/// The faults that a server injects, at named requests or at random.
///
/// ```
/// use evenkeel_apiserver::faults::Plan;
///
/// let plan = Plan::parse(
///     "
/// faults:
/// - at: {verb: create, resource: deployments.apps, nth: 2}
///   effect: loseResponse
/// seed: 7
/// random:
/// - at: {verb: event}
///   rate: 0.01
///   effects: [cut, expire, {lag: 2}]
/// ",
/// )?;
/// assert_eq!(
///     plan.faults[0].to_string(),
///     "create deployments.apps (request 2 of this kind) is committed and its response lost"
/// );
/// # Ok::<(), evenkeel_apiserver::faults::PlanError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[non_exhaustive]
pub struct Plan {
    /// Faults at named requests and events.
    #[serde(default)]
    pub faults: Vec<Fault>,
    /// Determines which requests and events the random faults hit.
    #[serde(default)]
    pub seed: u64,
    /// Faults at random requests and events.
    #[serde(default)]
    pub random: Vec<Random>,
}

/// A fault and its place. It happens once.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[non_exhaustive]
pub struct Fault {
    /// The request or event.
    pub at: At,
    /// What happens.
    pub effect: Effect,
}

/// Faults at random. Whether a request is hit follows from the seed, its user, verb, resource and
/// object, and how often there was such a request, and not from what other clients do meanwhile.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[non_exhaustive]
pub struct Random {
    /// The requests and events that may be hit, from the `nth` on; all if empty.
    #[serde(default)]
    pub at: At,
    /// The share of them that is hit, from 0 to 1.
    pub rate: f64,
    /// What happens: one of those that are possible at the request, by the seed.
    pub effects: Vec<Effect>,
    /// How many faults are injected at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// A request, or a watch event that is delivered. An empty field stands for any value.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[non_exhaustive]
pub struct At {
    /// The verb of a request as in RBAC, `apply` for a server-side apply, or `event`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub verb: String,
    /// The resource with its group, and its subresource if any: `deployments.apps`,
    /// `appservices.apps.example.com/status`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource: String,
    /// The object as `namespace/name`. Creates, lists and watches have none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub object: String,
    /// The occurrence, from 1. If the effect is not possible there, it happens at the next
    /// occurrence at which it is.
    pub nth: u32,
    /// The user. Users of the control plane are only hit if they are named here.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub user: String,
    /// How the user agent begins.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub user_agent: String,
}

/// What happens at a request or event. All of it happens on real clusters: none breaks the contract
/// of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Effect {
    /// The connection is lost before the request is processed.
    LoseRequest,
    /// The request is committed, and the connection is lost before the response.
    LoseResponse,
    /// The request is rejected with this status: 401, 403, 409, 429 with `Retry-After`, 500, 503 or
    /// 504.
    Reject(u16),
    /// The watch ends and can be resumed.
    Cut,
    /// The connection of the watch is reset.
    Reset,
    /// At an event, the watch gets an error event with code 410; at a watch that resumes, or at the
    /// next page of a list, the response has code 410.
    Expire,
    /// The watch ends at once, without an event.
    EndEmpty,
    /// The watch is cut, and cannot be resumed before it has expired.
    Gap,
    /// The event, and those after it, are delivered this many seconds late.
    Lag(u32),
    /// The watch gets no more events, until it ends by its timeout.
    Freeze,
    /// Bookmarks of the watch, and events after them, are delivered this many seconds late.
    LateBookmarks(u32),
    /// The watch gets no bookmarks, except for the one that ends the initial events.
    NoBookmarks,
}

/// Why a plan cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PlanError(String);

const VERBS: [&str; 10] = [
    "get",
    "list",
    "watch",
    "create",
    "update",
    "patch",
    "apply",
    "delete",
    "deletecollection",
    "event",
];

const CODES: [u16; 7] = [401, 403, 409, 429, 500, 503, 504];

impl Default for At {
    fn default() -> Self {
        let [verb, resource, object, user, user_agent] = Default::default();
        Self { verb, resource, object, nth: 1, user, user_agent }
    }
}

impl Plan {
    /// Reads a plan from a file.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or has no plan; the error names the file.
    pub fn read(path: &Path) -> Result<Self, PlanError> {
        let named = |why: &dyn fmt::Display| PlanError(format!("{}: {why}", path.display()));
        let text = std::fs::read_to_string(path).map_err(|error| named(&error))?;
        Self::parse(&text).map_err(|error| named(&error))
    }

    /// Parses a plan in YAML or JSON.
    ///
    /// # Errors
    ///
    /// If it has an unknown field, or an effect that is not possible at its place.
    pub fn parse(text: &str) -> Result<Self, PlanError> {
        let value = yaml::decode(text.as_bytes()).map_err(PlanError)?;
        let plan: Self =
            serde_json::from_value(value).map_err(|error| PlanError(error.to_string()))?;
        for (index, fault) in plan.faults.iter().enumerate() {
            check(&fault.at, fault.effect)
                .map_err(|why| PlanError(format!("faults[{index}]: {why}")))?;
        }
        for (index, random) in plan.random.iter().enumerate() {
            random.check().map_err(|why| PlanError(format!("random[{index}]: {why}")))?;
        }
        Ok(plan)
    }
}

impl Random {
    fn check(&self) -> Result<(), String> {
        if !(0.0..=1.0).contains(&self.rate) {
            return Err(format!("rate {} is not between 0 and 1", self.rate));
        }
        if self.effects.is_empty() {
            return Err("effects are missing".to_owned());
        }
        self.effects.iter().try_for_each(|effect| check(&self.at, *effect))
    }
}

/// Checks that the effect is possible at the place.
fn check(at: &At, effect: Effect) -> Result<(), String> {
    let At { verb, .. } = at;
    if at.nth == 0 {
        return Err("nth begins at 1".to_owned());
    }
    if !verb.is_empty() && !VERBS.contains(&verb.as_str()) {
        return Err(format!("unknown verb {verb:?}; the verbs are {}", VERBS.join(", ")));
    }
    if let Effect::Reject(code) = effect
        && !CODES.contains(&code)
    {
        let codes = CODES.map(|code| code.to_string()).join(", ");
        return Err(format!("requests cannot be rejected with {code}, only with {codes}"));
    }
    if !verb.is_empty() && !effect.is_possible(verb) {
        let shown = serde_json::to_string(&effect).unwrap_or_default();
        return Err(format!("{shown} is not possible at verb {verb:?}"));
    }
    Ok(())
}

impl Effect {
    /// Whether the contract of the API allows the effect at requests with this verb.
    pub(super) fn is_possible(self, verb: &str) -> bool {
        match self {
            Self::LoseRequest | Self::LoseResponse => verb != "event",
            // A create has no version to conflict with.
            Self::Reject(409) => matches!(verb, "update" | "patch" | "apply" | "delete"),
            Self::Reject(_) => verb != "event",
            Self::Cut | Self::Reset | Self::Gap | Self::Lag(_) => verb == "event",
            Self::Expire => matches!(verb, "event" | "watch" | "list"),
            Self::Freeze => matches!(verb, "event" | "watch"),
            Self::EndEmpty | Self::LateBookmarks(_) | Self::NoBookmarks => verb == "watch",
        }
    }
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let any = |text: &str| if text.is_empty() { "any" } else { text }.to_owned();
        match &*self.verb {
            "event" => write!(f, "watch event {} of {}", self.nth, any(&self.resource))?,
            verb => write!(f, "{} {}", any(verb), any(&self.resource))?,
        }
        if !self.object.is_empty() {
            write!(f, " {}", self.object)?;
        }
        if self.verb != "event" && self.nth > 1 {
            write!(f, " (request {} of this kind)", self.nth)?;
        }
        if !self.user.is_empty() {
            write!(f, " of {}", self.user)?;
        }
        Ok(())
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = &self.at;
        match self.effect {
            Effect::LoseRequest => write!(f, "the connection is lost before {at} is processed"),
            Effect::LoseResponse => write!(f, "{at} is committed and its response lost"),
            Effect::Reject(code) => write!(f, "{at} is rejected with {code}"),
            Effect::Cut => write!(f, "the watch is cut at {at}"),
            Effect::Reset => write!(f, "the connection is reset at {at}"),
            Effect::Expire => write!(f, "{at} expires (410)"),
            Effect::EndEmpty => write!(f, "the watch ends without an event at {at}"),
            Effect::Gap => write!(f, "events are missed from {at} on, then listed again"),
            Effect::Lag(seconds) => write!(f, "events lag {seconds} s from {at} on"),
            Effect::Freeze => write!(f, "the watch is silent from {at} on"),
            Effect::LateBookmarks(seconds) => write!(f, "bookmarks lag {seconds} s at {at}"),
            Effect::NoBookmarks => write!(f, "no bookmarks are sent at {at}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_faults_are_rejected_with_their_index_and_the_reason() {
        for (plan, reason) in [
            ("{faults: [{at: {verb: creat}, effect: loseResponse}]}", "unknown verb \"creat\""),
            ("{faults: [{at: {verb: get}, effect: cut}]}", "\"cut\" is not possible at verb"),
            (
                "{faults: [{at: {verb: create}, effect: {reject: 409}}]}",
                "faults[0]: {\"reject\":409} is not possible at verb \"create\"",
            ),
            ("{faults: [{at: {verb: get}, effect: {reject: 404}}]}", "cannot be rejected with 404"),
            ("{faults: [{at: {verb: get, nth: 0}, effect: loseResponse}]}", "nth begins at 1"),
            ("{faults: [{at: {verbs: get}, effect: cut}]}", "unknown field `verbs`"),
            ("{faults: [{at: {}, effect: crashBefore}]}", "unknown variant `crashBefore`"),
            ("{random: [{rate: 1.5, effects: [cut]}]}", "random[0]: rate 1.5"),
            ("{random: [{rate: 0.5, effects: []}]}", "effects are missing"),
        ] {
            let error = Plan::parse(plan).unwrap_err().to_string();
            assert!(error.contains(reason), "{plan}: {error}");
        }
    }

    #[test]
    fn plans_are_yaml_or_json_and_survive_a_round_trip() {
        let yaml =
            "seed: 3\nrandom:\n- rate: 0.25\n  effects: [gap, {lateBookmarks: 4}]\n  limit: 2";
        let plan = Plan::parse(yaml).unwrap();
        assert_eq!(plan.random[0].effects, [Effect::Gap, Effect::LateBookmarks(4)]);
        assert_eq!((plan.random[0].at.nth, plan.random[0].limit), (1, Some(2)));
        assert_eq!(Plan::parse(&serde_json::to_string(&plan).unwrap()).unwrap(), plan);
        assert_eq!(Plan::parse("{}").unwrap(), Plan::default());
    }
}
