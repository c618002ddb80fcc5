//! JSON merge patch (RFC 7386).

use serde_json::{Map, Value};
use thiserror::Error;

use crate::work;

/// The patch is neither an object nor a list: 400 Bad Request.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("Invalid JSON Patch")]
pub struct InvalidMergePatch(());

/// Applies a merge patch to an object.
///
/// A list is a valid patch and replaces the object; decoding the result then fails.
pub fn merge_patch(object: Value, patch: Value) -> Result<Value, InvalidMergePatch> {
    match patch {
        Value::Object(patch) => Ok(merge(object, patch)),
        Value::Array(_) => Ok(without_nulls(patch)),
        _ => Err(InvalidMergePatch(())),
    }
}

fn merge(object: Value, patch: Map<String, Value>) -> Value {
    let Value::Object(mut object) = object else { return without_nulls(Value::Object(patch)) };
    for (name, value) in patch {
        work::step();
        match (object.get_mut(&name), value) {
            (_, Value::Null) => {
                object.remove(&name);
            }
            (Some(current @ Value::Object(_)), Value::Object(patch)) => {
                *current = merge(current.take(), patch);
            }
            // A value that replaces an object is kept with its nulls; elsewhere nulls mean absence.
            (Some(current @ Value::Object(_)), value) => *current = value,
            (Some(current), value) => *current = without_nulls(value),
            (None, value) => {
                object.insert(name, without_nulls(value));
            }
        }
    }
    Value::Object(object)
}

/// Removes null entries of maps at any depth; null items of lists are kept.
fn without_nulls(value: Value) -> Value {
    work::step();
    match value {
        Value::Object(map) => {
            let kept = map.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(kept.map(|(name, value)| (name, without_nulls(value))).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(without_nulls).collect()),
        scalar => scalar,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn merges_follow_the_rfc() {
        for (object, patch, want) in [
            (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
            (json!({"a": "b"}), json!({"a": null}), json!({})),
            (json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"})),
            (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "c"}), json!({"a": ["b"]}), json!({"a": ["b"]})),
            (
                json!({"a": {"b": "c"}}),
                json!({"a": {"b": "d", "c": null}}),
                json!({"a": {"b": "d"}}),
            ),
            (json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]})),
            (json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1})),
            (json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}})),
            (
                json!({"a": 1}),
                json!({"a": {"b": [{"c": null}, null]}}),
                json!({"a": {"b": [{}, null]}}),
            ),
            (json!({"a": {"x": 1}}), json!({"a": [{"c": null}]}), json!({"a": [{"c": null}]})),
            (json!({"a": 1}), json!([{"c": null}]), json!([{}])),
        ] {
            assert_eq!(merge_patch(object, patch), Ok(want));
        }
    }

    #[test]
    fn scalars_are_rejected() {
        for patch in [json!(null), json!(1), json!("x"), json!(true)] {
            let error = merge_patch(json!({}), patch).unwrap_err();
            assert_eq!(error.to_string(), "Invalid JSON Patch");
        }
    }
}
