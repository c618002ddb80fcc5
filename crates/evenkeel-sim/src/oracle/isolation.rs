//! O11: an object whose requests fail does not delay the others.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Oracle, Violation};
use crate::plan::Plan;
use crate::simulation::Config;
use crate::state::State;
use crate::workload::{ObjectRef, Step};
use crate::world::Run;

/// Checks that while an object is poisoned, other objects of the user and what they control have the
/// state of the calm run after each step.
pub(super) fn isolation(
    config: &Config,
    plan: &Plan,
    run: &Run,
    calm: &Run,
    violations: &mut Vec<Violation>,
) {
    let Some(fault) = plan.poison() else { return };
    let resource = fault.at.resource.split('/').next().unwrap_or_default();
    let poisoned = format!("{resource} {}", fault.at.object);
    let workload = plan.steps(&config.workload);
    let created = workload.iter().filter_map(Step::created);
    let created: BTreeSet<ObjectRef> =
        created.flat_map(|it| [ObjectRef::of(it), ObjectRef::of(it).in_default()]).collect();
    for (found, expected) in run.states.iter().zip(&calm.states) {
        let root = root(expected, &poisoned);
        // Some objects depend on others without an owner reference: the Endpoints of a Service.
        let declared = |path: &str| {
            let object = expected.0.get(path);
            object.is_some_and(|object| created.contains(&ObjectRef::of(object)))
        };
        // Which objects of the user depend on it is not known.
        if !declared(root) {
            continue;
        }
        let healthy = |path: &str| {
            let other = self::root(expected, path);
            other != root && declared(other)
        };
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
    let found = run.requests.late_attempts;
    if let Some(fault) = plan.poison()
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
