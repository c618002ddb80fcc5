use serde_json::json;

use super::*;
use crate::field::Error;
use crate::names;

fn texts(errors: &[Error]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn typed_round_trip_drops_what_is_empty() {
    let mut metadata = json!({
        "name": "n", "namespace": "", "labels": {"a": null}, "annotations": {}, "generation": 0,
        "finalizers": [], "creationTimestamp": null,
        "deletionTimestamp": "2024-01-01T01:00:00.5+01:00",
        "ownerReferences": [{"name": "o", "controller": null, "extra": 1}],
        "managedFields": [{
            "manager": "m", "operation": "",
            "time": "2024-01-01T00:00:00Z", "fieldsV1": {"f:a": {}},
        }],
    });
    let mut unknown = Vec::new();
    coerce(&mut metadata, Malformed::Refuse, "metadata", &mut unknown).unwrap();
    assert_eq!(
        metadata,
        json!({
            "name": "n", "labels": {"a": ""}, "deletionTimestamp": "2024-01-01T00:00:00Z",
            "ownerReferences": [{"apiVersion": "", "kind": "", "name": "o", "uid": ""}],
            "managedFields": [{
                "manager": "m", "time": "2024-01-01T00:00:00Z", "fieldsV1": {"f:a": {}},
            }],
        })
    );
    assert_eq!(unknown, ["metadata.ownerReferences[0].extra"]);
}

#[test]
fn metadata_that_is_no_object_is_refused_in_either_mode() {
    let coerced = |malformed| coerce(&mut json!(["x"]), malformed, "metadata", &mut Vec::new());
    assert_eq!(
        coerced(Malformed::Refuse).unwrap_err(),
        "json: cannot unmarshal array into Go value of type v1.ObjectMeta"
    );
    assert_eq!(
        coerced(Malformed::Drop).unwrap_err(),
        "invalid metadata: expected object, got []interface {}"
    );
    let mut null = Value::Null;
    coerce(&mut null, Malformed::Refuse, "metadata", &mut Vec::new()).unwrap();
    assert_eq!(null, json!({}));
}

#[test]
fn scope_decides_about_the_namespace() {
    let rule = |name: &str, _: bool| names::dns1123_subdomain(name);
    let named = json!({"name": "n"});
    assert_eq!(
        texts(&validate(&named, true, rule, "metadata")),
        ["metadata.namespace: Required value"]
    );
    assert!(validate(&named, false, rule, "metadata").is_empty());
    assert_eq!(
        texts(&validate(&json!({"name": "n", "namespace": "x"}), false, rule, "metadata")),
        ["metadata.namespace: Forbidden: not allowed on this type"]
    );
    assert_eq!(
        texts(&validate(&json!({}), false, rule, "metadata")),
        ["metadata.name: Required value: name or generateName is required"]
    );
}

#[test]
fn only_one_owner_controls() {
    let owner = |name: &str| {
        json!({
            "apiVersion": "v1", "kind": "A", "name": name, "uid": "u", "controller": true,
        })
    };
    let metadata = json!({"name": "n", "ownerReferences": [owner("a"), owner("b")]});
    let shown = |name| {
        format!(r#"{{"apiVersion":"v1","kind":"A","name":"{name}","uid":"u","controller":true}}"#)
    };
    assert_eq!(
        texts(&validate(&metadata, false, |_, _| Vec::new(), "metadata")),
        [format!(
            "metadata.ownerReferences: Invalid value: [{},{}]: Only one reference can have \
             Controller set to true. Found \"true\" in references for A/a and A/b",
            shown("a"),
            shown("b")
        )]
    );
}

#[test]
fn updates_may_not_touch_identity_or_add_finalizers_while_deleting() {
    let old = json!({
        "name": "n", "uid": "u", "resourceVersion": "1", "generation": 2,
        "deletionTimestamp": "2024-01-01T00:00:00Z", "finalizers": ["a.b/c"],
    });
    let new = json!({
        "name": "m", "uid": "v", "generation": 1,
        "deletionTimestamp": "2024-01-01T00:00:00Z", "finalizers": ["a.b/c", "d.e/f"],
    });
    assert_eq!(
        texts(&validate_update(&new, &old, "metadata")),
        [
            "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being \
             deleted, found new finalizers []string{\"d.e/f\"}",
            "metadata.resourceVersion: Invalid value: \"\": must be specified for an update",
            "metadata.generation: Invalid value: 1: must not be decremented",
            "metadata.name: Invalid value: \"m\": field is immutable",
            "metadata.uid: Invalid value: \"v\": field is immutable",
        ]
    );
    assert!(validate_update(&old, &old, "metadata").is_empty());
}

#[test]
fn oversized_annotations_are_too_long() {
    let metadata = json!({"name": "n", "annotations": {"a": "x".repeat(256 * 1024)}});
    assert_eq!(
        texts(&validate(&metadata, false, |_, _| Vec::new(), "metadata")),
        ["metadata.annotations: Too long: may not be more than 262144 bytes"]
    );
}
