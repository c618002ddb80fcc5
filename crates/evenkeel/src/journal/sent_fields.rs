//! The fields that a write set, to attribute changes to it.
//!
//! The cache is stale by nature: other clients may have written between the cached state and the
//! response of a write. A changed field is attributed to the write only if the write set it.

use serde_json::{Map, Value};

use crate::cache::Version;

/// The body of a write and its merge strategy.
pub(crate) struct Body<'a> {
    /// The bytes that were sent.
    pub(crate) bytes: &'a [u8],
    /// How the server merges them into the object.
    pub(crate) strategy: MergeStrategy,
}

/// How the server merges a body into the stored object.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum MergeStrategy {
    /// Update: the body replaces the object.
    Replace,
    /// Merge patch: fields are set, lists are replaced.
    MergePatch,
    /// Apply or strategic merge patch: fields are set, lists are merged by item.
    StrategicMerge,
    /// JSON patch.
    JsonPatch,
}

/// The part of a body at one path.
#[derive(Clone, Copy)]
pub(crate) struct SentFields<'a> {
    part: Part<'a>,
    strategy: MergeStrategy,
}

#[derive(Clone, Copy)]
enum Part<'a> {
    /// Every change below is attributed to the write.
    All,
    /// The value in the body.
    Value(&'a Value),
    /// The body has no value.
    Missing,
}

/// The merge keys of list items in Kubernetes APIs.
const IDENTITY: [&str; 10] = [
    "name",
    "type",
    "key",
    "uid",
    "containerPort",
    "port",
    "mountPath",
    "devicePath",
    "ip",
    "topologyKey",
];

impl Body<'_> {
    /// Returns the fields that the body sets; none if it does not parse.
    pub(crate) fn fields(&self) -> Value {
        let body: Value = serde_json::from_slice(self.bytes).unwrap_or_default();
        match (self.strategy, body) {
            (MergeStrategy::JsonPatch, Value::Array(operations)) => touched(&operations),
            (_, body) => body,
        }
    }
}

/// Returns the paths of the operations of a JSON patch as a tree with null leaves.
fn touched(operations: &[Value]) -> Value {
    let mut root = Value::Object(Map::new());
    // A test operation changes nothing.
    let changing = operations.iter().filter(|operation| operation["op"] != "test");
    let pointers = changing.flat_map(|operation| {
        let from = operation["from"].as_str().filter(|_| operation["op"] == "move");
        operation["path"].as_str().into_iter().chain(from)
    });
    for pointer in pointers {
        let mut place = &mut root;
        for name in pointer.split('/').skip(1) {
            let name = name.replace("~1", "/").replace("~0", "~");
            if !place.is_object() {
                *place = Value::Object(Map::new());
            }
            let Some(fields) = place.as_object_mut() else { break };
            place = fields.entry(name).or_insert(Value::Null);
        }
    }
    root
}

impl<'a> SentFields<'a> {
    /// Returns the root of a body. `exact` states that the resourceVersion precondition of the
    /// write was that of the cached object: then there was no write in between.
    pub(crate) fn root(fields: &'a Value, strategy: MergeStrategy, exact: bool) -> Self {
        Self { part: if exact { Part::All } else { Part::Value(fields) }, strategy }
    }

    /// Returns the part at a field.
    pub(crate) fn field(self, name: &str) -> Self {
        let part = match self.part {
            Part::Value(Value::Object(fields)) => {
                fields.get(name).map_or(Part::Missing, Part::Value)
            }
            // The body replaces the object by another value.
            Part::Value(_) => Part::All,
            part => part,
        };
        Self { part, ..self }
    }

    /// Returns the part at an item of this list; `item` returns its new value.
    pub(crate) fn item(self, index: usize, item: impl FnOnce() -> Value) -> Self {
        let part = match self.part {
            Part::Value(Value::Array(items)) => counterpart(items, index, &item()),
            // The paths of a JSON patch.
            Part::Value(Value::Object(places)) => {
                places.get(&index.to_string()).map_or(Part::Missing, Part::Value)
            }
            Part::Value(_) => Part::All,
            part => part,
        };
        Self { part, ..self }
    }

    /// Returns whether the write changed `old` to `new`.
    pub(crate) fn caused(self, old: &Value, new: &Value) -> bool {
        match self.part {
            Part::All => true,
            Part::Value(_) if self.strategy == MergeStrategy::JsonPatch => true,
            Part::Value(Value::Array(items)) if self.strategy == MergeStrategy::StrategicMerge => {
                let old = old.as_array().map(Vec::as_slice).unwrap_or_default();
                items.iter().any(|item| !old.iter().any(|old| contains(old, item)))
            }
            Part::Value(value) => value != old,
            Part::Missing => self.strategy == MergeStrategy::Replace && new.is_null(),
        }
    }
}

