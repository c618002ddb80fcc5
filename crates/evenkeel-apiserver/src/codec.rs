//! The stored encoding of objects: JSON as Go encodes it, with an offset where the revision is
//! inserted.

use bytes::Bytes;
use evenkeel_kinds::{convert, empty, fields};
use evenkeel_schema::Structural;
use evenkeel_schema::metadata::{Malformed, coerce};
use evenkeel_types::json::{self, FieldsOrder};
use evenkeel_types::{Gvk, Type, conform, go};
use serde_json::{Map, Value};

use crate::json::{normalize_floats, to_bytes};
use crate::object::{Metadata as _, set_meta};
use crate::registry::custom::{self, Custom};
use crate::registry::resource::{Resource, TypeInfo};
use crate::status::Status;
use crate::storage::{Labels, Record, UnsavedRecord};

/// Encodes an object for storage, in the storage version.
pub(crate) fn to_unsaved_record(
    resource: &Resource,
    mut object: Value,
) -> Result<UnsavedRecord, Status> {
    normalize_numbers(resource, &mut object);
    to_storage_version(resource, &mut object)?;
    set_meta(&mut object, "resourceVersion", None);
    let labels = labels(&object);
    let gvk = resource.storage_gvk();
    // Those of a custom resource differ by version and are read from the object.
    let selectable = match resource.is_custom() {
        true => [].iter(),
        false => resource.selectable.iter(),
    };
    let selectable = selectable.map(|label| fields::value(gvk, label, &object).unwrap_or_default());
    let selectable = selectable.collect();
    let uid = object.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or("").into();
    replace_null_bytes(resource, &mut object);
    let ty = if resource.is_custom() { None } else { evenkeel_types::lookup(gvk) };
    let (mut body, mut revision_offset) = to_stored_bytes(ty, &mut object)?;
    // Searching the bytes is much cheaper than walking every object.
    if !resource.is_custom() && body.windows(2).any(|pair| pair == b"[]") {
        drop_empty_lists(resource, &mut object);
        (body, revision_offset) = to_stored_bytes(ty, &mut object)?;
    }
    let mut unsaved = UnsavedRecord::new(body, revision_offset, resource.storage_version.clone());
    unsaved.labels = labels;
    unsaved.fields = selectable;
    unsaved.epoch = match resource.custom() {
        Some(custom) if !is_normalized(custom, &object)? => NOT_NORMALIZED,
        _ => resource.epoch,
    };
    unsaved.uid = uid;
    Ok(unsaved)
}

/// Returns the labels of an object.
pub(crate) fn labels(object: &Value) -> Labels {
    let Some(Value::Object(map)) = object.pointer("/metadata/labels") else {
        return Labels::default();
    };
    // Go decodes a null as an empty string, and encodes it so.
    let labels = map.iter().filter(|(_, value)| value.is_string() || value.is_null());
    Labels::new(labels.map(|(key, value)| (&**key, value.as_str().unwrap_or_default())))
}

/// The epoch of bodies that must be normalized on read, whatever the schema.
const NOT_NORMALIZED: u32 = u32::MAX;

