//! `update`: an object replaced as a whole, or its status, or another part with rules of its own.

use std::sync::Arc;

use http::StatusCode;
use serde_json::Value;

use super::create::{self, settle_namespace};
use crate::call::Call;
use crate::object::{Metadata as _, set_finalizers, set_meta};
use crate::pipeline::decode::Decoded;
use crate::pipeline::encode::{self, Answer};
use crate::pipeline::manage::Managed;
use crate::pipeline::persist::{self, Change, Persisted};
use crate::pipeline::validate::Admitted;
use crate::pipeline::validate_schema::Part;
use crate::pipeline::{decode, manage, mutate, validate, validate_schema};
use crate::query::{FieldValidation, WriteOptions};
use crate::registry::resource::Nature;
use crate::route::Verb;
use crate::status::{Named, Status};
use crate::storage::Record;
use evenkeel_schema::field;
use evenkeel_types::go::Quoted;

pub(super) async fn answer(call: &Call, body: &[u8]) -> Result<Answer, Status> {
    expect_name(call)?;
    let options = WriteOptions::parse(&call.query, "UpdateOptions", false)?;
    let mut object = decode::object(call, body, options.field_validation)?;
    settle_namespace(call, object.value_mut())?;
    check_named(call, object.value())?;
    let part = Part::of(call.subresource.as_deref());
    if matches!(part, Part::Main | Part::Status)
        && may_create(call)
        && call.resource.table.get(&call.key(call.name())).is_none()
    {
        check_uid(call, object.value(), "", options.dry_run)?;
        return Ok(match create::create(call, object, &options).await? {
            Persisted::Stored(record) => Answer::Record(StatusCode::CREATED, record),
            Persisted::Shown(value) => Answer::Object(StatusCode::CREATED, value),
        });
    }
    let persisted = persist::update(call, call.name(), options.dry_run, |old, record| {
        replace(call, object.clone(), old, record, part, &options)
    })
    .await?;
    Ok(ok(persisted))
}

/// A write of the server itself to the status of an object.
pub(crate) async fn write_status(
    call: &Call,
    edit: impl Fn(&mut Value) + Send + Sync,
) -> Result<Persisted, Status> {
    write_part(call, Part::Status, edit).await
}

/// A write of the server itself to an object.
pub(crate) async fn write_object(
    call: &Call,
    edit: impl Fn(&mut Value) + Send + Sync,
) -> Result<Persisted, Status> {
    write_part(call, Part::Main, edit).await
}

async fn write_part(
    call: &Call,
    part: Part<'_>,
    edit: impl Fn(&mut Value) + Send + Sync,
) -> Result<Persisted, Status> {
    let options = internal_options();
    persist::update(call, call.name(), false, |old, record| {
        let mut object = old.clone();
        edit(&mut object);
        replace(call, Decoded::again(object), old, record, part, &options)
    })
    .await
}

/// Takes one finalizer from an object, on behalf of the server.
pub(crate) async fn release_finalizer(call: &Call, finalizer: &str) -> Result<(), Status> {
    write_object(call, |object| {
        let left = object.finalizers().into_iter().filter(|name| *name != finalizer);
        let left = left.map(str::to_owned).collect();
        set_finalizers(object, left);
    })
    .await?;
    Ok(())
}

/// The server's own writes: as they are, at once.
pub(super) fn internal_options() -> WriteOptions {
    WriteOptions {
        dry_run: false,
        field_manager: None,
        field_validation: FieldValidation::Ignore,
        force: None,
    }
}

pub(super) fn ok(persisted: Persisted) -> Answer {
    match persisted {
        Persisted::Stored(record) => Answer::Record(StatusCode::OK, record),
        Persisted::Shown(value) => Answer::Object(StatusCode::OK, value),
    }
}

/// The stages from managed fields to validating admission, on one state of the object.
pub(super) fn replace(
    call: &Call,
    mut object: Decoded,
    old: &Value,
    record: &Arc<Record>,
    part: Part<'_>,
    options: &WriteOptions,
) -> Result<Change, Status> {
    let resource = &call.resource;
    let given_version = object.value().meta_str("resourceVersion").to_owned();
    // A patch has no preconditions of its own; validation refuses to change a uid.
    if call.verb == Verb::Update {
        check_uid(call, object.value(), old.meta_str("uid"), options.dry_run)?;
    }
    if resource.namespaced {
        set_meta(object.value_mut(), "namespace", Some(call.namespace.clone().into()));
    }
    let managed = manage::on_update(call, object, old, options);
    replace_managed(call, managed, &given_version, old, record, part)
}

