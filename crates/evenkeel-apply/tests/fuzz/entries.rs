//! Fuzz entry points: one function for each kind of input, called with arbitrary bytes.
//!
//! They panic on a violated invariant. The test `fuzz.rs` and the targets in `fuzz/` call them.

#![expect(clippy::unwrap_used, reason = "a failure is a finding")]

use std::sync::LazyLock;

use evenkeel_apply::managed::{ManagedFields, Request, SingleVersion, apply, update};
use evenkeel_apply::patch::{
    JsonPatch, PatchField, PatchSchema, PatchStrategy, merge_patch, strategic_merge_patch,
};
use evenkeel_apply::typed::Duplicates;
use evenkeel_apply::{ObjectType, Schema, Set};
use evenkeel_types::Gvk;
use serde_json::{Value, json};

/// FieldsV1: a decoded set encodes to the same document.
pub(crate) fn fields_v1(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(set) = Set::from_json(text) else { return };
    let written = set.to_json();
    let again = Set::from_json(&written).unwrap();
    assert_eq!(again, set);
    assert_eq!(again.to_json(), written);
    assert_eq!(Set::from_fields_v1(&set.to_fields_v1()).unwrap(), set);
    assert_eq!(set.paths().len(), set.len());
    assert_eq!(Set::from_paths(set.paths()), set);
    assert_eq!(set.intersection(&set), set);
    assert_eq!(set.clone().union(set.clone()), set);
    assert!(set.clone().difference(&set).is_empty() && set.is_subset(&set));
}

/// `managedFields`: decoded entries encode, and decode to the same entries.
pub(crate) fn managed_fields(data: &[u8]) {
    let Ok(value) = serde_json::from_slice::<Value>(data) else { return };
    let Ok(managers) = ManagedFields::decode(Some(&value)) else { return };
    let written = managers.clone().encode();
    let again = ManagedFields::decode(written.as_ref()).unwrap();
    assert_eq!(again.iter().count(), managers.iter().count());
    assert_eq!(again.encode(), written);
}

/// A JSON patch: `[document, patch]`.
pub(crate) fn json_patch(data: &[u8]) {
    let Ok((document, patch)) = serde_json::from_slice::<(Value, Value)>(data) else { return };
    let Ok(patch) = JsonPatch::decode(patch) else { return };
    if let Ok(patched) = patch.apply(document) {
        assert_storable(&patched);
    }
}

/// JSON merge patch and strategic merge patch: `[document, patch]`.
pub(crate) fn merge_patches(data: &[u8]) {
    let Ok((document, patch)) = serde_json::from_slice::<(Value, Value)>(data) else { return };
    if let Ok(patched) = merge_patch(document.clone(), patch.clone()) {
        assert_storable(&patched);
    }
    if let (Value::Object(document), Value::Object(patch)) = (document, patch)
        && let Ok(patched) = strategic_merge_patch(document, patch, &ByName)
    {
        assert_storable(&Value::Object(patched));
    }
}

/// Merge, comparison and apply: `[live, applied, applied by another manager]`.
pub(crate) fn merge(data: &[u8]) {
    let Ok(bodies) = serde_json::from_slice::<[Value; 3]>(data) else { return };
    for kind in [&*SHAPES, &*DEPLOYMENTS] {
        kind.merge(&bodies);
        kind.apply_twice(&bodies);
    }
}

/// Checks that a result can be stored: its text decodes to the same value.
fn assert_storable(value: &Value) {
    let text = value.to_string();
    if let Ok(again) = serde_json::from_str::<Value>(&text) {
        assert_eq!(again.to_string(), text);
    }
}

fn has_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.iter().any(has_null),
        Value::Object(map) => map.values().any(has_null),
        _ => false,
    }
}

struct Kind {
    versions: SingleVersion,
    kind: &'static str,
    empty_object: Value,
}

static DEPLOYMENTS: LazyLock<Kind> = LazyLock::new(|| {
    let gvk = Gvk::from_api_version("apps/v1", "Deployment");
    let ty = evenkeel_types::lookup(gvk).unwrap();
    let mut empty_object = json!({});
    evenkeel_types::conform(ty, &mut empty_object).unwrap();
    let object_type = ObjectType::builtin(ty).unwrap();
    let versions = SingleVersion { api_version: "apps/v1".into(), object_type };
    Kind { versions, kind: "Deployment", empty_object }
});

