//! Metadata validation on create and on update.

use serde_json::json;

use super::*;

fn texts(errors: &[Error]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

fn create(meta: &Value) -> Vec<String> {
    texts(&validate(meta, true, names::subdomain_name, "metadata"))
}

fn update(new: &Value, old: &Value) -> Vec<String> {
    texts(&validate_update(new, old, "metadata"))
}

fn stored() -> Value {
    json!({
        "name": "n", "namespace": "ns", "uid": "u", "resourceVersion": "1", "generation": 3,
        "creationTimestamp": "2024-01-01T00:00:00Z", "finalizers": ["example.com/f"],
    })
}

#[test]
fn name_and_namespace_are_required() {
    let expected = [
        "metadata.name: Required value: name or generateName is required",
        "metadata.namespace: Required value",
    ];
    assert_eq!(create(&json!({})), expected);
    let cluster = json!({"name": "n", "namespace": "ns"});
    let errors = validate(&cluster, false, names::subdomain_name, "metadata");
    assert_eq!(texts(&errors), ["metadata.namespace: Forbidden: not allowed on this type"]);
}

#[test]
fn annotations_have_a_total_size_limit() {
    let meta = |bytes: usize| json!({"name": "n", "namespace": "ns", "annotations": {"a": "x".repeat(bytes)}});
    assert_eq!(create(&meta(256 * 1024 - 1)), [""; 0]);
    let expected = ["metadata.annotations: Too long: may not be more than 262144 bytes"];
    assert_eq!(create(&meta(256 * 1024)), expected);
}

#[test]
fn annotation_key_prefixes_may_be_upper_case() {
    let meta = json!({"name": "n", "namespace": "ns", "annotations": {"Example.COM/Key": "v"}});
    assert_eq!(create(&meta), [""; 0]);
}

#[test]
fn owner_references_are_complete_with_one_controller() {
    let meta = json!({
        "name": "n", "namespace": "ns",
        "ownerReferences": [
            {"apiVersion": "", "kind": "", "name": "", "uid": ""},
            {"apiVersion": "v1", "kind": "A", "name": "a", "uid": "1", "controller": true},
            {"apiVersion": "v1", "kind": "B", "name": "b", "uid": "2", "controller": true},
        ],
    });
    let errors = create(&meta);
    let expected = [
        "metadata.ownerReferences.apiVersion: Invalid value: \"\": version must not be empty",
        "metadata.ownerReferences.kind: Invalid value: \"\": must not be empty",
        "metadata.ownerReferences.name: Invalid value: \"\": must not be empty",
        "metadata.ownerReferences.uid: Invalid value: \"\": must not be empty",
    ];
    assert_eq!(errors[..4], expected);
    assert!(errors[4].ends_with("Found \"true\" in references for A/a and B/b"), "{}", errors[4]);
    assert_eq!(errors.len(), 5);
}

#[test]
fn orphan_and_foreground_finalizers_are_exclusive() {
    let finalizers = ["orphan", "foregroundDeletion"];
    let meta = json!({"name": "n", "namespace": "ns", "finalizers": finalizers});
    let expected = ["metadata.finalizers: Invalid value: [\"orphan\",\"foregroundDeletion\"]: \
                     finalizer orphan and foregroundDeletion cannot be both set"];
    assert_eq!(create(&meta), expected);
}

#[test]
fn managed_fields_entries_are_validated() {
    let meta = json!({
        "name": "n", "namespace": "ns",
        "managedFields": [{
            "operation": "X", "fieldsType": "Y", "manager": "a\u{7}", "subresource": "s".repeat(257),
        }],
    });
    let expected = [
        "metadata.managedFields[0].operation: Invalid value: \"X\": must be `Apply` or `Update`",
        "metadata.managedFields[0].fieldsType: Invalid value: \"Y\": must be `FieldsV1`",
        "metadata.managedFields[0].manager: Invalid value: \"a\\a\": invalid character U+0007 \
         (at position 1)",
        "metadata.managedFields[0].subresource: Too long: may not be more than 256 bytes",
    ];
    assert_eq!(create(&meta), expected);
}

#[test]
fn update_cannot_change_identity() {
    let new = json!({
        "name": "m", "namespace": "other", "uid": "v", "generation": 2,
        "creationTimestamp": "2025-01-01T00:00:00Z",
    });
    let expected = [
        "metadata.resourceVersion: Invalid value: \"\": must be specified for an update",
        "metadata.generation: Invalid value: 2: must not be decremented",
        "metadata.name: Invalid value: \"m\": field is immutable",
        "metadata.namespace: Invalid value: \"other\": field is immutable",
        "metadata.uid: Invalid value: \"v\": field is immutable",
        "metadata.creationTimestamp: Invalid value: \"2025-01-01T00:00:00Z\": field is immutable",
    ];
    assert_eq!(update(&new, &stored()), expected);
    assert_eq!(update(&stored(), &stored()), [""; 0]);
}

#[test]
fn no_finalizers_are_added_while_an_object_is_deleted() {
    let mut old = stored();
    old["deletionTimestamp"] = json!("2024-01-02T00:00:00Z");
    let mut new = old.clone();
    new["finalizers"] = json!(["example.com/f", "example.com/z", "example.com/a"]);
    let expected =
        ["metadata.finalizers: Forbidden: no new finalizers can be added if the object \
                     is being deleted, found new finalizers []string{\"example.com/a\", \
                     \"example.com/z\"}"];
    assert_eq!(update(&new, &old), expected);
    new["finalizers"] = json!([]);
    assert_eq!(update(&new, &old), [""; 0]);
}

#[test]
fn common_field_errors_are_repeated_as_upstream_does() {
    let mut new = stored();
    new["labels"] = json!({"a": "b b"});
    assert_eq!(validate_common_fields(&new, &stored(), true, "metadata").len(), 2);
}

#[test]
fn second_controller_reference_prints_all_references() {
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
        texts(&validate(&metadata, false, |_, _| Reasons::new(), "metadata")),
        [format!(
            "metadata.ownerReferences: Invalid value: [{},{}]: Only one reference can have \
             Controller set to true. Found \"true\" in references for A/a and A/b",
            shown("a"),
            shown("b")
        )]
    );
}
