//! Schemas from OpenAPI documents and structural schemas.

#![expect(clippy::needless_pass_by_value, reason = "tables read better with json! arguments")]

use serde_json::json;

use super::*;
use crate::typed::Duplicates;

fn members(ty: &ObjectType, value: Value) -> String {
    ty.to_field_set(&value).unwrap().to_string()
}

fn crd(spec: Value) -> ObjectType {
    let document = json!({"type": "object", "properties": {"spec": spec}});
    Schema::from_structural(&document, false).unwrap()
}

#[test]
fn extensions_determine_the_leaves() {
    let list = |extra: Value| {
        let mut list = json!({"type": "array", "items": {"type": "object", "properties": {
            "name": {"type": "string"}, "proto": {"type": "string", "default": "TCP"}, "v": {"type": "integer"}
        }}});
        list.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        json!({"type": "object", "properties": {"l": list}})
    };
    let value = json!({"spec": {"l": [{"name": "a", "v": 1}]}});
    for (extra, want) in [
        (json!({}), ".spec.l"),
        (json!({"x-kubernetes-list-type": "atomic"}), ".spec.l"),
        (
            json!({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["proto", "name"]}),
            ".spec.l[name=\"a\",proto=\"TCP\"]\n.spec.l[name=\"a\",proto=\"TCP\"].name\n\
             .spec.l[name=\"a\",proto=\"TCP\"].v",
        ),
        (
            json!({"x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "name"}),
            ".spec.l[name=\"a\"]\n.spec.l[name=\"a\"].name\n.spec.l[name=\"a\"].v",
        ),
    ] {
        assert_eq!(members(&crd(list(extra)), value.clone()), want);
    }
    let set = json!({"type": "object", "properties": {
        "s": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}
    }});
    assert_eq!(
        members(&crd(set), json!({"spec": {"s": ["b", "a"]}})),
        ".spec.s[=\"a\"]\n.spec.s[=\"b\"]"
    );
}

#[test]
fn maps_own_their_keys_and_structs_their_leaves() {
    let spec = json!({"type": "object", "properties": {
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "sel": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"a": {"type": "string"}}},
        "sub": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "object"}}},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "port": {"x-kubernetes-int-or-string": true},
    }});
    let ty = crd(spec);
    let value = json!({"spec": {
        "labels": {"x": "1"}, "sel": {"a": "1"}, "sub": {"a": null, "b": {}},
        "free": {"m": {"l": [1]}}, "port": "http"
    }});
    assert_eq!(
        members(&ty, value),
        ".spec.port\n.spec.sel\n.spec.free.m\n.spec.free.m.l\n.spec.labels.x\n.spec.sub.a\n.spec.sub.b"
    );
}

#[test]
fn preserve_unknown_fields_applies_to_all_nested_schemas() {
    let spec = |preserve: bool| {
        json!({"type": "object", "x-kubernetes-preserve-unknown-fields": preserve, "properties": {
            "sub": {"type": "object", "properties": {"a": {"type": "string"}}}
        }})
    };
    let value = json!({"spec": {"sub": {"other": 1}}});
    assert!(crd(spec(true)).validate(&value, Duplicates::Reject).is_ok());
    let error = crd(spec(false)).validate(&value, Duplicates::Reject).unwrap_err();
    assert_eq!(error.to_string(), ".spec.sub.other: field not declared in schema");
    let document = json!({"type": "object", "properties": {"spec": spec(false)}});
    let legacy = Schema::from_structural(&document, true).unwrap();
    assert!(legacy.validate(&value, Duplicates::Reject).is_ok());
}

#[test]
fn metadata_is_typed_at_the_root_and_in_embedded_resources() {
    let spec = json!({"type": "object", "properties": {
        "template": {"type": "object", "x-kubernetes-embedded-resource": true,
                     "x-kubernetes-preserve-unknown-fields": true}
    }});
    let meta = json!({
        "name": "n", "labels": {"a": "b"}, "finalizers": ["f"],
        "ownerReferences": [{"uid": "u", "name": "o", "apiVersion": "v1", "kind": "K"}]
    });
    let value = json!({
        "apiVersion": "g/v1", "kind": "K", "metadata": meta,
        "spec": {"template": {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "extra": 1}}
    });
    let set = crd(spec).to_field_set(&value).unwrap().to_string();
    for member in [
        ".metadata.labels.a",
        ".metadata.finalizers[=\"f\"]",
        ".metadata.ownerReferences[uid=\"u\"]",
        ".spec.template.extra",
        ".spec.template.metadata.finalizers[=\"f\"]",
    ] {
        assert!(set.lines().any(|line| line == member), "{member} in\n{set}");
    }
}

#[test]
fn documents_without_a_valid_type_are_rejected() {
    for (spec, message) in [
        (json!({"type": "array"}), "schema: `items` must be specified on arrays"),
        (json!({"type": "foo"}), "schema: unrecognized type: 'foo'"),
        (
            json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "bag"}),
            "schema: unknown list type bag",
        ),
        (
            json!({"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "map"}),
            "schema: missing map keys",
        ),
        (json!({"type": "object", "x-kubernetes-map-type": "x"}), "schema: unknown map type x"),
    ] {
        let document = json!({"type": "object", "properties": {"spec": spec}});
        let error = Schema::from_structural(&document, false).unwrap_err();
        assert_eq!(error.to_string(), message);
    }
    let mut nested = json!({"type": "string"});
    for _ in 0..crate::MAX_DEPTH + 1 {
        nested = json!({"type": "object", "properties": {"a": nested}});
    }
    assert!(Schema::from_structural(&nested, false).is_err());
}
