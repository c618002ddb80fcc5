//! The last-applied annotation of client-side apply, for migration to server-side apply.
//!
//! Only for the manager `kubectl`, as upstream's `lastAppliedManager` and `lastAppliedUpdater`:
//! fields whose live value is that of the annotation do not conflict, and a successful apply
//! updates the annotation, so that client-side apply can be used again.

use evenkeel_types::go;
use serde_json::{Map, Value};

use super::{Request, object};
use crate::{set::Set, typed::Duplicates};

/// The only manager with this behaviour.
pub(super) const MANAGER: &str = "kubectl";

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Maximum size of all annotations in bytes, keys and values.
const MAX_ANNOTATIONS_SIZE: usize = 256 * 1024;

/// Returns the fields whose live value is that of the annotation; `None` without a valid
/// annotation.
pub(super) fn allowed_conflicts(request: &Request<'_>, live: &Value) -> Option<Set> {
    let annotation =
        annotations(live)?.get(ANNOTATION)?.as_str().filter(|text| !text.is_empty())?;
    let ty = request.versions.object_type(request.api_version)?;
    let live = request.convert_to_request_version(live).ok()?;
    ty.validate(&live, Duplicates::Reject).ok()?;
    let last: Value = serde_json::from_str(annotation).ok()?;
    if object::api_version(&last) != request.api_version {
        return None;
    }
    ty.validate(&last, Duplicates::Reject).ok()?;
    let changes = ty.compare(&last, &live).ok()?;
    let fields = ty.to_field_set(&last).ok()?;
    Some(
        fields
            .difference(&changes.modified)
            .difference(&changes.added)
            .difference(&changes.removed),
    )
}

/// Sets the annotation, if present, to the applied configuration.
pub(super) fn update_annotation(object: &mut Value, applied: &Value) {
    let has = |annotations: &Map<String, Value>| {
        annotations.get(ANNOTATION).and_then(Value::as_str).is_some_and(|text| !text.is_empty())
    };
    if !annotations(object).is_some_and(has) {
        return;
    }
    let mut applied = applied.clone();
    if let Some(annotations) = annotations_mut(&mut applied) {
        annotations.remove(ANNOTATION);
    }
    let mut text = go::json(&applied);
    text.push('\n');
    if let Some(annotations) = annotations_mut(object) {
        annotations.insert(ANNOTATION.into(), Value::String(text));
        let size =
            |(name, value): (&String, &Value)| name.len() + value.as_str().map_or(0, str::len);
        if annotations.iter().map(size).sum::<usize>() > MAX_ANNOTATIONS_SIZE {
            annotations.remove(ANNOTATION);
        }
    }
}

fn annotations(object: &Value) -> Option<&Map<String, Value>> {
    object::metadata(object)?.get("annotations")?.as_object()
}

fn annotations_mut(object: &mut Value) -> Option<&mut Map<String, Value>> {
    object::metadata_mut(object)?.get_mut("annotations")?.as_object_mut()
}
