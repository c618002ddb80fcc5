//! Workloads from the schema of a CRD: one property changes per step, within its constraints, and
//! changes back.

use serde_json::{Value, json};

use super::{ObjectRef, Step, inverse, patch_at};

/// The depth to which properties are changed.
const DEPTH: usize = 6;

/// Returns one workload per property of the spec: the given workload, then the change, then the
/// change back. Also the objects of the workload deleted and created again under the same name.
pub(crate) fn workloads(crds: &[Value], workload: &[Step]) -> Vec<Vec<Step>> {
    let mut workloads = Vec::new();
    for object in workload.iter().filter_map(Step::created) {
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
    }
    workloads
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
        let found = workloads(&[crd], &[Step::Create(object)]);
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
    }
}
