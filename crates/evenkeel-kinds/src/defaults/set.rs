//! Setting a field that is unset, in the three senses Go types give to "unset".
//!
//! A Go pointer is unset when absent, a string also when empty, a number also when zero. Keys are
//! allocated only when something is inserted, so defaulting a complete object allocates nothing.

use serde_json::{Map, Value};

/// A JSON object.
pub(crate) type Object = Map<String, Value>;

/// Sets what a Go pointer to anything but a string holds.
pub(crate) fn pointer(object: &mut Object, key: &str, default: impl Into<Value>) {
    if is_unset(object.get(key)) {
        object.insert(key.to_owned(), default.into());
    }
}

/// Sets what a Go pointer to a string holds: an explicit empty string stays.
pub(crate) fn text_pointer(object: &mut Object, key: &str, default: &str) {
    if is_unset(object.get(key)) {
        object.insert(key.to_owned(), default.into());
    }
}

/// Sets a plain string.
pub(crate) fn text(object: &mut Object, key: &str, default: &str) {
    match object.get(key) {
        Some(Value::String(text)) if !text.is_empty() => {}
        None | Some(Value::Null | Value::String(_)) => {
            object.insert(key.to_owned(), default.into());
        }
        Some(_) => {}
    }
}

/// Sets a plain number.
pub(crate) fn number(object: &mut Object, key: &str, default: i64) {
    match object.get(key) {
        Some(Value::Number(number)) if number.as_i64() != Some(0) => {}
        None | Some(Value::Null | Value::Number(_)) => {
            object.insert(key.to_owned(), default.into());
        }
        Some(_) => {}
    }
}

/// Sets a struct or a pointer to one, and gives it; `None` if something else stands there.
pub(crate) fn structure<'a>(object: &'a mut Object, key: &str) -> Option<&'a mut Object> {
    if is_unset(object.get(key)) {
        object.insert(key.to_owned(), Value::Object(Map::new()));
    }
    child(object, key)
}

/// The object under `key`, if there is one.
pub(crate) fn child<'a>(object: &'a mut Object, key: &str) -> Option<&'a mut Object> {
    object.get_mut(key)?.as_object_mut()
}

/// The objects in the list under `key`; none if there is no list.
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

/// The objects in the list under `key`, to read.
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

/// The object under `key`, to read.
pub(crate) fn get<'a>(object: &'a Object, key: &str) -> Option<&'a Object> {
    object.get(key).and_then(Value::as_object)
}

/// The string under `key`; empty if there is none.
pub(crate) fn string<'a>(object: &'a Object, key: &str) -> &'a str {
    object.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Absent, null, or a list or map with nothing in it.
pub(crate) fn is_empty(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => true,
        Some(Value::Array(list)) => list.is_empty(),
        Some(Value::Object(map)) => map.is_empty(),
        Some(_) => false,
    }
}

/// What a nil pointer looks like.
pub(crate) fn is_unset(value: Option<&Value>) -> bool {
    matches!(value, None | Some(Value::Null))
}
