//! Concurrent writers: stale reads, fields with two field managers, deleted and recreated objects.

use serde_json::{Value, json};

use super::super::kinds::Kind;
use super::super::random::Random;
use super::super::steps::collection;
use super::{
    APPLY, JSON_PATCH, MERGE, STRATEGIC, delete, get, namespaced, object, patch, post, put,
};
use crate::sequence::{Step, set_at};

pub(super) fn generate(random: &mut Random) -> Vec<Step> {
    let mut steps = Vec::new();
    let kind = namespaced(random);
    while steps.len() < 32 {
        interleaved_writes(random, kind, &mut steps);
    }
    steps
}

/// Creates an object that two writers read and then write independently.
fn interleaved_writes(random: &mut Random, kind: &Kind, steps: &mut Vec<Step>) {
    let name = *random.pick(&["a", "b"]);
    let path = collection(kind);
    let named = format!("{path}/{name}");
    let create = post(format!("{path}?fieldManager=maker"), object(random, kind, name));
    steps.push(create);
    steps.push(get(&named).saving("first"));
    steps.push(saving_all(get(&named), "second"));
    for _ in 0..7 + random.below(4) {
        let step = match random.below(20) {
            0 | 1 => with_edit(random, kind, put(format!("{named}?fieldManager=one"), "first")),
            2 | 3 => {
                let step =
                    with_edit(random, kind, put(format!("{named}?fieldManager=two"), "second"));
                if random.percent(50) { saving_all(step, "second") } else { step }
            }
            4 => apply(random, kind, name, "one"),
            5 => apply(random, kind, name, "two"),
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
            10 => saving_all(get(&named), "second"),
            11 => {
                let step = put(format!("{named}/status"), "first");
                match kind.status.first() {
                    Some((pointer, value)) => step.setting(pointer, parse(value)),
                    None => step,
                }
            }
            12 => {
                let mut step = with_edit(random, kind, put(&named, "second"));
                step.unset.push("/metadata/resourceVersion".to_owned());
                step
            }
            13 => {
                let mut step = delete(&named);
                step.body = Some(json!({"gracePeriodSeconds": 0}));
                step
            }
            14 => managed_fields_write(random, &named),
            15 => with_field_validation(random, kind, &named, name),
            16 => finalizers_or_deletion(random, &named),
            17 => server_owned_metadata(random, &named),
            18 => {
                // Apply without a field manager, or with an invalid one.
                let query =
                    *random.pick(&["", "?fieldManager=", "?fieldManager=a%20b&force=maybe"]);
                let body = object(random, kind, name);
                patch(format!("{named}{query}"), APPLY, body)
            }
            _ => dry_run(random, kind, &named, name),
        };
        steps.push(step);
    }
    steps.push(get(&named));
}

/// Writes managedFields.
fn managed_fields_write(random: &mut Random, named: &str) -> Step {
    let choices = [
        json!([]),
        json!([{}]),
        json!([{"manager": "else", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
                "time": "2001-01-01T00:00:00Z", "fieldsV1": {"f:metadata": {"f:labels": {"f:app": {}}}}}]),
        json!([{"manager": "odd", "operation": "Steal"}]),
        json!([{"manager": "odd", "operation": "Apply", "apiVersion": "v1", "fieldsType": "Fields"}]),
    ];
    let managed = random.pick(&choices);
    match random.below(3) {
        0 => put(format!("{named}?fieldManager=one"), "second")
            .setting("/metadata/managedFields", managed.clone()),
        1 => patch(
            named,
            JSON_PATCH,
            json!([{"op": "replace", "path": "/metadata/managedFields", "value": managed}]),
        ),
        _ => patch(named, MERGE, json!({"metadata": {"managedFields": managed}})),
    }
}

/// A write with unknown and duplicate fields, with each field validation directive.
fn with_field_validation(random: &mut Random, kind: &Kind, named: &str, name: &str) -> Step {
    let mode = *random.pick(&["Strict", "Warn", "Ignore", ""]);
    let head = format!("\"apiVersion\":\"{}\",\"kind\":\"{}\"", kind.api_version, kind.kind);
    let text = match random.below(4) {
        0 => format!("{{{head},\"metadata\":{{\"name\":\"{name}\",\"nope\":1}},\"nope\":{{}}}}"),
        1 => format!(
            "{{{head},\"metadata\":{{\"name\":\"{name}\",\"name\":\"{name}\"}},\"kind\":\"{}\"}}",
            kind.kind
        ),
        2 => format!(
            "{{{head},\"metadata\":{{\"name\":\"{name}\",\"labels\":{{\"a\":\"1\",\"a\":\"2\"}}}}}}"
        ),
        _ => format!("{{{head},\"metadata\":{{\"name\":\"{name}\",\"Labels\":{{\"a\":\"1\"}}}}}}"),
    };
    let query = format!("?fieldValidation={mode}&fieldManager=checked");
    let step = match random.below(5) {
        0 => Step::call("POST", format!("{}{query}", collection(kind))),
        1 => Step::call("PUT", format!("{named}{query}")),
        2 => Step::call("PATCH", format!("{named}{query}&force=true")).with_type(APPLY),
        3 => Step::call("PATCH", format!("{named}{query}")).with_type(MERGE),
        _ => Step::call("PATCH", format!("{named}{query}")).with_type(STRATEGIC),
    };
    Step { raw: Some(text), ..step }
}

