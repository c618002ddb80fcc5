//! `update`: replaces an object, its status, or another subresource.

use std::sync::Arc;

use http::StatusCode;
use serde_json::Value;

use super::create::{self, check_namespace};
use crate::context::RequestContext;
use crate::object::{Metadata as _, set_finalizers, set_meta};
use crate::pipeline::decode::Decoded;
use crate::pipeline::encode::{self, Reply};
use crate::pipeline::manage::Managed;
use crate::pipeline::persist::{self, Change, Persisted};
use crate::pipeline::prepare::Part;
use crate::pipeline::validate::Admitted;
use crate::pipeline::{decode, manage, mutate, prepare, validate};
use crate::registry::resource::TypeInfo;
use crate::request::query::{FieldValidation, WriteOptions};
use crate::request::route::Verb;
use crate::status::{GroupResource, Status};
use crate::storage::Record;
use evenkeel_schema::field;
use evenkeel_types::go::Quoted;

pub(crate) async fn handle(cx: &RequestContext, body: &[u8]) -> Result<Reply, Status> {
    require_name(cx)?;
    let options = WriteOptions::parse(&cx.query, "UpdateOptions", false)?;
    let mut object = decode::object(cx, body, options.field_validation)?;
    check_namespace(cx, object.value_mut())?;
    check_named(cx, object.value())?;
    let part = Part::of(cx.subresource.as_deref());
    if matches!(part, Part::Main | Part::Status)
        && may_create(cx)
        && cx.resource.table.get(&cx.key(cx.name())).is_none()
    {
        check_uid(cx, object.value(), "", options.dry_run)?;
        return Ok(match create::create(cx, object, &options).await? {
            Persisted::Stored(record) => Reply::Record(StatusCode::CREATED, record),
            Persisted::Value(value) => Reply::Object(StatusCode::CREATED, value),
        });
    }
    let persisted = persist::update(cx, cx.name(), options.dry_run, |old, record| {
        replace(cx, object.clone(), old, record, part, &options)
    })
    .await?;
    Ok(ok_reply(persisted))
}

/// Writes the status of an object on behalf of the server.
pub(crate) async fn write_status(
    cx: &RequestContext,
    edit: impl Fn(&mut Value) + Send + Sync,
) -> Result<Persisted, Status> {
    write_part(cx, Part::Status, edit).await
}

/// Writes an object on behalf of the server.
pub(crate) async fn write_object(
    cx: &RequestContext,
    edit: impl Fn(&mut Value) + Send + Sync,
) -> Result<Persisted, Status> {
    write_part(cx, Part::Main, edit).await
}

async fn write_part(
    cx: &RequestContext,
    part: Part<'_>,
    edit: impl Fn(&mut Value) + Send + Sync,
) -> Result<Persisted, Status> {
    let options = internal_options();
    persist::update(cx, cx.name(), false, |old, record| {
        let mut object = old.clone();
        edit(&mut object);
        replace(cx, Decoded::already_decoded(object), old, record, part, &options)
    })
    .await
}

/// Removes a finalizer from an object on behalf of the server.
pub(crate) async fn release_finalizer(cx: &RequestContext, finalizer: &str) -> Result<(), Status> {
    write_object(cx, |object| {
        let left = object.finalizers().into_iter().filter(|name| *name != finalizer);
        let left = left.map(str::to_owned).collect();
        set_finalizers(object, left);
    })
    .await?;
    Ok(())
}

/// Returns the options of the server's own writes.
pub(crate) fn internal_options() -> WriteOptions {
    WriteOptions {
        dry_run: false,
        field_manager: None,
        field_validation: FieldValidation::Ignore,
        force: None,
    }
}

pub(crate) fn ok_reply(persisted: Persisted) -> Reply {
    match persisted {
        Persisted::Stored(record) => Reply::Record(StatusCode::OK, record),
        Persisted::Value(value) => Reply::Object(StatusCode::OK, value),
    }
}

/// Runs the stages from managed fields to validating admission, on one version of the object.
pub(crate) fn replace(
    cx: &RequestContext,
    mut object: Decoded,
    old: &Value,
    record: &Arc<Record>,
    part: Part<'_>,
    options: &WriteOptions,
) -> Result<Change, Status> {
    let resource = &cx.resource;
    let given_version = object.value().meta_str("resourceVersion").to_owned();
    // A patch has no preconditions; validation rejects a changed uid.
    if cx.verb == Verb::Update {
        check_uid(cx, object.value(), old.meta_str("uid"), options.dry_run)?;
    }
    if resource.namespaced {
        set_meta(object.value_mut(), "namespace", Some(cx.namespace.clone().into()));
    }
    let managed = manage::on_update(cx, object, old, options);
    replace_managed(cx, managed, &given_version, old, record, part)
}

/// Runs the stages from mutating admission on.
pub(crate) fn replace_managed(
    cx: &RequestContext,
    managed: Managed,
    given_version: &str,
    old: &Value,
    record: &Arc<Record>,
    part: Part<'_>,
) -> Result<Change, Status> {
    let mutated = mutate::on_update(cx, managed, old)?;
    check_version(cx, given_version, record)?;
    let prepared = prepare::on_update(cx, mutated, old, part)?;
    let admitted = validate::on_update(cx, prepared, old)?;
    Ok(if completes_deletion(cx, &admitted) {
        let mut last = admitted.value().clone();
        set_meta(&mut last, "resourceVersion", Some(record.revision.to_string().into()));
        Change::Remove(Some(last))
    } else {
        Change::Write(admitted)
    })
}

