//! The same declaration leads to the same state, whatever was before it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{Oracle, Violation};
use crate::state::State;
use crate::workload::{Step, declare};
use crate::world::Run;

/// O1, differential: if what the user has declared after a step is what was declared after an earlier
/// one, then the children of the operator are the same: after a rollback, a change that is taken back
/// at once, a deletion and recreation, the deletion of a child.
pub(super) fn transitions(workload: &[Step], run: &Run, violations: &mut Vec<Violation>) {
    let rejected: BTreeSet<usize> = run.rejected.iter().map(|(step, _)| *step).collect();
    // Its object is gone.
    if rejected.iter().any(|step| matches!(workload.get(*step), Some(Step::Recreate(_)))) {
        return;
    }
    let written: BTreeSet<String> = run
        .requests
        .writes
        .iter()
        .filter(|write| write.revision.is_some())
        .map(|write| write.object())
        .collect();
    let mut declared = BTreeMap::new();
    let mut seen: Vec<(BTreeMap<String, Value>, &State)> = Vec::new();
    for (index, (step, state)) in workload.iter().zip(&run.states).enumerate() {
        // What the server has rejected was not declared.
        if !rejected.contains(&index) {
            declare(&mut declared, step);
        }
        if let Some((_, earlier)) = seen.iter().find(|(earlier, _)| *earlier == declared) {
            compare(earlier, state, &written, violations);
        } else {
            seen.push((declared.clone(), state));
        }
        if !violations.is_empty() {
            return;
        }
    }
}

/// Compares what the operator declares in its children: their status depends on when they were
/// written, and so do the objects that other controllers create for them.
fn compare(
    expected: &State,
    found: &State,
    written: &BTreeSet<String>,
    violations: &mut Vec<Violation>,
) {
    let declared = |state: &State| {
        let own = state.0.iter().filter(|(object, _)| written.contains(*object));
        let declared = own.map(|(object, value)| {
            let mut value = value.clone();
            if let Some(fields) = value.as_object_mut() {
                fields.remove("status");
                fields.remove("metadata");
            }
            (object.clone(), value)
        });
        State(declared.collect())
    };
    for difference in declared(found).differences(&declared(expected)) {
        violations.push(
            Violation::new(Oracle::Transition, difference.object)
                .field(difference.field)
                .expected(difference.expected)
                .found(difference.found),
        );
    }
}
