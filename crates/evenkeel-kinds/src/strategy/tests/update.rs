//! Updating objects through the main resource and subresources.

use evenkeel_types::Gvk;
use serde_json::{Value, json};

use super::super::{
    before_allocation_on_update, canonicalize, grace_period, prepare_for_subresource_update,
    warnings,
};
use super::{CONTEXT, gvk};
use crate::defaults;

fn cases() -> Vec<Value> {
    serde_json::from_str(include_str!("../cases/updates.json")).expect("cases are a JSON list")
}

/// Returns `old` with a JSON merge patch applied.
fn merged(old: &Value, patch: &Value) -> Value {
    let Value::Object(patch) = patch else { return patch.clone() };
    let mut new = old.as_object().cloned().unwrap_or_default();
    for (key, value) in patch {
        if value.is_null() {
            new.remove(key);
        } else {
            let before = new.get(key).cloned().unwrap_or_default();
            new.insert(key.clone(), merged(&before, value));
        }
    }
    Value::Object(new)
}

/// Runs the stages between decoding and storing.
fn update(gvk: Gvk<'_>, subresource: &str, old: &Value, sent: &Value) -> (Value, Vec<String>) {
    let mut new = sent.clone();
    defaults::apply(gvk, &mut new);
    if gvk.kind == "Service" && subresource.is_empty() {
        before_allocation_on_update(old, &mut new);
    }
    prepare_for_subresource_update(gvk, subresource, old, &mut new, &CONTEXT);
    let warnings = match subresource {
        "" => warnings::on_update(gvk, old, &new),
        _ => Vec::new(),
    };
    canonicalize(gvk, &mut new);
    (new, warnings)
}

#[test]
fn updated_objects_are_those_of_kube_apiserver() {
    let cases = cases();
    assert!(cases.len() > 50);
    for case in cases {
        let subresource = case["subresource"].as_str().expect("subresource is a string");
        let old = &case["old"];
        let sent = merged(old, &case["sent"]);
        let (new, warnings) = update(gvk(&case["gvk"]), subresource, old, &sent);
        let expected = merged(old, &case["updated"]);
        assert!(new == expected, "{}: got\n{:#}\nexpected\n{:#}", case["name"], new, expected);
        let expected = case.get("warnings").cloned().unwrap_or(json!([]));
        assert_eq!(json!(warnings), expected, "{}", case["name"]);
    }
}

#[test]
fn unchanged_update_keeps_the_object() {
    for case in cases() {
        let old = &case["old"];
        let gvk = gvk(&case["gvk"]);
        for subresource in ["", case["subresource"].as_str().expect("subresource is a string")] {
            let (new, _) = update(gvk, subresource, old, old);
            assert_eq!(new, *old, "{} {subresource}", case["name"]);
        }
    }
}

#[test]
fn update_of_arbitrary_objects_does_not_panic() {
    for case in cases() {
        let gvk = gvk(&case["gvk"]);
        let old = &case["old"];
        let subresource = case["subresource"].as_str().expect("subresource is a string");
        for shape in [json!(null), json!({}), json!({ "metadata": 1, "spec": [], "status": "x" })] {
            update(gvk, subresource, old, &shape);
            update(gvk, subresource, &shape, old);
            warnings::on_update(gvk, &shape, &shape);
        }
    }
}

#[test]
fn unscheduled_and_finished_pods_have_no_grace_period() {
    let pod = |node: &str, phase: &str| {
        json!({
            "spec": { "nodeName": node, "terminationGracePeriodSeconds": 30 },
            "status": { "phase": phase },
        })
    };
    assert_eq!(grace_period(&pod("n", "Running"), None), 30);
    assert_eq!(grace_period(&pod("n", "Running"), Some(5)), 5);
    assert_eq!(grace_period(&pod("n", "Running"), Some(-5)), 1);
    assert_eq!(grace_period(&pod("", "Pending"), Some(5)), 0);
    assert_eq!(grace_period(&pod("n", "Succeeded"), None), 0);
}
