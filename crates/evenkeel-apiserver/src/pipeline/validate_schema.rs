//! Stage 7: the rules of the kind.
//!
//! The server fills in what only it may set, each kind prepares the object (status apart from
//! spec, generation), and the result is checked: metadata, schema, rules of built-in kinds.

use evenkeel_kinds::defaults::Applied;
use evenkeel_kinds::strategy::{self, User};
use evenkeel_kinds::{meta, names, validate};
use evenkeel_schema::field;
use serde_json::Value;

use super::mutate::Mutated;
use crate::call::Call;
use crate::object::{Metadata as _, metadata_mut, set_meta};
use crate::registry::resource::Nature;
use crate::registry::{custom, resource::Resource};
use crate::service::Reservation;
use crate::status::{Named, Status};

/// An object that follows the rules of its kind.
pub(crate) struct Checked {
    pub(super) object: Value,
    /// Addresses and ports it holds until it is stored.
    pub(super) reservation: Option<Reservation>,
}

/// Which part of an object a write is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part<'a> {
    Main,
    Status,
    /// A subresource with rules of its own: `finalize`, `approval`, …
    Other(&'a str),
}

impl<'a> Part<'a> {
    pub(crate) fn of(subresource: Option<&'a str>) -> Self {
        match subresource {
            None => Self::Main,
            Some("status") => Self::Status,
            Some(other) => Self::Other(other),
        }
    }
}

pub(crate) fn on_create(call: &Call, mutated: Mutated) -> Result<Checked, Status> {
    let Mutated { mut object, applied } = mutated;
    let resource = &*call.resource;
    let core = &call.core;
    let metadata = metadata_mut(&mut object);
    for gone in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
        metadata.remove(gone);
    }
    metadata.insert("creationTimestamp".into(), core.sources.timestamp().into());
    metadata.insert("uid".into(), core.sources.uid().into());
    if resource.namespaced {
        metadata.insert("namespace".into(), call.namespace.clone().into());
    }
    generate_name(call, &mut object);

    let gvk = resource.gvk();
    let mut reservation = None;
    if resource.is("", "services") {
        strategy::before_allocation_on_create(&mut object);
        let taken = core.services.allocate(&mut object, None);
        reservation = Some(taken.map_err(|errors| invalid(call, &object, &errors))?);
    }
    match &resource.nature {
        Nature::Builtin(_) if custom::is_definition(resource) => {
            custom::prepare_create(&mut object)
        }
        Nature::Builtin(_) => {
            with_context(call, &applied, |cx| {
                strategy::prepare_for_create(gvk, &mut object, cx);
            });
        }
        Nature::Custom(custom) => {
            if custom.has_status
                && let Value::Object(map) = &mut object
            {
                map.remove("status");
            }
            set_meta(&mut object, "generation", Some(1.into()));
        }
    }
    let mut errors = meta::validate_create(
        object.get("metadata").unwrap_or(&Value::Null),
        resource.namespaced,
        name_rule(resource),
    );
    errors.extend(match &resource.nature {
        Nature::Builtin(_) if custom::is_definition(resource) => {
            evenkeel_schema::validate_crd(&object)
        }
        Nature::Builtin(_) => validate::create(gvk, &object),
        Nature::Custom(custom) => {
            let mut errors = custom.schema.validate(&object);
            errors.extend(custom.validate_scale(&object));
            errors
        }
    });
    if !errors.is_empty() {
        return Err(invalid(call, &object, &errors));
    }
    if !resource.is_custom() {
        strategy::canonicalize(gvk, &mut object);
        for warning in strategy::warnings::on_create(gvk, &object) {
            call.warnings.add(warning);
        }
    }
    Ok(Checked { object, reservation })
}

