//! Converts objects to the version that a webhook matches, and decodes what it returns.

use evenkeel_apply::managed::ManagedFields;
use evenkeel_kinds::empty::EmptyFields;
use evenkeel_kinds::{convert, defaults};
use evenkeel_schema::metadata::{Malformed, coerce};
use evenkeel_types::Gvk;
use evenkeel_types::go::Quoted;
use serde_json::Value;

use crate::codec;
use crate::context::{Attributes, RequestContext};
use crate::conversion;
use crate::object::{Metadata as _, set_meta};
use crate::registry::resource::Resource;
use crate::status::Status;

/// The object and the old object of a request in another version.
#[derive(Default)]
pub(in crate::admission) struct Versioned {
    pub(in crate::admission) object: Option<Value>,
    old: Option<Value>,
}

impl Versioned {
    /// Converts the objects of a request; `None` if they are in this version.
    pub(in crate::admission) async fn of(
        attributes: &Attributes<'_>,
        kind: Gvk<'_>,
    ) -> Result<Option<Self>, Status> {
        if kind == attributes.kind {
            return Ok(None);
        }
        let versioned = async |object: Option<&Value>| -> Result<Option<Value>, Status> {
            let Some(object) = object else { return Ok(None) };
            let mut object = convert(attributes.cx, object.clone(), attributes.kind, kind).await?;
            // An earlier webhook may have changed it.
            object["kind"] = kind.kind.into();
            Ok(Some(object))
        };
        let object = versioned(attributes.object.as_deref()).await?;
        Ok(Some(Self { object, old: versioned(attributes.old).await? }))
    }

    /// Returns the object in the other version, or that of the request.
    pub(in crate::admission) fn object<'a>(
        versioned: Option<&'a Self>,
        attributes: &'a Attributes<'_>,
    ) -> Option<&'a Value> {
        match versioned {
            Some(versioned) => versioned.object.as_ref(),
            None => attributes.object.as_deref(),
        }
    }

    /// Returns the old object in the other version, or that of the request.
    pub(in crate::admission) fn old<'a>(
        versioned: Option<&'a Self>,
        attributes: &Attributes<'a>,
    ) -> Option<&'a Value> {
        match versioned {
            Some(versioned) => versioned.old.as_ref(),
            None => attributes.old,
        }
    }
}

/// Converts an object between two versions of a resource. The version of a custom object is that in
/// its `apiVersion`, which a webhook may have changed.
pub(in crate::admission) async fn convert(
    cx: &RequestContext,
    mut object: Value,
    from: Gvk<'_>,
    to: Gvk<'_>,
) -> Result<Value, Status> {
    if evenkeel_types::lookup(to).is_some() {
        if from != to {
            convert::to(from, to, &mut object).map_err(Status::internal)?;
        }
        return Ok(object);
    }
    let target = to.api_version();
    if object["apiVersion"] != *target {
        if let Some(why) = not_convertible(&cx.resource, &object, to) {
            return Err(Status::without_reason(500, why));
        }
        object = conversion::one(&cx.core, &cx.resource, object, &target).await?;
        object["apiVersion"] = target.into();
    }
    Ok(object)
}

/// Decodes a patched object of `kind`, before defaults are set. Unknown fields of built-in kinds
/// are dropped; those of custom resources are pruned when the object is stored.
pub(in crate::admission) fn decode(
    resource: &Resource,
    kind: Gvk<'_>,
    object: &mut Value,
) -> Result<(), Status> {
    if !object.is_object() {
        return Err(Status::internal("the patched value is not an object"));
    }
    let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or("");
    let (api_version, given) = (text("apiVersion"), text("kind"));
    if let Some(ty) = evenkeel_types::lookup(kind) {
        let kind_or_default = if given.is_empty() { kind.kind } else { given };
        let given = match api_version {
            "" => Gvk { kind: kind_or_default, ..kind },
            api_version => Gvk::from_api_version(api_version, kind_or_default),
        };
        if given != kind {
            return Err(other_kind(resource, given));
        }
        object["apiVersion"] = kind.api_version().into();
        object["kind"] = kind.kind.into();
        codec::conform_to(ty, object).map_err(Status::internal)?;
        return Ok(());
    }
    if given.is_empty() {
        return Err(Status::internal(format_args!("Object 'Kind' is missing in '{object}'")));
    }
    // Another version is converted; validation rejects another kind.
    match object.get_mut("metadata") {
        Some(metadata @ Value::Object(_)) => {
            coerce(metadata, Malformed::Reject, "metadata", &mut Vec::new())
                .map_err(Status::internal)?;
        }
        _ => return Err(Status::internal(format_args!("{} has no metadata", resource.kind))),
    }
    Ok(())
}

/// Returns why a custom object with a changed `apiVersion` cannot be converted.
fn not_convertible(resource: &Resource, object: &Value, to: Gvk<'_>) -> Option<String> {
    let text = |field: &str| object[field].as_str().unwrap_or("");
    let api_version = text("apiVersion");
    let from = Gvk::from_api_version(api_version, text("kind"));
    if from.group != to.group {
        return Some(format!(
            "{}/{}, Kind={} is unstructured and is not suitable for converting to {}",
            from.group,
            from.version,
            from.kind,
            Quoted(&to.api_version())
        ));
    }
    let is_known = resource.custom().is_some_and(|custom| custom.schemas.contains_key(api_version));
    (!is_known)
        .then(|| format!("request to convert CR from an invalid group/version: {api_version}"))
}

/// Returns the error of a patch that changes the kind of an object.
fn other_kind(resource: &Resource, given: Gvk<'_>) -> Status {
    if evenkeel_types::lookup(given).is_none() {
        return Status::internal(format_args!(
            "no kind {} is registered for version {} in scheme \
             \"pkg/api/legacyscheme/scheme.go:30\"",
            Quoted(given.kind),
            Quoted(&given.api_version())
        ));
    }
    let expected = resource.go_type("");
    let expected = expected.trim_start_matches('*');
    let why = format!(
        "converting ({}.{}) to ({expected}): unknown conversion",
        given.version, given.kind
    );
    Status::without_reason(500, why)
}

/// Sets the defaults of a patched object; a custom object of another kind has none.
pub(in crate::admission) fn set_defaults(resource: &Resource, kind: Gvk<'_>, object: &mut Value) {
    if resource.is_custom() && object["kind"] != kind.kind {
        return;
    }
    if kind == resource.gvk() {
        let sent_empty = EmptyFields::find(kind, object);
        resource.fill_defaults(object, sent_empty);
    } else {
        defaults::apply(kind, object);
    }
}

/// Keeps the managed fields of `before` if those of `after` are not valid.
pub(in crate::admission) fn keep_valid_managed_fields(
    cx: &RequestContext,
    before: &Value,
    after: &mut Value,
) {
    let managed = after.meta("managedFields");
    if managed == before.meta("managedFields") {
        return;
    }
    if let Err(why) = ManagedFields::decode(managed) {
        cx.warnings.add(format!(
            ".metadata.managedFields was in an invalid state after admission; this could be caused \
             by an outdated mutating admission controller; please fix your requests: {why}"
        ));
        set_meta(after, "managedFields", before.meta("managedFields").cloned());
    }
}
