//! Setters for unset fields, with the three meanings of "unset" in Go types.
//!
//! A Go pointer is unset if absent, a string also if empty, a number also if zero. Keys are
//! allocated only on insertion, so defaulting a complete object allocates nothing.

use serde_json::{Map, Value};

/// A JSON object.
pub(crate) type Object = Map<String, Value>;

/// Sets a field that is a Go pointer to a type other than string.
pub(crate) fn pointer(object: &mut Object, key: &str, default: impl Into<Value>) {
    if is_unset(object.get(key)) {
        object.insert(key.to_owned(), default.into());
    }
}

/// Sets a field that is a Go string pointer. An explicit empty string is kept.
pub(crate) fn text_pointer(object: &mut Object, key: &str, default: &str) {
    if is_unset(object.get(key)) {
        object.insert(key.to_owned(), default.into());
    }
}

/// Sets a string field.
pub(crate) fn text(object: &mut Object, key: &str, default: &str) {
    match object.get(key) {
        Some(Value::String(text)) if !text.is_empty() => {}
        None | Some(Value::Null | Value::String(_)) => {
            object.insert(key.to_owned(), default.into());
        }
        Some(_) => {}
    }
}

/// Sets a number field.
pub(crate) fn number(object: &mut Object, key: &str, default: i64) {
    match object.get(key) {
        Some(Value::Number(number)) if number.as_i64() != Some(0) => {}
        None | Some(Value::Null | Value::Number(_)) => {
            object.insert(key.to_owned(), default.into());
        }
        Some(_) => {}
    }
}

/// Sets a field that is a struct or a pointer to one, and returns it; `None` if it is not an
/// object.
pub(crate) fn structure<'a>(object: &'a mut Object, key: &str) -> Option<&'a mut Object> {
    if is_unset(object.get(key)) {
        object.insert(key.to_owned(), Value::Object(Map::new()));
    }
    child(object, key)
}

/// Returns the object at `key`.
pub(crate) fn child<'a>(object: &'a mut Object, key: &str) -> Option<&'a mut Object> {
    object.get_mut(key)?.as_object_mut()
}

/// Returns the objects in the list at `key`.
pub(crate) fn items<'a>(
    object: &'a mut Object,
    key: &str,
) -> impl Iterator<Item = &'a mut Object> + use<'a> {
    object
        .get_mut(key)
        .and_then(Value::as_array_mut)
        .map(Vec::as_mut_slice)
        .unwrap_or_default()
        .iter_mut()
        .filter_map(Value::as_object_mut)
}

/// Returns the objects in the list at `key`, read-only.
pub(crate) fn list<'a>(
    object: &'a Object,
    key: &str,
) -> impl Iterator<Item = &'a Object> + use<'a> {
    object
        .get(key)
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default()
        .iter()
        .filter_map(Value::as_object)
}

/// Returns the object at `key`, read-only.
pub(crate) fn get<'a>(object: &'a Object, key: &str) -> Option<&'a Object> {
    object.get(key).and_then(Value::as_object)
}

/// Returns the string at `key`; empty if absent.
pub(crate) fn string<'a>(object: &'a Object, key: &str) -> &'a str {
    object.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Returns whether the value is absent, null, or an empty list or map.
pub(crate) fn is_empty(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => true,
        Some(Value::Array(list)) => list.is_empty(),
        Some(Value::Object(map)) => map.is_empty(),
        Some(_) => false,
    }
}

/// Returns whether the value reads as a nil pointer.
pub(crate) fn is_unset(value: Option<&Value>) -> bool {
    matches!(value, None | Some(Value::Null))
}
