//! Stage 9: the write itself.
//!
//! Optimistic concurrency lives here and nowhere else: [`update`] runs the stages before it on
//! the object it finds, commits only if that object is still the newest, and starts over if not.

use std::sync::Arc;

use evenkeel_apply::managed::revert_timestamps;
use evenkeel_kinds::strategy;
use serde_json::Value;

use super::encode::{self, Origin};
use super::validate::Admitted;
use crate::call::Call;
use crate::object::{Metadata as _, set_meta};
use crate::registry::custom;
use crate::registry::resource::Resource;
use crate::route::Verb;
use crate::status::Status;
use crate::storage::{Key, Record, UnsavedRecord, WriteError};
use crate::verbs::{Deletion, delete_named, is_apply};

/// What a write left behind.
pub(crate) enum Persisted {
    /// The object as stored; if it was deleted, its last state under the revision of that.
    Stored(Arc<Record>),
    /// The object as it would have been stored, or as it was when it went.
    Shown(Value),
}

/// What the stages before made of the object that was found.
pub(crate) enum Change {
    /// Store this.
    Write(Admitted),
    /// Leave everything as it is and answer with this.
    Keep,
    /// Remove the object, and answer with this if it is not to be what was stored.
    Remove(Option<Value>),
}

/// Attempts at a compare-and-swap before the server gives up on an object that never rests.
const ATTEMPTS: usize = 1000;

/// Stores a new object.
pub(crate) async fn create(
    call: &Call,
    object: Admitted,
    dry_run: bool,
) -> Result<Persisted, Status> {
    let resource = &call.resource;
    let Admitted { mut object, reservation } = object;
    let key = Key::new(&call.namespace, object.meta_str("name"));
    if dry_run {
        if let Some(existing) = resource.table.get(&key) {
            return Err(exists(resource, &existing));
        }
        // The version that was sent stays: only the storage would have taken it out.
        encode::pass_through_storage(resource, &mut object, origin(call))?;
        return Ok(Persisted::Shown(object));
    }
    // It is the storage that minds, so a dry run does not, and other faults are told first. It does
    // not mind what it cannot read, nor a write that creates by the way.
    let sent = object.meta_str("resourceVersion").parse::<u64>();
    if call.verb == Verb::Create && sent.is_ok_and(|version| version != 0) {
        let message = "resourceVersion should not be set on objects to be created";
        return Err(Status::bare(500, message));
    }
    set_meta(&mut object, "resourceVersion", None);
    let unsaved = storable(encode::to_unsaved_record(resource, object, origin(call))?)?;
    match resource.table.create(key, unsaved).await {
        Ok(record) => {
            if let Some(reservation) = reservation {
                reservation.keep();
            }
            after_commit(call, &record).await;
            Ok(Persisted::Stored(record))
        }
        Err(WriteError::Exists(existing)) => Err(exists(resource, &existing)),
        Err(other) => Err(failed(&other)),
    }
}

fn origin(call: &Call) -> Origin {
    if is_apply(call) { Origin::Merged } else { Origin::Decoded }
}

/// The largest request etcd takes, and what it needs beside the object.
const MAX_STORED: usize = 1_572_864 - 256;

/// Refuses what upstream's storage would not take.
fn storable(unsaved: UnsavedRecord) -> Result<UnsavedRecord, Status> {
    if unsaved.body().0.len() > MAX_STORED {
        return Err(Status::bare(500, "etcdserver: request is too large"));
    }
    Ok(unsaved)
}

fn exists(resource: &Resource, existing: &Record) -> Status {
    let deleting = encode::value(resource, existing).is_ok_and(|object| object.is_deleting());
    Status::already_exists(resource.named(), existing.key.name(), deleting)
}

