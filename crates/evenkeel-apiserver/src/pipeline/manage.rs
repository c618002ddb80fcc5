//! Managed fields.
//!
//! Runs before mutating admission, as upstream does: fields that plugins add have no field manager.

mod converted;

pub(crate) mod types;

use std::collections::HashSet;
use std::sync::Arc;

use evenkeel_apply::managed::{self, ApplyError, ConvertError, Filter, Request, Versions};
use evenkeel_apply::path::fields;
use evenkeel_apply::{ObjectType, Set};
use evenkeel_kinds::convert;
use evenkeel_kinds::defaults::Applied;
use evenkeel_kinds::empty::EmptyFields;
use evenkeel_kinds::strategy;
use evenkeel_types::go::Quoted;
use evenkeel_types::{Gvk, check_unstructured};
use serde_json::{Value, json};

use self::converted::Converted;
use super::decode::Decoded;
use crate::codec;
use crate::context::RequestContext;
use crate::conversion;
use crate::object::{Metadata as _, set_meta};
use crate::registry::resource::{Resource, TypeInfo};
use crate::request::query::WriteOptions;
use crate::status::Status;

/// An object with up-to-date managed fields.
pub(crate) struct Managed {
    pub(super) object: Value,
    pub(super) applied: Applied,
}

impl Managed {
    /// Wraps an object whose managed fields result from a write to its Scale.
    pub(crate) fn scaled(mut object: Value, owned: Option<Value>) -> Self {
        set_meta(&mut object, "managedFields", owned);
        Self { object, applied: Applied::default() }
    }

    pub(crate) fn value(&self) -> &Value {
        &self.object
    }

    pub(crate) fn value_mut(&mut self) -> &mut Value {
        &mut self.object
    }

    /// Returns the object, for verbs that only return it.
    pub(crate) fn into_value(self) -> Value {
        self.object
    }
}

pub(crate) async fn on_create(
    cx: &RequestContext,
    object: Decoded,
    options: &WriteOptions,
) -> Managed {
    update_managed_fields(cx, object, None, options).await
}

pub(crate) async fn on_update(
    cx: &RequestContext,
    object: Decoded,
    live: &Value,
    options: &WriteOptions,
) -> Managed {
    update_managed_fields(cx, object, Some(live), options).await
}

/// Merges an applied configuration into the live object.
pub(crate) async fn on_apply(
    cx: &RequestContext,
    config: &Value,
    live: Option<&Value>,
    options: &WriteOptions,
) -> Result<Managed, Status> {
    let force = options.force.unwrap_or(false);
    let apply = |request: &Request<'_>| managed::apply(request, live, config, force);
    let done = match conversion::by_webhook(&cx.resource) {
        true => Box::pin(with_conversions(cx, options, apply)).await,
        false => with_request(cx, options, &Converted::default(), apply),
    };
    let applied = done.map_err(apply_error)?;
    let mut object = applied.object;
    if !applied.changed {
        return Ok(Managed { object, applied: Applied::default() });
    }
    let sent_empty = EmptyFields::find(cx.resource.gvk(), &object);
    if let TypeInfo::Builtin(builtin) = &cx.resource.type_info {
        check_unstructured(builtin.ty, &object)
            .map_err(|why| conversion_error(cx, config, &why.to_string()))?;
        codec::coerce_and_prune(&cx.resource, &mut object)
            .map_err(|why| conversion_error(cx, config, &why))?;
    }
    // Custom objects are not decoded again: nulls are validated, and empty values are stored.
    let applied = cx.resource.fill_defaults(&mut object, sent_empty);
    Ok(Managed { object, applied })
}

/// Returns the error of a merged object that does not have its type.
fn conversion_error(cx: &RequestContext, config: &Value, why: &str) -> Status {
    let (namespace, name) = (config.meta_str("namespace"), config.meta_str("name"));
    let Gvk { group, version, kind } = cx.resource.gvk();
    let message = format!(
        "failed to convert new object ({namespace}/{name}; {group}/{version}, Kind={kind}) to \
         proper version: unable to convert unstructured object to {group}/{version}, Kind={kind}: \
         {why}"
    );
    Status::without_reason(500, message)
}

