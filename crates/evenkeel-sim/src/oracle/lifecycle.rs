//! Oracles on the operator's own writes.

use std::collections::BTreeMap;

use super::{Oracle, Violation};
use crate::gate::Write;
use crate::plan::Plan;
use crate::simulation::Config;
use crate::world::Run;

/// Writes that a run may have beyond three times those of the calm run, and for each fault.
const SLACK: usize = 10;

/// Creates and deletes of the operator by resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    creates: usize,
    deletes: usize,
}

fn counted(run: &Run) -> BTreeMap<String, Counts> {
    let mut counts: BTreeMap<String, Counts> = BTreeMap::new();
    for write in run.requests.writes.iter().filter(|write| write.revision.is_some()) {
        // A subresource neither creates nor deletes.
        if write.call.resource.contains('/') {
            continue;
        }
        let count = counts.entry(write.call.resource.clone()).or_default();
        // A child that is created for an object that has just been deleted is garbage collected.
        let is_create = write.code == 201 && write.step < run.states.len();
        match write.call.verb {
            "delete" | "deletecollection" => count.deletes += 1,
            _ if is_create => count.creates += 1,
            _ => {}
        }
    }
    counts
}

/// O3: the operator creates and deletes as many objects as in the calm run. An object that another
/// client deletes may be created once more.
pub(super) fn counts(
    config: &Config,
    plan: &Plan,
    run: &Run,
    calm: &Run,
    violations: &mut Vec<Violation>,
) {
    let expected = counted(calm);
    let interferences = plan.faults.iter().filter(|fault| fault.effect.interferes()).count();
    for (resource, found) in counted(run) {
        if config.recreated.contains(&resource) {
            continue;
        }
        let calm = expected.get(&resource).copied().unwrap_or_default();
        let mut push = |what: &str, expected: usize, found: usize| {
            violations.push(
                Violation::new(Oracle::Lifecycle, resource.clone())
                    .field(what)
                    .expected(expected.to_string())
                    .found(found.to_string()),
            );
        };
        if found.deletes > calm.deletes + interferences {
            push("deletes by the operator", calm.deletes, found.deletes);
        } else if found.creates > calm.creates + interferences {
            push("creates by the operator", calm.creates, found.creates);
        }
    }
}

/// O8: the operator writes at most three times as often as in the calm run, and a little more for
/// each fault.
pub(super) fn budget(plan: &Plan, run: &Run, calm: &Run, violations: &mut Vec<Violation>) {
    // A child that is created for an object that has just been deleted is garbage collected and
    // created again, until the cache has the deletion.
    let committed = |run: &Run| {
        run.requests.writes.iter().filter(|write| write.step < run.states.len()).count()
    };
    let (found, calm) = (committed(run), committed(calm));
    let most = 3 * calm + SLACK * (1 + plan.faults.len());
    if found > most {
        let object = busiest(run, usize::MAX).map_or_else(|| "operator".to_owned(), |(it, _)| it);
        violations.push(
            Violation::new(Oracle::WriteBudget, object)
                .field("writes")
                .expected(format!("at most {most} ({calm} without faults)"))
                .found(found.to_string()),
        );
    }
}

/// Returns the object with the most writes of a step, or of all.
pub(super) fn busiest(run: &Run, step: usize) -> Option<(String, usize)> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let of_step = |write: &&Write| step == usize::MAX || write.step == step;
    for write in run.requests.writes.iter().filter(of_step) {
        let object = format!("{} {}/{}", write.call.resource, write.call.namespace, write.name);
        *counts.entry(object).or_default() += 1;
    }
    counts.into_iter().max_by_key(|(_, count)| *count)
}

/// O4: an object that the operator deletes has no controller, or one that exists.
pub(super) fn ownership(run: &Run, violations: &mut Vec<Violation>) {
    for write in run.requests.writes.iter().filter(|write| write.revision.is_some()) {
        let Some(controller) = &write.controller else { continue };
        let owner = run.changes.iter().rev().find(|change| change.object.uid() == controller);
        let Some(owner) = owner else { continue };
        // The kinds that the operator reconciles.
        let kind = owner.object.value["kind"].as_str().unwrap_or_default();
        let own = run.reconciled.iter().any(|it| it.object.split(' ').next() == Some(kind));
        if !own {
            let object = format!("{} {}/{}", write.call.resource, write.call.namespace, write.name);
            let found = format!("deleted although {} controls it", owner.object.path());
            violations.push(Violation::new(Oracle::Ownership, object).found(found));
            return;
        }
    }
}
