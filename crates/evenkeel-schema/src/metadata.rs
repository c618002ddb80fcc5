//! `metadata` of custom and embedded resources: decoding it as typed metadata, and its rules.
//!
//! Custom resources are JSON, yet their metadata must be what every Kubernetes client can decode.
//! `coerce` brings it into the form a typed round trip would give it; [`validate`] and
//! [`validate_update`] hold it against the rules common to all kinds.

mod rules;

use std::sync::LazyLock;

use evenkeel_types::{Problem, Type, TypeMismatch, by_name, conform, go};
use serde_json::{Map, Value};

pub use rules::{
    bytes, check_annotations, check_annotations_size, check_labels, validate, validate_any_update,
    validate_names, validate_update,
};

/// What to do with metadata of the wrong shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// Refuse it: requests.
    Refuse,
    /// Drop the field: objects from storage, which may be older than the rules.
    Drop,
}

/// Brings metadata into typed form: unknown and empty fields go, times become UTC seconds.
///
/// `path` is where the metadata stands (`metadata`); unknown fields are added to `unknown` with
/// it.
///
/// # Errors
///
/// The text Go's JSON decoder has for the first malformed field, if such are to be refused.
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
        // Each field on its own, so that a malformed one does not take the others with it.
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
        if let Problem::UnknownField(field) = problem {
            unknown.push(format!("{path}.{field}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