pub(crate) fn on_update(
    call: &Call,
    mutated: Mutated,
    old: &Value,
    part: Part<'_>,
) -> Result<Checked, Status> {
    let Mutated { mut object, applied } = mutated;
    let resource = &*call.resource;
    keep_system_fields(&mut object, old);
    let gvk = resource.gvk();
    let mut reservation = None;
    if resource.is("", "services") && part == Part::Main {
        strategy::before_allocation_on_update(old, &mut object);
        let taken = call.core.services.allocate(&mut object, Some(old));
        reservation = Some(taken.map_err(|errors| invalid(call, &object, &errors))?);
    }
    match &resource.nature {
        Nature::Builtin(_) if custom::is_definition(resource) => {
            custom::prepare_update(&mut object, old, part);
        }
        Nature::Builtin(_) => with_context(call, &applied, |cx| match part {
            Part::Main => strategy::prepare_for_update(gvk, old, &mut object, cx),
            Part::Status => strategy::prepare_for_status_update(gvk, old, &mut object, cx),
            Part::Other(name) => {
                strategy::prepare_for_subresource_update(gvk, name, old, &mut object, cx);
            }
        }),
        Nature::Custom(custom) => custom.prepare_update(&mut object, old, part),
    }

    let mut errors = meta::validate_any_update(
        object.get("metadata").unwrap_or(&Value::Null),
        old.get("metadata").unwrap_or(&Value::Null),
        resource.namespaced,
    );
    errors.extend(match &resource.nature {
        Nature::Builtin(_) if custom::is_definition(resource) => {
            evenkeel_schema::validate_crd_update(old, &object)
        }
        Nature::Builtin(_) => match part {
            Part::Main => validate::update(gvk, &object, old),
            Part::Status => validate::status_update(gvk, &object, old),
            Part::Other(name) => validate::subresource_update(gvk, name, &object, old),
        },
        Nature::Custom(custom) => {
            let mut errors = custom.schema.validate_update(old, &object);
            errors.extend(custom.validate_scale(&object));
            errors
        }
    });
    if !errors.is_empty() {
        return Err(invalid(call, &object, &errors));
    }
    if !resource.is_custom() {
        strategy::canonicalize(gvk, &mut object);
    }
    if !resource.is_custom() && part == Part::Main {
        for warning in strategy::warnings::on_update(gvk, old, &object) {
            call.warnings.add(warning);
        }
    }
    Ok(Checked { object, reservation })
}

/// What preparing an object needs to know of the request.
fn with_context(call: &Call, applied: &Applied, f: impl FnOnce(&strategy::Context<'_>)) {
    let identity = &call.identity;
    f(&strategy::Context {
        user: User {
            name: &identity.user,
            uid: &identity.uid,
            groups: &identity.groups,
            extra: &identity.extra,
        },
        now: &call.core.sources.timestamp(),
        labels_from_template: applied.labels_from_template,
    });
}

fn invalid(call: &Call, object: &Value, errors: &[field::Error]) -> Status {
    let resource = &call.resource;
    let kind = object.get("kind").and_then(Value::as_str).unwrap_or(&resource.kind);
    Status::invalid(Named { group: &resource.group, kind }, object.meta_str("name"), errors)
}

fn name_rule(resource: &Resource) -> names::NameRule {
    if resource.is_custom() { names::NameRule::Subdomain } else { names::rule(resource.gvk()) }
}

/// Fills in the name of an object that only has the beginning of one.
fn generate_name(call: &Call, object: &mut Value) {
    const LONGEST_BASE: usize = 58;
    let base = object.meta_str("generateName");
    if base.is_empty() || !object.meta_str("name").is_empty() {
        return;
    }
    let cut = (0..=base.len().min(LONGEST_BASE)).rev().find(|at| base.is_char_boundary(*at));
    let name = format!("{}{}", &base[..cut.unwrap_or(0)], call.core.sources.name_suffix());
    set_meta(object, "name", Some(name.into()));
}

/// Keeps what no client may change: silently, as upstream does.
fn keep_system_fields(object: &mut Value, old: &Value) {
    if object.meta_str("uid").is_empty() {
        set_meta(object, "uid", old.meta("uid").cloned());
    }
    // Kinds that must be given a version have been checked for one; the others mean the newest.
    if matches!(object.meta_str("resourceVersion"), "" | "0") {
        set_meta(object, "resourceVersion", old.meta("resourceVersion").cloned());
    }
    for field in
        ["creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation"]
    {
        set_meta(object, field, old.meta(field).cloned());
    }
    set_meta(object, "selfLink", None);
}
