//! Stage 5: who owns which fields.
//!
//! Runs before mutating admission, as upstream does: what plugins add is owned by nobody.

mod types;

use std::sync::Arc;

use evenkeel_apply::managed::{self, ApplyError, ConvertError, Filter, Request, Step, Versions};
use evenkeel_apply::path::{PathElement, fields};
use evenkeel_apply::{ObjectType, Set};
use evenkeel_kinds::convert;
use evenkeel_kinds::defaults::Applied;
use evenkeel_kinds::strategy::{self, ResetFields};
use evenkeel_types::Gvk;
use serde_json::{Value, json};

use super::decode::{self, Decoded};
use crate::call::Call;
use crate::query::WriteOptions;
use crate::registry::Snapshot;
use crate::registry::resource::{Nature, Resource};
use crate::status::Status;

/// An object whose managed fields are up to date.
pub(crate) struct Managed {
    pub(super) object: Value,
    pub(super) applied: Applied,
}

impl Managed {
    pub(crate) fn value(&self) -> &Value {
        &self.object
    }
}

pub(crate) fn on_create(call: &Call, object: Decoded, options: &WriteOptions) -> Managed {
    record(call, object, None, options)
}

pub(crate) fn on_update(
    call: &Call,
    object: Decoded,
    live: &Value,
    options: &WriteOptions,
) -> Managed {
    record(call, object, Some(live), options)
}

/// Merges a configuration into the live object, by who owns what.
pub(crate) fn on_apply(
    call: &Call,
    config: &Value,
    live: Option<&Value>,
    options: &WriteOptions,
) -> Result<Managed, Status> {
    let force = options.force.unwrap_or(false);
    let done = with_request(call, options, |request| managed::apply(request, live, config, force));
    let applied = done.map_err(|error| match error {
        ApplyError::Conflict(conflicts) => Status::apply_conflict(&conflicts),
        ApplyError::BadRequest(why) => Status::bad_request(why),
        other => Status::bare(500, other.to_string()),
    })?;
    let mut object = applied.object;
    if !applied.changed {
        return Ok(Managed { object, applied: Applied::default() });
    }
    decode::shape(&call.resource, &mut object)?;
    let applied = decode::fill_defaults(&call.resource, &mut object);
    Ok(Managed { object, applied })
}

fn record(call: &Call, decoded: Decoded, live: Option<&Value>, options: &WriteOptions) -> Managed {
    let Decoded { mut object, applied } = decoded;
    let done = with_request(call, options, |request| managed::update(request, live, &mut object));
    if let Err(why) = done {
        // Ownership is bookkeeping: it never fails a write.
        tracing::warn!(kind = &*call.resource.kind, %why, "managed fields were dropped");
    }
    Managed { object, applied }
}

/// What the engine needs to know of a request.
fn with_request<T>(call: &Call, options: &WriteOptions, f: impl FnOnce(&Request<'_>) -> T) -> T {
    let resource = &call.resource;
    let subresource = call.subresource.as_deref().unwrap_or("");
    let kind = KindVersions { resource, served: call.core.registry.snapshot() };
    let manager = call.field_manager(options.field_manager.as_deref());
    let reset_fields = reset_fields(resource, subresource);
    let now = call.core.sources.timestamp();
    f(&Request {
        versions: &kind,
        api_version: &resource.api_version,
        kind: &resource.kind,
        subresource,
        reset_fields: &reset_fields,
        zero: types::zero(resource),
        manager: &manager,
        now: &now,
    })
}

/// The versions of a resource, for managers that wrote in another one.
struct KindVersions<'a> {
    resource: &'a Arc<Resource>,
    served: Arc<Snapshot>,
}

impl KindVersions<'_> {
    fn in_version(&self, api_version: &str) -> Option<&Arc<Resource>> {
        if api_version == &*self.resource.api_version {
            return Some(self.resource);
        }
        let gvk = Gvk::from_api_version(api_version, &self.resource.kind);
        let same = self.served.resource(gvk.group, gvk.version, &self.resource.plural)?;
        (same.kind == self.resource.kind).then_some(same)
    }
}

impl Versions for KindVersions<'_> {
    fn object_type(&self, api_version: &str) -> Option<&ObjectType> {
        self.in_version(api_version).map(|resource| types::of(resource))
    }

    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, ConvertError> {
        let target = self.in_version(api_version).ok_or(ConvertError::MissingVersion)?;
        let mut object = object.clone();
        let from = object.get("apiVersion").and_then(Value::as_str).unwrap_or("").to_owned();
        match &target.nature {
            Nature::Custom(_) => object["apiVersion"] = api_version.into(),
            Nature::Builtin(_) => {
                let from = Gvk::from_api_version(&from, &target.kind);
                convert::to(from, target.gvk(), &mut object)
                    .map_err(|why| ConvertError::Failed(why.to_string()))?;
            }
        }
        Ok(object)
    }
}

/// What an endpoint ignores, and so nobody comes to own through it.
fn reset_fields(resource: &Resource, subresource: &str) -> Filter {
    match &resource.nature {
        Nature::Custom(custom) => match subresource {
            "status" => exclude(["spec", "metadata"]),
            _ if custom.has_status => exclude(["status"]),
            _ => Filter::All,
        },
        Nature::Builtin(_) => match strategy::reset_fields(resource.gvk(), subresource) {
            ResetFields::Only([]) => Filter::All,
            ResetFields::Only(paths) => exclude(paths.iter().copied()),
            ResetFields::AllBut(paths) => Filter::Include(
                paths
                    .iter()
                    .map(|path| {
                        path.split('.')
                            .map(|step| match step {
                                "*" => Step::Any,
                                name => Step::Element(PathElement::field(name)),
                            })
                            .collect()
                    })
                    .collect(),
            ),
        },
    }
}

fn exclude<'a>(paths: impl IntoIterator<Item = &'a str>) -> Filter {
    Filter::Exclude(Set::from_paths(paths.into_iter().map(|path| fields(path.split('.')))))
}

/// An object with nothing in it.
pub(super) fn empty() -> Value {
    json!({})
}
