//! Checks of names, uids and resource versions between the stages.

use evenkeel_schema::field;
use evenkeel_types::go::Quoted;
use serde_json::Value;

use super::current::Current;
use crate::authz::{Attributes, ResourceAttributes};
use crate::context::RequestContext;
use crate::object::{Metadata as _, set_meta};
use crate::registry::resource::Part;
use crate::request::authorize::decide;
use crate::request::route::Verb;
use crate::status::{GroupResource, Status};

/// Checks that the namespace matches the URL, and sets it; it is removed for cluster-scoped
/// resources. Mirrors upstream's `rest.EnsureObjectNamespaceMatchesRequestNamespace`.
pub(crate) fn check_namespace(cx: &RequestContext, object: &mut Value) -> Result<(), Status> {
    let given = object.meta_str("namespace");
    if given == cx.namespace {
        return Ok(());
    }
    if given.is_empty() {
        set_namespace(cx, object);
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

/// Sets the namespace of the request.
pub(crate) fn set_namespace(cx: &RequestContext, object: &mut Value) {
    if cx.resource.namespaced {
        set_meta(object, "namespace", Some(cx.namespace.clone().into()));
    }
}

/// Removes fields that only the server may set, before managed fields are recorded. Mirrors
/// upstream's `rest.WipeObjectMetaSystemFields`.
pub(crate) fn wipe_system_fields(object: &mut Value) {
    for field in ["uid", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
        set_meta(object, field, None);
    }
}

/// Rejects a create of a custom resource whose CRD is being deleted.
pub(crate) fn refuse_if_crd_terminating(cx: &RequestContext, object: &Value) -> Result<(), Status> {
    match cx.resource.custom() {
        Some(custom) if custom.terminating => {
            let why = "create not allowed while custom resource definition is terminating";
            Err(Status::forbidden(cx.resource.group_resource(), object.meta_str("name"), why))
        }
        _ => Ok(()),
    }
}

/// Returns the error of a create whose generated names all exist.
pub(crate) fn names_exhausted(cx: &RequestContext, exists: &Status) -> Status {
    Status::name_generation_exhausted(cx.resource.group_resource(), exists.detail_name())
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

/// Rejects an applied configuration with a uid: there is no object that could have it.
pub(crate) fn refuse_uid(cx: &RequestContext, object: &Value) -> Result<(), Status> {
    let uid = object.meta_str("uid");
    if uid.is_empty() {
        return Ok(());
    }
    let why = format!(
        "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
    );
    Err(Status::conflict(cx.resource.group_resource(), cx.name(), &why))
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
pub(crate) fn check_version(
    cx: &RequestContext,
    object: &Value,
    current: &Current,
) -> Result<(), Status> {
    let resource = &cx.resource;
    let version = parse_sent_version(object.meta_str("resourceVersion"))?;
    if version == current.record.revision {
        return Ok(());
    }
    if version != 0 {
        return Err(Status::modified(resource.group_resource(), cx.name()));
    }
    if resource.strategy().is_some_and(|strategy| strategy.unconditional_update) {
        return Ok(());
    }
    let error =
        field::Error::invalid("metadata.resourceVersion", 0, "must be specified for an update");
    let named = GroupResource { group: &resource.group, resource: &resource.plural };
    Err(Status::invalid(named, cx.name(), &[error]))
}

/// Checks that the resourceVersion of an object to be created is a number, if an update or patch
/// creates it. That of a create is checked in storage only.
pub(crate) fn check_version_of_create(cx: &RequestContext, object: &Value) -> Result<(), Status> {
    if cx.verb != Verb::Create {
        parse_sent_version(object.meta_str("resourceVersion"))?;
    }
    Ok(())
}

/// Parses the resourceVersion of a sent object; 0 if it has none.
fn parse_sent_version(given: &str) -> Result<u64, Status> {
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

/// Checks that the user may create the object, if an update or patch creates it.
pub(crate) fn authorize_create(cx: &RequestContext) -> Result<(), Status> {
    if cx.verb == Verb::Create {
        return Ok(());
    }
    let attributes = Attributes {
        user: &cx.identity,
        verb: Verb::Create.name(),
        path: "",
        resource: Some(ResourceAttributes {
            group: &cx.resource.group,
            version: &cx.resource.version,
            resource: &cx.resource.plural,
            subresource: cx.subresource.as_deref().unwrap_or(""),
            namespace: &cx.namespace,
            name: cx.name(),
            selected_fields: &[],
        }),
    };
    decide(&*cx.core.authorizer, cx.core.access.as_ref(), &attributes)
}

/// Returns whether an update of a missing object, or of its status, creates it.
pub(crate) fn creates_on_update(cx: &RequestContext, part: Part<'_>) -> bool {
    matches!(part, Part::Main | Part::Status)
        && cx.resource.strategy().is_some_and(|strategy| strategy.create_on_update)
}