pub(crate) fn apply_error(error: ApplyError) -> Status {
    match error {
        ApplyError::Conflict(conflicts) => Status::apply_conflict(&conflicts),
        ApplyError::BadRequest(why) => Status::bad_request(why),
        other => Status::without_reason(500, other.to_string()),
    }
}

async fn update_managed_fields(
    cx: &RequestContext,
    decoded: Decoded,
    live: Option<&Value>,
    options: &WriteOptions,
) -> Managed {
    let Decoded { mut object, applied } = decoded;
    let done = if conversion::by_webhook(&cx.resource) {
        let update = |request: &Request<'_>| {
            let mut object = object.clone();
            managed::update(request, live, &mut object).map(|()| object)
        };
        let done = Box::pin(with_conversions(cx, options, update)).await;
        set_meta(&mut object, "managedFields", None);
        done.map(|updated| object = updated)
    } else {
        with_request(cx, options, &Converted::default(), |request| {
            managed::update(request, live, &mut object)
        })
    };
    if let Err(why) = done {
        // Errors in managed fields never fail a write.
        tracing::warn!(kind = &*cx.resource.kind, %why, "managed fields were dropped");
    }
    Managed { object, applied }
}

/// Like [`with_request`]. If `f` needs an object that only a conversion webhook can convert, it is
/// called again with the converted object.
async fn with_conversions<T>(
    cx: &RequestContext,
    options: &WriteOptions,
    mut f: impl FnMut(&Request<'_>) -> T,
) -> T {
    let mut converted = Converted::default();
    loop {
        let done = with_request(cx, options, &converted, &mut f);
        let Some((object, to)) = converted.take_wanted() else { return done };
        let outcome = conversion::one(&cx.core, &cx.resource, object.clone(), &to).await;
        converted.insert(object, to, outcome.map_err(|status| status.message().to_owned()));
    }
}

/// Calls `f` with the request in the form of `evenkeel-apply`.
fn with_request<T>(
    cx: &RequestContext,
    options: &WriteOptions,
    converted: &Converted,
    f: impl FnOnce(&Request<'_>) -> T,
) -> T {
    let resource = &cx.resource;
    let subresource = cx.subresource.as_deref().unwrap_or("");
    let kind = KindVersions { resource, others: other_versions(cx), converted };
    let manager = cx.field_manager(options.field_manager.as_deref());
    let reset_fields = reset_fields(&kind, subresource);
    let now = cx.core.clock_rng.timestamp();
    f(&Request {
        versions: &kind,
        api_version: &resource.api_version,
        kind: &resource.kind,
        subresource,
        reset_fields: &reset_fields,
        empty_object: types::zero(resource),
        manager: &manager,
        now: &now,
    })
}

/// The versions of a resource, for managers that wrote in another one.
struct KindVersions<'a> {
    resource: &'a Arc<Resource>,
    others: Vec<Arc<Resource>>,
    converted: &'a Converted,
}

impl KindVersions<'_> {
    /// Returns all versions, that of the request first.
    fn all(&self) -> impl Iterator<Item = &Resource> {
        std::iter::once(self.resource).chain(&self.others).map(|resource| &**resource)
    }

    /// Returns the versions of a CRD that are neither served nor stored.
    fn without_storage(&self) -> HashSet<&str> {
        let unserved = self.resource.custom().into_iter().flat_map(|custom| &*custom.unserved);
        let stored = |it: &&Arc<Resource>| it.api_version == it.storage_version;
        unserved.filter(|it| !stored(it)).map(|it| &*it.api_version).collect()
    }

    fn version(&self, api_version: &str) -> Option<&Resource> {
        self.all().find(|resource| &*resource.api_version == api_version)
    }

    /// Managers of a removed version of a built-in kind are dropped. Those of a version that a CRD
    /// no longer has are an error: it fails an apply, and other writes drop all managers.
    fn missing(&self, api_version: &str) -> ConvertError {
        let own = self.resource.gvk();
        if !self.resource.is_custom() {
            return ConvertError::MissingVersion;
        }
        ConvertError::Failed(
            match Gvk::from_api_version(api_version, own.kind).group == own.group {
                true => format!("request to convert CR to an invalid group/version: {api_version}"),
                false => format!(
                    "{}/{}, Kind={} is unstructured and is not suitable for converting to {}",
                    own.group,
                    own.version,
                    own.kind,
                    Quoted(api_version)
                ),
            },
        )
    }
}

