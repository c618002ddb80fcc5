//! Custom resources compared with the responses of kube-apiserver 1.36.3: one CRD with many fields,
//! one object per case, created with `fieldValidation=Warn`.

use evenkeel_schema::Structural;
use evenkeel_schema::field::Error;
use evenkeel_schema::metadata::Malformed;
use serde_json::{Value, json};

pub(crate) fn causes(errors: &[Error]) -> Vec<Value> {
    errors.iter().map(|e| json!([e.field(), e.error_type.reason(), e.message()])).collect()
}

/// Compares causes. Upstream walks maps in random order, which the transcript marks.
pub(crate) fn same_causes(case: &Value, errors: &[Error]) -> bool {
    let mut ours = causes(errors);
    let Some(mut theirs) = case["causes"].as_array().cloned() else { return false };
    if case["unordered"] == true {
        ours.sort_by_key(Value::to_string);
        theirs.sort_by_key(Value::to_string);
    }
    ours == theirs
}

/// Go's encoder writes 1.0 as 1; serde_json does not.
fn whole_floats_as_integers(value: &mut Value) {
    match value {
        Value::Number(n) => match n.as_f64() {
            Some(f) if !n.is_i64() && f.fract() == 0.0 && f.abs() < 1e15 => {
                *value = json!(f as i64)
            }
            _ => {}
        },
        Value::Array(items) => items.iter_mut().for_each(whole_floats_as_integers),
        Value::Object(map) => map.values_mut().for_each(whole_floats_as_integers),
        _ => {}
    }
}

#[test]
fn objects_are_decoded_defaulted_and_validated_as_upstream_does() {
    let transcript: Value = serde_json::from_str(include_str!("objects.json")).unwrap();
    let schema = Structural::compile(&json!({
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": transcript["fields"]}},
    }))
    .unwrap();
    let mut differences = Vec::new();
    for case in transcript["cases"].as_array().unwrap() {
        let mut object = json!({
            "apiVersion": "schema.example.com/v1",
            "kind": "Object",
            "metadata": {"name": "a"},
            "spec": case["spec"],
        });
        let decoded = schema.normalize(&mut object, Malformed::Reject);
        let ours = match &decoded {
            Err(error) => {
                json!(format!("Object in version \"v1\" cannot be handled as a Object: {error}"))
            }
            Ok(unknown) => {
                schema.default(&mut object);
                let errors = schema.validate(&object);
                if errors.is_empty() {
                    whole_floats_as_integers(&mut object);
                    let warnings: Vec<String> = unknown
                        .iter()
                        .map(|path| format!("\"unknown field \\\"{path}\\\"\""))
                        .collect();
                    json!([object["spec"], warnings])
                } else if case["status"] == 422 && same_causes(case, &errors) {
                    continue;
                } else {
                    json!(causes(&errors))
                }
            }
        };
        let theirs = match case["status"].as_u64() {
            Some(201) => json!([case["result"], case["warnings"]]),
            Some(422) => case["causes"].clone(),
            _ => case["message"].clone(),
        };
        if ours != theirs {
            differences.push(format!("{}\n  ours:   {ours}\n  theirs: {theirs}", case["spec"]));
        }
    }
    assert!(differences.is_empty(), "{}\n{}", differences.len(), differences.join("\n"));
}
