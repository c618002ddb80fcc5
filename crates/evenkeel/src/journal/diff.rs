//! Which fields differ between two states of an object, by path.

use std::fmt;
use std::hash::{BuildHasher as _, Hasher as _};

use serde_json::{Map, Value};

/// A field that a write changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldChange {
    /// The field, as in `spec.replicas`.
    pub path: String,
    /// A digest of its value now; enough to see the same value set again.
    pub(crate) value: u64,
}

impl fmt::Display for FieldChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path)
    }
}

impl FieldChange {
    /// Of the object with this uid: the same value in another object of that name is not the same.
    fn new(path: &str, value: &Value, uid: &str) -> Self {
        let mut hasher = foldhash::fast::FixedState::default().build_hasher();
        hasher.write(uid.as_bytes());
        hasher.write(value.to_string().as_bytes());
        Self { path: path.to_owned(), value: hasher.finish() }
    }
}

/// How many paths are named.
const NAMED: usize = 16;

/// Paths that differ, those aside that every write moves.
pub(crate) fn fields(old: &[u8], new: &[u8]) -> Vec<FieldChange> {
    let parse = |bytes| serde_json::from_slice::<Value>(bytes).ok();
    let (Some(mut old), Some(mut new)) = (parse(old), parse(new)) else { return Vec::new() };
    for object in [&mut old, &mut new] {
        let Value::Object(object) = object else { continue };
        // List items lack them; the type does not change.
        object.remove("apiVersion");
        object.remove("kind");
        if let Some(Value::Object(meta)) = object.get_mut("metadata") {
            for moved in ["resourceVersion", "generation", "managedFields"] {
                meta.remove(moved);
            }
        }
    }
    let uid = new["metadata"]["uid"].as_str().unwrap_or_default();
    let mut found = Found { uid, changes: Vec::new() };
    compare(&mut String::new(), &old, &new, &mut found);
    found.changes
}

struct Found<'a> {
    uid: &'a str,
    changes: Vec<FieldChange>,
}

fn compare(path: &mut String, old: &Value, new: &Value, found: &mut Found<'_>) {
    if old == new || found.changes.len() == NAMED {
        return;
    }
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => compare_maps(path, old, new, found),
        (Value::Array(old), Value::Array(new)) if old.len() == new.len() => {
            for (index, (old, new)) in old.iter().zip(new).enumerate() {
                let end = path.len();
                path.push_str(&format!("[{index}]"));
                compare(path, old, new, found);
                path.truncate(end);
            }
        }
        _ => found.changes.push(FieldChange::new(path, new, found.uid)),
    }
}

fn compare_maps(
    path: &mut String,
    old: &Map<String, Value>,
    new: &Map<String, Value>,
    found: &mut Found<'_>,
) {
    let added = new.keys().filter(|name| !old.contains_key(*name));
    let mut names: Vec<&String> = old.keys().chain(added).collect();
    names.sort_unstable();
    for name in names {
        let end = path.len();
        if end > 0 {
            path.push('.');
        }
        path.push_str(name);
        let absent = Value::Null;
        let (old, new) = (old.get(name), new.get(name));
        compare(path, old.unwrap_or(&absent), new.unwrap_or(&absent), found);
        path.truncate(end);
    }
}

/// The field manager with the latest entry but one: who else touches the object.
pub(crate) fn last_other_writer(object: &[u8]) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Object {
        metadata: Meta,
    }
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Meta {
        #[serde(default)]
        managed_fields: Vec<Manager>,
    }
    #[derive(serde::Deserialize)]
    struct Manager {
        manager: Option<String>,
        time: Option<String>,
    }
    let object: Object = serde_json::from_slice(object).ok()?;
    let mut managers = object.metadata.managed_fields;
    managers.sort_by(|a, b| b.time.cmp(&a.time));
    managers.into_iter().nth(1)?.manager
}

#[cfg(test)]
mod tests {
    fn fields(old: &[u8], new: &[u8]) -> Vec<String> {
        super::fields(old, new).into_iter().map(|field| field.path).collect()
    }

    #[test]
    fn only_what_differs_is_named() {
        let old = br#"{"metadata":{"resourceVersion":"1","labels":{"a":"1"}},"spec":{"x":[1,2],"y":{"z":1}}}"#;
        let new = br#"{"kind":"K","metadata":{"resourceVersion":"2","labels":{"a":"2"}},"spec":{"x":[1,3],"y":{"z":1},"n":0}}"#;
        assert_eq!(fields(old, new), ["metadata.labels.a", "spec.n", "spec.x[1]"]);
    }

    #[test]
    fn lists_of_other_length_are_named_whole() {
        let old = br#"{"spec":{"x":[1]}}"#;
        let new = br#"{"spec":{"x":[1,2]}}"#;
        assert_eq!(fields(old, new), ["spec.x"]);
    }
}
