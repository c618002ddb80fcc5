//! Field selectors compared with responses of kube-apiserver 1.36.
//!
//! `golden.json` has the response of each kind to every label known to any kind and to the unknown
//! label `x`, and values that selected the objects of the golden file of the columns.

use std::collections::HashMap;

use serde_json::json;

use super::*;

fn golden() -> Value {
    serde_json::from_str(include_str!("golden.json")).unwrap()
}

#[test]
fn labels_and_messages_equal_those_of_kubernetes() {
    let golden = golden();
    let kinds = golden["kinds"].as_object().unwrap();
    assert!(kinds.len() > 80);
    for (kind, expected) in kinds {
        let (api_version, kind) = kind.rsplit_once('/').unwrap();
        let gvk = Gvk::from_api_version(api_version, kind);
        assert_eq!(json!(labels(gvk)), expected["supported"], "{gvk}");
        let unknown = resolve(gvk, "x").unwrap_err();
        assert_eq!(unknown.to_string(), expected["unknown"], "{gvk}");
    }
}

#[test]
fn values_match_upstream_field_selectors() {
    let objects: Value = serde_json::from_str(include_str!("../columns/golden.json")).unwrap();
    let objects: HashMap<_, _> = objects["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| {
            (json!([row["apiVersion"], row["kind"], row["object"]["metadata"]["name"]]), row)
        })
        .map(|(key, row)| (key.to_string(), row["object"].clone()))
        .collect();
    let golden = golden();
    let values = golden["values"].as_array().unwrap();
    assert!(values.len() > 80);
    for expected in values {
        let expected: [String; 5] = serde_json::from_value(expected.clone()).unwrap();
        let [api_version, kind, name, label, expected] = &expected;
        let object = &objects[&json!([api_version, kind, name]).to_string()];
        let gvk = Gvk::from_api_version(api_version, kind);
        let actual = value(gvk, label, object);
        assert_eq!(actual.as_deref(), Some(expected.as_str()), "{gvk} {name} {label}");
    }
}

#[test]
fn absent_fields_have_zero_values() {
    let object = json!({});
    let value = |group, kind, label| value(Gvk::new(group, "v1", kind), label, &object);
    assert_eq!(value("", "Pod", "spec.hostNetwork").as_deref(), Some("false"));
    assert_eq!(value("", "Node", "spec.unschedulable").as_deref(), Some("false"));
    assert_eq!(value("batch", "Job", "status.successful").as_deref(), Some("0"));
    assert_eq!(value("", "Pod", "status.phase").as_deref(), Some(""));
    assert_eq!(value("", "Pod", "status.podIPs").as_deref(), Some(""));
}

#[test]
fn labels_of_another_kind_have_no_value() {
    let pod = json!({ "spec": { "unschedulable": true } });
    assert_eq!(value(Gvk::new("", "v1", "Pod"), "spec.unschedulable", &pod), None);
}

#[test]
fn pod_ip_is_selected_without_pod_ips() {
    let pod = Gvk::new("", "v1", "Pod");
    let by_ip = |status: &Value| {
        value(pod, "status.podIP", &json!({ "status": status })).map(Cow::into_owned)
    };
    assert_eq!(by_ip(&json!({ "podIP": "10.0.0.1" })).as_deref(), Some("10.0.0.1"));
    assert_eq!(by_ip(&json!({ "podIPs": [{ "ip": "10.0.0.2" }] })).as_deref(), Some("10.0.0.2"));
}

#[test]
fn every_event_label_has_a_storage_version_name() {
    let (events, core) = (Gvk::new("events.k8s.io", "v1", "Event"), Gvk::new("", "v1", "Event"));
    for label in labels(events) {
        let stored = storage_label(events, label).unwrap();
        assert!(labels(core).contains(&stored), "{label} became {stored}");
    }
    assert!(storage_label(events, "involvedObject.name").is_err());
    assert_eq!(storage_label(events, "regarding.name"), Ok("involvedObject.name"));
    assert_eq!(storage_label(core, "involvedObject.name"), Ok("involvedObject.name"));
}
