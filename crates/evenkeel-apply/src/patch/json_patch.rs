//! JSON patch (RFC 6902), with the extensions and limits of kube-apiserver's library
//! (evanphx/json-patch).
//!
//! Beyond the RFC: negative indexes count from the end, replacing a missing map entry adds it, and
//! a path need not start with a slash. Lists are edited in place, so an operation does not copy the
//! object.

use evenkeel_types::go::{self, Quoted};
use serde_json::{Map, Value};
use thiserror::Error;

use crate::work;

/// Maximum number of operations in a patch.
const MAX_OPERATIONS: usize = 10_000;

/// Maximum number of bytes that the `copy` operations of a patch may add.
const MAX_COPIED_BYTES: usize = 3 * 1024 * 1024;

/// Maximum nesting of a patched document, which is the limit of the decoder. Without a limit, a
/// document that is copied into itself would double its depth each time.
const MAX_NESTING: usize = 120;

/// A list of operations.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPatch {
    operations: Vec<Map<String, Value>>,
}

/// Why a patch is rejected.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum JsonPatchError {
    /// Not a list of operations: 400 Bad Request.
    #[error("{0}")]
    Decode(String),
    /// Too many operations: 413 Request Entity Too Large.
    #[error("The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {0}")]
    TooManyOperations(usize),
    /// An operation failed: 422 Unprocessable Entity.
    #[error("{0}")]
    Apply(String),
    /// The value of a `test` is another one: 422 Unprocessable Entity.
    #[error("{0}")]
    TestFailed(String),
}

impl JsonPatch {
    /// Decodes a patch.
    pub fn decode(patch: Value) -> Result<Self, JsonPatchError> {
        let mismatch = |value: &Value, ty: &str| {
            let kind = go::json_kind(value);
            JsonPatchError::Decode(format!(
                "json: cannot unmarshal {kind} into Go value of type jsonpatch.{ty}"
            ))
        };
        let operations = match patch {
            Value::Array(operations) => operations,
            Value::Null => Vec::new(),
            other => return Err(mismatch(&other, "Patch")),
        };
        let operation = |operation: Value| match operation {
            Value::Object(operation) => Ok(operation),
            Value::Null => Ok(Map::new()),
            other => Err(mismatch(&other, "Operation")),
        };
        let operations = operations.into_iter().map(operation).collect::<Result<Vec<_>, _>>()?;
        if operations.len() > MAX_OPERATIONS {
            return Err(JsonPatchError::TooManyOperations(operations.len()));
        }
        Ok(Self { operations })
    }

    /// Applies the operations in order, up to the first that fails.
    pub fn apply(self, mut document: Value) -> Result<Value, JsonPatchError> {
        let mut copied = 0;
        let mut deepest = depth(&document);
        for operation in self.operations {
            let operation = Operation(operation);
            deepest = deepest.max(operation.max_depth_after(deepest));
            let done = match operation.kind() {
                "add" => operation.add(&mut document),
                "remove" => operation.remove(&mut document),
                "replace" => operation.replace(&mut document),
                "move" => operation.move_value(&mut document),
                "test" => match operation.test(&document) {
                    Ok(Ok(())) => Ok(()),
                    Ok(Err(failed)) => return Err(JsonPatchError::TestFailed(failed)),
                    Err(why) => Err(why),
                },
                "copy" => operation.copy(&mut document, &mut copied),
                kind => Err(format!("Unexpected kind: {kind}")),
            };
            done.map_err(JsonPatchError::Apply)?;
            if deepest > MAX_NESTING {
                // The depth of copies and moves was estimated by that of the document: compute it.
                deepest = depth(&document);
                if deepest > MAX_NESTING {
                    return Err(JsonPatchError::Apply("exceeded max depth".into()));
                }
            }
        }
        Ok(document)
    }
}

const MISSING: &str = "missing value";

struct Operation(Map<String, Value>);

impl Operation {
    fn kind(&self) -> &str {
        self.0.get("op").and_then(Value::as_str).unwrap_or("unknown")
    }

    fn text(&self, field: &str, missing: &str) -> Result<&str, String> {
        match self.0.get(field) {
            Some(Value::String(text)) => Ok(text),
            None | Some(Value::Null) => Err(format!("{missing}: {MISSING}")),
            Some(other) => {
                let kind = go::json_kind(other);
                Err(format!("json: cannot unmarshal {kind} into Go value of type string"))
            }
        }
    }

