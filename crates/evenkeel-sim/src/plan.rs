//! Plans: the workload of a run and the faults that are injected into it.
//!
//! A plan is data. A fault names the request or the watch event at which it happens by verb,
//! resource, object and occurrence, so that a stored plan survives small changes of the operator.

mod effect;

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use effect::Effect;

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
    /// How many replicas of the operator compete for its lease; without leader election if 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub replicas: u32,
    /// Which of the possible deliveries and reconciles happens, whenever there are several; the first
    /// one if it is missing. Without a schedule they happen by themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<Vec<usize>>,
    /// The faults.
    #[serde(default)]
    pub faults: Vec<Fault>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
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
    /// The verb of a request as in RBAC, `apply` for a server-side apply, `event` for a watch event,
    /// `review` for a review by a webhook of the operator, or `call` for a call of the application.
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

impl Plan {
    /// Returns what the user does; `of_simulation` unless the plan has a workload of its own.
    pub(crate) fn steps<'a>(&'a self, of_simulation: &'a [Step]) -> &'a [Step] {
        match self.workload.is_empty() {
            true => of_simulation,
            false => &self.workload,
        }
    }

    /// Whether another client deletes objects.
    pub(crate) fn interferes(&self) -> bool {
        self.faults.iter().any(|fault| fault.effect.interferes())
    }

    /// Whether a fault hits watches.
    pub(crate) fn hits_watches(&self) -> bool {
        let hits =
            |it: &Fault| it.at.is_event() || it.at.verb == "watch" || it.effect.hits_watches();
        self.replicas > 0 || self.faults.iter().any(hits)
    }

    /// Returns how long it takes until what has failed during the faults is retried, if there are several
    /// that last. Each failure doubles the delay; events between retries lead to more of them.
    pub(crate) fn longest_retry(&self) -> Duration {
        let seconds = self.faults.iter().map(|fault| fault.effect.seconds());
        let lasting: Vec<u32> = seconds.filter(|it| *it > 0).collect();
        match lasting.len() {
            0 | 1 => Duration::ZERO,
            _ => Duration::from_secs(lasting.iter().map(|it| 6 * u64::from(*it)).sum()),
        }
    }

    /// Returns the fault by which requests for an object fail for minutes.
    pub(crate) fn poison(&self) -> Option<&Fault> {
        self.faults.iter().find(|fault| matches!(fault.effect, Effect::Poison(_)))
    }

    /// Returns a plan with one fault.
    pub(crate) fn single(fault: Fault) -> Self {
        Self { faults: vec![fault], ..Self::default() }
    }

    /// Whether it changes nothing but the workload.
    pub(crate) fn is_calm(&self) -> bool {
        self.faults.is_empty() && self.replicas == 0 && self.schedule.is_none()
    }

    /// Returns the same plan without faults.
    pub(crate) fn calm(&self) -> Self {
        Self { workload: self.workload.clone(), ..Self::default() }
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

    /// Whether this is a call of the application.
    pub(crate) fn is_call(&self) -> bool {
        self.verb == "call" || self.resource.ends_with("/proxy")
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
        self.effect.describe(&self.at, f)
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
        if self.replicas > 0 {
            let replicas = self.replicas;
            line(f, &format_args!("{replicas} replicas compete for the lease"))?;
        }
        for fault in &self.faults {
            line(f, fault)?;
        }
        if let Some(schedule) = &self.schedule {
            line(f, &format_args!("deliveries and reconciles are chosen by {schedule:?}"))?;
        }
        if number == 0 {
            writeln!(f, "  no faults")?;
        }
        Ok(())
    }
}
