//! CRDs compared with the responses of kube-apiserver 1.36.3.

use evenkeel_schema::{
    default_crd, record_storage_version, unrecognized_formats, validate_crd, validate_crd_update,
};
use serde_json::{Value, json};

use crate::objects::{causes, same_causes};

#[test]
fn crds_are_defaulted_and_validated_as_upstream_does() {
    let cases: Value = serde_json::from_str(include_str!("crds.json")).unwrap();
    let mut differences = Vec::new();
    for case in cases.as_array().unwrap() {
        let mut crd = case["crd"].clone();
        default_crd(&mut crd);
        let errors = validate_crd(&crd);
        let (ours, theirs) = if errors.is_empty() && case["status"] == 201 {
            let spec = &crd["spec"];
            let formats = unrecognized_formats(&crd);
            let warnings: Vec<String> = formats
                .iter()
                .map(|format| format!("\"unrecognized format \\\"{format}\\\"\""))
                .collect();
            let ours = json!([spec["names"], spec["conversion"], warnings]);
            let theirs = &case["spec"];
            (ours, json!([theirs["names"], theirs["conversion"], case["warnings"]]))
        } else if case["status"] == 422 && same_causes(case, &errors) {
            continue;
        } else {
            (json!(causes(&errors)), case["causes"].clone())
        };
        if ours != theirs {
            let crd = &case["crd"];
            differences.push(format!("{crd}\n  ours:   {ours}\n  theirs: {theirs}"));
        }
    }
    assert!(differences.is_empty(), "{}\n{}", differences.len(), differences.join("\n"));
}

#[test]
fn crd_updates_are_validated_as_upstream_does() {
    let transcript: Value = serde_json::from_str(include_str!("crd_updates.json")).unwrap();
    let old = &transcript["old"];
    for case in transcript["cases"].as_array().unwrap() {
        let mut new = case["crd"].clone();
        new["status"] = old["status"].clone();
        new["metadata"]["generation"] = old["metadata"]["generation"].clone();
        default_crd(&mut new);
        record_storage_version(&mut new);
        let errors = validate_crd_update(old, &new);
        if case["status"] == 200 {
            assert_eq!(causes(&errors), Vec::<Value>::new());
        } else {
            assert!(same_causes(case, &errors), "{case}\n{}", json!(causes(&errors)));
        }
    }
}

/// Each key that is no property would be reported with all keys.
#[test]
fn the_text_of_errors_that_repeat_a_list_is_bounded() {
    let keys: Vec<String> = (0..3_000).map(|n| format!("key-of-the-map-{n:05}")).collect();
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "maps.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "maps", "singular": "map", "kind": "Map", "listKind": "MapList"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"list": {
                    "type": "array", "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": keys, "items": {"type": "object"},
                }}}},
            }],
        },
        "status": {"storedVersions": ["v1"]},
    });
    let errors = validate_crd(&crd);
    let bytes: usize = errors.iter().map(|error| error.to_string().len()).sum();
    assert!((2 << 20..8 << 20).contains(&bytes), "{bytes} in {} errors", errors.len());
}
