//! Writes to storage.
//!
//! The only place with optimistic concurrency: a write is committed only if the object has not
//! changed since [`current`] read it. Otherwise the functions return `None`, and the caller repeats
//! the stages before on the new version.
//!
//! From the commit to the end of the hooks after it, a write is not cancelled: a store on disk commits
//! it whether or not the request waits for that.

use std::sync::Arc;

use evenkeel_apply::managed::ignore_managed_fields_timestamps;
use serde_json::Value;

use super::current::Current;
use super::validate::Admitted;
use crate::codec;
use crate::context::{RequestContext, Reservation};
use crate::conversion;
use crate::object::{Metadata as _, set_meta};
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

/// Attempts at a compare-and-swap before a write fails.
pub(crate) const ATTEMPTS: usize = 1000;

/// Reads the object that a write changes.
pub(crate) async fn current(cx: &RequestContext, name: &str) -> Result<Current, Status> {
    find(cx, name).await?.ok_or_else(|| not_found(cx, name))
}

/// Like [`current`], for writes that may create the object.
pub(crate) async fn find(cx: &RequestContext, name: &str) -> Result<Option<Current>, Status> {
    let Some(record) = cx.resource.table.get(&cx.key(name)) else { return Ok(None) };
    let view = conversion::record(&cx.core, &cx.resource, record.clone()).await?;
    let value = codec::value(&cx.resource, &view)?;
    let update_view = cx.hooks.update_view(&value);
    Ok(Some(Current { record, view, value, update_view }))
}

pub(crate) fn exists(cx: &RequestContext, name: &str) -> bool {
    cx.resource.table.get(&cx.key(name)).is_some()
}

pub(crate) fn not_found(cx: &RequestContext, name: &str) -> Status {
    Status::not_found(cx.resource.group_resource(), name)
}

/// Returns the error of a write that lost against concurrent writes in every attempt.
pub(crate) fn conflict(cx: &RequestContext, name: &str) -> Status {
    Status::modified(cx.resource.group_resource(), name)
}

/// Stores a new object.
pub(crate) async fn create(
    cx: &RequestContext,
    object: Admitted,
    dry_run: bool,
) -> Result<Persisted, Status> {
    let Admitted { object, reservation, charge } = object;
    let created = store_new(cx, object, reservation, dry_run).await;
    if created.is_err() {
        release(cx, charge).await;
    }
    created
}

/// Releases what admission has reserved for a write that is not committed.
async fn release(cx: &RequestContext, charge: Option<Box<dyn Reservation>>) {
    let _section = cx.commits.begin();
    if let Some(release) = charge.and_then(|charge| charge.release(cx)) {
        release.await;
    }
}

async fn store_new(
    cx: &RequestContext,
    mut object: Value,
    reservation: Option<Box<dyn Reservation>>,
    dry_run: bool,
) -> Result<Persisted, Status> {
    let resource = &cx.resource;
    let key = Key::new(&cx.namespace, object.meta_str("name"));
    if dry_run {
        if let Some(existing) = resource.table.get(&key) {
            return Err(already_exists(resource, &existing));
        }
        // The sent resourceVersion is kept: only storage would remove it.
        return round_trip(cx, object).await.map(Persisted::Value);
    }
    // Storage checks it, so a dry run does not, and other errors come first. A value that is not a
    // number is ignored, as is the resourceVersion of an update or patch that creates.
    let sent = object.meta_str("resourceVersion").parse::<u64>();
    if cx.verb == Verb::Create && sent.is_ok_and(|version| version != 0) {
        let message = "resourceVersion should not be set on objects to be created";
        return Err(Status::without_reason(500, message));
    }
    set_meta(&mut object, "resourceVersion", None);
    let object = conversion::to_storage(&cx.core, resource, object).await?;
    let unsaved = check_size(codec::to_unsaved_record(resource, object)?)?;
    let section = cx.commits.begin();
    match resource.table.create(key, unsaved).await {
        Ok(record) => {
            if let Some(reservation) = reservation {
                reservation.commit(None, &record);
            }
            after_write(cx, &record).await;
            drop(section);
            stored(cx, record).await
        }
        Err(WriteError::Exists(existing)) => Err(already_exists(resource, &existing)),
        Err(other) => Err(write_error(&other)),
    }
}

/// Stores an update, or deletes the object if the update removed its last finalizer.
pub(crate) async fn update(
    cx: &RequestContext,
    current: &Current,
    object: Admitted,
    dry_run: bool,
) -> Result<Option<Persisted>, Status> {
    if !completes_deletion(cx, object.value()) {
        return store(cx, current, object, dry_run).await;
    }
    let mut last = object.object;
    set_meta(&mut last, "resourceVersion", Some(current.record.revision.to_string().into()));
    remove(cx, current, Some(last), dry_run).await
}

/// Returns whether this write removes the last finalizer of an object that is being deleted.
fn completes_deletion(cx: &RequestContext, object: &Value) -> bool {
    object.is_deleting()
        && object.finalizers().is_empty()
        && cx.hooks.should_delete_during_update(object)
}

/// Stores an object in place of the current one. A write that changes nothing commits nothing.
pub(crate) async fn store(
    cx: &RequestContext,
    current: &Current,
    object: Admitted,
    dry_run: bool,
) -> Result<Option<Persisted>, Status> {
    let Admitted { object, reservation, charge } = object;
    let stored = store_over(cx, current, object, reservation, dry_run).await;
    if !matches!(stored, Ok(Some(_))) {
        release(cx, charge).await;
    }
    stored
}