/// A custom resource with values of every shape.
static SHAPES: LazyLock<Kind> = LazyLock::new(|| {
    let string = json!({"type": "string"});
    let strings = json!({"type": "array", "items": string});
    let with = |base: &Value, more: Value| {
        let mut both = base.as_object().unwrap().clone();
        both.extend(more.as_object().unwrap().clone());
        Value::Object(both)
    };
    let item = json!({"type": "object", "properties": {
        "name": string, "port": {"type": "integer", "default": 80}, "value": string,
        "nested": {"type": "object", "properties": {"x": string}},
        "set": with(&strings, json!({"x-kubernetes-list-type": "set"}))
    }});
    let items = json!({"type": "array", "items": item, "x-kubernetes-list-type": "map"});
    let map = json!({"type": "object", "additionalProperties": string});
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "string": string, "number": {"type": "number"}, "flag": {"type": "boolean"},
        "either": {"x-kubernetes-int-or-string": true},
        "list": strings, "set": with(&strings, json!({"x-kubernetes-list-type": "set"})),
        "items": with(&items, json!({"x-kubernetes-list-map-keys": ["name"]})),
        "ports": with(&items, json!({"x-kubernetes-list-map-keys": ["name", "port"]})),
        "map": map, "atomic": with(&map, json!({"x-kubernetes-map-type": "atomic"})),
        "struct": item, "maps": {"type": "object", "additionalProperties": item},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}
    }}}});
    let object_type = Schema::from_structural(&schema, false).unwrap();
    let versions = SingleVersion { api_version: "x.io/v1".into(), object_type };
    Kind { versions, kind: "Shape", empty_object: json!({}) }
});

impl Kind {
    fn merge(&self, [live, applied, other]: &[Value; 3]) {
        let ty = &self.versions.object_type;
        if let Ok(fields) = ty.to_field_set(other) {
            let remaining = ty.remove(live.clone(), &fields);
            assert_storable(&remaining);
            assert_storable(&ty.extract_with_keys(live.clone(), &fields));
            if let Some(adapted) = ty.reconcile(&fields) {
                assert_eq!(ty.reconcile(&adapted), None);
            }
        }
        let _ = ty.compare(live, other);
        let merged = ty.merge(live.clone(), applied);
        if ty.validate(live, Duplicates::Allow).is_err()
            || ty.validate(applied, Duplicates::Reject).is_err()
        {
            return;
        }
        let merged = merged.unwrap();
        ty.validate(&merged, Duplicates::Allow).unwrap();
        assert_eq!(ty.merge(merged.clone(), applied).unwrap(), merged);
        assert!(ty.compare(&merged, &merged).unwrap().is_same());
        let changes = ty.compare(live, &merged).unwrap();
        let back = ty.compare(&merged, live).unwrap();
        assert_eq!((&changes.added, &changes.removed), (&back.removed, &back.added));
    }

    fn apply_twice(&self, [live, applied, other]: &[Value; 3]) {
        let [mut live, applied, other] = [live, applied, other].map(|body| self.object(body));
        if update(&self.request("updater"), None, &mut live).is_err() {
            return;
        }
        let mut objects = vec![live];
        for (manager, config) in
            [("one", &applied), ("two", &other), ("one", &other), ("two", &applied)]
        {
            let live = objects.last();
            let _ = apply(&self.request(manager), live, config, false);
            let Ok(once) = apply(&self.request(manager), live, config, true) else { continue };
            ManagedFields::decode(once.object.pointer("/metadata/managedFields")).unwrap();
            if has_null(&once.object) {
                // A field that no manager owns any more leaves a null, which validation would
                // reject.
                continue;
            }
            let twice = apply(&self.request(manager), Some(&once.object), config, false).unwrap();
            assert!(!twice.changed, "applied twice:\n{}\n{}", once.object, twice.object);
            assert_eq!(twice.object, once.object);
            objects.push(once.object);
        }
    }

    /// Returns the body as an object of this kind.
    fn object(&self, body: &Value) -> Value {
        let mut object = json!({
            "apiVersion": self.versions.api_version, "kind": self.kind,
            "metadata": {"name": "n"}
        });
        for field in ["spec", "status", "metadata"] {
            if let Some(value) = body.get(field) {
                object[field] = value.clone();
            }
        }
        object
    }

    fn request<'a>(&'a self, manager: &'a str) -> Request<'a> {
        Request {
            versions: &self.versions,
            api_version: &self.versions.api_version,
            kind: self.kind,
            subresource: "",
            reset_fields: &[],
            empty_object: &self.empty_object,
            manager,
            now: "2024-01-01T00:00:00Z",
        }
    }
}

/// A schema in which most lists merge by name.
struct ByName;

impl PatchSchema for ByName {
    fn field(&self, name: &str) -> Option<PatchField<'_>> {
        let (strategy, merge_key) = match name {
            "command" => (PatchStrategy::Default, None),
            "finalizers" | "set" => (PatchStrategy::Merge, None),
            "unknown" => return None,
            "whole" => (PatchStrategy::Replace, None),
            _ => (PatchStrategy::Merge, Some("name")),
        };
        Some(PatchField { schema: &Self, strategy, merge_key })
    }

    fn name(&self) -> &str {
        "ByName"
    }
}
