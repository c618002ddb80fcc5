//! Objects as they are stored: JSON as Go prints it, with a hole for the revision.

use std::borrow::Cow;

use bytes::Bytes;
use evenkeel_kinds::{convert, fields};
use evenkeel_schema::Structural;
use evenkeel_schema::metadata::{Malformed, coerce};
use evenkeel_types::{Gvk, Type, json};
use serde_json::Value;

use crate::json::normalize_floats;
use crate::object::set_meta;
use crate::pipeline::decode;
use crate::registry::custom::{self, Custom};
use crate::registry::resource::{Resource, TypeInfo};
use crate::status::Status;
use crate::storage::{Labels, Record, UnsavedRecord};

/// Encodes an object for storage, in the storage version.
pub(crate) fn to_unsaved_record(
    resource: &Resource,
    mut object: Value,
    origin: Origin,
) -> Result<UnsavedRecord, Status> {
    normalize_numbers(resource, &mut object);
    to_storage_version(resource, &mut object)?;
    set_meta(&mut object, "resourceVersion", None);
    let labels = match object.pointer("/metadata/labels") {
        Some(Value::Object(map)) => {
            // A null is an empty text to Go, which then shows it so.
            let labels = map.iter().filter(|(_, value)| value.is_string() || value.is_null());
            Labels::new(labels.map(|(key, value)| (&**key, value.as_str().unwrap_or_default())))
        }
        _ => Labels::default(),
    };
    let gvk = resource.storage_gvk();
    let selectable = resource.selectable.iter().map(|label| match &resource.type_info {
        TypeInfo::Builtin(_) => fields::value(gvk, label, &object).unwrap_or_default(),
        TypeInfo::Custom(custom) => Cow::Owned(custom.selectable_value(label, &object)),
    });
    let selectable = selectable.collect();
    let uid = object.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or("").into();
    replace_null_bytes(resource, &mut object);
    let ty = if resource.is_custom() { None } else { evenkeel_types::lookup(gvk) };
    let (mut body, mut revision_offset) = to_stored_bytes(ty, &mut object)?;
    // Looking for them in the bytes is much cheaper than a walk over every object.
    if !resource.is_custom() && body.windows(2).any(|pair| pair == b"[]") {
        drop_empty_lists(resource, &mut object);
        (body, revision_offset) = to_stored_bytes(ty, &mut object)?;
    }
    let mut unsaved = UnsavedRecord::new(body, revision_offset, resource.storage_version.clone());
    unsaved.labels = labels;
    unsaved.fields = selectable;
    unsaved.epoch = match resource.custom() {
        Some(custom) if !is_normalized(resource, custom, &object, origin)? => NOT_NORMALIZED,
        _ => resource.epoch,
    };
    unsaved.uid = uid;
    Ok(unsaved)
}

/// The epoch of bodies that reading has to bring into shape, whatever the schema.
const NOT_NORMALIZED: u32 = u32::MAX;

/// Where an object that is about to be stored comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// It was decoded by its schema.
    Decoded,
    /// It was merged from a configuration: a custom object may have more than its schema knows.
    Merged,
}

/// Whether readers see a custom object as it is stored. What is applied is stored as it was given,
/// and what was written in another version without the defaults of the stored one; so the next
/// write is a change, though readers see neither what is unknown or missing, nor what is empty in
/// the metadata.
fn is_normalized(
    resource: &Resource,
    custom: &Custom,
    object: &Value,
    origin: Origin,
) -> Result<bool, Status> {
    if has_empty_metadata(object) {
        return Ok(false);
    }
    if origin == Origin::Decoded && resource.api_version == resource.storage_version {
        return Ok(true);
    }
    let mut normalized = object.clone();
    prune_and_default(custom, &mut normalized)?;
    Ok(normalized == *object)
}

fn has_empty_metadata(object: &Value) -> bool {
    let empty = |field: &Value| match field {
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    };
    object["metadata"].as_object().is_some_and(|metadata| metadata.values().any(empty))
}

/// Once it has been printed, a whole number of a custom object is an integer.
fn normalize_numbers(resource: &Resource, object: &mut Value) {
    if resource.is_custom() {
        normalize_floats(object);
    }
}

/// The form in which upstream stores bytes has none that are null.
fn replace_null_bytes(resource: &Resource, object: &mut Value) {
    let field = match (&*resource.group, &*resource.plural) {
        ("", "configmaps") => "binaryData",
        ("", "secrets") => "data",
        _ => return,
    };
    let Some(Value::Object(entries)) = object.get_mut(field) else { return };
    for value in entries.values_mut().filter(|value| value.is_null()) {
        *value = "".into();
    }
}

