//! `create`: a new object with a given or generated name.

use http::StatusCode;
use serde_json::Value;

use super::update::parse_sent_version;
use crate::context::RequestContext;
use crate::object::{Metadata as _, set_meta};
use crate::pipeline::decode::Decoded;
use crate::pipeline::encode::Reply;
use crate::pipeline::manage::Managed;
use crate::pipeline::persist::{self, Persisted};
use crate::pipeline::{decode, manage, mutate, prepare, validate};
use crate::request::query::WriteOptions;
use crate::request::route::Verb;
use crate::status::Status;

/// Generated names to try before the create fails.
const NAME_ATTEMPTS: usize = 8;

pub(crate) async fn handle(cx: &RequestContext, body: &[u8]) -> Result<Reply, Status> {
    let options = WriteOptions::parse(&cx.query, "CreateOptions", false)?;
    let object = decode::object(cx, body, options.field_validation)?;
    let persisted = create(cx, object, &options).await?;
    Ok(match persisted {
        Persisted::Stored(record) => Reply::Record(StatusCode::CREATED, record),
        Persisted::Value(value) => Reply::Object(StatusCode::CREATED, value),
    })
}

/// Creates an object of the server itself.
pub(crate) async fn create_value(cx: &RequestContext, object: Value) -> Result<Persisted, Status> {
    let options = super::update::internal_options();
    let body = object.to_string();
    let object = decode::object(cx, body.as_bytes(), options.field_validation)?;
    create(cx, object, &options).await
}

/// Runs all stages of a create after decoding; also used by update and patch.
pub(crate) async fn create(
    cx: &RequestContext,
    mut object: Decoded,
    options: &WriteOptions,
) -> Result<Persisted, Status> {
    check_namespace(cx, object.value_mut())?;
    refuse_if_crd_terminating(cx, object.value())?;
    let generated = object.value().meta_str("name").is_empty()
        && !object.value().meta_str("generateName").is_empty();
    wipe_system_fields(object.value_mut());
    let mut attempts = if generated { NAME_ATTEMPTS } else { 1 };
    loop {
        attempts -= 1;
        let again = (attempts > 0).then(|| object.clone());
        match attempt(cx, object, options).await {
            Err(status) if status.reason() == "AlreadyExists" && generated => match again {
                Some(value) => object = value,
                None => {
                    let name = status.detail_name().to_owned();
                    return Err(Status::name_generation_exhausted(
                        cx.resource.group_resource(),
                        &name,
                    ));
                }
            },
            other => return other,
        }
    }
}

async fn attempt(
    cx: &RequestContext,
    object: Decoded,
    options: &WriteOptions,
) -> Result<Persisted, Status> {
    let managed = manage::on_create(cx, object, options);
    create_managed(cx, managed, options).await
}

/// Runs the stages from mutating admission on.
pub(crate) async fn create_managed(
    cx: &RequestContext,
    managed: Managed,
    options: &WriteOptions,
) -> Result<Persisted, Status> {
    let mutated = mutate::on_create(cx, managed)?;
    // A create is checked for its resourceVersion in storage only.
    if cx.verb != Verb::Create {
        parse_sent_version(mutated.value().meta_str("resourceVersion"))?;
    }
    let prepared = prepare::on_create(cx, mutated)?;
    let admitted = validate::on_create(cx, prepared)?;
    persist::create(cx, admitted, options.dry_run).await
}

/// Checks that the namespace matches the URL; it is removed for cluster-scoped resources. Mirrors
/// upstream's `rest.EnsureObjectNamespaceMatchesRequestNamespace`.
pub(crate) fn check_namespace(cx: &RequestContext, object: &mut Value) -> Result<(), Status> {
    let given = object.meta_str("namespace");
    if given.is_empty() || given == cx.namespace {
        return Ok(());
    }
    if cx.namespace.is_empty() {
        set_meta(object, "namespace", None);
        return Ok(());
    }
    Err(Status::bad_request(
        "the namespace of the provided object does not match the namespace sent on the request",
    ))
}

/// Removes fields that only the server may set, before managed fields are recorded. Mirrors
/// upstream's `rest.WipeObjectMetaSystemFields`.
pub(crate) fn wipe_system_fields(object: &mut Value) {
    for field in ["uid", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
        set_meta(object, field, None);
    }
}

fn refuse_if_crd_terminating(cx: &RequestContext, object: &Value) -> Result<(), Status> {
    match cx.resource.custom() {
        Some(custom) if custom.terminating => {
            let why = "create not allowed while custom resource definition is terminating";
            Err(Status::forbidden(cx.resource.group_resource(), object.meta_str("name"), why))
        }
        _ => Ok(()),
    }
}
