//! Oracles on the status of the operator's own objects.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{Oracle, Violation};
use crate::plan::{Effect, Plan};
use crate::simulation::Config;
use crate::state::Decoded;
use crate::world::{Change, Run};

/// O7: `observedGeneration` is never higher than the generation, never decreases, and reaches it.
pub(super) fn observed_generations(
    config: &Config,
    plan: &Plan,
    run: &Run,
    violations: &mut Vec<Violation>,
) {
    // An older list has an older generation.
    let may_decrease = plan.faults.iter().any(|fault| fault.effect == Effect::StaleRestart);
    let mut last: BTreeMap<&str, (i64, &Change)> = BTreeMap::new();
    // After the steps the objects are deleted.
    let steps = run.states.len();
    for change in primaries(config, run).filter(|it| !it.deleted && it.step < steps) {
        let Some(observed) = change.object.value["status"]["observedGeneration"].as_i64() else {
            continue;
        };
        let generation = generation(&change.object);
        let before = last.get(change.object.uid()).map_or(0, |(observed, _)| *observed);
        if observed > generation || (observed < before && !may_decrease) {
            violations.push(
                Violation::new(Oracle::Status, change.object.path())
                    .field("status.observedGeneration")
                    .expected(format!("{before} to {generation}"))
                    .found(observed.to_string()),
            );
            return;
        }
        last.insert(change.object.uid(), (observed, change));
    }
    for (uid, (observed, _)) in last {
        let of_object = |it: &&Change| it.step < steps && it.object.uid() == uid;
        let current = run.changes.iter().rev().find(of_object);
        let Some(current) = current.filter(|change| !change.deleted) else { continue };
        let deleting = !current.object.value["metadata"]["deletionTimestamp"].is_null();
        let generation = generation(&current.object);
        if observed < generation && !deleting {
            violations.push(
                Violation::new(Oracle::Status, current.object.path())
                    .field("status.observedGeneration")
                    .expected(generation.to_string())
                    .found(format!("{observed} at rest")),
            );
            return;
        }
    }
}

/// O7: whenever an object is Ready for a generation, the specs of its children are those of the calm
/// run for that generation.
pub(super) fn readiness(config: &Config, run: &Run, calm: &Run, violations: &mut Vec<Violation>) {
    // What other clients write is not what the operator claims.
    let own: BTreeSet<u64> = run.requests.writes.iter().filter_map(|it| it.revision).collect();
    // Children by uid of the controller, then by path, as they change.
    let mut children: BTreeMap<String, BTreeMap<String, Value>> = BTreeMap::new();
    let expected = children_at_rest(calm);
    for change in &run.changes {
        if let Some(controller) = change.object.controller() {
            let of_controller = children.entry(controller.to_owned()).or_default();
            match change.deleted {
                true => of_controller.remove(&change.object.path()),
                false => of_controller.insert(change.object.path(), spec(&change.object)),
            };
        }
        let claimed = own.contains(&change.revision) && is_ready(&change.object);
        if change.deleted || !claimed || !is_primary(config, &change.object) {
            continue;
        }
        let Some(expected) = expected.get(&(change.step, change.object.path())) else { continue };
        let found = children.get(change.object.uid());
        for (path, wanted) in expected {
            let actual = found.and_then(|found| found.get(path));
            if actual != Some(wanted) {
                violations.push(
                    Violation::new(Oracle::Status, change.object.path())
                        .field("status.conditions[Ready]")
                        .expected(format!("{path} with {wanted}"))
                        .found(format!("Ready with {}", actual.unwrap_or(&Value::Null))),
                );
                return;
            }
        }
    }
}

type Children = BTreeMap<String, Value>;

/// Returns the specs of the children of each object at the end of each step.
fn children_at_rest(run: &Run) -> BTreeMap<(usize, String), Children> {
    let mut live: BTreeMap<&str, &Change> = BTreeMap::new();
    let mut found = BTreeMap::new();
    let steps = run.changes.last().map_or(0, |change| change.step + 1);
    let mut changes = run.changes.iter().peekable();
    for step in 0..steps {
        while let Some(change) = changes.next_if(|change| change.step <= step) {
            match change.deleted {
                true => live.remove(change.object.uid()),
                false => live.insert(change.object.uid(), change),
            };
        }
        for child in live.values() {
            let owner = child.object.controller().and_then(|uid| live.get(uid));
            let Some(owner) = owner else { continue };
            let of_owner: &mut Children = found.entry((step, owner.object.path())).or_default();
            of_owner.insert(child.object.path(), spec(&child.object));
        }
    }
    found
}

/// Returns the spec of an object, or its data.
fn spec(object: &Decoded) -> Value {
    let mut value = match &object.value["spec"] {
        Value::Null => object.value["data"].clone(),
        spec => spec.clone(),
    };
    // Allocated values differ between runs.
    if let Some(fields) = value.as_object_mut() {
        fields.retain(|name, _| !matches!(&**name, "clusterIP" | "clusterIPs" | "nodeName"));
    }
    crate::state::mask_random(&mut value);
    value
}

fn generation(object: &Decoded) -> i64 {
    object.value["metadata"]["generation"].as_i64().unwrap_or_default()
}

fn is_ready(object: &Decoded) -> bool {
    let status = &object.value["status"];
    let conditions = status["conditions"].as_array();
    let ready = conditions
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == "Ready" && condition["status"] == "True");
    ready && status["observedGeneration"].as_i64() == Some(generation(object))
}

/// Whether the object is of a kind that the operator has installed.
fn is_primary(config: &Config, object: &Decoded) -> bool {
    config.crds.iter().any(|crd| {
        let [group, plural] = [&crd["spec"]["group"], &crd["spec"]["names"]["plural"]]
            .map(|it| it.as_str().unwrap_or_default());
        object.resource == format!("{plural}.{group}")
    })
}

fn primaries<'a>(config: &'a Config, run: &'a Run) -> impl Iterator<Item = &'a Change> {
    run.changes.iter().filter(|change| is_primary(config, &change.object))
}
