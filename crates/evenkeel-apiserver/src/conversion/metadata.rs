//! The metadata of a converted object: only labels and annotations may change.

use evenkeel_schema::{field, metadata};
use serde_json::{Map, Value};

use crate::object::Metadata as _;

/// Checks that a converted object is still the same one.
pub(super) fn check(original: &Value, converted: &Value) -> Result<(), String> {
    for (field, shown) in [("name", "name"), ("namespace", "namespace"), ("uid", "UID")] {
        let (expected, given) = (original.meta_str(field), converted.meta_str(field));
        if expected != given {
            return Err(format!("must have the same {shown}: {expected} != {given}"));
        }
    }
    Ok(())
}

/// Restores the metadata of the original, except labels and annotations.
pub(super) fn restore(original: &Value, converted: &mut Value) -> Result<(), String> {
    let mut given = match converted.get_mut("metadata").map(Value::take) {
        None => return Err("missing metadata in converted object".to_owned()),
        Some(Value::Object(given)) => given,
        Some(other) => {
            let ty = go_type(&other);
            return Err(format!("invalid metadata of type {ty} in converted object"));
        }
    };
    let mut restored = original["metadata"].as_object().cloned().unwrap_or_default();
    for name in ["labels", "annotations"] {
        match given.remove(name) {
            None | Some(Value::Null) => _ = restored.remove(name),
            Some(Value::Object(map)) => {
                check_texts(name, &map)?;
                if restored.get(name).and_then(Value::as_object) != Some(&map) {
                    check_map(name, &map)?;
                }
                restored.insert(name.to_owned(), Value::Object(map));
            }
            Some(other) => {
                let ty = go_type(&other);
                return Err(format!("invalid metadata.{name} of type {ty} in converted object"));
            }
        }
    }
    converted["metadata"] = Value::Object(restored);
    Ok(())
}

fn check_texts(name: &str, map: &Map<String, Value>) -> Result<(), String> {
    match map.iter().find(|(_, value)| !value.is_string()) {
        None => Ok(()),
        Some((key, value)) => Err(format!(
            "metadata.{name}[{key}] must be a string, but is {} in converted object",
            go_type(value)
        )),
    }
}

/// Validates changed labels or annotations.
fn check_map(name: &str, map: &Map<String, Value>) -> Result<(), String> {
    let (map, mut errors) = (Value::Object(map.clone()), Vec::new());
    match name {
        "labels" => metadata::check_labels(&map, "metadata.labels", &mut errors),
        _ => metadata::check_annotations(&map, "metadata.annotation", &mut errors),
    }
    if errors.is_empty() { Ok(()) } else { Err(field::aggregate(&errors)) }
}

/// Returns the Go type of a decoded JSON value.
fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}
