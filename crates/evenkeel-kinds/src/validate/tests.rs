//! Invalid objects compared with the errors of kube-apiserver 1.36.
//!
//! `tests/corpus.json` was recorded from a running server. Each case changes a valid object at some
//! JSON pointers (`null` removes) and lists the errors of the response. Long texts are abbreviated
//! by names.

use std::collections::BTreeMap;

use evenkeel_schema::field::Error;
use evenkeel_types::Gvk;
use serde_json::{Map, Value, json};

use super::{create, status_update, subresource_update, update};

struct Corpus {
    texts: BTreeMap<String, String>,
    bases: Map<String, Value>,
    cases: Vec<Value>,
}

fn corpus() -> Corpus {
    let whole: Value = serde_json::from_str(include_str!("tests/corpus.json")).unwrap();
    let Value::Object(mut whole) = whole else { panic!("the corpus is not an object") };
    let mut take = |key: &str| whole.remove(key).unwrap();
    Corpus {
        texts: serde_json::from_value(take("texts")).unwrap(),
        bases: serde_json::from_value(take("bases")).unwrap(),
        cases: serde_json::from_value(take("cases")).unwrap(),
    }
}

fn gvk(object: &Value) -> Gvk<'_> {
    let text = |key: &str| object[key].as_str().unwrap();
    Gvk::from_api_version(text("apiVersion"), text("kind"))
}

/// Sets or removes the value at a JSON pointer.
fn change(object: &mut Value, pointer: &str, value: &Value) {
    if pointer.is_empty() {
        *object = value.clone();
        return;
    }
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    let key = key.replace("~1", "/").replace("~0", "~");
    match object.pointer_mut(parent) {
        Some(Value::Object(map)) if value.is_null() => drop(map.remove(&key)),
        Some(Value::Object(map)) => drop(map.insert(key, value.clone())),
        Some(Value::Array(items)) => items[key.parse::<usize>().unwrap()] = value.clone(),
        _ => panic!("no object or list at {parent}"),
    }
}

fn texts(errors: &[Error]) -> Vec<String> {
    errors.iter().map(Error::to_string).collect()
}

#[test]
fn errors_have_the_messages_and_order_of_kube_apiserver() {
    let corpus = corpus();
    let mut wrong = Vec::new();
    for case in &corpus.cases {
        let base = case["base"].as_str().map_or(&Value::Null, |name| &corpus.bases[name]);
        let mut object = base.clone();
        for (pointer, value) in case["change"].as_object().unwrap() {
            change(&mut object, pointer, value);
        }
        let gvk = gvk(&object);
        let errors = match case["op"].as_str().unwrap() {
            "create" => create(gvk, &object),
            "update" => update(gvk, &object, base),
            "status" => status_update(gvk, &object, base),
            subresource => subresource_update(gvk, subresource, &object, base),
        };
        let expected: Vec<String> = case["errors"]
            .as_array()
            .unwrap()
            .iter()
            .map(|text| {
                // In reverse order because some names are prefixes of others.
                let text = text.as_str().unwrap().to_owned();
                corpus.texts.iter().rev().fold(text, |text, (name, full)| text.replace(name, full))
            })
            .collect();
        let actual = texts(&errors);
        if actual != expected {
            wrong.push(format!(
                "{} of {} with {}\n  expected {expected:#?}\n  actual {actual:#?}",
                case["op"], case["base"], case["change"]
            ));
        }
    }
    assert!(corpus.cases.len() > 1000, "the corpus is incomplete");
    assert!(wrong.is_empty(), "{} cases differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn valid_objects_pass() {
    for (name, object) in &corpus().bases {
        let gvk = gvk(object);
        if name.contains(" stored") {
            assert_eq!(texts(&update(gvk, object, object)), [""; 0], "update of {name}");
            assert_eq!(texts(&status_update(gvk, object, object)), [""; 0], "status of {name}");
        } else {
            assert_eq!(texts(&create(gvk, object)), [""; 0], "create of {name}");
        }
    }
}

/// Collects JSON pointers to every value in an object.
fn pointers(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    match value {
        Value::Object(map) => {
            for (key, inner) in map {
                let key = key.replace('~', "~0").replace('/', "~1");
                pointers(inner, &format!("{at}/{key}"), found);
            }
        }
        Value::Array(items) => {
            for (i, inner) in items.iter().enumerate() {
                pointers(inner, &format!("{at}/{i}"), found);
            }
        }
        _ => {}
    }
}

#[test]
fn validation_of_arbitrary_objects_does_not_panic() {
    let unexpected = [
        Value::Null,
        json!(true),
        json!(-1),
        json!(1.5),
        json!(u64::MAX),
        json!(""),
        json!("é/ü:%-"),
        json!([]),
        json!([null, 1, "x", {}, []]),
        json!({}),
        json!({"": null, "a/b": [1]}),
    ];
    // Each location gets one of the values in turn. All combinations would be too slow for
    // thousands of locations.
    let mut next_value = unexpected.iter().cycle();
    for object in corpus().bases.values() {
        let gvk = gvk(object);
        let mut found = Vec::new();
        pointers(object, "", &mut found);
        for pointer in found {
            let mut changed = object.clone();
            *changed.pointer_mut(&pointer).unwrap() = next_value.next().unwrap().clone();
            create(gvk, &changed);
            update(gvk, &changed, object);
            status_update(gvk, &changed, object);
            update(gvk, object, &changed);
        }
        // Shifts the sequence so that a location does not always get the same value.
        next_value.next();
    }
}

#[test]
fn data_beyond_a_mebibyte_is_too_long() {
    let config = |data: &str| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "big", "namespace": "ns"}, "data": {"a": data},
        })
    };
    let object = config(&"x".repeat(1_048_576));
    assert_eq!(texts(&create(gvk(&object), &object)), [""; 0]);
    let object = config(&"x".repeat(1_048_577));
    let expected = ["[]: Too long: may not be more than 1048576 bytes"];
    assert_eq!(texts(&create(gvk(&object), &object)), expected);
}

