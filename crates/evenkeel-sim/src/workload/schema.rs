//! Workloads from the schema of a CRD: one property changes per step, within its constraints, and
//! changes back; numbers go up and down; values outside of the constraints are rejected; objects are
//! recreated, have a twin with the same spec, or their namespace is deleted.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::{ObjectRef, Step, declare, inverse, patch_at};

/// The depth to which properties are changed.
const DEPTH: usize = 6;

/// Returns one workload per property of the spec: the given workload, then the change, then the
/// change back. Also the objects of the workload deleted and created again under the same name.
///
/// The server has rejected the steps `rejected`.
pub(crate) fn workloads(
    crds: &[Value],
    workload: &[Step],
    rejected: &BTreeSet<usize>,
) -> Vec<Vec<Step>> {
    let mut workloads = Vec::new();
    let mut declared = BTreeMap::new();
    for (index, step) in workload.iter().enumerate() {
        if !rejected.contains(&index) {
            declare(&mut declared, step);
        }
    }
    for object in declared.values() {
        let Some(schema) = schema_of(crds, object) else { continue };
        let reference = with_namespace(ObjectRef::of(object));
        let mut paths = Vec::new();
        walk(&schema["properties"]["spec"], &object["spec"], &mut vec!["spec".into()], &mut paths);
        for (path, value) in paths {
            let patch = patch_at(&path, value);
            let back = inverse(object, &patch);
            let change = Step::Patch { object: reference.clone(), patch: patch.clone() };
            let restore = Step::Patch { object: reference.clone(), patch: back.clone() };
            workloads.push(extended(workload, [change, restore]));
            let flip = Step::Flip { object: reference.clone(), patch, back };
            workloads.push(extended(workload, [flip]));
        }
        workloads.push(extended(workload, [Step::Recreate(object.clone())]));
        let mut outside = Vec::new();
        let mut scales = Vec::new();
        let mut path = vec!["spec".to_owned()];
        walk_numbers(&schema["properties"]["spec"], &object["spec"], &mut path, &mut scales);
        walk_outside(&schema["properties"]["spec"], &mut path, &mut outside);
        for (path, up, down) in scales {
            let patch = |value: Value| Step::Patch {
                object: reference.clone(),
                patch: patch_at(&path, value),
            };
            let back = inverse(object, &patch_at(&path, Value::Null));
            let back = Step::Patch { object: reference.clone(), patch: back };
            workloads.push(extended(workload, [patch(up), patch(down), back]));
        }
        if !outside.is_empty() {
            let steps = outside.into_iter().map(|(path, value)| Step::Patch {
                object: reference.clone(),
                patch: patch_at(&path, value),
            });
            workloads.push(extended(workload, steps.collect::<Vec<_>>()));
        }
        workloads.push(extended(workload, [Step::Create(twin(object))]));
        workloads.extend(in_deleted_namespace(object, &reference));
    }
    workloads
}

/// Returns how many properties of the specs a workload changes, and how many there are.
pub(crate) fn properties(crds: &[Value], workload: &[Step]) -> (usize, usize) {
    let (mut changed, mut all) = (0, 0);
    for object in workload.iter().filter_map(Step::created) {
        let Some(schema) = schema_of(crds, object) else { continue };
        let (spec, mut paths) = (&schema["properties"]["spec"], Vec::new());
        walk(spec, &object["spec"], &mut vec!["spec".into()], &mut paths);
        changed += paths.len();
        all += leaves(spec, 0);
    }
    (changed, all)
}

fn leaves(schema: &Value, depth: usize) -> usize {
    match schema["properties"].as_object() {
        Some(properties) if depth < DEPTH => {
            properties.values().map(|property| leaves(property, depth + 1)).sum()
        }
        _ => 1,
    }
}

/// Returns another object with the same spec, which may name the same child.
fn twin(object: &Value) -> Value {
    let mut twin = object.clone();
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    twin["metadata"]["name"] = format!("{name}-twin").into();
    twin
}

