//! The fields that differ between two states of an object.

use std::borrow::{Borrow, Cow};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::hash::{BuildHasher as _, Hasher as _};

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::sent_fields::SentFields;

/// A field that a write changed.
///
/// ```
/// use evenkeel::journal::{Record, WriteResult};
///
/// fn changed_fields(record: &Record) -> Vec<&str> {
///     let changes = record.writes.iter().filter_map(|write| match &write.result {
///         WriteResult::Changed { fields, .. } => Some(fields),
///         _ => None,
///     });
///     changes.flatten().map(|change| change.path.as_str()).collect()
/// }
/// ```
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FieldChange {
    /// The path, such as `spec.replicas`.
    pub path: String,
    /// A digest of the new value.
    pub(crate) value: u64,
}

/// Only the path: short values could be found from their digest.
impl fmt::Debug for FieldChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path.fmt(f)
    }
}

impl fmt::Display for FieldChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path)
    }
}

impl FieldChange {
    /// The digest includes the uid: objects of the same name are different objects.
    fn new(path: &str, value: &Value, uid: &str) -> Self {
        let mut hasher = foldhash::fast::FixedState::default().build_hasher();
        hasher.write(uid.as_bytes());
        hasher.write(value.to_string().as_bytes());
        Self { path: path.to_owned(), value: hasher.finish() }
    }
}

impl FieldChange {
    /// Returns whether the field is part of the status, which changes with the observed state.
    pub(crate) fn is_status(&self) -> bool {
        self.path.split(['.', '[']).next() == Some("status")
    }
}

/// The maximum number of paths.
const PATHS_MAX: usize = 16;

/// Returns the fields that the write changed, except metadata that every write changes.
///
/// Both texts come from the same server, so equal parts are usually equal as text and not parsed.
pub(crate) fn fields(old: &[u8], new: &[u8], sent: SentFields<'_>) -> Vec<FieldChange> {
    let (Some(mut old), Some(mut new)) = (Fields::of(old), Fields::of(new)) else {
        return Vec::new();
    };
    let metadata = [&mut old, &mut new].map(|object| {
        // List items lack them.
        object.0.remove("apiVersion");
        object.0.remove("kind");
        let mut metadata = object.0.remove("metadata").and_then(Text::fields).unwrap_or_default();
        for moved in ["resourceVersion", "generation", "managedFields"] {
            metadata.0.remove(moved);
        }
        metadata
    });
    let uid = metadata[1].0.get("uid").and_then(|uid| serde_json::from_str(uid.0).ok());
    let mut found = Found { uid: uid.unwrap_or_default(), changes: Vec::new() };
    let [old_metadata, new_metadata] = &metadata;
    let path = &mut "metadata".to_owned();
    compare_fields(path, old_metadata, new_metadata, sent.field("metadata"), &mut found);
    compare_fields(&mut String::new(), &old, &new, sent, &mut found);
    found.changes
}

struct Found {
    uid: String,
    changes: Vec<FieldChange>,
}

/// The JSON text of a value.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Text<'a>(&'a str);

impl<'a> Text<'a> {
    fn fields(self) -> Option<Fields<'a>> {
        Fields::of(self.0.as_bytes())
    }

    fn items(self) -> Option<Vec<&'a RawValue>> {
        if self.0.starts_with('[') { serde_json::from_str(self.0).ok() } else { None }
    }

    fn value(self) -> Value {
        serde_json::from_str(self.0).unwrap_or_default()
    }
}

/// The fields of an object as JSON texts.
#[derive(Default)]
struct Fields<'a>(BTreeMap<Name<'a>, Text<'a>>);

#[derive(Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(transparent)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

impl Borrow<str> for Name<'_> {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl<'a> Fields<'a> {
    fn of(text: &'a [u8]) -> Option<Self> {
        let fields: BTreeMap<Name<'a>, &'a RawValue> = serde_json::from_slice(text).ok()?;
        Some(Self(fields.into_iter().map(|(name, value)| (name, Text(value.get()))).collect()))
    }
}

fn compare(
    path: &mut String,
    old: Option<Text<'_>>,
    new: Option<Text<'_>>,
    sent: SentFields<'_>,
    found: &mut Found,
) {
    if old == new || found.changes.len() == PATHS_MAX {
        return;
    }
    if let (Some(old), Some(new)) = (old, new) {
        if let (Some(old), Some(new)) = (old.fields(), new.fields()) {
            return compare_fields(path, &old, &new, sent, found);
        }
        if let (Some(old), Some(new)) = (old.items(), new.items())
            && old.len() == new.len()
        {
            for (index, (old, new)) in old.iter().zip(new).enumerate() {
                let (old, new) = (Text(old.get()), Text(new.get()));
                let end = path.len();
                path.push_str(&format!("[{index}]"));
                compare(path, Some(old), Some(new), sent.item(index, || new.value()), found);
                path.truncate(end);
            }
            return;
        }
    }
    // Null equals a missing field, and equal values may have different texts.
    let value = |text: Option<Text<'_>>| text.map(Text::value).unwrap_or_default();
    let (old, new) = (value(old), value(new));
    if old != new && sent.caused(&old, &new) {
        found.changes.push(FieldChange::new(path, &new, &found.uid));
    }
}

fn compare_fields(
    path: &mut String,
    old: &Fields<'_>,
    new: &Fields<'_>,
    sent: SentFields<'_>,
    found: &mut Found,
) {
    let names: BTreeSet<&Name<'_>> = old.0.keys().chain(new.0.keys()).collect();
    for name in names {
        let end = path.len();
        if end > 0 {
            path.push('.');
        }
        path.push_str(&name.0);
        let (old, new) = (old.0.get(name).copied(), new.0.get(name).copied());
        compare(path, old, new, sent.field(&name.0), found);
        path.truncate(end);
    }
}

/// Returns the field manager with the second latest managedFields entry.
pub(crate) fn last_other_manager(object: &[u8]) -> Option<String> {
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
    use serde_json::Value;

    use crate::journal::sent_fields::{MergeStrategy, SentFields};

    fn fields(old: &[u8], new: &[u8]) -> Vec<String> {
        let all = SentFields::root(&Value::Null, MergeStrategy::Replace, true);
        super::fields(old, new, all).into_iter().map(|field| field.path).collect()
    }

    #[test]
    fn only_changed_fields_are_listed() {
        let old = br#"{"metadata":{"resourceVersion":"1","labels":{"a":"1"}},"spec":{"x":[1,2],"y":{"z":1}}}"#;
        let new = br#"{"kind":"K","metadata":{"resourceVersion":"2","labels":{"a":"2"}},"spec":{"x":[1,3],"y":{"z":1},"n":0}}"#;
        assert_eq!(fields(old, new), ["metadata.labels.a", "spec.n", "spec.x[1]"]);
    }

    #[test]
    fn equal_values_with_different_text_do_not_differ() {
        let old = br#"{"metadata":{"name":"a"},"spec":{"x":[1,{"y":2}],"s":"\u0041","n":null}}"#;
        let new = br#"{ "spec": { "s": "A", "x": [ 1, { "y": 2 } ] }, "metadata": {"name":"a"} }"#;
        assert!(fields(old, new).is_empty());
    }

    #[test]
    fn lists_of_different_length_are_one_change() {
        let old = br#"{"spec":{"x":[1]}}"#;
        let new = br#"{"spec":{"x":[1,2]}}"#;
        assert_eq!(fields(old, new), ["spec.x"]);
    }
}