#[test]
fn metadata_of_custom_resources_is_validated() {
    let object = json!({
        "apiVersion": "example.com/v1", "kind": "Widget",
        "metadata": {"name": "Bad_Name", "namespace": "ns", "finalizers": ["plain"]},
    });
    let errors = texts(&create(gvk(&object), &object));
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(errors[0].starts_with("metadata.name: Invalid value: \"Bad_Name\": a lowercase RFC"));
}

#[test]
fn empty_maps_differ_from_absent_ones_in_immutable_objects() {
    const DETAIL: &str = "Forbidden: field is immutable when `immutable` is set";
    let metadata = json!({"name": "a", "namespace": "n", "resourceVersion": "1"});
    for (kind, field) in [("ConfigMap", "binaryData"), ("Secret", "data")] {
        let gvk = Gvk::new("", "v1", kind);
        let old = json!({"metadata": metadata, "immutable": true, "type": "Opaque"});
        assert!(update(gvk, &old, &old).is_empty());
        let mut new = old.clone();
        new[field] = json!({});
        assert_eq!(texts(&update(gvk, &new, &old)), [format!("{field}: {DETAIL}")]);
    }
}

#[test]
fn empty_lists_are_forbidden_fields_of_ephemeral_containers() {
    let corpus = corpus();
    let pod = corpus.bases.values().find(|base| base["kind"] == "Pod").unwrap();
    let ephemeral = |container: Value| {
        let mut new = pod.clone();
        new["spec"]["ephemeralContainers"] = json!([container]);
        texts(&subresource_update(gvk(pod), "ephemeralcontainers", &new, pod))
    };
    let container = json!({
        "name": "e", "image": "i", "resources": {}, "imagePullPolicy": "Always",
        "terminationMessagePath": "/t", "terminationMessagePolicy": "File",
    });
    assert_eq!(ephemeral(container.clone()), [""; 0]);
    for (field, value) in [("ports", json!([])), ("resources", json!({"limits": {}}))] {
        let mut container = container.clone();
        container[field] = value;
        let expected = format!(
            "spec.ephemeralContainers[0].{field}: Forbidden: cannot be set for an Ephemeral Container"
        );
        assert_eq!(ephemeral(container), [expected]);
    }
}

#[test]
fn slices_have_shared_counters_or_devices_even_if_empty() {
    let slice = json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "a"},
        "spec": {
            "driver": "d.x", "nodeName": "n",
            "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
            "devices": [],
        },
    });
    assert_eq!(texts(&create(gvk(&slice), &slice)), [""; 0]);
    let mut both = slice;
    both["spec"]["sharedCounters"] = json!([]);
    let expected =
        "spec: Invalid value: \"\": only one of `sharedCounters` or `devices` is allowed";
    assert_eq!(texts(&create(gvk(&both), &both)), [expected]);
}
