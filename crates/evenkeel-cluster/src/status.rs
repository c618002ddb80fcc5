//! Writing the status of a built-in object.
//!
//! Only fields that differ are sent, as a merge patch on the status subresource that is good for
//! this very object (by uid) and for no other of its name. Nothing is sent when nothing differs.

use std::sync::Arc;

use evenkeel::client::Client;
use evenkeel::client::{Error, Patch};
use evenkeel::{Key, Object};
use serde::Serialize;
use serde_json::{Map, Value, json};

/// Makes the status of `object` be `new`; gives the object as it is then, if it had to be written.
///
/// # Errors
/// When the API server refuses or does not answer; an object that is gone is no error.
pub(crate) async fn write<K: Object, S: Serialize + PartialEq>(
    client: &Client,
    object: &K,
    old: Option<&S>,
    new: &S,
) -> Result<Option<Arc<K>>, Error> {
    if old == Some(new) {
        return Ok(None);
    }
    let fields = |status: Option<&S>| match status.map(serde_json::to_value) {
        Some(Ok(Value::Object(fields))) => fields,
        _ => Map::new(),
    };
    let changed = difference(&fields(old), fields(Some(new)));
    if changed.is_empty() {
        return Ok(None);
    }
    let patch = Patch::Merge(json!({"metadata": {"uid": object.meta().uid}, "status": changed}));
    let key = Key::of(object);
    match client.subresource::<K>(&key, "status").patch::<K>(&patch).await {
        Ok(written) => Ok(Some(written)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// The fields of `new` that `old` has otherwise, and a null for each that `new` lacks. Objects
/// within are compared likewise, since a merge patch would leave what they lack.
fn difference(old: &Map<String, Value>, new: Map<String, Value>) -> Map<String, Value> {
    let gone = old.keys().filter(|name| !new.contains_key(*name));
    let mut changed: Map<String, Value> = gone.map(|name| (name.clone(), Value::Null)).collect();
    for (name, value) in new {
        match (old.get(&name), value) {
            (Some(old), value) if *old == value => {}
            (Some(Value::Object(old)), Value::Object(value)) => {
                changed.insert(name, Value::Object(difference(old, value)));
            }
            (_, value) => {
                changed.insert(name, value);
            }
        }
    }
    changed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_differs_is_sent_and_what_is_gone_is_removed() {
        let object = |value: Value| value.as_object().cloned().unwrap_or_default();
        let old = object(json!({"a": 1, "b": {"x": 1, "y": 2}, "c": [1], "d": 4}));
        let new = object(json!({"a": 1, "b": {"x": 1, "z": 3}, "c": [1, 2]}));
        let sent = json!({"b": {"y": null, "z": 3}, "c": [1, 2], "d": null});
        assert_eq!(Value::Object(difference(&old, new)), sent);
    }
}