/// Adds or removes finalizers, or deletes the object.
fn finalizers_or_deletion(random: &mut Random, named: &str) -> Step {
    let finalizers = |value: Value| patch(named, MERGE, json!({"metadata": {"finalizers": value}}));
    match random.below(8) {
        0 | 1 => finalizers(json!(["example.com/hold"])),
        2 => finalizers(json!(["example.com/hold", "example.com/more"])),
        3 => finalizers(json!([])),
        4 => finalizers(json!(["orphan", "foregroundDeletion"])),
        5 => finalizers(json!(["no-domain"])),
        6 => {
            let mut step = delete(named);
            let policy = *random.pick(&["Foreground", "Orphan", "Background"]);
            step.body = Some(json!({"propagationPolicy": policy}));
            step
        }
        _ => put(format!("{named}?fieldManager=two"), "second")
            .setting("/metadata/finalizers", json!(["example.com/late"])),
    }
}

/// Writes metadata that only the server may set.
fn server_owned_metadata(random: &mut Random, named: &str) -> Step {
    let (field, value) = random
        .pick(&[
            ("uid", json!("00000000-0000-4000-8000-00000000000b")),
            ("uid", Value::Null),
            ("resourceVersion", json!("1")),
            ("resourceVersion", json!("0")),
            ("resourceVersion", json!("not a number")),
            ("resourceVersion", json!("99999999999")),
            ("generation", json!(99)),
            ("creationTimestamp", json!("2001-01-01T00:00:00Z")),
            ("creationTimestamp", Value::Null),
            ("deletionTimestamp", json!("2001-01-01T00:00:00Z")),
            ("deletionGracePeriodSeconds", json!(9)),
            ("selfLink", json!("/made/up")),
            ("name", json!("other")),
            ("name", Value::Null),
            ("namespace", json!("elsewhere")),
            ("namespace", Value::Null),
            ("generateName", json!("made-")),
        ])
        .clone();
    if random.percent(50) {
        return put(named, "second").setting(&format!("/metadata/{field}"), value);
    }
    let content_type = *random.pick(&[MERGE, STRATEGIC]);
    patch(named, content_type, json!({"metadata": {field: value}}))
}

/// A dry run.
fn dry_run(random: &mut Random, kind: &Kind, named: &str, name: &str) -> Step {
    let path = collection(kind);
    match random.below(5) {
        0 => post(format!("{path}?dryRun=All"), object(random, kind, name)),
        1 => with_edit(random, kind, put(format!("{named}?dryRun=All"), "second")),
        2 => {
            let body = object(random, kind, name);
            patch(format!("{named}?dryRun=All&fieldManager=dry&force=true"), APPLY, body)
        }
        3 => delete(format!("{named}?dryRun=All")),
        _ => patch(
            format!("{named}?dryRun=All"),
            MERGE,
            json!({"metadata": {"labels": {"dry": "yes"}}}),
        ),
    }
}

fn saving_all(step: Step, name: &str) -> Step {
    step.saving(name)
        .saving_field(&format!("{name}v"), "/metadata/resourceVersion")
        .saving_field(&format!("{name}u"), "/metadata/uid")
}

fn with_edit(random: &mut Random, kind: &Kind, step: Step) -> Step {
    let step = step.setting("/metadata/labels/edited", (*random.pick(&["1", "2"])).into());
    if kind.edits.is_empty() || random.percent(40) {
        return step;
    }
    let (pointer, value) = *random.pick(kind.edits);
    step.setting(pointer, parse(value))
}

fn apply(random: &mut Random, kind: &Kind, name: &str, manager: &str) -> Step {
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
        // `set_at` does not create lists.
        if !pointer.split('/').any(|part| part.parse::<usize>().is_ok()) {
            set_at(&mut body, pointer, parse(value));
        }
    }
    if random.percent(10) {
        set_at(&mut body, "/metadata/resourceVersion", "${secondv}".into());
    }
    let path = format!("{}/{name}?fieldManager={manager}{force}", collection(kind));
    patch(path, APPLY, body)
}

fn parse(value: &str) -> Value {
    serde_json::from_str(value).unwrap_or_default()
}