/// Returns whether a custom object is stored as it is read. Reading prunes unknown fields, sets
/// defaults and drops empty metadata, so the next write is a change. Stored objects differ from that
/// if they were applied or changed by a webhook with unknown fields, written in another version,
/// created without their status, or got the parent of a default by a write to their Scale.
fn is_normalized(custom: &Custom, object: &Value) -> Result<bool, Status> {
    if has_empty_metadata(object) {
        return Ok(false);
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

/// Normalizes the numbers of a custom object: encoded, a float without a fraction is an integer.
fn normalize_numbers(resource: &Resource, object: &mut Value) {
    if resource.is_custom() {
        normalize_floats(object);
    }
}

/// Replaces null bytes by empty ones, as upstream's protobuf storage does.
fn replace_null_bytes(resource: &Resource, object: &mut Value) {
    let Some(field) = empty::field_of_bytes(resource.gvk()) else { return };
    let Some(Value::Object(entries)) = object.get_mut(field) else { return };
    for value in entries.values_mut().filter(|value| value.is_null()) {
        *value = "".into();
    }
}

/// Drops empty lists, which upstream's protobuf storage does not preserve. CRDs, which are stored
/// as JSON, are the exception. Of custom objects only the metadata is typed.
fn drop_empty_lists(resource: &Resource, object: &mut Value) {
    match &resource.type_info {
        TypeInfo::Builtin(builtin) if !custom::is_crd(resource) => {
            evenkeel_types::empty_to_null(builtin.ty, object);
        }
        TypeInfo::Builtin(_) => {}
        TypeInfo::Custom(_) if has_empty_metadata(object) => {
            if let Some(metadata) = object.get_mut("metadata")
                && let Err(why) = coerce(metadata, Malformed::Reject, "metadata", &mut Vec::new())
            {
                tracing::error!(
                    %why,
                    kind = &*resource.kind,
                    "invalid metadata of a custom object"
                );
            }
        }
        TypeInfo::Custom(_) => {}
    }
}

/// Changes an unsaved object as a round trip through storage would.
pub(crate) fn round_trip_storage(resource: &Resource, object: &mut Value) -> Result<(), Status> {
    drop_empty_lists(resource, object);
    replace_null_bytes(resource, object);
    normalize_numbers(resource, object);
    if resource.is_custom() {
        to_storage_version(resource, object)?;
        from_storage_version(resource, object)?;
    }
    Ok(())
}

/// Returns whether storing `unsaved` would change nothing.
pub(crate) fn is_unchanged(unsaved: &UnsavedRecord, record: &Record) -> bool {
    let (body, revision_offset) = unsaved.body();
    let (head, tail) = record.around_revision();
    // A record of an older schema keeps its epoch; it is normalized on each read.
    unsaved.version == record.version
        && body[..revision_offset] == *head
        && body[revision_offset..] == *tail
}

/// Decodes the object in the version of `resource`.
pub(crate) fn value(resource: &Resource, record: &Record) -> Result<Value, Status> {
    let mut object: Value = serde_json::from_slice(&record.body)
        .map_err(|error| Status::internal(format!("stored object {}: {error}", record.key)))?;
    if !is_current(resource, record) {
        from_storage_version(resource, &mut object)?;
    }
    Ok(object)
}

/// Decodes the object in the version it is stored in, and applies schema changes since the write.
pub(crate) fn stored_value(resource: &Resource, record: &Record) -> Result<Value, Status> {
    let mut object: Value = serde_json::from_slice(&record.body)
        .map_err(|error| Status::internal(format!("stored object {}: {error}", record.key)))?;
    if let Some(custom) = resource.custom() {
        prune_and_default(custom, &mut object)?;
    }
    Ok(object)
}

/// Encodes a converted object as a record in the version of `resource`.
pub(crate) fn to_view(
    resource: &Resource,
    mut object: Value,
    record: &Record,
) -> Result<Record, Status> {
    coerce_and_prune(resource, &mut object).map_err(Status::internal)?;
    let labels = labels(&object);
    let (body, revision_offset) = to_stored_bytes(None, &mut object)?;
    let mut view = UnsavedRecord::new(body, revision_offset, resource.api_version.clone());
    view.labels = labels;
    view.epoch = resource.epoch;
    view.uid = record.uid.clone();
    Ok(view.into_view_of(record))
}

/// Returns the object's JSON in the version of `resource`, without encoding it again if possible.
pub(crate) fn body(resource: &Resource, record: &Record) -> Result<Bytes, Status> {
    if is_current(resource, record) {
        return Ok(record.body.clone());
    }
    let mut object = value(resource, record)?;
    set_meta(&mut object, "resourceVersion", Some(record.revision.to_string().into()));
    Ok(to_bytes(&object).into())
}

/// Like [`body`], but returns an object that cannot be converted as it is stored.
pub(crate) fn body_or_stored(resource: &Resource, record: &Record) -> Bytes {
    body(resource, record).unwrap_or_else(|_| record.body.clone())
}

/// Returns whether the stored bytes are the encoding in the version of the resource.
pub(crate) fn is_current(resource: &Resource, record: &Record) -> bool {
    record.version == resource.api_version && record.epoch == resource.epoch
}

/// Returns the order of `fieldsV1` in views of the resource's objects.
pub(crate) fn fields_order(resource: &Resource) -> FieldsOrder {
    if resource.is_custom() { FieldsOrder::Keys } else { FieldsOrder::PathElements }
}

/// Encodes an object with an empty resourceVersion. Also returns the offset at which it is
/// inserted.
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

/// Returns the length of the prefix that items of built-in lists omit.
pub(crate) fn item_prefix(resource: &Resource) -> usize {
    br#"{"kind":"","apiVersion":"","#.len() + resource.kind.len() + resource.api_version.len()
}

fn to_storage_version(resource: &Resource, object: &mut Value) -> Result<(), Status> {
    let same = resource.api_version == resource.storage_version;
    // Kinds with several versions store annotations for the others, which a round trip normalizes.
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

/// Converts from the storage version, and applies schema changes since the write.
///
/// A custom object is defaulted by the schema of its storage version, and then only pruned by the
/// schema of the requested version: its defaults apply to writes.
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
                coerce_and_prune(resource, object).map_err(Status::internal)?;
            }
        }
    }
    Ok(())
}