impl Versions for KindVersions<'_> {
    fn object_type(&self, api_version: &str) -> Option<&ObjectType> {
        self.version(api_version).map(types::of)
    }

    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, ConvertError> {
        let to = self.version(api_version).ok_or_else(|| self.missing(api_version))?;
        let given = object.get("apiVersion").and_then(Value::as_str).unwrap_or("").to_owned();
        let mut object = object.clone();
        match &to.type_info {
            TypeInfo::Builtin(_) => convert::to(
                Gvk::from_api_version(&given, &self.resource.kind),
                to.gvk(),
                &mut object,
            )
            .map_err(|why| ConvertError::Failed(why.to_string()))?,
            TypeInfo::Custom(_) if given == api_version => {}
            TypeInfo::Custom(_) if conversion::by_webhook(to) => {
                return self.converted.get(object, api_version);
            }
            TypeInfo::Custom(_) => object["apiVersion"] = Value::from(&*to.api_version),
        }
        Ok(object)
    }
}

/// Returns the other versions of the resource.
pub(crate) fn other_versions(cx: &RequestContext) -> Vec<Arc<Resource>> {
    let resource = &cx.resource;
    let siblings = convert::convertible_kinds(resource.gvk());
    if siblings.is_empty() && !resource.is_custom() {
        return Vec::new();
    }
    let snapshot = cx.core.registry.snapshot();
    let same_group = snapshot.group(&resource.group).into_iter().flat_map(|group| &group.versions);
    let mut found: Vec<Arc<Resource>> = same_group
        .filter(|version| *version.version != *resource.version)
        .filter_map(|version| version.resource(&resource.plural).cloned())
        .collect();
    found.extend(siblings.iter().filter(|sibling| sibling.group != &*resource.group).filter_map(
        |sibling| snapshot.resource(sibling.group, sibling.version, &resource.plural).cloned(),
    ));
    found.extend(resource.custom().into_iter().flat_map(|custom| custom.unserved.iter().cloned()));
    found
}

/// Returns the fields that an endpoint resets, by version.
///
/// `/status` of a custom resource resets them in every version that has a status and is served or
/// stored, the custom resource itself only in the version of the request.
fn reset_fields<'a>(kind: &'a KindVersions<'_>, subresource: &str) -> Vec<(&'a str, Filter)> {
    let without_storage = kind.without_storage();
    let in_version = |resource: &'a Resource| {
        let api_version = &*resource.api_version;
        let paths: &[&str] = match &resource.type_info {
            TypeInfo::Custom(custom) if !custom.has_status => &[],
            TypeInfo::Custom(_) if without_storage.contains(api_version) => &[],
            TypeInfo::Custom(_) if subresource == "status" => &["metadata", "spec"],
            TypeInfo::Custom(_) if resource.api_version != kind.resource.api_version => &[],
            TypeInfo::Custom(_) => &["status"],
            TypeInfo::Builtin(_) => strategy::reset_fields(resource.gvk(), subresource),
        };
        (!paths.is_empty()).then(|| (api_version, exclude(paths)))
    };
    kind.all().filter_map(in_version).collect()
}

fn exclude(paths: &[&str]) -> Filter {
    Filter::Exclude(Set::from_paths(paths.iter().map(|path| fields(path.split('.')))))
}

/// Returns an empty object.
pub(super) fn empty() -> Value {
    json!({})
}
