//! `metadata` of custom and embedded resources: decoding it as typed metadata, and its rules.
//!
//! Custom resources are JSON, yet their metadata must be what every Kubernetes client can decode.
//! [`coerce`] brings it into the form a typed round trip would give it; [`validate`] and
//! [`validate_update`] hold it against the rules common to all kinds.

mod rules;

use serde_json::{Map, Value};

use crate::format::{explain_rfc3339, parse_rfc3339};
use crate::go;

pub use rules::{validate, validate_update};

/// What to do with metadata of the wrong shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// Refuse it: requests.
    Refuse,
    /// Drop the field: objects from storage, which may be older than the rules.
    Drop,
}

/// The Go type of a field of `ObjectMeta`.
#[derive(Clone, Copy)]
enum Shape {
    Text,
    Uid,
    Int,
    OptionalInt,
    Time,
    TextMap,
    TextList,
    OwnerReferences,
    ManagedFields,
}

fn shape(field: &str) -> Option<Shape> {
    Some(match field {
        "name" | "generateName" | "namespace" | "selfLink" | "resourceVersion" => Shape::Text,
        "uid" => Shape::Uid,
        "generation" => Shape::Int,
        "deletionGracePeriodSeconds" => Shape::OptionalInt,
        "creationTimestamp" | "deletionTimestamp" => Shape::Time,
        "labels" | "annotations" => Shape::TextMap,
        "finalizers" => Shape::TextList,
        "ownerReferences" => Shape::OwnerReferences,
        "managedFields" => Shape::ManagedFields,
        _ => return None,
    })
}

/// Brings metadata into typed form: unknown and empty fields go, times become UTC seconds.
///
/// `path` is where the metadata stands (`metadata`); unknown fields are added to `unknown` with
/// it. The error is the text Go's JSON decoder has for the first malformed field.
pub fn coerce(
    metadata: &mut Value,
    malformed: Malformed,
    path: &str,
    unknown: &mut Vec<String>,
) -> Result<(), String> {
    let map = match metadata {
        Value::Object(map) => map,
        Value::Null => {
            *metadata = Value::Object(Map::new());
            return Ok(());
        }
        other if malformed == Malformed::Drop => {
            return Err(format!("invalid metadata: expected object, got {}", go::type_name(other)));
        }
        other => {
            let kind = json_kind(other);
            return Err(format!(
                "json: cannot unmarshal {kind} into Go value of type v1.ObjectMeta"
            ));
        }
    };
    if malformed == Malformed::Refuse {
        let mut fields: Vec<_> = map.iter().collect();
        fields.sort_unstable_by_key(|(name, _)| *name);
        for (name, value) in fields {
            check_field(name, value)?;
        }
    }
    map.retain(|name, value| {
        let Some(shape) = shape(name) else {
            unknown.push(format!("{path}.{name}"));
            return false;
        };
        if malformed == Malformed::Drop && check_field(name, value).is_err() {
            return false;
        }
        keep(shape, value, &format_args!("{path}.{name}"), unknown)
    });
    Ok(())
}

/// Normalizes a well-formed field; false if a typed encoder would leave it out.
fn keep(
    shape: Shape,
    value: &mut Value,
    path: &dyn std::fmt::Display,
    unknown: &mut Vec<String>,
) -> bool {
    match (shape, value) {
        (_, Value::Null) => false,
        (Shape::Text | Shape::Uid, Value::String(text)) => !text.is_empty(),
        (Shape::Int, Value::Number(n)) => n.as_i64() != Some(0),
        (Shape::Time, value @ Value::String(_)) => {
            let time = value.as_str().and_then(parse_rfc3339).filter(|time| !time.is_zero());
            if let Some(time) = time {
                let text = time.to_string();
                if value.as_str() != Some(&text) {
                    *value = text.into();
                }
            }
            time.is_some()
        }
        (Shape::TextMap, Value::Object(map)) => {
            for text in map.values_mut().filter(|v| v.is_null()) {
                *text = "".into();
            }
            !map.is_empty()
        }
        (Shape::TextList, Value::Array(list)) => {
            for text in list.iter_mut().filter(|v| v.is_null()) {
                *text = "".into();
            }
            !list.is_empty()
        }
        (Shape::OwnerReferences, Value::Array(list)) => {
            for (i, reference) in list.iter_mut().enumerate() {
                normalize_owner(reference, &format_args!("{path}[{i}]"), unknown);
            }
            !list.is_empty()
        }
        (Shape::ManagedFields, Value::Array(list)) => {
            for (i, entry) in list.iter_mut().enumerate() {
                normalize_manager(entry, &format_args!("{path}[{i}]"), unknown);
            }
            !list.is_empty()
        }
        _ => true,
    }
}

