//! Reads and writes the metadata of objects.

use std::collections::HashSet;

use serde_json::{Map, Value};

/// Access to the parts of `metadata` that the server uses.
pub(crate) trait Metadata {
    fn meta(&self, field: &str) -> Option<&Value>;

    fn meta_str(&self, field: &str) -> &str {
        self.meta(field).and_then(Value::as_str).unwrap_or("")
    }

    fn meta_i64(&self, field: &str) -> Option<i64> {
        self.meta(field).and_then(Value::as_i64)
    }

    fn finalizers(&self) -> Vec<&str> {
        let list = self.meta("finalizers").and_then(Value::as_array);
        list.map(|all| all.iter().filter_map(Value::as_str).collect()).unwrap_or_default()
    }

    fn is_deleting(&self) -> bool {
        !self.meta_str("deletionTimestamp").is_empty()
    }
}

impl Metadata for Value {
    fn meta(&self, field: &str) -> Option<&Value> {
        self.get("metadata")?.get(field)
    }
}

/// Returns the metadata, inserted if it is missing.
pub(crate) fn metadata_mut(object: &mut Value) -> &mut Map<String, Value> {
    let Value::Object(object) = object else {
        unreachable!("every decoder rejects values that are not objects")
    };
    let metadata = object.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
    if !metadata.is_object() {
        *metadata = Value::Object(Map::new());
    }
    match metadata {
        Value::Object(map) => map,
        _ => unreachable!("set to an object above"),
    }
}

/// Sets a field of the metadata, or removes it.
pub(crate) fn set_meta(object: &mut Value, field: &str, value: Option<Value>) {
    let metadata = metadata_mut(object);
    match value {
        Some(value) => metadata.insert(field.to_owned(), value),
        None => metadata.remove(field),
    };
}

pub(crate) fn set_finalizers(object: &mut Value, finalizers: Vec<String>) {
    set_meta(object, "finalizers", (!finalizers.is_empty()).then(|| finalizers.into()));
}

/// Removes duplicate owner references and returns their UIDs.
pub(crate) fn dedup_owners(object: &mut Value) -> Vec<String> {
    let owners = object.get_mut("metadata").and_then(|meta| meta.get_mut("ownerReferences"));
    let Some(owners) = owners.and_then(Value::as_array_mut).filter(|all| all.len() > 1) else {
        return Vec::new();
    };
    let mut duplicates = Vec::new();
    let mut seen = HashSet::new();
    let first: Vec<bool> = owners.iter().map(|owner| seen.insert(owner)).collect();
    let mut first = first.into_iter();
    owners.retain(|owner| {
        let first = first.next().unwrap_or(true);
        if !first {
            duplicates.push(owner["uid"].as_str().unwrap_or("").to_owned());
        }
        first
    });
    duplicates
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn duplicate_owner_references_are_removed() {
        let (one, other) = (json!({"uid": "1"}), json!({"uid": "1", "controller": true}));
        let mut object = json!({"metadata": {"ownerReferences": [one, other, one]}});
        assert_eq!(dedup_owners(&mut object), ["1"]);
        assert_eq!(object, json!({"metadata": {"ownerReferences": [one, other]}}));
        assert!(dedup_owners(&mut object).is_empty());
    }
}
