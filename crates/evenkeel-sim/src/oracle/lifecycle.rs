//! Oracles on the operator's own writes.

use std::collections::{BTreeMap, BTreeSet};

use super::{Oracle, Violation};
use crate::gate::Write;
use crate::plan::{Effect, Fault, Plan};
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

fn counted(plan: &Plan, run: &Run) -> BTreeMap<String, Counts> {
    let mut counts: BTreeMap<String, Counts> = BTreeMap::new();
    let restart = stale_restart(plan, run);
    let mut recreated = BTreeSet::new();
    for (index, write) in run.requests.writes.iter().enumerate() {
        // A subresource neither creates nor deletes.
        if write.revision.is_none() || write.call.resource.contains('/') {
            continue;
        }
        let count = counts.entry(write.call.resource.clone()).or_default();
        // A child that is created for an object that has just been deleted is garbage collected.
        let is_create = write.code == 201 && write.step < run.steps;
        match write.call.verb {
            // The operator saw an older state, created what belongs to it, and has repaired it.
            "delete" if recreated.remove(&write.object()) => count.creates -= 1,
            "delete" | "deletecollection" => count.deletes += 1,
            _ if is_create => {
                count.creates += 1;
                if restart.is_some_and(|restart| index > restart) {
                    recreated.insert(write.object());
                }
            }
            _ => {}
        }
    }
    counts
}

/// Returns the index of the write after which the operator was restarted with an older state.
fn stale_restart(plan: &Plan, run: &Run) -> Option<usize> {
    let restarts = plan.faults.iter().filter(|fault| fault.effect == Effect::StaleRestart);
    let index = |fault: &Fault| {
        run.requests.writes.iter().position(|write| write.call.at(write.nth) == fault.at)
    };
    restarts.filter_map(index).min()
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
    let expected = counted(&Plan::default(), calm);
    let interferences = plan.faults.iter().filter(|fault| fault.effect.interferes()).count();
    for (resource, found) in counted(plan, run) {
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

/// O3: an object that is replaced in a step of the calm run, under the same name, is replaced: a pod
/// that has to load a new configuration.
pub(super) fn replacements(run: &Run, calm: &Run, violations: &mut Vec<Violation>) {
    let found = replaced(run);
    if let Some((step, object)) = replaced(calm).into_iter().find(|it| !found.contains(it)) {
        violations.push(
            Violation::new(Oracle::Lifecycle, object)
                .field("metadata.uid")
                .expected(format!("another one after step {}: the object is replaced", step + 1))
                .found("the same: the object was never deleted"),
        );
    }
}

/// Returns the objects that have another uid after a step than before it.
fn replaced(run: &Run) -> BTreeSet<(usize, String)> {
    let mut last: BTreeMap<(String, usize), &str> = BTreeMap::new();
    for change in run.changes.iter().filter(|it| !it.deleted && it.step < run.steps) {
        last.insert((change.object.path(), change.step), change.object.uid());
    }
    let pairs = last.iter().zip(last.iter().skip(1));
    let replaced = pairs.filter(|((before, old), (after, new))| before.0 == after.0 && old != new);
    replaced.map(|(_, ((object, step), _))| (*step, object.clone())).collect()
}

/// O8: the operator writes at most three times as often as in the calm run, and a little more for
/// each fault.
pub(super) fn budget(plan: &Plan, run: &Run, calm: &Run, violations: &mut Vec<Violation>) {
    // A child that is created for an object that has just been deleted is garbage collected and
    // created again, until the cache has the deletion.
    let committed =
        |run: &Run| run.requests.writes.iter().filter(|write| write.step < run.steps).count();
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
        *counts.entry(write.object()).or_default() += 1;
    }
    counts.into_iter().max_by_key(|(_, count)| *count)
}

/// O4: an owner is in the namespace of its dependent, or has none. The garbage collector deletes an
/// object whose owner is not found there.
pub(super) fn owner_scopes(run: &Run, violations: &mut Vec<Violation>) {
    let namespaces: BTreeMap<&str, &str> =
        run.changes.iter().map(|it| (it.object.uid(), &*it.object.namespace)).collect();
    for change in &run.changes {
        let owners = change.object.value["metadata"]["ownerReferences"].as_array();
        for owner in owners.into_iter().flatten() {
            let uid = owner["uid"].as_str().unwrap_or_default();
            let Some(namespace) = namespaces.get(uid) else { continue };
            if !namespace.is_empty() && *namespace != change.object.namespace {
                let name = owner["name"].as_str().unwrap_or_default();
                violations.push(
                    Violation::new(Oracle::Ownership, change.object.path())
                        .field("metadata.ownerReferences")
                        .expected("an owner in the same namespace, or a cluster-scoped one")
                        .found(format!("{name} in namespace {namespace}")),
                );
                return;
            }
        }
    }
}

/// O4: the operator changes no object of another client that has the name of a child.
pub(super) fn trespasses(run: &Run, violations: &mut Vec<Violation>) {
    if let Some(write) = run.requests.trespasses.first() {
        let object = write.split_once(' ').map_or(&**write, |(_, object)| object);
        let found = format!("{write}, which another client has created");
        violations.push(Violation::new(Oracle::Ownership, object).found(found));
    }
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
            let found = format!("deleted although {} controls it", owner.object.path());
            violations.push(Violation::new(Oracle::Ownership, write.object()).found(found));
            return;
        }
    }
}
