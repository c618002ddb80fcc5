//! Writers that do not know of each other: stale reads, fields owned twice, objects that are gone
//! or have come back.

use serde_json::{Value, json};

use super::super::kinds::Kind;
use super::super::random::Random;
use super::super::steps::collection;
use super::{
    APPLY, JSON_PATCH, MERGE, STRATEGIC, delete, get, namespaced, object, patch, post, put,
};
use crate::sequence::{Step, set_at};

pub(super) fn write(random: &mut Random) -> Vec<Step> {
    let mut steps = Vec::new();
    let kind = namespaced(random);
    while steps.len() < 32 {
        story(random, kind, &mut steps);
    }
    steps
}

/// Somebody makes an object, two read it, and both go on from there.
fn story(random: &mut Random, kind: &Kind, steps: &mut Vec<Step>) {
    let name = *random.pick(&["a", "b"]);
    let path = collection(kind);
    let named = format!("{path}/{name}");
    let made = post(format!("{path}?fieldManager=maker"), object(random, kind, name));
    steps.push(made);
    steps.push(get(&named).saving("first"));
    steps.push(keeping(get(&named), "second"));
    for _ in 0..7 + random.below(4) {
        let step = match random.below(14) {
            0 | 1 => edited(random, kind, put(format!("{named}?fieldManager=one"), "first")),
            2 | 3 => {
                let step = edited(random, kind, put(format!("{named}?fieldManager=two"), "second"));
                if random.percent(50) { keeping(step, "second") } else { step }
            }
            4 => applied(random, kind, name, "one"),
            5 => applied(random, kind, name, "two"),
            6 => {
                let content_type =
                    if kind.custom || random.percent(50) { MERGE } else { STRATEGIC };
                let body = json!({"metadata": {
                    "resourceVersion": "${secondv}", "annotations": {"by": "patch"},
                }});
                patch(&named, content_type, body)
            }
            7 => patch(
                &named,
                JSON_PATCH,
                json!([
                    {"op": "test", "path": "/metadata/resourceVersion", "value": "${secondv}"},
                    {"op": "add", "path": "/metadata/annotations", "value": {"tested": "yes"}},
                ]),
            ),
            8 => patch(
                &named,
                MERGE,
                json!({"metadata": {"uid": "${secondu}", "labels": {"u": "1"}}}),
            ),
            9 => {
                let mut step = delete(&named);
                step.body = Some(match random.below(3) {
                    0 => json!({"preconditions": {"resourceVersion": "${secondv}"}}),
                    1 => json!({"preconditions": {"uid": "${secondu}", "resourceVersion": "1"}}),
                    _ => json!({"preconditions": {"uid": "00000000-0000-4000-8000-00000000000a"}}),
                });
                step
            }
            10 => keeping(get(&named), "second"),
            11 => {
                let step = put(format!("{named}/status"), "first");
                match kind.status.first() {
                    Some((pointer, value)) => step.setting(pointer, parsed(value)),
                    None => step,
                }
            }
            12 => {
                let mut step = edited(random, kind, put(&named, "second"));
                step.unset.push("/metadata/resourceVersion".to_owned());
                step
            }
            _ => {
                let mut step = delete(&named);
                step.body = Some(json!({"gracePeriodSeconds": 0}));
                step
            }
        };
        steps.push(step);
    }
    steps.push(get(&named));
}

fn keeping(step: Step, name: &str) -> Step {
    step.saving(name)
        .keeping(&format!("{name}v"), "/metadata/resourceVersion")
        .keeping(&format!("{name}u"), "/metadata/uid")
}

fn edited(random: &mut Random, kind: &Kind, step: Step) -> Step {
    let step = step.setting("/metadata/labels/edited", (*random.pick(&["1", "2"])).into());
    if kind.edits.is_empty() || random.percent(40) {
        return step;
    }
    let (pointer, value) = *random.pick(kind.edits);
    step.setting(pointer, parsed(value))
}

fn applied(random: &mut Random, kind: &Kind, name: &str, manager: &str) -> Step {
    let force = *random.pick(&["", "&force=true", "&force=false"]);
    let mut body = json!({
        "apiVersion": kind.api_version, "kind": kind.kind,
        "metadata": {"name": name, "labels": {"app": *random.pick(&["x", "z"])}},
    });
    if random.percent(60) {
        body = object(random, kind, name);
    }
    if !kind.edits.is_empty() && random.percent(50) {
        let (pointer, value) = *random.pick(kind.edits);
        // An index cannot make a list.
        if !pointer.split('/').any(|part| part.parse::<usize>().is_ok()) {
            set_at(&mut body, pointer, parsed(value));
        }
    }
    if random.percent(10) {
        set_at(&mut body, "/metadata/resourceVersion", "${secondv}".into());
    }
    let path = format!("{}/{name}?fieldManager={manager}{force}", collection(kind));
    patch(path, APPLY, body)
}

fn parsed(value: &str) -> Value {
    serde_json::from_str(value).unwrap_or_default()
}
