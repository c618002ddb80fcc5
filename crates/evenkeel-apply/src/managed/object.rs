//! Accessors for the type, the name and the managedFields of an object.

use serde_json::{Map, Value};

use crate::value::equal;

/// Returns `metadata`, if it is a map.
pub(super) fn metadata(object: &Value) -> Option<&Map<String, Value>> {
    object.get("metadata")?.as_object()
}

pub(super) fn metadata_mut(object: &mut Value) -> Option<&mut Map<String, Value>> {
    object.get_mut("metadata")?.as_object_mut()
}

/// Returns `metadata.managedFields`; null is the same as absent.
pub(super) fn managed_fields(object: &Value) -> Option<&Value> {
    metadata(object)?.get("managedFields").filter(|fields| !fields.is_null())
}

/// Copies an object without `metadata.managedFields`, which can be larger than everything else.
pub(super) fn clone_without_managed_fields(object: &Value) -> Value {
    let Value::Object(fields) = object else { return object.clone() };
    let copy = fields.iter().map(|(name, value)| match value {
        Value::Object(meta) if name == "metadata" => {
            let kept = meta.iter().filter(|(name, _)| *name != "managedFields");
            (name.clone(), kept.map(|(name, value)| (name.clone(), value.clone())).collect())
        }
        value => (name.clone(), value.clone()),
    });
    Value::Object(copy.collect())
}

/// Returns whether two objects are equal, apart from managedFields.
pub(super) fn equal_ignoring_managed_fields(a: &Value, b: &Value) -> bool {
    fn except<'o>(
        map: &'o Map<String, Value>,
        name: &str,
    ) -> impl Iterator<Item = (&'o String, &'o Value)> {
        map.iter().filter(move |(key, _)| *key != name)
    }
    let same = |((ka, a), (kb, b)): ((&String, &Value), (&String, &Value))| ka == kb && equal(a, b);
    let all = |a: &Map<String, Value>, b: &Map<String, Value>, ignored: &str| {
        except(a, ignored).count() == except(b, ignored).count()
            && except(a, ignored).zip(except(b, ignored)).all(same)
    };
    match (a, b, metadata(a), metadata(b)) {
        (Value::Object(a), Value::Object(b), Some(a_meta), Some(b_meta)) => {
            all(a, b, "metadata") && all(a_meta, b_meta, "managedFields")
        }
        _ => equal(a, b),
    }
}

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object.get(field).and_then(Value::as_str).unwrap_or_default()
}

pub(super) fn api_version(object: &Value) -> &str {
    text(object, "apiVersion")
}

pub(super) fn uid(object: &Value) -> &str {
    object.get("metadata").map_or("", |meta| text(meta, "uid"))
}

/// Formats a type as errors do: `group/version, Kind=kind`.
pub(super) fn group_version_kind(object: &Value) -> String {
    match split(api_version(object)) {
        Some((group, version)) => format!("{group}/{version}, Kind={}", text(object, "kind")),
        None => "/, Kind=".into(),
    }
}

/// Formats an object as errors do: `namespace/name; group/version, Kind=kind`.
pub(super) fn describe(object: &Value) -> String {
    let (namespace, name) = match object.get("metadata") {
        Some(meta) => (text(meta, "namespace"), text(meta, "name")),
        None => ("", ""),
    };
    format!("{namespace}/{name}; {}", group_version_kind(object))
}

/// Splits an `apiVersion` into group and version; `None` if it has too many parts.
pub(super) fn split(api_version: &str) -> Option<(&str, &str)> {
    match api_version.split_once('/') {
        None => Some(("", api_version)),
        Some((_, version)) if version.contains('/') => None,
        Some(parts) => Some(parts),
    }
}
