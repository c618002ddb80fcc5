//! Decodes and validates the `metadata` of custom and embedded resources.
//!
//! Custom resources are untyped JSON, but every Kubernetes client must be able to decode their
//! metadata. `coerce` converts it to the form that a typed round trip produces; [`validate`] and
//! [`validate_update`] apply the rules common to all kinds.

mod rules;

use std::sync::LazyLock;

use evenkeel_types::{StrictDecodingError, Type, TypeMismatch, by_name, conform, go};
use serde_json::{Map, Value};

pub use rules::{
    check_annotations, check_annotations_size, check_labels, total_bytes, validate,
    validate_common_fields, validate_names, validate_update,
};

/// What to do with malformed metadata fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// Reject the object. Used for requests.
    Reject,
    /// Drop the field. Used for stored objects, which may be older than the rules.
    Drop,
}

/// Converts metadata to its typed form: removes unknown and empty fields, converts times to UTC
/// seconds.
///
/// `path` is the path of the metadata (`metadata`). The paths of unknown fields are added to
/// `unknown`.
///
/// # Errors
///
/// The message of Go's JSON decoder for the first malformed field, unless malformed fields are
/// dropped.
pub fn coerce(
    metadata: &mut Value,
    malformed: Malformed,
    path: &str,
    unknown: &mut Vec<String>,
) -> Result<(), String> {
    if malformed == Malformed::Drop && !metadata.is_null() {
        let Value::Object(map) = metadata else {
            let kind = go::type_name(metadata);
            return Err(format!("invalid metadata: expected object, got {kind}"));
        };
        // Fields are decoded one by one so that a malformed field does not drop the others.
        for (name, value) in std::mem::take(map) {
            let mut field = Value::Object(Map::from_iter([(name, value)]));
            if decode(&mut field, path, unknown).is_ok()
                && let Value::Object(field) = field
            {
                map.extend(field);
            }
        }
        return Ok(());
    }
    decode(metadata, path, unknown).map_err(|mismatch| mismatch.to_string())
}

fn decode(metadata: &mut Value, path: &str, unknown: &mut Vec<String>) -> Result<(), TypeMismatch> {
    static OBJECT_META: LazyLock<Option<&Type>> =
        LazyLock::new(|| by_name("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"));
    let Some(object_meta) = *OBJECT_META else { return Ok(()) };
    for problem in conform(object_meta, metadata)? {
        if let StrictDecodingError::UnknownField(field) = problem {
            unknown.push(format!("{path}.{field}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