fn normalize_owner(reference: &mut Value, path: &dyn std::fmt::Display, unknown: &mut Vec<String>) {
    if reference.is_null() {
        *reference = Value::Object(Map::new());
    }
    let Some(map) = reference.as_object_mut() else { return };
    map.retain(|name, value| match name.as_str() {
        "apiVersion" | "kind" | "name" | "uid" => true,
        "controller" | "blockOwnerDeletion" => !value.is_null(),
        _ => {
            unknown.push(format!("{path}.{name}"));
            false
        }
    });
    for name in ["apiVersion", "kind", "name", "uid"] {
        let text = map.entry(name).or_insert(Value::Null);
        if text.is_null() {
            *text = "".into();
        }
    }
}

fn normalize_manager(entry: &mut Value, path: &dyn std::fmt::Display, unknown: &mut Vec<String>) {
    if entry.is_null() {
        *entry = Value::Object(Map::new());
    }
    let Some(map) = entry.as_object_mut() else { return };
    map.retain(|name, value| match name.as_str() {
        "manager" | "operation" | "apiVersion" | "fieldsType" | "subresource" => {
            value.as_str().is_some_and(|text| !text.is_empty())
        }
        "time" => keep(Shape::Time, value, path, &mut Vec::new()),
        "fieldsV1" => !value.is_null(),
        _ => {
            unknown.push(format!("{path}.{name}"));
            false
        }
    });
}

/// Whether Go could decode the field; unknown fields always can be.
fn check_field(name: &str, value: &Value) -> Result<(), String> {
    let Some(shape) = shape(name) else { return Ok(()) };
    let here = || format!("ObjectMeta.{name}");
    match shape {
        Shape::Text => check_text(value, &here(), "string"),
        Shape::Uid => check_text(value, &here(), "types.UID"),
        Shape::Int | Shape::OptionalInt => check_int(value, &here()),
        Shape::Time => check_time(value, &here()),
        Shape::TextMap => match value {
            Value::Null => Ok(()),
            Value::Object(map) => {
                map.values().try_for_each(|text| check_text(text, &here(), "string"))
            }
            other => Err(mismatch(other, &here(), "map[string]string")),
        },
        Shape::TextList => match value {
            Value::Null => Ok(()),
            Value::Array(list) => {
                list.iter().try_for_each(|text| check_text(text, &here(), "string"))
            }
            other => Err(mismatch(other, &here(), "[]string")),
        },
        Shape::OwnerReferences => check_list(name, value, "v1.OwnerReference", |field, value| {
            let here = format!("OwnerReference.{name}.{field}");
            match field {
                "apiVersion" | "kind" | "name" => check_text(value, &here, "string"),
                "uid" => check_text(value, &here, "types.UID"),
                "controller" | "blockOwnerDeletion" => match value {
                    Value::Null | Value::Bool(_) => Ok(()),
                    other => Err(mismatch(other, &here, "bool")),
                },
                _ => Ok(()),
            }
        }),
        Shape::ManagedFields => check_list(name, value, "v1.ManagedFieldsEntry", |field, value| {
            let here = format!("ManagedFieldsEntry.{name}.{field}");
            match field {
                "manager" | "apiVersion" | "fieldsType" | "subresource" => {
                    check_text(value, &here, "string")
                }
                "operation" => check_text(value, &here, "v1.ManagedFieldsOperationType"),
                "time" => check_time(value, &here),
                _ => Ok(()),
            }
        }),
    }
}

fn check_list(
    name: &str,
    value: &Value,
    item_type: &str,
    check: impl Fn(&str, &Value) -> Result<(), String>,
) -> Result<(), String> {
    let here = || format!("ObjectMeta.{name}");
    let list = match value {
        Value::Null => return Ok(()),
        Value::Array(list) => list,
        other => return Err(mismatch(other, &here(), &format!("[]{item_type}"))),
    };
    for item in list {
        match item {
            Value::Null => {}
            Value::Object(map) => map.iter().try_for_each(|(k, v)| check(k, v))?,
            other => return Err(mismatch(other, &here(), item_type)),
        }
    }
    Ok(())
}

fn check_text(value: &Value, here: &str, go_type: &str) -> Result<(), String> {
    match value {
        Value::Null | Value::String(_) => Ok(()),
        other => Err(mismatch(other, here, go_type)),
    }
}

fn check_int(value: &Value, here: &str) -> Result<(), String> {
    match value {
        Value::Null => Ok(()),
        Value::Number(n) if n.as_i64().is_some() => Ok(()),
        Value::Number(n) => Err(format!(
            "json: cannot unmarshal number {n} into Go struct field {here} of type int64"
        )),
        other => Err(mismatch(other, here, "int64")),
    }
}

fn check_time(value: &Value, here: &str) -> Result<(), String> {
    match value {
        Value::Null => Ok(()),
        Value::String(text) => match parse_rfc3339(text) {
            Some(_) => Ok(()),
            None => Err(explain_rfc3339(text)),
        },
        other => Err(mismatch(other, here, "string")),
    }
}

fn mismatch(value: &Value, here: &str, go_type: &str) -> String {
    format!(
        "json: cannot unmarshal {} into Go struct field {here} of type {go_type}",
        json_kind(value)
    )
}

fn json_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests;