/// Prunes unknown fields and sets defaults, by the schema of the object's version.
fn prune_and_default(custom: &Custom, object: &mut Value) -> Result<(), Status> {
    if let Some(schema) = prune(custom, object)? {
        schema.default(object);
    }
    Ok(())
}

/// Prunes fields unknown to the schema of the object's version, unless the CRD no longer has that
/// version.
fn prune<'c>(custom: &'c Custom, object: &mut Value) -> Result<Option<&'c Structural>, Status> {
    let version = object.get("apiVersion").and_then(Value::as_str).unwrap_or("");
    let schema = custom.schemas.get(version);
    if let Some(schema) = schema {
        schema.normalize(object, Malformed::Reject).map_err(Status::internal)?;
    }
    Ok(schema)
}

// === types ===

/// Coerces an object to its type and prunes unknown fields; returns the pruned fields in the words
/// of a strict decoder. The error is the reason only.
pub(crate) fn coerce_and_prune(
    resource: &Resource,
    value: &mut Value,
) -> Result<Vec<String>, String> {
    match &resource.type_info {
        TypeInfo::Builtin(builtin) => conform_to(builtin.ty, value),
        TypeInfo::Custom(custom) => {
            match value.get_mut("metadata") {
                // Upstream decodes it from JSON, in which Go encodes the float 1.0 as 1.
                Some(metadata @ Value::Object(_)) => normalize_floats(metadata),
                None | Some(Value::Null) => value["metadata"] = Value::Object(Map::new()),
                Some(other) => {
                    return Err(format!(
                        "json: cannot unmarshal {} into Go value of type v1.ObjectMeta",
                        go::json_kind(other)
                    ));
                }
            }
            custom
                .schema
                .normalize(value, Malformed::Reject)
                .map(|paths| paths.iter().map(|path| format!("unknown field {path:?}")).collect())
                .map_err(|why| why.to_string())
        }
    }
}

/// Coerces an object to a built-in type, and returns the fields that the type does not have.
pub(crate) fn conform_to(ty: &'static Type, value: &mut Value) -> Result<Vec<String>, String> {
    let resets_managed_fields = value.meta("managedFields") == Some(&Value::Array(Vec::new()));
    let problems = conform(ty, value).map_err(|why| why.to_string())?;
    if resets_managed_fields {
        // The type omits the empty list, but here it requests a reset.
        set_meta(value, "managedFields", Some(Value::Array(Vec::new())));
    }
    Ok(problems.into_iter().map(|problem| problem.to_string()).collect())
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
