//! Oracles on the operator's own writes.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{Oracle, Violation};
use crate::gate::Write;
use crate::plan::{Effect, Plan};
use crate::simulation::Config;
use crate::workload::Step;
use crate::world::{Change, Run};

/// Writes that a run may have beyond three times those of the calm run, and for each fault.
const SLACK: usize = 10;

/// Creates and deletes of the operator by resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    creates: usize,
    deletes: usize,
}

fn counted(workload: &[Step], plan: &Plan, run: &Run) -> BTreeMap<String, Counts> {
    let mut counts: BTreeMap<String, Counts> = BTreeMap::new();
    let ambiguous = ambiguous_steps(workload, plan, run);
    let mut rolled_back = BTreeMap::new();
    for write in &run.requests.writes {
        // A subresource neither creates nor deletes.
        let Some(revision) = write.revision.filter(|_| !write.call.resource.contains('/')) else {
            continue;
        };
        let count = counts.entry(write.call.resource.clone()).or_default();
        // A child that is created for an object that has been deleted is garbage collected.
        let is_create = write.code == 201 && write.step < run.steps && !creates_orphan(run, write);
        let is_delete = matches!(write.call.verb, "delete" | "deletecollection");
        let since = ambiguous.get(&write.step).filter(|since| revision > **since);
        if let Some(since) = since
            && (is_create || is_delete)
        {
            let object = (write.step, *since, write.object(), write.call.resource.clone());
            *rolled_back.entry(object).or_default() |= is_delete;
        } else if is_delete {
            count.deletes += 1;
        } else if is_create {
            count.creates += 1;
        }
    }
    // What counts is what has become of the objects.
    for ((step, since, object, resource), is_deleted) in rolled_back {
        let count = counts.entry(resource).or_default();
        let exists = |at: &dyn Fn(&Change) -> bool| {
            let last = run.changes.iter().rev().find(|it| at(it) && it.object.path() == object);
            last.is_some_and(|change| !change.deleted)
        };
        let before = exists(&|it| it.revision <= since);
        let after = exists(&|it| it.step <= step);
        count.creates += usize::from(!before && after);
        // After a single restart, what exists is not deleted because of an older list. Together with
        // other faults, an older declaration may meet newer objects.
        let is_kept =
            plan.faults.len() == 1 && !matches!(workload.get(step), Some(Step::Flip { .. }));
        count.deletes += usize::from(is_deleted && before && (!after || is_kept));
    }
    counts
}

/// Whether the write creates an object all of whose owners were deleted before.
fn creates_orphan(run: &Run, write: &Write) -> bool {
    let Some(revision) = write.revision.filter(|_| write.code == 201) else { return false };
    let created = run.changes.iter().find(|change| change.revision == revision);
    let owners = created.and_then(|it| it.object.value["metadata"]["ownerReferences"].as_array());
    let is_deleted = |owner: &Value| {
        let earlier = run.changes.iter().take_while(|change| change.revision < revision);
        let mut deleted = earlier.filter(|change| change.deleted);
        deleted.any(|change| owner["uid"] == change.object.uid())
    };
    owners.is_some_and(|owners| !owners.is_empty() && owners.iter().all(is_deleted))
}

/// Returns the steps in which the operator may do something and take it back, with the revision since
/// when: after a restart with an older list, it returns to an older state first; of two changes at
/// once, it may see the first one or not.
fn ambiguous_steps(workload: &[Step], plan: &Plan, run: &Run) -> BTreeMap<usize, u64> {
    let mut steps = BTreeMap::new();
    for (index, step) in workload.iter().enumerate() {
        if matches!(step, Step::Flip { .. }) {
            let earlier = run.changes.iter().filter(|change| change.step < index);
            steps.insert(index, earlier.map(|it| it.revision).max().unwrap_or_default());
        }
    }
    let restarts = plan.faults.iter().filter(|fault| fault.effect == Effect::StaleRestart);
    let places: Vec<_> = restarts.map(|fault| &fault.at).collect();
    for write in &run.requests.writes {
        if places.contains(&&write.call.at(write.nth)) {
            steps.entry(write.step).or_insert(write.revision.unwrap_or(write.before));
        }
    }
    steps
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
    let workload = plan.steps(&config.workload);
    let expected = counted(workload, &Plan::default(), calm);
    let interferences = plan.faults.iter().filter(|fault| fault.effect.interferes()).count();
    for (resource, found) in counted(workload, plan, run) {
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
pub(super) fn replacements(plan: &Plan, run: &Run, calm: &Run, violations: &mut Vec<Violation>) {
    // What was declared while requests failed may never have been rolled out.
    if plan.poison().is_some() {
        return;
    }
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
    let committed = |run: &Run| {
        let writes = run.requests.writes.iter().filter(|write| write.step < run.steps);
        writes.filter(|write| !creates_orphan(run, write)).count()
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
