//! The managed fields of a Scale: ownership of the replicas follows in those of its object.

use std::sync::OnceLock;

use evenkeel_apply::ObjectType;
use evenkeel_apply::managed::{self, DecodeError, Request, ScaleHandler, SingleVersion};
use evenkeel_apply::path::{Path, fields};
use evenkeel_types::Gvk;
use serde_json::Value;

use crate::context::RequestContext;
use crate::object::{Metadata as _, set_meta};
use crate::pipeline::manage::types::builtin_type;
use crate::pipeline::manage::{apply_error, other_versions};
use crate::registry::resource::{Resource, TypeInfo};
use crate::request::query::WriteOptions;
use crate::status::Status;

const SCALE_VERSION: &str = "autoscaling/v1";

/// A write to a Scale.
pub(crate) enum ScaleWrite<'a> {
    /// Replaces it.
    Replace(&'a Value),
    /// Replaces it by the result of a patch.
    Patch(&'a (dyn Fn(&Value) -> Result<Value, Status> + Sync)),
    /// Applies a configuration.
    Apply(&'a Value),
}

/// Writes the Scale of `parent`, which is `before`. Returns the Scale before and after, with managed
/// fields, and the parent's managed fields, in which ownership of the replicas follows.
pub(crate) fn on_scale(
    cx: &RequestContext,
    parent: &Value,
    mut before: Value,
    write: &ScaleWrite<'_>,
    options: &WriteOptions,
) -> Result<(Value, Value, Option<Value>), Status> {
    let paths: Vec<(String, Option<Path>)> = std::iter::once(&cx.resource)
        .chain(&other_versions(cx))
        .map(|resource| (resource.api_version.to_string(), replicas_path(resource)))
        .collect();
    let handler = ScaleHandler { api_version: &cx.resource.api_version, replicas_paths: &paths };
    let unreadable = |why: DecodeError| Status::without_reason(500, why.to_string());
    let owned = parent.meta("managedFields");
    let in_scale = handler.to_subresource(owned).map_err(unreadable)?;
    set_meta(&mut before, "managedFields", in_scale);
    let manager = cx.field_manager(options.field_manager.as_deref());
    let request = Request {
        versions: scale(),
        api_version: SCALE_VERSION,
        kind: "Scale",
        subresource: "scale",
        reset_fields: &[],
        empty_object: &before,
        manager: &manager,
        now: &cx.core.clock_rng.timestamp(),
    };
    let replaced = |mut after: Value| {
        if after.meta("managedFields").is_none() {
            set_meta(&mut after, "managedFields", before.meta("managedFields").cloned());
        }
        if let Err(why) = managed::update(&request, Some(&before), &mut after) {
            tracing::warn!(kind = &*cx.resource.kind, %why, "managed fields were dropped");
        }
        after
    };
    let after = match write {
        ScaleWrite::Replace(scale) => replaced((*scale).clone()),
        ScaleWrite::Patch(make) => replaced(make(&before)?),
        ScaleWrite::Apply(config) => {
            let custom = cx.resource.is_custom();
            if custom && before.meta("managedFields").is_none() {
                return Err(scale_conversion_error("create manager for existing fields", None));
            }
            let force = options.force.unwrap_or(false);
            let done = managed::apply(&request, Some(&before), config, force);
            let applied = done.map_err(apply_error)?;
            if custom && applied.changed {
                return Err(scale_conversion_error("convert new object", Some(config)));
            }
            applied.object
        }
    };
    let owned = handler.to_parent(owned, after.meta("managedFields")).map_err(unreadable)?;
    Ok((before, after, owned))
}

/// Returns the error of an apply to the Scale of a custom resource: upstream's handler cannot
/// convert a Scale, so any effective apply fails.
fn scale_conversion_error(failed_to: &str, config: Option<&Value>) -> Status {
    let scale = |object: &Value| {
        let (namespace, name) = (object.meta_str("namespace"), object.meta_str("name"));
        format!("({namespace}/{name}; {}, Kind=Scale)", SCALE_VERSION)
    };
    let what = match config {
        Some(config) => format!("{failed_to} {}", scale(config)),
        None => format!("{failed_to}: failed to convert live object {}", scale(&Value::Null)),
    };
    Status::without_reason(
        500,
        format!(
            "failed to {what} to proper version: request to convert CR to an invalid \
             group/version: {}",
            SCALE_VERSION
        ),
    )
}

fn replicas_path(resource: &Resource) -> Option<Path> {
    match &resource.type_info {
        TypeInfo::Builtin(_) => Some(fields(["spec", "replicas"])),
        TypeInfo::Custom(custom) => {
            let scale = custom.schema.scale()?;
            Some(fields(scale.spec_path().split('.').filter(|step| !step.is_empty())))
        }
    }
}

/// Returns the only version of Scale.
fn scale() -> &'static SingleVersion {
    static SCALE: OnceLock<SingleVersion> = OnceLock::new();
    SCALE.get_or_init(|| {
        let ty = evenkeel_types::lookup(Gvk::from_api_version(SCALE_VERSION, "Scale"));
        let object_type = ty.map_or_else(ObjectType::deduced, builtin_type);
        SingleVersion { api_version: SCALE_VERSION.to_owned(), object_type }
    })
}
