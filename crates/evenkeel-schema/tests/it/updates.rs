//! Updates of stored objects after the schema was tightened, compared with the responses of
//! kube-apiserver 1.36.3. Unchanged values are not validated.

use evenkeel_schema::Structural;
use evenkeel_schema::metadata::Malformed;
use serde_json::{Value, json};

use crate::objects::{causes, same_causes};

#[test]
fn unchanged_values_are_ratcheted_as_upstream_does() {
    let transcript: Value = serde_json::from_str(include_str!("updates.json")).unwrap();
    let schema = Structural::compile(&transcript["schema"]).unwrap();
    let mut differences = Vec::new();
    for case in transcript["cases"].as_array().unwrap() {
        let mut old = json!({
            "apiVersion": "schema.example.com/v1",
            "kind": "Update",
            "metadata": {"name": "a"},
            "spec": case["old"],
            "status": case["old"],
        });
        schema.normalize(&mut old, Malformed::Drop).unwrap();
        schema.default(&mut old);
        let mut new = old.clone();
        let status = case["subresource"] == "status";
        new[if status { "status" } else { "spec" }] = case["new"].clone();
        schema.normalize(&mut new, Malformed::Reject).unwrap();
        schema.default(&mut new);
        let errors = if status {
            schema.validate_status_update(&old, &new, &mut Vec::new())
        } else {
            schema.validate_update(&old, &new, &mut Vec::new())
        };
        let same = match case["status"].as_u64() {
            Some(200) => errors.is_empty(),
            _ => same_causes(case, &errors),
        };
        if !same {
            differences.push(format!(
                "{} {} -> {}\n  ours:   {}\n  theirs: {}",
                case["subresource"],
                case["old"],
                case["new"],
                json!(causes(&errors)),
                case["causes"]
            ));
        }
    }
    assert!(differences.is_empty(), "{}\n{}", differences.len(), differences.join("\n"));
}
