//! JSON text as Go writes it.

use serde_json::{Value, json};

use super::{FieldsOrder, compare_elements, type_of, write, write_in_order};
use crate::{Gvk, lookup};

fn printed(api_version: &str, kind: &str, value: &Value) -> String {
    let mut out = Vec::new();
    write(&mut out, lookup(Gvk::from_api_version(api_version, kind)), value);
    String::from_utf8(out).unwrap()
}

#[test]
fn fields_are_in_the_order_of_the_go_struct() {
    for (api_version, kind, text) in [
        (
            "v1",
            "Pod",
            r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","resourceVersion":"7","labels":{"a":"1","b":"2"},"ownerReferences":[{"apiVersion":"v1","kind":"K","name":"o","uid":"u","controller":true}]},"spec":{"volumes":[{"name":"v","configMap":{"name":"c","defaultMode":420}}],"initContainers":[{"name":"i","resources":{}}],"containers":[{"name":"c","image":"<x>","resources":{"limits":{"cpu":"1"}},"volumeMounts":[{"name":"v","mountPath":"/"}],"livenessProbe":{"httpGet":{"path":"/","port":80},"periodSeconds":1}}],"restartPolicy":"Always"},"status":{"phase":"Running"}}"#,
        ),
        (
            "v1",
            "Status",
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"m","reason":"NotFound","details":{"name":"a","kind":"pods","causes":[{"reason":"r","message":"m","field":"f"}]},"code":404}"#,
        ),
        (
            "v1",
            "APIResourceList",
            r#"{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"apps/v1","resources":[{"name":"d","singularName":"","namespaced":true,"group":"g","version":"v","kind":"K","verbs":["get"],"shortNames":["x"],"categories":["all"],"storageVersionHash":"h"}]}"#,
        ),
    ] {
        let value: Value = serde_json::from_str(text).unwrap();
        let text = text.replace("<x>", "\\u003cx\\u003e");
        assert_eq!(printed(api_version, kind, &value), text);
    }
}

#[test]
fn object_without_a_type_is_sorted() {
    let value = json!({"spec": {"b": 1, "a": "&"}, "kind": "K", "apiVersion": "e/v1"});
    let text = r#"{"apiVersion":"e/v1","kind":"K","spec":{"a":"\u0026","b":1}}"#;
    assert_eq!(printed("e/v1", "K", &value), text);
}

#[test]
fn only_the_resource_version_of_the_object_is_located() {
    for ty in [lookup(Gvk::new("", "v1", "ConfigMap")), None] {
        let object = json!({
            "kind": "ConfigMap", "data": {"resourceVersion": ""},
            "metadata": {"annotations": {"resourceVersion": ""}, "resourceVersion": "", "uid": "u"},
        });
        let mut out = b"..".to_vec();
        let at = write(&mut out, ty, &object).unwrap();
        let (head, tail) = out.split_at(at);
        assert!(head.ends_with(br#""resourceVersion":""#), "{}", String::from_utf8_lossy(head));
        let spliced = [&head[2..], b"123", tail].concat();
        let mut spliced: Value = serde_json::from_slice(&spliced).unwrap();
        assert_eq!(spliced["metadata"]["resourceVersion"], "123");
        spliced["metadata"]["resourceVersion"] = "".into();
        assert_eq!(spliced, object);
    }
    assert_eq!(write(&mut Vec::new(), None, &json!({"metadata": {"name": "a"}})), None);
}

#[test]
fn undeclared_fields_are_last() {
    let value = json!({"zz": 1, "aa": 2, "data": {}, "kind": "ConfigMap"});
    let text = r#"{"kind":"ConfigMap","data":{},"aa":2,"zz":1}"#;
    assert_eq!(printed("v1", "ConfigMap", &value), text);
}

#[test]
fn strings_are_escaped_as_encoding_json_does() {
    let mut out = String::new();
    super::string(&mut out, "é\u{2028}<\"\\\u{1}\u{7f}…\n");
    assert_eq!(out, "\"é\\u2028\\u003c\\\"\\\\\\u0001\u{7f}…\\n\"");
}

#[test]
fn field_sets_are_sorted_by_path_elements() {
    let mut elements = [
        "i:2",
        "v:\"x\"",
        "k:{\"containerPort\":443,\"protocol\":\"TCP\"}",
        "f:b",
        "i:10",
        "k:{\"containerPort\":80,\"protocol\":\"UDP\"}",
        "k:{\"containerPort\":80,\"protocol\":\"TCP\"}",
        "f:a",
        "v:3",
        ".",
    ];
    elements.sort_by(|a, b| compare_elements(a, b));
    assert_eq!(
        elements,
        [
            ".",
            "f:a",
            "f:b",
            "k:{\"containerPort\":80,\"protocol\":\"TCP\"}",
            "k:{\"containerPort\":80,\"protocol\":\"UDP\"}",
            "k:{\"containerPort\":443,\"protocol\":\"TCP\"}",
            "v:3",
            "v:\"x\"",
            "i:2",
            "i:10",
        ]
    );
}

#[test]
fn metadata_and_tables_of_custom_resources_sort_field_sets_as_text() {
    let metadata = json!({"managedFields": [{"fieldsV1": {"f:a": {"v:6": {}, "v:10": {}}}}]});
    let partial = json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata});
    let row = json!({"cells": [], "object": partial});
    let table = json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "rows": [row]});
    for view in [partial, table] {
        for (order, text) in [
            (FieldsOrder::PathElements, r#"{"f:a":{"v:6":{},"v:10":{}}}"#),
            (FieldsOrder::Keys, r#"{"f:a":{"v:10":{},"v:6":{}}}"#),
        ] {
            let mut out = Vec::new();
            write_in_order(&mut out, type_of(&view), &view, order);
            let out = String::from_utf8(out).unwrap();
            assert!(out.contains(text), "{order:?}: {out}");
        }
    }
}