/// The stages from mutating admission on.
pub(super) fn replace_managed(
    call: &Call,
    managed: Managed,
    given_version: &str,
    old: &Value,
    record: &Arc<Record>,
    part: Part<'_>,
) -> Result<Change, Status> {
    let mutated = mutate::on_update(call, managed, old)?;
    check_version(call, given_version, record)?;
    let checked = validate_schema::on_update(call, mutated, old, part)?;
    let admitted = validate::on_update(call, checked, old)?;
    Ok(if is_finished(call, &admitted) {
        let mut last = admitted.value().clone();
        set_meta(&mut last, "resourceVersion", Some(record.revision.to_string().into()));
        Change::Remove(Some(last))
    } else {
        Change::Write(admitted)
    })
}

/// Collections of custom resources take a PUT or PATCH up to here.
pub(super) fn expect_name(call: &Call) -> Result<(), Status> {
    match &call.name {
        Some(_) => Ok(()),
        None => Err(Status::bad_request("name must be provided")),
    }
}

/// As [`check_name`], for objects that have to carry their name.
pub(super) fn check_named(call: &Call, object: &Value) -> Result<(), Status> {
    if object.meta_str("name").is_empty() {
        return Err(Status::bad_request(format!(
            "the name of the object ({} based on URL) was undeterminable: name must be provided",
            call.name()
        )));
    }
    check_name(call, object)
}

pub(super) fn check_name(call: &Call, object: &Value) -> Result<(), Status> {
    let given = object.meta_str("name");
    if given.is_empty() || given == call.name() {
        return Ok(());
    }
    Err(Status::bad_request(format!(
        "the name of the object ({given}) does not match the name on the URL ({})",
        call.name()
    )))
}

/// Whoever gives a uid means the object that has it. The storage minds, so its words show.
pub(super) fn check_uid(
    call: &Call,
    object: &Value,
    stored: &str,
    dry_run: bool,
) -> Result<(), Status> {
    let given = object.meta_str("uid");
    if given.is_empty() || given == stored {
        return Ok(());
    }
    Err(precondition_failed(call, "UID", given, stored, dry_run))
}

/// The refusal of a write to another object than was meant, or to another version of it.
pub(super) fn precondition_failed(
    call: &Call,
    what: &str,
    given: &str,
    stored: &str,
    dry_run: bool,
) -> Status {
    // A dry run asks the layer above the one that knows where in etcd it all is.
    let root = if dry_run { "" } else { "/registry" };
    let key = call.resource.etcd_key(&call.namespace, call.name());
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: {root}{key}, ResourceVersion: 0, \
         AdditionalErrorMsg: Precondition failed: {what} in precondition: {given}, {what} in \
         object meta: {stored}"
    );
    Status::conflict(call.resource.named(), call.name(), &why)
}

/// Whoever names a version means that one; some kinds must be named one.
fn check_version(call: &Call, given: &str, record: &Record) -> Result<(), Status> {
    let resource = &call.resource;
    let version = sent_version(given)?;
    if version == record.revision {
        return Ok(());
    }
    if version != 0 {
        return Err(Status::modified(resource.named(), call.name()));
    }
    let unconditional = match &resource.nature {
        Nature::Builtin(builtin) => builtin.strategy.unconditional_update,
        Nature::Custom(_) => false,
    };
    if unconditional {
        return Ok(());
    }
    let error =
        field::Error::invalid("metadata.resourceVersion", 0, "must be specified for an update");
    let named = Named { group: &resource.group, kind: &resource.plural };
    Err(Status::invalid(named, call.name(), &[error]))
}

/// The resourceVersion of an object that is sent; 0 if it has none.
pub(super) fn sent_version(given: &str) -> Result<u64, Status> {
    if given.is_empty() {
        return Ok(0);
    }
    let digits = given.bytes().all(|byte| byte.is_ascii_digit());
    // Rust's parser also takes a sign.
    given.parse().ok().filter(|_| digits).ok_or_else(|| {
        let why = if digits { "value out of range" } else { "invalid syntax" };
        Status::bare(500, format!("strconv.ParseUint: parsing {}: {why}", Quoted(given)))
    })
}

/// Whether a write to what does not exist creates it, be it to its status.
pub(super) fn may_create(call: &Call) -> bool {
    match &call.resource.nature {
        Nature::Builtin(builtin) => builtin.strategy.create_on_update,
        Nature::Custom(_) => false,
    }
}

/// Whether this was the write that lets a deleted object go.
fn is_finished(call: &Call, admitted: &Admitted) -> bool {
    let object = admitted.value();
    if !object.is_deleting() || !object.finalizers().is_empty() {
        return false;
    }
    if call.resource.is("", "namespaces") {
        let spec = object.pointer("/spec/finalizers").and_then(Value::as_array);
        return spec.is_none_or(Vec::is_empty);
    }
    object.meta_i64("deletionGracePeriodSeconds").unwrap_or(0) == 0
}

/// The current object in the version of the request.
pub(super) fn current(call: &Call) -> Result<(Arc<Record>, Value), Status> {
    let record = call
        .resource
        .table
        .get(&call.key(call.name()))
        .ok_or_else(|| Status::not_found(call.resource.named(), call.name()))?;
    let value = encode::value(&call.resource, &record)?;
    Ok((record, value))
}
