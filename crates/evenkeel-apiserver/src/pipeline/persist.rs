//! Stage 11: writes to storage.
//!
//! The only place with optimistic concurrency: [`update`] runs the stages before it on the current
//! object, commits only if that object has not changed since, and retries otherwise.

use std::sync::Arc;

use evenkeel_apply::managed::ignore_managed_fields_timestamps;
use evenkeel_kinds::strategy;
use serde_json::Value;

use super::encode::{self, Origin};
use super::validate::Admitted;
use crate::context::RequestContext;
use crate::hooks::custom_resource_definition;
use crate::object::{Metadata as _, set_meta};
use crate::pipeline::delete::{DeleteOptions, delete_named};
use crate::pipeline::patch::is_apply;
use crate::registry::custom;
use crate::registry::resource::Resource;
use crate::request::route::Verb;
use crate::status::Status;
use crate::storage::{Key, Record, UnsavedRecord, WriteError};

/// The result of a write.
pub(crate) enum Persisted {
    /// The stored object; if it was deleted, its last state with the revision of the deletion.
    Stored(Arc<Record>),
    /// The object as it would have been stored, or its last state.
    Value(Value),
}

/// The change that the previous stages made of the current object.
pub(crate) enum Change {
    /// Stores this object.
    Write(Admitted),
    /// Changes nothing and returns the current object.
    Keep,
    /// Deletes the object and returns this value, or the stored object if there is none.
    Remove(Option<Value>),
}

/// Attempts at a compare-and-swap before a write fails.
const ATTEMPTS: usize = 1000;

/// Stores a new object.
pub(crate) async fn create(
    cx: &RequestContext,
    object: Admitted,
    dry_run: bool,
) -> Result<Persisted, Status> {
    let resource = &cx.resource;
    let Admitted { mut object, reservation } = object;
    let key = Key::new(&cx.namespace, object.meta_str("name"));
    if dry_run {
        if let Some(existing) = resource.table.get(&key) {
            return Err(already_exists(resource, &existing));
        }
        // The sent resourceVersion is kept: only storage would remove it.
        encode::round_trip_storage(resource, &mut object, origin(cx))?;
        return Ok(Persisted::Value(object));
    }
    // Storage checks it, so a dry run does not, and other errors come first. A value that is not a
    // number is ignored, as is the resourceVersion of an update or patch that creates.
    let sent = object.meta_str("resourceVersion").parse::<u64>();
    if cx.verb == Verb::Create && sent.is_ok_and(|version| version != 0) {
        let message = "resourceVersion should not be set on objects to be created";
        return Err(Status::without_reason(500, message));
    }
    set_meta(&mut object, "resourceVersion", None);
    let unsaved = check_size(encode::to_unsaved_record(resource, object, origin(cx))?)?;
    match resource.table.create(key, unsaved).await {
        Ok(record) => {
            if let Some(reservation) = reservation {
                reservation.commit();
            }
            after_write(cx, &record).await;
            Ok(Persisted::Stored(record))
        }
        Err(WriteError::Exists(existing)) => Err(already_exists(resource, &existing)),
        Err(other) => Err(write_error(&other)),
    }
}

fn origin(cx: &RequestContext) -> Origin {
    if is_apply(cx) { Origin::Merged } else { Origin::Decoded }
}

/// The maximum size of an etcd request, minus its overhead.
const MAX_STORED: usize = 1_572_864 - 256;

/// Rejects objects that exceed the size limit of etcd.
fn check_size(unsaved: UnsavedRecord) -> Result<UnsavedRecord, Status> {
    if unsaved.body().0.len() > MAX_STORED {
        return Err(Status::without_reason(500, "etcdserver: request is too large"));
    }
    Ok(unsaved)
}

fn already_exists(resource: &Resource, existing: &Record) -> Status {
    let deleting = encode::value(resource, existing).is_ok_and(|object| object.is_deleting());
    Status::already_exists(resource.group_resource(), existing.key.name(), deleting)
}