/// Returns the item of the body that corresponds to `item`.
fn counterpart<'a>(items: &'a [Value], index: usize, item: &Value) -> Part<'a> {
    let shared = |name: &&&str| {
        item.get(**name).is_some() && items.iter().any(|sent| sent.get(**name).is_some())
    };
    let sent = match IDENTITY.iter().find(shared) {
        Some(name) => items.iter().find(|sent| sent.get(*name) == item.get(*name)),
        // Lists without a merge key are replaced.
        None => items.get(index),
    };
    sent.map_or(Part::Missing, Part::Value)
}

/// Returns whether `whole` contains `part`.
fn contains(whole: &Value, part: &Value) -> bool {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => part
            .iter()
            .all(|(name, value)| whole.get(name).is_some_and(|whole| contains(whole, value))),
        (Value::Array(whole), Value::Array(part)) => {
            part.iter().all(|part| whole.iter().any(|whole| contains(whole, part)))
        }
        (whole, part) => whole == part,
    }
}

/// Returns the resourceVersion precondition of the body, if any.
pub(crate) fn precondition(fields: &Value) -> Option<Version> {
    fields["metadata"]["resourceVersion"].as_str().and_then(Version::parse)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns the changed fields that are attributed to a write of `body`.
    fn attributed(old: &Value, new: &Value, strategy: MergeStrategy, body: &Value) -> Vec<String> {
        let bytes = body.to_string().into_bytes();
        let fields = Body { bytes: &bytes, strategy }.fields();
        let sent = SentFields::root(&fields, strategy, false);
        let (old, new) = (old.to_string(), new.to_string());
        let changes = super::super::diff::fields(old.as_bytes(), new.as_bytes(), sent);
        changes.into_iter().map(|field| field.path).collect()
    }

    #[test]
    fn apply_is_attributed_only_its_fields_and_list_items() {
        let old = json!({
            "metadata": {"labels": {"a.b/c": "1"}},
            "spec": {"replicas": 1, "containers": [{"name": "x", "image": "x:1"}, {"name": "y", "image": "y:1"}]},
            "status": {"availableReplicas": 0},
        });
        let new = json!({
            "metadata": {"labels": {"a.b/c": "2", "theirs": "1"}},
            "spec": {"replicas": 2, "containers": [{"name": "x", "image": "x:2"}, {"name": "y", "image": "y:2"}]},
            "status": {"availableReplicas": 1},
        });
        let body = json!({
            "metadata": {"labels": {"a.b/c": "2"}},
            "spec": {"replicas": 2, "containers": [{"name": "y", "image": "y:2"}]},
        });
        let expected = ["metadata.labels.a.b/c", "spec.containers[1].image", "spec.replicas"];
        assert_eq!(attributed(&old, &new, MergeStrategy::StrategicMerge, &body), expected);
    }

    #[test]
    fn list_item_of_another_client_is_not_attributed() {
        let old = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        let theirs = json!({"type": "Other", "status": "True"});
        let both = |status: &str| json!({"status": {"conditions": [{"type": "Ready", "status": status}, theirs]}});
        let ours =
            |status: &str| json!({"status": {"conditions": [{"type": "Ready", "status": status}]}});
        let attributed =
            |status| attributed(&old, &both(status), MergeStrategy::StrategicMerge, &ours(status));
        assert!(attributed("True").is_empty());
        assert_eq!(attributed("False"), ["status.conditions"]);
    }

    #[test]
    fn patches_are_attributed_fields_they_set_and_remove() {
        let old =
            json!({"metadata": {"finalizers": ["x"]}, "data": {"a": "1", "b": "1", "c": "1"}});
        let new = json!({"metadata": {}, "data": {"a": "2", "c": "2"}});
        let merge = json!({"metadata": {"finalizers": []}, "data": {"b": null}});
        let expected = ["metadata.finalizers", "data.b"];
        assert_eq!(attributed(&old, &new, MergeStrategy::MergePatch, &merge), expected);
        let operations = json!([
            {"op": "test", "path": "/data/c", "value": "1"},
            {"op": "move", "from": "/data/b", "path": "/data/a"},
            {"op": "remove", "path": "/metadata/finalizers/0"},
        ]);
        let expected = ["metadata.finalizers", "data.a", "data.b"];
        assert_eq!(attributed(&old, &new, MergeStrategy::JsonPatch, &operations), expected);
    }

    #[test]
    fn update_is_attributed_changed_and_omitted_fields() {
        let old = json!({"spec": {"a": 1, "b": 1}, "status": {"n": 1}});
        let new = json!({"spec": {"a": 2}, "status": {"n": 2}});
        let body = json!({"spec": {"a": 2}, "status": {"n": 1}});
        assert_eq!(attributed(&old, &new, MergeStrategy::Replace, &body), ["spec.a", "spec.b"]);
    }
}
