//! O11: an object whose requests fail does not delay the others.

use serde_json::Value;

use super::{Oracle, Violation};
use crate::plan::{Effect, Plan};
use crate::state::State;
use crate::world::Run;

/// Checks that while an object is poisoned, the objects of other owners have the state of the calm
/// run after each step.
pub(super) fn isolation(plan: &Plan, run: &Run, calm: &Run, violations: &mut Vec<Violation>) {
    let poisons = |effect: Effect| matches!(effect, Effect::Poison(_));
    let Some(fault) = plan.faults.iter().find(|fault| poisons(fault.effect)) else { return };
    let resource = fault.at.resource.split('/').next().unwrap_or_default();
    let poisoned = format!("{resource} {}", fault.at.object);
    for (found, expected) in run.states.iter().zip(&calm.states) {
        let root = root(expected, &poisoned);
        let healthy = |path: &str| self::root(expected, path) != root;
        let difference =
            found.differences(expected).into_iter().find(|difference| healthy(&difference.object));
        if let Some(difference) = difference {
            violations.push(
                Violation::new(Oracle::Isolation, difference.object)
                    .field(difference.field)
                    .expected(difference.expected)
                    .found(format!("{} while {poisoned} fails", difference.found)),
            );
            return;
        }
    }
}

/// Attempts in three minutes, some minutes after the first failure: one per five seconds.
const LATE_ATTEMPTS: usize = 36;

/// O8: requests that fail for minutes are repeated with a growing delay.
pub(super) fn delays(plan: &Plan, run: &Run, violations: &mut Vec<Violation>) {
    let poisoned = plan.faults.iter().find(|fault| matches!(fault.effect, Effect::Poison(_)));
    let found = run.requests.late_attempts;
    if let Some(fault) = poisoned
        && found > LATE_ATTEMPTS
    {
        violations.push(
            Violation::new(
                Oracle::WriteBudget,
                format!("{} {}", fault.at.resource, fault.at.object),
            )
            .field("requests in the last three minutes of five in which they fail")
            .expected(format!("at most {LATE_ATTEMPTS}, with a growing delay"))
            .found(found.to_string()),
        );
    }
}

/// Returns the object at the end of the chain of controllers of an object.
fn root<'a>(state: &'a State, path: &'a str) -> &'a str {
    let mut root = path;
    // A chain has no more links than there are objects.
    for _ in 0..state.0.len() {
        let owner = state.0.get(root).and_then(controller);
        match owner {
            Some(owner) if owner != root => root = owner,
            _ => break,
        }
    }
    root
}

/// Returns the path of the controller of a canonical object.
fn controller(object: &Value) -> Option<&str> {
    let uid = crate::state::controller_of(object)?;
    uid.strip_prefix("<uid of ")?.strip_suffix('>')
}
