//! Merge patches between two states of an object.
//!
//! A Rust type may lack fields that the server has. Sending the difference instead of the whole
//! object keeps them.

use serde_json::{Map, Value};

/// Returns the merge patch from `old` to `new`; `None` if they are equal.
pub(crate) fn between(old: &Value, new: &Value) -> Option<Value> {
    let (Value::Object(old), Value::Object(new)) = (old, new) else {
        return (old != new).then(|| new.clone());
    };
    between_fields(old, new).map(Value::Object)
}

/// Same as [`between`], of the fields of an object.
pub(crate) fn between_fields(
    old: &Map<String, Value>,
    new: &Map<String, Value>,
) -> Option<Map<String, Value>> {
    let mut patch = Map::new();
    for (name, value) in new {
        let changed = match old.get(name) {
            Some(old) => between(old, value),
            None => (!value.is_null()).then(|| value.clone()),
        };
        patch.extend(changed.map(|value| (name.clone(), value)));
    }
    for name in old.keys().filter(|name| !new.contains_key(*name)) {
        patch.insert(name.clone(), Value::Null);
    }
    (!patch.is_empty()).then_some(patch)
}

/// Returns whether the patch has a list, which it replaces as a whole.
pub(crate) fn has_list(patch: &Value) -> bool {
    match patch {
        Value::Array(_) => true,
        Value::Object(fields) => fields.values().any(has_list),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn patch_has_changed_and_removed_fields() {
        let old = json!({"a": 1, "b": {"c": 1, "d": 2}, "e": [1], "n": null});
        let new = json!({"a": 1, "b": {"c": 2}, "f": 3, "n": null, "m": null});
        let patch = between(&old, &new).unwrap();
        assert_eq!(patch, json!({"b": {"c": 2, "d": null}, "e": null, "f": 3}));
        assert!(!has_list(&patch));
        assert_eq!(between(&new, &new), None);
        assert!(has_list(&between(&new, &json!({"b": {"x": [1]}})).unwrap()));
    }
}