/// Returns a workload that creates the object in a namespace of its own and deletes the namespace.
fn in_deleted_namespace(object: &Value, reference: &ObjectRef) -> Option<Vec<Step>> {
    // A namespace of the author belongs to other objects, too.
    if reference.namespace != "default" {
        return None;
    }
    let name = "sim-deleted";
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    let mut object = object.clone();
    object["metadata"]["namespace"] = name.into();
    let delete = Step::Delete(ObjectRef::of(&namespace));
    Some(vec![Step::Create(namespace), Step::Create(object), delete])
}

fn extended(workload: &[Step], steps: impl IntoIterator<Item = Step>) -> Vec<Step> {
    workload.iter().cloned().chain(steps).collect()
}

fn with_namespace(mut reference: ObjectRef) -> ObjectRef {
    if reference.namespace.is_empty() {
        reference.namespace = "default".to_owned();
    }
    reference
}

/// Returns the schema of the version of an object.
fn schema_of<'a>(crds: &'a [Value], object: &Value) -> Option<&'a Value> {
    let api_version = object["apiVersion"].as_str()?;
    let (group, version) = api_version.split_once('/')?;
    let crd = crds.iter().find(|crd| {
        crd["spec"]["group"] == group && crd["spec"]["names"]["kind"] == object["kind"]
    })?;
    let versions = crd["spec"]["versions"].as_array()?;
    let found = versions.iter().find(|it| it["name"] == version)?;
    Some(&found["schema"]["openAPIV3Schema"])
}

/// Collects the properties that can be changed, each with another value.
fn walk(
    schema: &Value,
    value: &Value,
    path: &mut Vec<String>,
    changes: &mut Vec<(Vec<String>, Value)>,
) {
    if path.len() > DEPTH {
        return;
    }
    if let Some(properties) = schema["properties"].as_object() {
        for (name, property) in properties {
            path.push(name.clone());
            walk(property, value.get(name).unwrap_or(&Value::Null), path, changes);
            path.pop();
        }
        return;
    }
    if let Some(other) = other_value(schema, value) {
        changes.push((path.clone(), other));
    }
}

/// Collects the whole numbers that can be increased and decreased, each with a larger and the least
/// value.
fn walk_numbers(
    schema: &Value,
    value: &Value,
    path: &mut Vec<String>,
    scales: &mut Vec<(Vec<String>, Value, Value)>,
) {
    if path.len() > DEPTH {
        return;
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        path.push(name.clone());
        let value = value.get(name).unwrap_or(&Value::Null);
        walk_numbers(property, value, path, scales);
        if property["type"] == "integer" && property["enum"].is_null() {
            let least = property["minimum"].as_f64().unwrap_or(0.0) as i64;
            let most = property["maximum"].as_f64().map_or(i64::MAX, |it| it as i64);
            let up = value.as_i64().unwrap_or(least).saturating_add(2).min(most);
            if up > least {
                scales.push((path.clone(), up.into(), least.into()));
            }
        }
        path.pop();
    }
}

/// Collects values just outside of the constraints, which the server rejects.
fn walk_outside(schema: &Value, path: &mut Vec<String>, outside: &mut Vec<(Vec<String>, Value)>) {
    if path.len() > DEPTH {
        return;
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        path.push(name.clone());
        walk_outside(property, path, outside);
        let number = |name: &str| property[name].as_f64().map(|it| it as i64);
        if property["type"] == "integer" {
            outside.extend(number("minimum").map(|it| (path.clone(), json!(it - 1))));
            outside.extend(number("maximum").map(|it| (path.clone(), json!(it + 1))));
        }
        if property["enum"].is_array() && property["type"] == "string" {
            outside.push((path.clone(), json!("not-one-of-them")));
        }
        if let Some(most) = property["maxLength"].as_u64().filter(|most| *most < 1024) {
            outside.push((path.clone(), json!("x".repeat(most as usize + 1))));
        }
        path.pop();
    }
}