/// Changes an object that exists. `change` may run several times, each on a newer state.
pub(crate) async fn update(
    call: &Call,
    name: &str,
    dry_run: bool,
    change: impl Fn(&Value, &Arc<Record>) -> Result<Change, Status>,
) -> Result<Persisted, Status> {
    let resource = &call.resource;
    let key = call.key(name);
    for _ in 0..ATTEMPTS {
        let Some(record) = resource.table.get(&key) else {
            return Err(Status::not_found(resource.named(), name));
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
                return Ok(Persisted::Shown(last.unwrap_or(current)));
            }
            Change::Remove(last) => {
                // Watchers see the state that was stored, as etcd would give it to them.
                match resource.table.delete(key.clone(), record.revision, None).await {
                    Ok(gone) => {
                        if resource.is("", "services") {
                            call.core.services.release(&current, None);
                        }
                        after_removal(call, &gone).await;
                        return Ok(last.map_or(Persisted::Stored(gone), Persisted::Shown));
                    }
                    Err(error) => Err(error),
                }
            }
            Change::Write(Admitted { mut object, .. }) if dry_run => {
                encode::pass_through_storage(resource, &mut object, origin(call))?;
                return Ok(Persisted::Shown(object));
            }
            Change::Write(Admitted { mut object, reservation }) => {
                taken = reservation;
                // Times alone are no change.
                revert_timestamps(&current, &mut object);
                let anyway = is_completed(resource, &record) || commits_no_changes(call);
                if object == current && encode::is_current(resource, &record) && !anyway {
                    return Ok(Persisted::Stored(record));
                }
                let unsaved = storable(encode::to_unsaved_record(resource, object, origin(call))?)?;
                if encode::is_unchanged(&unsaved, &record) && !anyway {
                    return Ok(Persisted::Stored(record));
                }
                resource.table.update(key.clone(), record.revision, unsaved).await
            }
        };
        match written {
            Ok(record) => {
                if let Some(reservation) = taken {
                    reservation.keep();
                    call.core.services.release(&current, Some(&record));
                }
                after_commit(call, &record).await;
                return Ok(Persisted::Stored(record));
            }
            // Somebody was faster: look again and decide anew.
            Err(WriteError::Conflict(_)) => {}
            Err(other) => return Err(failed(&other)),
        }
    }
    Err(Status::modified(resource.named(), name))
}

/// A new claim is stored without its phase, which reading it fills in: its first update, whatever
/// that is about, stores the phase, and so is a change.
fn is_completed(resource: &Resource, record: &Record) -> bool {
    resource.is("", "persistentvolumeclaims") && record.revision == record.create_revision
}

#[cfg(not(feature = "_planted-bugs"))]
fn commits_no_changes(_: &Call) -> bool {
    false
}

#[cfg(feature = "_planted-bugs")]
fn commits_no_changes(call: &Call) -> bool {
    call.core.commits_no_changes
}

fn failed(error: &WriteError) -> Status {
    match error {
        WriteError::NoSpace(_) => Status::storage_full(),
        error => Status::internal(error),
    }
}

/// What other parts of the server keep in step with the objects.
async fn after_commit(call: &Call, record: &Arc<Record>) {
    if custom::is_definition(&call.resource) {
        custom::settle(&call.core, record.key.name()).await;
    }
}

/// A service that is made anew under the same name must not meet the endpoints of this one.
async fn remove_endpoints(call: &Call, service: &Record) {
    let Some(endpoints) = call.core.builtin("", "endpoints") else { return };
    let internal = Call::internal(&call.core, &endpoints, Verb::Delete, &service.key, None);
    let deletion = Deletion::default();
    // One deletion leads to the other, which the compiler cannot see the end of.
    let removed = Box::pin(delete_named(&internal, service.key.name(), &deletion));
    if let Err(status) = removed.await
        && status.code() != 404
    {
        tracing::warn!(service = %service.key, why = status.message(), "endpoints stay behind");
    }
}

async fn after_removal(call: &Call, record: &Arc<Record>) {
    if custom::is_definition(&call.resource) {
        custom::settle(&call.core, record.key.name()).await;
    } else if call.resource.is("", "services") {
        remove_endpoints(call, record).await;
    } else if let Some(custom) = call.resource.custom() {
        custom::instance_removed(&call.core, &custom.definition).await;
    }
}
