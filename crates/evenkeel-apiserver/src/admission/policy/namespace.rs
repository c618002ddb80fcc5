//! The variable `namespaceObject`.

use serde_json::{Map, Value};

use super::super::selection;
use crate::codec;
use crate::context::Attributes;
use crate::status::{GroupResource, Status};
use crate::storage::Key;

/// The metadata that expressions can read.
const METADATA: [&str; 12] = [
    "name",
    "generateName",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "finalizers",
];

/// Returns the namespace of the object as expressions see it; `None` for namespaces themselves and
/// other cluster-scoped objects.
pub(super) fn of(attributes: &Attributes<'_>) -> Result<Option<Value>, Status> {
    let cx = attributes.cx;
    let name = selection::namespace(attributes);
    if name.is_empty() || attributes.kind.kind == "Namespace" && attributes.kind.group.is_empty() {
        return Ok(None);
    }
    let not_found = || Status::not_found(GroupResource { group: "", resource: "namespaces" }, name);
    let resource = cx.core.builtin("", "namespaces").ok_or_else(not_found)?;
    let record = resource.table.get(&Key::new("", name)).ok_or_else(not_found)?;
    let mut stored = codec::value(&resource, &record)?;
    let mut part = |field: &str| stored.get_mut(field).map(Value::take).unwrap_or_default();
    let (mut metadata, spec, status) = (part("metadata"), part("spec"), part("status"));
    if let Value::Object(metadata) = &mut metadata {
        metadata.retain(|field, _| METADATA.contains(&field.as_str()));
    }
    let parts = [("metadata", metadata), ("spec", spec), ("status", status)];
    Ok(Some(Value::Object(Map::from_iter(parts.map(|(name, part)| (name.to_owned(), part))))))
}