    fn path(&self) -> Result<&str, String> {
        self.text("path", "operation missing path field")
    }

    fn from(&self) -> Result<&str, String> {
        self.text("from", "operation, missing from field")
    }

    fn value(&self) -> Value {
        self.0.get("value").cloned().unwrap_or(Value::Null)
    }

    /// Returns an upper bound for the depth of a document after this operation, if it was `deepest`
    /// before.
    fn max_depth_after(&self, deepest: usize) -> usize {
        let parts = |field: &str| {
            let path = self.0.get(field).and_then(Value::as_str).unwrap_or_default();
            path.matches('/').count()
        };
        match self.kind() {
            "add" | "replace" => parts("path") + self.0.get("value").map_or(0, depth),
            "move" | "copy" => parts("path") + deepest.saturating_sub(parts("from")),
            _ => 0,
        }
    }

    fn add(&self, document: &mut Value) -> Result<(), String> {
        let path =
            self.path().map_err(|_| format!("add operation failed to decode path: {MISSING}"))?;
        let Some((container, key)) = find(document, path) else {
            return Err(format!(
                "add operation does not apply: doc is missing path: \"{path}\": {MISSING}"
            ));
        };
        add(container, key, self.value())
            .map_err(|error| format!("error in add for path: '{path}': {error}"))
    }

    fn remove(&self, document: &mut Value) -> Result<(), String> {
        let path = self
            .path()
            .map_err(|_| format!("remove operation failed to decode path: {MISSING}"))?;
        let Some((container, key)) = find(document, path) else {
            return Err(format!(
                "remove operation does not apply: doc is missing path: \"{path}\": {MISSING}"
            ));
        };
        remove(container, &key)
            .map(drop)
            .map_err(|error| format!("error in remove for path: '{path}': {error}"))
    }

    fn replace(&self, document: &mut Value) -> Result<(), String> {
        let path = self
            .path()
            .map_err(|error| format!("replace operation failed to decode path: {error}"))?;
        if path.is_empty() {
            let value = self.value();
            if !value.is_object() && !value.is_array() {
                // The nil cause is part of the message of the library.
                return Err("replace operation value must be object or array: %!w(<nil>)".into());
            }
            *document = value;
            return Ok(());
        }
        let Some((container, key)) = find(document, path) else {
            return Err(format!(
                "replace operation does not apply: doc is missing path: {path}: {MISSING}"
            ));
        };
        match container {
            Value::Object(map) => {
                map.insert(key, self.value());
            }
            list => match get_mut(list, &key) {
                Ok(Some(item)) => *item = self.value(),
                _ => {
                    return Err(format!(
                        "replace operation does not apply: doc is missing key: {path}: {MISSING}"
                    ));
                }
            },
        }
        Ok(())
    }

    fn move_value(&self, document: &mut Value) -> Result<(), String> {
        let from = self
            .from()
            .map_err(|error| format!("move operation failed to decode from: {error}"))?;
        let Some((container, key)) = find(document, from) else {
            return Err(format!(
                "move operation does not apply: doc is missing from path: {from}: {MISSING}"
            ));
        };
        let value = remove(container, &key)
            .map_err(|error| format!("error in move for path: '{key}': {error}"))?;
        let path = self
            .path()
            .map_err(|error| format!("move operation failed to decode path: {error}"))?;
        let Some((container, key)) = find(document, path) else {
            return Err(format!(
                "move operation does not apply: doc is missing destination path: {path}: {MISSING}"
            ));
        };
        add(container, key, value)
            .map_err(|error| format!("error in move for path: '{path}': {error}"))
    }

    /// Compares a value. The inner error is that of a value that is not the expected one.
    fn test(&self, document: &Value) -> Result<Result<(), String>, String> {
        let path = self
            .path()
            .map_err(|error| format!("test operation failed to decode path: {error}"))?;
        let expected = self.0.get("value").unwrap_or(&Value::Null);
        let actual = if path.is_empty() {
            Some(document)
        } else {
            let Some((container, key)) = find_ref(document, path) else {
                return Err(format!(
                    "test operation does not apply: is missing path: {path}: {MISSING}"
                ));
            };
            get(container, &key)
                .map_err(|error| format!("error in test for path: '{path}': {error}"))?
        };
        if actual.unwrap_or(&Value::Null) == expected {
            return Ok(Ok(()));
        }
        Ok(Err(format!("testing value {path} failed: test failed")))
    }