async fn store_over(
    cx: &RequestContext,
    current: &Current,
    mut object: Value,
    reservation: Option<Box<dyn Reservation>>,
    dry_run: bool,
) -> Result<Option<Persisted>, Status> {
    let resource = &cx.resource;
    let record = &current.record;
    if current.update_view.is_some() {
        resource.canonicalize(&mut object);
    }
    if dry_run {
        return round_trip(cx, object).await.map(Persisted::Value).map(Some);
    }
    // A new timestamp in managedFields alone is not a change.
    ignore_managed_fields_timestamps(&current.value, &mut object);
    let always = cx.hooks.always_writes(record);
    let as_read = object == current.value;
    if as_read && codec::is_current(resource, record) && !always {
        return Ok(Some(Persisted::Stored(record.clone())));
    }
    let object = conversion::to_storage(&cx.core, resource, object).await?;
    let unsaved = check_size(codec::to_unsaved_record(resource, object)?)?;
    // A null in a custom object is a change even if it is stored, since reading drops it.
    let may_be_unchanged = as_read || !resource.is_custom();
    if may_be_unchanged && codec::is_unchanged(&unsaved, record) && !always {
        return Ok(Some(Persisted::Stored(current.view.clone())));
    }
    let section = cx.commits.begin();
    match resource.table.update(record.key.clone(), record.revision, unsaved).await {
        Ok(record) => {
            if let Some(reservation) = reservation {
                reservation.commit(Some(&current.value), &record);
            }
            after_write(cx, &record).await;
            drop(section);
            stored(cx, record).await.map(Some)
        }
        // A concurrent write won.
        Err(WriteError::Conflict(_)) => Ok(None),
        Err(other) => Err(write_error(&other)),
    }
}

/// Leaves the object as it is. Of a custom object, stores what pruning and defaulting have changed
/// since the last write.
pub(crate) async fn keep(
    cx: &RequestContext,
    current: &Current,
    dry_run: bool,
) -> Result<Option<Persisted>, Status> {
    if cx.resource.is_custom() {
        let same = Admitted::by_server(current.object().clone());
        return store(cx, current, same, dry_run).await;
    }
    Ok(Some(Persisted::Stored(current.view.clone())))
}

/// Deletes the object. Returns `last`, or the stored object if there is none.
pub(crate) async fn remove(
    cx: &RequestContext,
    current: &Current,
    last: Option<Value>,
    dry_run: bool,
) -> Result<Option<Persisted>, Status> {
    if dry_run {
        return Ok(Some(Persisted::Value(last.unwrap_or_else(|| current.value.clone()))));
    }
    let record = &current.record;
    let section = cx.commits.begin();
    // Watchers receive the stored state, as with etcd.
    match cx.resource.table.delete(record.key.clone(), record.revision, None).await {
        Ok(deleted) => {
            if let Some(hook) = cx.hooks.after_delete(cx, &current.value, &deleted) {
                hook.await;
            }
            drop(section);
            match last {
                Some(last) => Ok(Some(Persisted::Value(last))),
                None => stored(cx, deleted).await.map(Some),
            }
        }
        Err(WriteError::Conflict(_)) => Ok(None),
        Err(other) => Err(write_error(&other)),
    }
}

/// Deletes an object that was marked before, unless it is deleted or replaced concurrently.
pub(crate) async fn remove_marked(
    cx: &RequestContext,
    name: &str,
    marked: Arc<Record>,
) -> Result<Persisted, Status> {
    for _ in 0..ATTEMPTS {
        let found = find(cx, name).await?;
        let Some(current) = found.filter(|found| found.record.uid == marked.uid) else {
            return Ok(Persisted::Stored(marked));
        };
        if let Some(removed) = remove(cx, &current, None, false).await? {
            return Ok(removed);
        }
    }
    Err(conflict(cx, name))
}

/// Returns a stored object in the version of the request.
async fn stored(cx: &RequestContext, record: Arc<Record>) -> Result<Persisted, Status> {
    conversion::record(&cx.core, &cx.resource, record).await.map(Persisted::Stored)
}

/// Returns an object as storage would return it, without storing it.
async fn round_trip(cx: &RequestContext, mut object: Value) -> Result<Value, Status> {
    let (core, resource) = (&cx.core, &cx.resource);
    if !conversion::by_webhook(resource) || resource.api_version == resource.storage_version {
        codec::round_trip_storage(resource, &mut object)?;
        return Ok(object);
    }
    let stored = conversion::to_storage(core, resource, object).await?;
    let mut object = conversion::one(core, resource, stored, &resource.api_version).await?;
    codec::coerce_and_prune(resource, &mut object).map_err(Status::internal)?;
    Ok(object)
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
    let deleting = codec::value(resource, existing).is_ok_and(|object| object.is_deleting());
    Status::already_exists(resource.group_resource(), existing.key.name(), deleting)
}

fn write_error(error: &WriteError) -> Status {
    match error {
        WriteError::NoSpace(_) => Status::storage_full(),
        error => Status::internal(error),
    }
}

async fn after_write(cx: &RequestContext, record: &Record) {
    if let Some(hook) = cx.hooks.after_write(cx, record) {
        hook.await;
    }
}