/// Built-in kinds are stored upstream in a form that does not know empty lists; definitions, which
/// are stored as JSON, are the exception. Of custom objects only the metadata is typed.
fn drop_empty_lists(resource: &Resource, object: &mut Value) {
    match &resource.type_info {
        TypeInfo::Builtin(builtin) if !custom::is_crd(resource) => {
            evenkeel_types::forget_empty(builtin.ty, object);
        }
        TypeInfo::Builtin(_) => {}
        TypeInfo::Custom(_) if has_empty_metadata(object) => {
            if let Some(metadata) = object.get_mut("metadata")
                && let Err(why) = coerce(metadata, Malformed::Reject, "metadata", &mut Vec::new())
            {
                tracing::error!(%why, kind = &*resource.kind, "metadata was not checked");
            }
        }
        TypeInfo::Custom(_) => {}
    }
}

/// Makes an object that is not stored what it would be if it had been.
pub(crate) fn round_trip_storage(
    resource: &Resource,
    object: &mut Value,
    origin: Origin,
) -> Result<(), Status> {
    drop_empty_lists(resource, object);
    replace_null_bytes(resource, object);
    normalize_numbers(resource, object);
    if let Some(custom) = resource.custom() {
        if resource.api_version != resource.storage_version {
            to_storage_version(resource, object)?;
            from_storage_version(resource, object)?;
        } else if origin == Origin::Merged {
            prune_and_default(custom, object)?;
        }
    }
    Ok(())
}

/// Whether storing `unsaved` would change nothing.
pub(crate) fn is_unchanged(unsaved: &UnsavedRecord, record: &Record) -> bool {
    let (body, revision_offset) = unsaved.body();
    let (head, tail) = record.around_revision();
    // One of an older schema stays as old; it is brought up to date whenever it is read.
    unsaved.version == record.version
        && body[..revision_offset] == *head
        && body[revision_offset..] == *tail
}

/// The object in the version of `resource`.
pub(crate) fn value(resource: &Resource, record: &Record) -> Result<Value, Status> {
    let mut object: Value = serde_json::from_slice(&record.body)
        .map_err(|error| Status::internal(format!("stored object {}: {error}", record.key)))?;
    if !is_current(resource, record) {
        from_storage_version(resource, &mut object)?;
    }
    Ok(object)
}

/// The object's JSON in the version of `resource`: as stored, wherever possible.
pub(crate) fn body(resource: &Resource, record: &Record) -> Result<Bytes, Status> {
    if is_current(resource, record) {
        return Ok(record.body.clone());
    }
    let mut object = value(resource, record)?;
    set_meta(&mut object, "resourceVersion", Some(record.revision.to_string().into()));
    Ok(to_bytes(&object).into())
}

/// As [`body`]. An object that cannot be converted is given as it is stored: better seen than lost.
pub(crate) fn body_or_stored(resource: &Resource, record: &Record) -> Bytes {
    body(resource, record).unwrap_or_else(|_| record.body.clone())
}

/// Whether the stored bytes are what the resource shows.
pub(crate) fn is_current(resource: &Resource, record: &Record) -> bool {
    record.version == resource.api_version && record.epoch == resource.epoch
}

/// The object as Go prints it: by its built-in type, or sorted if it has none.
pub(crate) fn to_bytes(object: &Value) -> Vec<u8> {
    let mut out = Vec::with_capacity(2048);
    json::write(&mut out, json::type_of(object), object);
    out
}

/// The stored form: an object with an empty resourceVersion. Also returns where that goes.
fn to_stored_bytes(
    ty: Option<&'static Type>,
    object: &mut Value,
) -> Result<(Vec<u8>, usize), Status> {
    if !object.is_object() {
        return Err(Status::internal("only objects can be stored"));
    }
    set_meta(object, "resourceVersion", Some("".into()));
    let mut body = Vec::with_capacity(2048);
    let revision_offset = json::write(&mut body, ty, object);
    set_meta(object, "resourceVersion", None);
    let revision_offset =
        revision_offset.ok_or_else(|| Status::internal("an object without metadata"))?;
    Ok((body, revision_offset))
}

/// Length of the part of a stored body that items of built-in lists leave out.
pub(crate) fn item_prefix(resource: &Resource) -> usize {
    br#"{"kind":"","apiVersion":"","#.len() + resource.kind.len() + resource.api_version.len()
}