/// Updates an existing object. `change` may run several times, each on a newer version.
pub(crate) async fn update(
    cx: &RequestContext,
    name: &str,
    dry_run: bool,
    change: impl Fn(&Value, &Arc<Record>) -> Result<Change, Status>,
) -> Result<Persisted, Status> {
    let resource = &cx.resource;
    let key = cx.key(name);
    for _ in 0..ATTEMPTS {
        let Some(record) = resource.table.get(&key) else {
            return Err(Status::not_found(resource.group_resource(), name));
        };
        let current = encode::value(resource, &record)?;
        let mut taken = None;
        let hidden =
            resource.is("", "services").then(|| strategy::service_as_stored(&current)).flatten();
        let mut changed = change(hidden.as_ref().unwrap_or(&current), &record)?;
        if let (Some(_), Change::Write(admitted)) = (&hidden, &mut changed) {
            strategy::canonicalize(resource.gvk(), &mut admitted.object);
        }
        let written = match changed {
            Change::Keep => return Ok(Persisted::Stored(record)),
            Change::Remove(last) if dry_run => {
                return Ok(Persisted::Value(last.unwrap_or(current)));
            }
            Change::Remove(last) => {
                // Watchers receive the stored state, as with etcd.
                match resource.table.delete(key.clone(), record.revision, None).await {
                    Ok(deleted) => {
                        if resource.is("", "services") {
                            cx.core.services.release(&current, None);
                        }
                        after_delete(cx, &deleted).await;
                        return Ok(last.map_or(Persisted::Stored(deleted), Persisted::Value));
                    }
                    Err(error) => Err(error),
                }
            }
            Change::Write(Admitted { mut object, .. }) if dry_run => {
                encode::round_trip_storage(resource, &mut object, origin(cx))?;
                return Ok(Persisted::Value(object));
            }
            Change::Write(Admitted { mut object, reservation }) => {
                taken = reservation;
                // A new timestamp in managedFields alone is not a change.
                ignore_managed_fields_timestamps(&current, &mut object);
                let force_write = is_first_pvc_update(resource, &record) || commits_no_changes(cx);
                if object == current && encode::is_current(resource, &record) && !force_write {
                    return Ok(Persisted::Stored(record));
                }
                let unsaved = check_size(encode::to_unsaved_record(resource, object, origin(cx))?)?;
                if encode::is_unchanged(&unsaved, &record) && !force_write {
                    return Ok(Persisted::Stored(record));
                }
                resource.table.update(key.clone(), record.revision, unsaved).await
            }
        };
        match written {
            Ok(record) => {
                if let Some(reservation) = taken {
                    reservation.commit();
                    cx.core.services.release(&current, Some(&record));
                }
                after_write(cx, &record).await;
                return Ok(Persisted::Stored(record));
            }
            // A concurrent write won: retry with the new version.
            Err(WriteError::Conflict(_)) => {}
            Err(other) => return Err(write_error(&other)),
        }
    }
    Err(Status::modified(resource.group_resource(), name))
}

/// Returns whether this is the first update of a PersistentVolumeClaim. A new PVC is stored without
/// its phase, which is set on read; its first update stores the phase and so is always a change.
fn is_first_pvc_update(resource: &Resource, record: &Record) -> bool {
    resource.is("", "persistentvolumeclaims") && record.revision == record.create_revision
}

#[cfg(not(feature = "_planted-bugs"))]
fn commits_no_changes(_: &RequestContext) -> bool {
    false
}

#[cfg(feature = "_planted-bugs")]
fn commits_no_changes(cx: &RequestContext) -> bool {
    cx.core.commits_no_changes
}

fn write_error(error: &WriteError) -> Status {
    match error {
        WriteError::NoSpace(_) => Status::storage_full(),
        error => Status::internal(error),
    }
}

/// Updates state that depends on the written object.
async fn after_write(cx: &RequestContext, record: &Arc<Record>) {
    if custom::is_crd(&cx.resource) {
        custom_resource_definition::reconcile(&cx.core, record.key.name()).await;
    }
}

/// Deletes the endpoints of a deleted Service: a new Service of the same name must not use them.
async fn remove_endpoints(cx: &RequestContext, service: &Record) {
    let Some(endpoints) = cx.core.builtin("", "endpoints") else { return };
    let internal = RequestContext::internal(&cx.core, &endpoints, Verb::Delete, &service.key, None);
    let deletion = DeleteOptions::default();
    // Boxed, because the deletion is recursive.
    let removed = Box::pin(delete_named(&internal, service.key.name(), &deletion));
    if let Err(status) = removed.await
        && status.code() != 404
    {
        tracing::warn!(
            service = %service.key,
            why = status.message(),
            "cannot delete the endpoints of a deleted service"
        );
    }
}

async fn after_delete(cx: &RequestContext, record: &Arc<Record>) {
    if custom::is_crd(&cx.resource) {
        custom_resource_definition::reconcile(&cx.core, record.key.name()).await;
    } else if cx.resource.is("", "services") {
        remove_endpoints(cx, record).await;
    } else if let Some(custom) = cx.resource.custom() {
        custom_resource_definition::instance_removed(&cx.core, &custom.crd).await;
    }
}