/// Rejects a PUT or PATCH of a collection, which custom resources route to here.
pub(crate) fn require_name(cx: &RequestContext) -> Result<(), Status> {
    match &cx.name {
        Some(_) => Ok(()),
        None => Err(Status::bad_request("name must be provided")),
    }
}

/// Like [`check_name`], for objects that must have a name.
pub(crate) fn check_named(cx: &RequestContext, object: &Value) -> Result<(), Status> {
    if object.meta_str("name").is_empty() {
        return Err(Status::bad_request(format!(
            "the name of the object ({} based on URL) was undeterminable: name must be provided",
            cx.name()
        )));
    }
    check_name(cx, object)
}

pub(crate) fn check_name(cx: &RequestContext, object: &Value) -> Result<(), Status> {
    let given = object.meta_str("name");
    if given.is_empty() || given == cx.name() {
        return Ok(());
    }
    Err(Status::bad_request(format!(
        "the name of the object ({given}) does not match the name on the URL ({})",
        cx.name()
    )))
}

/// Checks the uid precondition. Upstream checks it in storage, which shows in the message.
pub(crate) fn check_uid(
    cx: &RequestContext,
    object: &Value,
    stored: &str,
    dry_run: bool,
) -> Result<(), Status> {
    let given = object.meta_str("uid");
    if given.is_empty() || given == stored {
        return Ok(());
    }
    Err(precondition_failed(cx, "UID", given, stored, dry_run))
}

/// Returns the error of a failed precondition.
pub(crate) fn precondition_failed(
    cx: &RequestContext,
    what: &str,
    given: &str,
    stored: &str,
    dry_run: bool,
) -> Status {
    // A dry run fails in the layer above etcd, which does not know the key prefix.
    let root = if dry_run { "" } else { "/registry" };
    let key = cx.resource.etcd_key(&cx.namespace, cx.name());
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: {root}{key}, ResourceVersion: 0, \
         AdditionalErrorMsg: Precondition failed: {what} in precondition: {given}, {what} in \
         object meta: {stored}"
    );
    Status::conflict(cx.resource.group_resource(), cx.name(), &why)
}

/// Checks the resourceVersion precondition, which some kinds require.
fn check_version(cx: &RequestContext, given: &str, record: &Record) -> Result<(), Status> {
    let resource = &cx.resource;
    let version = parse_sent_version(given)?;
    if version == record.revision {
        return Ok(());
    }
    if version != 0 {
        return Err(Status::modified(resource.group_resource(), cx.name()));
    }
    let unconditional = match &resource.type_info {
        TypeInfo::Builtin(builtin) => builtin.strategy.unconditional_update,
        TypeInfo::Custom(_) => false,
    };
    if unconditional {
        return Ok(());
    }
    let error =
        field::Error::invalid("metadata.resourceVersion", 0, "must be specified for an update");
    let named = GroupResource { group: &resource.group, resource: &resource.plural };
    Err(Status::invalid(named, cx.name(), &[error]))
}

/// Parses the resourceVersion of a sent object; 0 if it has none.
pub(crate) fn parse_sent_version(given: &str) -> Result<u64, Status> {
    if given.is_empty() {
        return Ok(0);
    }
    let digits = given.bytes().all(|byte| byte.is_ascii_digit());
    // Rust's parser also accepts a sign.
    given.parse().ok().filter(|_| digits).ok_or_else(|| {
        let why = if digits { "value out of range" } else { "invalid syntax" };
        Status::without_reason(500, format!("strconv.ParseUint: parsing {}: {why}", Quoted(given)))
    })
}

/// Returns whether an update of a missing object, or of its status, creates it.
pub(crate) fn may_create(cx: &RequestContext) -> bool {
    match &cx.resource.type_info {
        TypeInfo::Builtin(builtin) => builtin.strategy.create_on_update,
        TypeInfo::Custom(_) => false,
    }
}

/// Returns whether this write removes the last finalizer of an object that is being deleted.
fn completes_deletion(cx: &RequestContext, admitted: &Admitted) -> bool {
    let object = admitted.value();
    if !object.is_deleting() || !object.finalizers().is_empty() {
        return false;
    }
    if cx.resource.is("", "namespaces") {
        let spec = object.pointer("/spec/finalizers").and_then(Value::as_array);
        return spec.is_none_or(Vec::is_empty);
    }
    object.meta_i64("deletionGracePeriodSeconds").unwrap_or(0) == 0
}

/// Returns the current object in the version of the request.
pub(crate) fn current(cx: &RequestContext) -> Result<(Arc<Record>, Value), Status> {
    let record = cx
        .resource
        .table
        .get(&cx.key(cx.name()))
        .ok_or_else(|| Status::not_found(cx.resource.group_resource(), cx.name()))?;
    let value = encode::value(&cx.resource, &record)?;
    Ok((record, value))
}
