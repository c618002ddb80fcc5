//! What a write asked for, walked beside the difference that it is held responsible for.
//!
//! The cache is always a little behind: between the state it has and the answer to a write, other
//! clients may have written too. A field that differs is credited to the write only if the write
//! set it.

use serde_json::{Map, Value};

use crate::cache::Version;

/// The body of a write, and how the server combines it with the stored object.
pub(crate) struct Body<'a> {
    /// The bytes that were sent.
    pub(crate) bytes: &'a [u8],
    /// How they are combined with the object.
    pub(crate) form: Form,
}

/// How a body becomes part of the stored object.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// The body is the whole object: what it lacks is removed.
    Whole,
    /// What the body has is set; lists are replaced.
    Merge,
    /// What the body has is set; lists are merged by item.
    MergeLists,
    /// The body is a list of JSON patch operations.
    Operations,
}

/// The part of a body at one path.
#[derive(Clone, Copy)]
pub(crate) struct Sent<'a> {
    part: Part<'a>,
    form: Form,
}

#[derive(Clone, Copy)]
enum Part<'a> {
    /// Every difference from here on is the write's.
    All,
    /// The write has this here.
    Value(&'a Value),
    /// The write has nothing here.
    Missing,
}

/// The fields by which items of a list are told apart in Kubernetes APIs.
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
    /// The fields that the body sets. One that cannot be read sets none.
    pub(crate) fn fields(&self) -> Value {
        let body: Value = serde_json::from_slice(self.bytes).unwrap_or_default();
        match (self.form, body) {
            (Form::Operations, Value::Array(operations)) => touched(&operations),
            (_, body) => body,
        }
    }
}

/// The places that the operations of a JSON patch touch, as a tree whose leaves are null.
fn touched(operations: &[Value]) -> Value {
    let mut root = Value::Object(Map::new());
    // What a test names is not changed by it.
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

impl<'a> Sent<'a> {
    /// The root of a body. `exact` if the write was accepted only because the object was at the
    /// version that it is compared with: then no other write came between.
    pub(crate) fn root(fields: &'a Value, form: Form, exact: bool) -> Self {
        Self { part: if exact { Part::All } else { Part::Value(fields) }, form }
    }

    /// The part at a field of this one.
    pub(crate) fn field(self, name: &str) -> Self {
        let part = match self.part {
            Part::Value(Value::Object(fields)) => {
                fields.get(name).map_or(Part::Missing, Part::Value)
            }
            // Something else is put in the place of the object.
            Part::Value(_) => Part::All,
            part => part,
        };
        Self { part, ..self }
    }

    /// The part at an item of this list, which `item` returns as it is now.
    pub(crate) fn item(self, index: usize, item: impl FnOnce() -> Value) -> Self {
        let part = match self.part {
            Part::Value(Value::Array(items)) => counterpart(items, index, &item()),
            // The places that a JSON patch touches.
            Part::Value(Value::Object(places)) => {
                places.get(&index.to_string()).map_or(Part::Missing, Part::Value)
            }
            Part::Value(_) => Part::All,
            part => part,
        };
        Self { part, ..self }
    }

    /// Whether the write is what made `old` into `new` here: it asked for something else than what
    /// was there.
    pub(crate) fn made(self, old: &Value, new: &Value) -> bool {
        match self.part {
            Part::All => true,
            Part::Value(_) if self.form == Form::Operations => true,
            Part::Value(Value::Array(items)) if self.form == Form::MergeLists => {
                let old = old.as_array().map(Vec::as_slice).unwrap_or_default();
                items.iter().any(|item| !old.iter().any(|old| contains(old, item)))
            }
            Part::Value(value) => value != old,
            Part::Missing => self.form == Form::Whole && new.is_null(),
        }
    }
}

/// The item of a list that was sent for `item`.
fn counterpart<'a>(items: &'a [Value], index: usize, item: &Value) -> Part<'a> {
    let shared = |name: &&&str| {
        item.get(**name).is_some() && items.iter().any(|sent| sent.get(**name).is_some())
    };
    let sent = match IDENTITY.iter().find(shared) {
        Some(name) => items.iter().find(|sent| sent.get(*name) == item.get(*name)),
        // Items without names are replaced with the whole list.
        None => items.get(index),
    };
    sent.map_or(Part::Missing, Part::Value)
}

/// Whether all of `part` is in `whole`.
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

/// The version that the object had to be at for the write to be accepted, if the body names one.
pub(crate) fn precondition(fields: &Value) -> Option<Version> {
    fields["metadata"]["resourceVersion"].as_str().and_then(Version::parse)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The fields that differ and are credited to a write of `body`.
    fn credited(old: &Value, new: &Value, form: Form, body: &Value) -> Vec<String> {
        let bytes = body.to_string().into_bytes();
        let fields = Body { bytes: &bytes, form }.fields();
        let sent = Sent::root(&fields, form, false);
        let (old, new) = (old.to_string(), new.to_string());
        let changes = super::super::diff::fields(old.as_bytes(), new.as_bytes(), sent);
        changes.into_iter().map(|field| field.path).collect()
    }

    #[test]
    fn an_apply_is_credited_with_its_fields_and_list_items_alone() {
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
        assert_eq!(credited(&old, &new, Form::MergeLists, &body), expected);
    }

    #[test]
    fn an_item_that_another_client_added_to_a_list_is_not_credited() {
        let old = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        let theirs = json!({"type": "Other", "status": "True"});
        let both = |status: &str| json!({"status": {"conditions": [{"type": "Ready", "status": status}, theirs]}});
        let ours =
            |status: &str| json!({"status": {"conditions": [{"type": "Ready", "status": status}]}});
        let credited = |status| credited(&old, &both(status), Form::MergeLists, &ours(status));
        assert!(credited("True").is_empty());
        assert_eq!(credited("False"), ["status.conditions"]);
    }

    #[test]
    fn patches_are_credited_with_what_they_set_and_remove() {
        let old =
            json!({"metadata": {"finalizers": ["x"]}, "data": {"a": "1", "b": "1", "c": "1"}});
        let new = json!({"metadata": {}, "data": {"a": "2", "c": "2"}});
        let merge = json!({"metadata": {"finalizers": []}, "data": {"b": null}});
        let expected = ["metadata.finalizers", "data.b"];
        assert_eq!(credited(&old, &new, Form::Merge, &merge), expected);
        let operations = json!([
            {"op": "test", "path": "/data/c", "value": "1"},
            {"op": "move", "from": "/data/b", "path": "/data/a"},
            {"op": "remove", "path": "/metadata/finalizers/0"},
        ]);
        let expected = ["metadata.finalizers", "data.a", "data.b"];
        assert_eq!(credited(&old, &new, Form::Operations, &operations), expected);
    }

    #[test]
    fn an_update_is_credited_with_what_it_changed_and_left_out() {
        let old = json!({"spec": {"a": 1, "b": 1}, "status": {"n": 1}});
        let new = json!({"spec": {"a": 2}, "status": {"n": 2}});
        let body = json!({"spec": {"a": 2}, "status": {"n": 1}});
        assert_eq!(credited(&old, &new, Form::Whole, &body), ["spec.a", "spec.b"]);
    }
}
