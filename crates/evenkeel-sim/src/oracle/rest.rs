//! Oracles on the state of the cluster at rest.

use evenkeel_types::base64;
use serde_json::Value;

use super::{Oracle, Violation};
use crate::plan::{Effect, Plan};
use crate::simulation::Config;
use crate::state::{APPLICATION, Difference, State, is_ignored};
use crate::workload::Step;
use crate::world::Run;

/// O1: the state after each step is that of the calm run.
pub(super) fn convergence(plan: &Plan, run: &Run, calm: &Run, violations: &mut Vec<Violation>) {
    // While an object is poisoned, only the others must converge: see `isolation`.
    let healed = run.healed.iter().zip(calm.states.last());
    let states = run.states.iter().zip(&calm.states).filter(|_| run.healed.is_none());
    for (found, expected) in states.chain(healed) {
        let mut differences = found.differences(expected);
        let is_stale = plan.faults.iter().any(|fault| fault.effect == Effect::StaleRestart);
        let flips = plan.workload.iter().any(|step| matches!(step, Step::Flip { .. }));
        if run.healed.is_some() || is_stale || flips {
            differences.retain(|difference| !is_history(difference, [found, expected]));
        }
        for difference in differences {
            violations.push(
                Violation::new(Oracle::Convergence, difference.object)
                    .field(difference.field)
                    .expected(difference.expected)
                    .found(difference.found),
            );
        }
        if !violations.is_empty() {
            return;
        }
    }
}

/// Whether the difference is that a Deployment has had other revisions. What was declared while an
/// object was poisoned was never rolled out; after a restart with an older list, what was declared
/// before may be rolled out once more; of two changes at once, the first one may be rolled out or not.
fn is_history(difference: &Difference, states: [&State; 2]) -> bool {
    let mut objects = states.iter().filter_map(|state| state.0.get(&difference.object));
    let is_old = objects.any(|it| it["kind"] == "ReplicaSet" && it["spec"]["replicas"] == 0);
    is_old || difference.field.contains("deployment.kubernetes.io/revision")
}

/// O2: another reconcile of every object writes nothing.
pub(super) fn idempotency(run: &Run, violations: &mut Vec<Violation>) {
    for write in &run.requests.writes[run.idle_writes.clone()] {
        if write.revision.is_some() && !is_ignored(write.call.main_resource()) {
            let found = format!("{} although the object was as desired", write.call.verb);
            violations.push(Violation::new(Oracle::Idempotency, write.object()).found(found));
            return;
        }
    }
    if let Some(change) = run.idle_changes.first() {
        violations.push(
            Violation::new(Oracle::Idempotency, APPLICATION)
                .field(&change.field)
                .expected(&change.expected)
                .found(&change.found),
        );
    }
}

/// O9: another reconcile of every object leaves no task and no watch behind.
pub(super) fn leaks(run: &Run, calm: Option<&Run>, violations: &mut Vec<Violation>) {
    let [before, after] = &run.idle_counts;
    let mut push = |what: &str, before: usize, after: usize| {
        violations.push(
            Violation::new(Oracle::Leaks, "operator")
                .field(what)
                .expected(format!("{before}, as before another reconcile of every object"))
                .found(after.to_string()),
        );
    };
    for (resource, after) in &after.watches {
        // With faults, a watch may have ended and not be opened again yet.
        let counts = [Some(before), calm.map(|calm| &calm.idle_counts[0])];
        let before = counts.into_iter().flatten().filter_map(|it| it.watches.get(resource)).max();
        let before = before.copied().unwrap_or_default();
        if *after > before {
            push(&format!("watches of {resource}"), before, *after);
            return;
        }
    }
    // With faults, a task may still wait for a retry at either time.
    if calm.is_none() && after.tasks > before.tasks {
        push("tasks", before.tasks, after.tasks);
    }
}

/// O6: no object is being deleted at rest.
pub(super) fn deletions(run: &Run, violations: &mut Vec<Violation>) {
    if let Some((_, object)) = run.terminating.first() {
        let found = "is being deleted, and nothing removes its finalizers";
        violations.push(Violation::new(Oracle::Deletion, object).found(found));
    }
}

/// O5: the state after all objects were deleted is the one before they were created.
pub(super) fn leftovers(run: &Run, violations: &mut Vec<Violation>) {
    let Some(emptied) = &run.emptied else { return };
    let left = emptied.0.keys().find(|object| !run.baseline.0.contains_key(*object));
    // Objects that are stuck are reported as such.
    if let Some(object) = left
        && run.terminating.is_empty()
    {
        let found = "is left after the deletion of the objects of the workload";
        violations.push(Violation::new(Oracle::Leftovers, object).found(found));
        return;
    }
    let of_application = |state: &State| {
        State(
            state
                .0
                .get_key_value(APPLICATION)
                .map(|(key, it)| (key.clone(), it.clone()))
                .into_iter()
                .collect(),
        )
    };
    let left = of_application(emptied).differences(&of_application(&run.baseline));
    if let Some(difference) = left.first() {
        violations.push(
            Violation::new(Oracle::Leftovers, APPLICATION)
                .field(&difference.field)
                .expected(&difference.expected)
                .found(format!("{} after the deletion of all objects", difference.found)),
        );
    }
}

/// O13: data of the workload's Secrets appears in no other object, and in no Event, record of a
/// reconcile, metric or log line.
pub(super) fn secrets(config: &Config, run: &Run, violations: &mut Vec<Violation>) {
    for value in config.canaries() {
        let shown = run.reconciled.iter().find(|it| it.text.contains(&value));
        if let Some(record) = shown {
            let violation = Violation::new(Oracle::Secrets, &record.object);
            violations.push(violation.found("the record of a reconcile has data of a Secret"));
        }
        let copied = run.changes.iter().find(|change| {
            change.object.resource != "secrets" && change.object.value.to_string().contains(&value)
        });
        if let Some(change) = copied {
            let violation = Violation::new(Oracle::Secrets, change.object.path());
            violations.push(violation.found("the object has data of a Secret"));
        }
    }
    if let Some(place) = run.exposed.first() {
        let violation = Violation::new(Oracle::Secrets, place);
        violations.push(violation.found("has data of a Secret"));
    }
}

/// Returns the values of a Secret that are long enough to be recognized.
pub(crate) fn secret_values(object: &Value) -> Vec<String> {
    if object["kind"] != "Secret" {
        return Vec::new();
    }
    let plain = object["stringData"].as_object().into_iter().flat_map(|data| data.values());
    let encoded = object["data"].as_object().into_iter().flat_map(|data| data.values());
    let decoded = encoded
        .filter_map(Value::as_str)
        .filter_map(|text| String::from_utf8(base64::decode(text).ok()?).ok());
    let plain = plain.filter_map(Value::as_str).map(str::to_owned);
    plain.chain(decoded).filter(|value| value.len() >= 8).collect()
}
