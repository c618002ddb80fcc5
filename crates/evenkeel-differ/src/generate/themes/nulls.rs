//! Nulls in fields that have a value: in spec, status and metadata, by every kind of write.

use serde_json::{Value, json};

use super::super::kinds::{KINDS, Kind};
use super::super::random::Random;
use super::super::steps::{TABLE, collection};
use super::{APPLY, MERGE, STRATEGIC, get, object, patch, post};
use crate::sequence::Step;

/// Fields of a condition that may be null.
const CONDITION: [&str; 5] =
    ["lastTransitionTime", "lastUpdateTime", "lastProbeTime", "reason", "message"];

pub(super) fn generate(random: &mut Random) -> Vec<Step> {
    let kind = with_status(random);
    let path = collection(kind);
    let named = format!("{path}/a");
    let mut steps = vec![post(&path, object(random, kind, "a"))];
    while steps.len() < 30 {
        let step = match random.below(8) {
            0 => patch(format!("{named}/status"), MERGE, json!({"status": status(random)})),
            1 if !kind.custom => {
                patch(format!("{named}/status"), STRATEGIC, json!({"status": status(random)}))
            }
            2 => {
                let mut applied = object(random, kind, "a");
                applied["status"] = status(random);
                let path = format!("{named}/status?fieldManager=m&force=true");
                patch(path, APPLY, applied)
            }
            3 => {
                let mut replaced = object(random, kind, "a");
                replaced["status"] = status(random);
                Step::call("PUT", format!("{named}/status")).with_body(replaced)
            }
            4 => {
                let name = format!("n{}", random.below(9));
                let mut with_null = object(random, kind, &name);
                for _ in 0..=random.below(3) {
                    nullify(random, &mut with_null["spec"]);
                }
                post(&path, with_null)
            }
            5 => {
                let field =
                    *random.pick(&["labels", "annotations", "finalizers", "ownerReferences"]);
                let content_type =
                    if kind.custom { MERGE } else { *random.pick(&[MERGE, STRATEGIC]) };
                patch(&named, content_type, json!({"metadata": {field: null}}))
            }
            6 => get(&path).accepting(TABLE),
            _ => get(&named),
        };
        steps.push(step);
    }
    steps
}

fn with_status(random: &mut Random) -> &'static Kind {
    loop {
        let kind = random.pick(KINDS);
        if kind.namespaced && !kind.status.is_empty() {
            return kind;
        }
    }
}

/// Generates a status with a condition, some of whose fields are null.
fn status(random: &mut Random) -> Value {
    let mut condition = json!({"type": *random.pick(&["Ready", "Available"]), "status": "True"});
    for field in CONDITION {
        match random.below(4) {
            0 => condition[field] = Value::Null,
            1 if field == "reason" => condition[field] = "Because".into(),
            1 if field == "message" => condition[field] = "text".into(),
            1 if field == "lastTransitionTime" => condition[field] = "2026-01-01T00:00:00Z".into(),
            _ => {}
        }
    }
    match random.below(5) {
        0 => Value::Null,
        1 => json!({"conditions": null}),
        2 => json!({"conditions": [condition, null]}),
        _ => json!({"conditions": [condition], "observedGeneration": null}),
    }
}

/// Sets a value somewhere below `at` to null.
fn nullify(random: &mut Random, at: &mut Value) {
    let within = match at {
        Value::Object(map) if !map.is_empty() => {
            let index = random.below(map.len());
            map.values_mut().nth(index)
        }
        Value::Array(list) if !list.is_empty() => {
            let index = random.below(list.len());
            list.get_mut(index)
        }
        _ => None,
    };
    match within {
        Some(value) if random.percent(80) => nullify(random, value),
        _ => *at = Value::Null,
    }
}