    fn copy(&self, document: &mut Value, copied: &mut usize) -> Result<(), String> {
        let from = self
            .from()
            .map_err(|error| format!("copy operation failed to decode from: {error}"))?;
        let Some((container, key)) = find_ref(document, from) else {
            return Err(format!(
                "copy operation does not apply: doc is missing from path: {from}: {MISSING}"
            ));
        };
        let value = get(container, &key)
            .map_err(|error| format!("error in copy for from: '{from}': {error}"))?;
        let value = value.cloned().unwrap_or(Value::Null);
        let path =
            self.path().map_err(|_| format!("copy operation failed to decode path: {MISSING}"))?;
        let Some((container, key)) = find(document, path) else {
            return Err(format!(
                "copy operation does not apply: doc is missing destination path: {path}: {MISSING}"
            ));
        };
        if !value.is_null() {
            *copied += go::json(&value).len();
        }
        if *copied > MAX_COPIED_BYTES {
            return Err(format!(
                "Unable to complete the copy, the accumulated size increase of copy is {copied}, \
                 exceeding the limit {MAX_COPIED_BYTES}"
            ));
        }
        add(container, key, value)
            .map_err(|error| format!("error while adding value during copy: {error}"))
    }
}

/// Returns the nesting depth of lists and maps.
fn depth(value: &Value) -> usize {
    work::step();
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(map) => 1 + map.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

// === paths ===

/// Returns the container that a path points into, and the key in it.
fn find<'d>(document: &'d mut Value, path: &str) -> Option<(&'d mut Value, String)> {
    let (parents, key) = split(path)?;
    let mut container = document;
    for part in parents {
        work::step();
        container = get_mut(container, &unescape(part)).ok()??;
        if !container.is_object() && !container.is_array() {
            return None;
        }
    }
    Some((container, unescape(key)))
}

fn find_ref<'d>(document: &'d Value, path: &str) -> Option<(&'d Value, String)> {
    let (parents, key) = split(path)?;
    let mut container = document;
    for part in parents {
        work::step();
        container = get(container, &unescape(part)).ok()??;
        if !container.is_object() && !container.is_array() {
            return None;
        }
    }
    Some((container, unescape(key)))
}

/// Returns the parts between the first and the last slash, and the part after it.
fn split(path: &str) -> Option<(impl Iterator<Item = &str>, &str)> {
    let (_, rest) = path.split_once('/')?;
    let (parents, key) = match rest.rsplit_once('/') {
        Some((parents, key)) => (Some(parents), key),
        None => (None, rest),
    };
    Some((parents.into_iter().flat_map(|parents| parents.split('/')), key))
}

fn unescape(part: &str) -> String {
    // In one pass, so that `~01` is `~1` and not a slash.
    let mut out = String::with_capacity(part.len());
    let mut rest = part;
    while let Some(at) = rest.find('~') {
        out.push_str(&rest[..at]);
        let (plain, skipped) = match rest.as_bytes().get(at + 1) {
            Some(b'1') => ('/', 2),
            Some(b'0') => ('~', 2),
            _ => ('~', 1),
        };
        out.push(plain);
        rest = &rest[at + skipped..];
    }
    out.push_str(rest);
    out
}

// === containers ===

fn get<'v>(container: &'v Value, key: &str) -> Result<Option<&'v Value>, String> {
    match container {
        Value::Object(map) => Ok(map.get(key)),
        Value::Array(items) => {
            let at = existing_index(key, items.len())?;
            Ok(items.get(at))
        }
        _ => Ok(None),
    }
}

fn get_mut<'v>(container: &'v mut Value, key: &str) -> Result<Option<&'v mut Value>, String> {
    match container {
        Value::Object(map) => Ok(map.get_mut(key)),
        Value::Array(items) => {
            let at = existing_index(key, items.len())?;
            Ok(items.get_mut(at))
        }
        _ => Ok(None),
    }
}

fn add(container: &mut Value, key: String, value: Value) -> Result<(), String> {
    match container {
        Value::Object(map) => {
            map.insert(key, value);
        }
        Value::Array(items) if key == "-" => items.push(value),
        Value::Array(items) => {
            let index = atoi(&key)
                .map_err(|error| format!("value was not a proper array index: '{key}': {error}"))?;
            let at = position(index, items.len() + 1)?;
            items.insert(at, value);
        }
        _ => {}
    }
    Ok(())
}

