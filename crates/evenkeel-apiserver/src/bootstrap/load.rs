//! Objects that a server starts with: those of a snapshot, written to the tables as they are.
//!
//! They pass no admission and no validation, so that uids, times, status and managed fields stay
//! those of the cluster that they come from.

use std::sync::Arc;

use serde_json::Value;

use crate::codec;
use crate::context::Core;
use crate::registry::resource::Resource;
use crate::status::Status;
use crate::storage::Key;

/// Writes the objects of built-in kinds, before the state of the server is rebuilt from its
/// storage. Returns those of other kinds.
pub(super) async fn builtin(core: &Arc<Core>, objects: Vec<Value>) -> Result<Vec<Value>, Status> {
    let mut others = Vec::new();
    let mut found = Vec::new();
    for object in objects {
        match resource(core, &object) {
            Some(resource) => found.push((resource, object)),
            None => others.push(object),
        }
    }
    write(found).await?;
    Ok(others)
}

/// Writes the objects of custom resources, whose CRDs are served by now.
pub(super) async fn custom(core: &Arc<Core>, objects: Vec<Value>) -> Result<(), Status> {
    let mut found = Vec::new();
    for object in objects {
        let Some(resource) = resource(core, &object) else {
            let (version, kind) = (text(&object, "/apiVersion"), text(&object, "/kind"));
            let message = format!(
                "cannot load {}: no matches for kind {kind:?} in version {version:?}",
                text(&object, "/metadata/name")
            );
            return Err(Status::bad_request(message));
        };
        found.push((resource, object));
    }
    write(found).await
}

async fn write(objects: Vec<(Arc<Resource>, Value)>) -> Result<(), Status> {
    let mut writes = Vec::with_capacity(objects.len());
    for (resource, object) in objects {
        let key = Key::new(text(&object, "/metadata/namespace"), text(&object, "/metadata/name"));
        let unsaved = codec::to_unsaved_record(&resource, object)?;
        writes.push(async move { resource.table.create(key, unsaved).await });
    }
    // What the data directory has is newer.
    super::create_all(writes).await
}

/// Returns the resource whose objects have this apiVersion and kind.
fn resource(core: &Arc<Core>, object: &Value) -> Option<Arc<Resource>> {
    let (api_version, kind) = (text(object, "/apiVersion"), text(object, "/kind"));
    let snapshot = core.registry.snapshot();
    let mut resources = snapshot.resources();
    resources.find(|it| *it.kind == *kind && *it.api_version == *api_version).cloned()
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or("")
}