fn to_storage_version(resource: &Resource, object: &mut Value) -> Result<(), Status> {
    let same = resource.api_version == resource.storage_version;
    // Kinds with several versions keep marks of the others, which a round trip settles.
    if same && (resource.is_custom() || convert::convertible_kinds(resource.gvk()).is_empty()) {
        return Ok(());
    }
    match &resource.type_info {
        TypeInfo::Builtin(_) => {
            convert::to(resource.gvk(), resource.storage_gvk(), object).map_err(Status::internal)?
        }
        TypeInfo::Custom(custom) => {
            object["apiVersion"] = Value::from(&*resource.storage_version);
            prune(custom, object)?;
        }
    }
    Ok(())
}

/// Converts from the version the object was stored in, and catches up with schema changes.
///
/// A custom object is completed by the schema of the version it was stored in and then only loses
/// what the version that is asked for does not know: the defaults of that one are for writers.
fn from_storage_version(resource: &Resource, object: &mut Value) -> Result<(), Status> {
    let stored = object.get("apiVersion").and_then(Value::as_str).unwrap_or("").to_owned();
    let same = stored == *resource.api_version;
    match &resource.type_info {
        TypeInfo::Builtin(_) if same => {}
        TypeInfo::Builtin(_) => {
            let from = Gvk::from_api_version(&stored, &resource.kind);
            convert::to(from, resource.gvk(), object).map_err(Status::internal)?;
        }
        TypeInfo::Custom(custom) => {
            prune_and_default(custom, object)?;
            if !same {
                object["apiVersion"] = Value::from(&*resource.api_version);
                decode::coerce_and_prune(resource, object).map_err(Status::internal)?;
            }
        }
    }
    Ok(())
}

/// Makes an object what the schema of its own version says: nothing unknown, all defaults.
fn prune_and_default(custom: &Custom, object: &mut Value) -> Result<(), Status> {
    if let Some(schema) = prune(custom, object)? {
        schema.default(object);
    }
    Ok(())
}

/// Takes out of an object what the schema of its version does not know. A version the definition
/// has dropped has no say any more.
fn prune<'c>(custom: &'c Custom, object: &mut Value) -> Result<Option<&'c Structural>, Status> {
    let version = object.get("apiVersion").and_then(Value::as_str).unwrap_or("");
    let schema = custom.schemas.get(version);
    if let Some(schema) = schema {
        schema.normalize(object, Malformed::Reject).map_err(Status::internal)?;
    }
    Ok(schema)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn stored_bytes_have_an_offset_for_the_resource_version() {
        let mut object = json!({"data": {}, "kind": "ConfigMap", "apiVersion": "v1"});
        let ty = json::type_of(&object);
        let (body, revision_offset) = to_stored_bytes(ty, &mut object).unwrap();
        let head = br#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"resourceVersion":""#;
        assert_eq!(
            (&body[..revision_offset], &body[revision_offset..]),
            (&head[..], &br#""},"data":{}}"#[..])
        );

        object["metadata"] = json!({"name": "a", "labels": {"b": "c"}});
        let (body, revision_offset) = to_stored_bytes(ty, &mut object).unwrap();
        let head =
            r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","resourceVersion":""#;
        let tail = r#"","labels":{"b":"c"}},"data":{}}"#;
        assert_eq!(
            (&body[..revision_offset], &body[revision_offset..]),
            (head.as_bytes(), tail.as_bytes())
        );
        let (body, revision_offset) = to_stored_bytes(None, &mut object).unwrap();
        let head = r#"{"apiVersion":"v1","data":{},"kind":"ConfigMap","metadata":{"labels":{"b":"c"},"name":"a","resourceVersion":""#;
        assert_eq!(
            (&body[..revision_offset], &body[revision_offset..]),
            (head.as_bytes(), &b"\"}}"[..])
        );
    }

    #[test]
    fn documents_are_encoded_by_their_declared_type() {
        for text in [
            r#"{"kind":"APIVersions","versions":["v1"],"serverAddressByClientCIDRs":null}"#,
            r#"{"kind":"Table","apiVersion":"meta.k8s.io/v1beta1","metadata":{},"rows":[{"cells":[],"object":{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1beta1"}}]}"#,
            r#"{"apiVersion":"example.com/v1","kind":"A"}"#,
            r#"{"paths":["b","a"]}"#,
        ] {
            let value: Value = serde_json::from_str(text).unwrap();
            assert_eq!(String::from_utf8(to_bytes(&value)).unwrap(), text);
        }
    }
}