fn remove(container: &mut Value, key: &str) -> Result<Value, String> {
    match container {
        Value::Object(map) => map
            .remove(key)
            .ok_or_else(|| format!("Unable to remove nonexistent key: {key}: {MISSING}")),
        Value::Array(items) => {
            let at = existing_index(key, items.len())?;
            Ok(items.remove(at))
        }
        _ => Ok(Value::Null),
    }
}

fn existing_index(key: &str, len: usize) -> Result<usize, String> {
    position(atoi(key)?, len)
}

/// Returns the position of an index among `len` items. Negative indexes count from the end.
fn position(index: i64, len: usize) -> Result<usize, String> {
    let from_end = usize::try_from(index.unsigned_abs()).unwrap_or(usize::MAX);
    let at = if index < 0 { len.checked_sub(from_end) } else { Some(from_end) };
    at.filter(|at| *at < len)
        .ok_or_else(|| format!("Unable to access invalid index: {index}: invalid index referenced"))
}

fn atoi(text: &str) -> Result<i64, String> {
    text.parse::<i64>().map_err(|error| {
        let reason = match error.kind() {
            std::num::IntErrorKind::PosOverflow | std::num::IntErrorKind::NegOverflow => {
                "value out of range"
            }
            _ => "invalid syntax",
        };
        format!("strconv.Atoi: parsing {}: {reason}", Quoted(text))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn apply(document: Value, patch: Value) -> Result<Value, String> {
        JsonPatch::decode(patch)
            .and_then(|patch| patch.apply(document))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn operations_edit_the_document() {
        for (document, patch, want) in [
            (json!({"a": 1}), json!(null), json!({"a": 1})),
            (
                json!({"a": 1}),
                json!([{"op": "add", "path": "/b", "value": 2}]),
                json!({"a": 1, "b": 2}),
            ),
            (
                json!({"a": [1, 3]}),
                json!([{"op": "add", "path": "/a/1", "value": 2}]),
                json!({"a": [1, 2, 3]}),
            ),
            (
                json!({"a": [1]}),
                json!([{"op": "add", "path": "/a/-", "value": 2}]),
                json!({"a": [1, 2]}),
            ),
            (
                json!({"a": [1]}),
                json!([{"op": "add", "path": "/a/-1", "value": 2}]),
                json!({"a": [1, 2]}),
            ),
            (json!({"a": 1}), json!([{"op": "add", "path": "/b"}]), json!({"a": 1, "b": null})),
            (json!({"a": 1}), json!([{"op": "remove", "path": "/a"}]), json!({})),
            (json!({"a": [1, 2]}), json!([{"op": "remove", "path": "/a/-1"}]), json!({"a": [1]})),
            (
                json!({"a": 1}),
                json!([{"op": "replace", "path": "/b", "value": 2}]),
                json!({"a": 1, "b": 2}),
            ),
            (json!({"a": 1}), json!([{"op": "replace", "path": "", "value": {}}]), json!({})),
            (json!({"a": 1}), json!([{"op": "move", "from": "/a", "path": "/b"}]), json!({"b": 1})),
            (
                json!({"a": {"b": 1}}),
                json!([{"op": "copy", "from": "/a", "path": "/c"}]),
                json!({"a": {"b": 1}, "c": {"b": 1}}),
            ),
            (
                json!({"a": null}),
                json!([{"op": "test", "path": "/x"}, {"op": "test", "path": "/a", "value": null}]),
                json!({"a": null}),
            ),
            (
                json!({"a/b": {"~": 1}}),
                json!([{"op": "add", "path": "/a~1b/~0", "value": 2}]),
                json!({"a/b": {"~": 2}}),
            ),
            (json!({"a~1": 1}), json!([{"op": "remove", "path": "/a~01"}]), json!({})),
            (json!({"a": {"b": 1}}), json!([{"op": "remove", "path": "x/a/b"}]), json!({"a": {}})),
        ] {
            let row = format!("{document} patched with {patch}");
            assert_eq!(apply(document, patch), Ok(want), "{row}");
        }
    }

    #[test]
    fn errors_are_those_of_the_library() {
        let document = json!({"a": [1], "s": "x", "n": null});
        for (operation, want) in [
            (
                json!({"op": "add", "path": "/x/y"}),
                "add operation does not apply: doc is missing path: \"/x/y\": missing value",
            ),
            (
                json!({"op": "add", "path": "/n/y"}),
                "add operation does not apply: doc is missing path: \"/n/y\": missing value",
            ),
            (
                json!({"op": "add", "path": "/s/y"}),
                "add operation does not apply: doc is missing path: \"/s/y\": missing value",
            ),
            (
                json!({"op": "add", "path": ""}),
                "add operation does not apply: doc is missing path: \"\": missing value",
            ),
            (json!({"op": "add"}), "add operation failed to decode path: missing value"),
            (
                json!({"op": "add", "path": "/a/2"}),
                "error in add for path: '/a/2': Unable to access invalid index: 2: invalid index referenced",
            ),
            (
                json!({"op": "add", "path": "/a/x"}),
                "error in add for path: '/a/x': value was not a proper array index: 'x': strconv.Atoi: parsing \"x\": invalid syntax",
            ),
            (
                json!({"op": "remove", "path": "/x"}),
                "error in remove for path: '/x': Unable to remove nonexistent key: x: missing value",
            ),
            (
                json!({"op": "remove", "path": "/a/-2"}),
                "error in remove for path: '/a/-2': Unable to access invalid index: -2: invalid index referenced",
            ),
            (
                json!({"op": "replace", "path": "/a/1"}),
                "replace operation does not apply: doc is missing key: /a/1: missing value",
            ),
            (
                json!({"op": "replace", "path": "", "value": 1}),
                "replace operation value must be object or array: %!w(<nil>)",
            ),
            (
                json!({"op": "replace", "path": 1}),
                "replace operation failed to decode path: json: cannot unmarshal number into Go value of type string",
            ),
            (
                json!({"op": "move", "path": "/b"}),
                "move operation failed to decode from: operation, missing from field: missing value",
            ),
            (
                json!({"op": "move", "from": "/x", "path": "/b"}),
                "error in move for path: 'x': Unable to remove nonexistent key: x: missing value",
            ),
            (
                json!({"op": "copy", "from": "/a/9", "path": "/b"}),
                "error in copy for from: '/a/9': Unable to access invalid index: 9: invalid index referenced",
            ),
            (
                json!({"op": "test", "path": "/s", "value": "y"}),
                "testing value /s failed: test failed",
            ),
            (
                json!({"op": "test", "path": "/x/y", "value": "y"}),
                "test operation does not apply: is missing path: /x/y: missing value",
            ),
            (json!({"op": "frob", "path": "/x"}), "Unexpected kind: frob"),
            (json!({}), "Unexpected kind: unknown"),
            (json!(null), "Unexpected kind: unknown"),
            (json!(7), "json: cannot unmarshal number into Go value of type jsonpatch.Operation"),
        ] {
            assert_eq!(apply(document.clone(), json!([operation])), Err(want.to_owned()));
        }
        let error = apply(document, json!({})).unwrap_err();
        assert_eq!(error, "json: cannot unmarshal object into Go value of type jsonpatch.Patch");
    }

    #[test]
    fn long_patches_and_exponential_copies_are_rejected() {
        let operation = json!({"op": "test", "path": "/x", "value": null});
        let patch = |len| Value::Array(vec![operation.clone(); len]);
        assert!(JsonPatch::decode(patch(10_000)).is_ok());
        assert_eq!(
            JsonPatch::decode(patch(10_001)).unwrap_err().to_string(),
            "The allowed maximum operations in a JSON patch is 10000, got 10001"
        );
        let deeper = json!([
            {"op": "add", "path": "/a", "value": {}},
            {"op": "move", "from": "/b", "path": "/a/b"},
            {"op": "move", "from": "/a", "path": "/b"},
        ]);
        let deeper = deeper.as_array().unwrap();
        let patch =
            |times: usize| Value::Array(deeper.iter().cycle().take(3 * times).cloned().collect());
        assert!(apply(json!({"b": {}}), patch(100)).is_ok());
        assert_eq!(apply(json!({"b": {}}), patch(130)).unwrap_err(), "exceeded max depth");
        let into_itself = json!({"op": "copy", "from": "/a", "path": "/a/a"});
        let error = apply(json!({"a": {}}), Value::Array(vec![into_itself; 200])).unwrap_err();
        assert_eq!(error, "exceeded max depth");
        let doubling = json!({"op": "copy", "from": "/a", "path": "/a/-"});
        let error = apply(json!({"a": ["x"]}), Value::Array(vec![doubling; 60])).unwrap_err();
        assert!(error.ends_with("exceeding the limit 3145728"), "{error}");
    }
}