/// Returns a value that differs from `value` and satisfies the schema.
fn other_value(schema: &Value, value: &Value) -> Option<Value> {
    if let Some(values) = schema["enum"].as_array() {
        return values.iter().find(|it| *it != value && !it.is_null()).cloned();
    }
    match schema["type"].as_str()? {
        "boolean" => Some((value != &Value::Bool(true)).into()),
        "integer" => {
            let bound = |name: &str| schema[name].as_f64();
            let minimum = bound("minimum").unwrap_or(0.0) as i64;
            let current = value.as_i64().unwrap_or(minimum);
            let above = current + 1;
            match bound("maximum") {
                Some(maximum) if above as f64 > maximum => {
                    (current > minimum).then(|| (current - 1).into())
                }
                _ => Some(above.into()),
            }
        }
        "number" => Some((value.as_f64().unwrap_or_default() + 1.0).into()),
        // A pattern or format cannot be satisfied by any text.
        "string" if schema["pattern"].is_null() && schema["format"].is_null() => {
            let current = value.as_str()?;
            let most = schema["maxLength"].as_u64().unwrap_or(u64::MAX);
            let text = format!("{current}2");
            (text.len() as u64 <= most).then(|| json!(text))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_property_changes_within_its_constraints_and_changes_back() {
        let spec = json!({"type": "object", "properties": {
            "replicas": {"type": "integer", "minimum": 1, "maximum": 3},
            "mode": {"type": "string", "enum": ["a", "b"]},
            "tls": {"type": "object", "properties": {"on": {"type": "boolean"}}},
            "name": {"type": "string", "pattern": "x"},
        }});
        let crd = json!({"spec": {"group": "x.test", "names": {"kind": "Thing"}, "versions": [
            {"name": "v1", "schema": {"openAPIV3Schema": {"properties": {"spec": spec}}}}]}});
        let object = json!({"apiVersion": "x.test/v1", "kind": "Thing",
            "metadata": {"name": "a"}, "spec": {"replicas": 3, "mode": "a"}});
        let found = workloads(&[crd], &[Step::Create(object)], &BTreeSet::new());
        let patches: Vec<_> = found
            .iter()
            .filter_map(|steps| match &steps[1..] {
                [Step::Patch { patch, .. }, Step::Patch { patch: back, .. }] => {
                    Some((patch["spec"].clone(), back["spec"].clone()))
                }
                _ => None,
            })
            .collect();
        assert_eq!(
            patches,
            [
                (json!({"mode": "b"}), json!({"mode": "a"})),
                (json!({"replicas": 2}), json!({"replicas": 3})),
                (json!({"tls": {"on": true}}), json!({"tls": null})),
            ]
        );
        assert!(found.iter().any(|steps| matches!(steps[1], Step::Recreate(_))));
        let shown: Vec<Vec<String>> = found
            .iter()
            .map(|steps| steps[1..].iter().map(ToString::to_string).collect())
            .collect();
        let patched = |spec: &str| format!("patches Thing default/a with {{\"spec\":{spec}}}");
        // Already the most: only down and back.
        let scaled = [r#"{"replicas":3}"#, r#"{"replicas":1}"#, r#"{"replicas":3}"#].map(patched);
        assert!(shown.iter().any(|steps| steps[..] == scaled), "{shown:#?}");
        let outside = [r#"{"mode":"not-one-of-them"}"#, r#"{"replicas":0}"#, r#"{"replicas":4}"#]
            .map(patched);
        assert!(shown.iter().any(|steps| steps[..] == outside), "{shown:#?}");
        for last in ["creates Thing a-twin", "deletes Namespace sim-deleted"] {
            assert!(shown.iter().any(|steps| steps.iter().any(|it| it == last)), "{shown:#?}");
        }
    }
}
