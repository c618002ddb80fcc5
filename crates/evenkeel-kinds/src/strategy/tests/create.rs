//! Creating objects.

use serde_json::{Value, json};

use super::super::{
    Context, User, before_allocation_on_create, canonicalize, prepare_for_create, warnings,
};
use super::{CONTEXT, gvk};
use crate::defaults;

fn cases() -> Vec<Value> {
    [
        include_str!("../cases/core.json"),
        include_str!("../cases/apps.json"),
        include_str!("../cases/batch.json"),
        include_str!("../cases/groups.json"),
    ]
    .into_iter()
    .flat_map(|text| serde_json::from_str::<Vec<Value>>(text).expect("cases are a JSON list"))
    .collect()
}

/// Runs the stages between decoding and storing.
fn create(case: &Value) -> (Value, Vec<String>) {
    let gvk = gvk(&case["gvk"]);
    let mut object = case["sent"].clone();
    let applied = defaults::apply(gvk, &mut object);
    object["metadata"]["uid"] = json!("UID");
    object["metadata"]["creationTimestamp"] = json!("NOW");
    if gvk.kind == "Service" {
        before_allocation_on_create(&mut object);
    }
    let groups = ["system:masters".to_owned(), "system:authenticated".to_owned()];
    let user = User { groups: &groups, ..CONTEXT.user };
    let cx = Context { user, labels_from_template: applied.labels_from_template, ..CONTEXT };
    prepare_for_create(gvk, &mut object, &cx);
    let mut warnings: Vec<String> =
        warnings::deprecated_kind(gvk).into_iter().map(str::to_owned).collect();
    warnings.extend(warnings::on_create(gvk, &object));
    canonicalize(gvk, &mut object);
    (object, warnings)
}

#[test]
fn created_objects_are_those_of_kube_apiserver() {
    let cases = cases();
    assert!(cases.len() > 60);
    for case in cases {
        let (object, _) = create(&case);
        let expected = &case["created"];
        assert!(
            object == *expected,
            "{}: {} differs\n{object:#}\nexpected\n{expected:#}",
            case["name"],
            difference(&object, expected, "").unwrap_or_default()
        );
    }
}

#[test]
fn warnings_are_those_of_kube_apiserver() {
    for case in cases() {
        let (_, warnings) = create(&case);
        let expected = case.get("warnings").cloned().unwrap_or(json!([]));
        assert_eq!(json!(warnings), expected, "{}", case["name"]);
    }
}

#[test]
fn defaulting_a_stored_object_changes_nothing() {
    for case in cases() {
        let mut object = case["created"].clone();
        defaults::apply(gvk(&case["gvk"]), &mut object);
        assert_eq!(object, case["created"], "{}", case["name"]);
    }
}

#[test]
fn create_of_arbitrary_objects_does_not_panic() {
    for case in cases() {
        let gvk = gvk(&case["gvk"]);
        for shape in [json!(null), json!([]), json!({}), json!({ "metadata": 1, "spec": "x" })] {
            let mut object = shape.clone();
            defaults::apply(gvk, &mut object);
            prepare_for_create(gvk, &mut object, &CONTEXT);
            canonicalize(gvk, &mut object);
            warnings::on_create(gvk, &object);
        }
        // Replaces every field in turn by a value that its type does not allow.
        for path in paths(&case["sent"], "") {
            for wrong in [json!(null), json!(-1), json!("x"), json!([[]]), json!({ "a": {} })] {
                let mut object = case["sent"].clone();
                if let Some(field) = object.pointer_mut(&path) {
                    *field = wrong;
                }
                defaults::apply(gvk, &mut object);
                prepare_for_create(gvk, &mut object, &CONTEXT);
                warnings::on_create(gvk, &object);
            }
        }
    }
}

/// Returns JSON pointers to every value in `value`.
fn paths(value: &Value, at: &str) -> Vec<String> {
    let mut all = vec![at.to_owned()];
    let escape = |key: &String| key.replace('~', "~0").replace('/', "~1");
    match value {
        Value::Object(map) => {
            all.extend(map.iter().flat_map(|(k, v)| paths(v, &format!("{at}/{}", escape(k)))));
        }
        Value::Array(list) => {
            all.extend(list.iter().enumerate().flat_map(|(i, v)| paths(v, &format!("{at}/{i}"))));
        }
        _ => {}
    }
    all
}

/// Returns the first difference between two values.
fn difference(a: &Value, b: &Value, at: &str) -> Option<String> {
    match (a, b) {
        (Value::Object(x), Value::Object(y)) => x
            .keys()
            .chain(y.keys())
            .find_map(|key| difference(&a[key], &b[key], &format!("{at}.{key}"))),
        (Value::Array(x), Value::Array(y)) if x.len() == y.len() => x
            .iter()
            .zip(y)
            .enumerate()
            .find_map(|(i, (x, y))| difference(x, y, &format!("{at}[{i}]"))),
        _ => (a != b).then(|| at.to_owned()),
    }
}
