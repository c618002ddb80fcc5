//! Stage 9: prepares and validates the object by the rules of its kind.
//!
//! Sets fields that only the server may set, such as uid, name and cluster IP, runs the kind's
//! strategy (status apart from spec, generation), and validates metadata, schema and the rules of
//! built-in kinds.

use std::collections::HashSet;

use evenkeel_kinds::defaults::{Applied, NilOrEmptyField, nil_or_empty_field};
use evenkeel_kinds::strategy::{self, User};
use evenkeel_kinds::validate;
use evenkeel_schema::{field, metadata, names};
use evenkeel_types::go::Quoted;
use serde_json::{Value, json};

use super::mutate::Mutated;
use crate::context::RequestContext;
use crate::hooks::service::allocator::{AllocateError, Reservation};
use crate::object::{Metadata as _, metadata_mut, set_meta};
use crate::registry::custom;
use crate::registry::resource::{Resource, TypeInfo};
use crate::status::{GroupResource, Status};

/// An object that conforms to the rules of its kind.
pub(crate) struct Prepared {
    pub(super) object: Value,
    /// The addresses and ports that are reserved until it is stored.
    pub(super) reservation: Option<Reservation>,
}

/// The part of an object that a write changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part<'a> {
    Main,
    Status,
    /// A subresource with its own rules: `finalize`, `approval`, …
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

pub(crate) fn on_create(cx: &RequestContext, mutated: Mutated) -> Result<Prepared, Status> {
    let Mutated { mut object, applied } = mutated;
    let resource = &*cx.resource;
    let core = &cx.core;
    let metadata = metadata_mut(&mut object);
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
        metadata.remove(field);
    }
    metadata.insert("creationTimestamp".into(), core.clock_rng.timestamp().into());
    metadata.insert("uid".into(), core.clock_rng.uid().into());
    if resource.namespaced {
        metadata.insert("namespace".into(), cx.namespace.clone().into());
    }
    generate_name(cx, &mut object);

    let gvk = resource.gvk();
    let empty_field = restore_empty_field(resource, applied, &mut object);
    let mut reservation = None;
    // A Service created through its status subresource gets no address.
    if resource.is("", "services") && cx.subresource.is_none() {
        strategy::before_allocation_on_create(&mut object);
        let taken = core.services.allocate(&mut object, None, cx.is_dry_run());
        reservation = Some(taken.map_err(|refused| allocation_error(cx, &object, refused))?);
    }
    match &resource.type_info {
        TypeInfo::Builtin(_) if custom::is_crd(resource) => custom::prepare_create(&mut object),
        TypeInfo::Builtin(_) => {
            with_strategy_context(cx, &applied, |strategy| {
                strategy::prepare_for_create(gvk, &mut object, strategy);
            });
        }
        TypeInfo::Custom(custom) => {
            if custom.has_status
                && let Value::Object(map) = &mut object
            {
                map.remove("status");
            }
            set_meta(&mut object, "generation", Some(1.into()));
        }
    }
    let errors = validate_create(resource, &object);
    if !errors.is_empty() {
        return Err(invalid(cx, &object, &errors));
    }
    remove_empty_field(empty_field, &mut object);
    if !resource.is_custom() {
        strategy::canonicalize(gvk, &mut object);
        for warning in strategy::warnings::on_create(gvk, &object) {
            cx.warnings.add(warning);
        }
    }
    if custom::is_crd(resource) {
        warn_unrecognized_formats(cx, &object, &[]);
    }
    if resource.is_custom() {
        warn_unqualified_finalizers(cx, &object, &[]);
    }
    Ok(Prepared { object, reservation })
}

pub(crate) fn on_update(
    cx: &RequestContext,
    mutated: Mutated,
    old: &Value,
    part: Part<'_>,
) -> Result<Prepared, Status> {
    let Mutated { mut object, applied } = mutated;
    let resource = &*cx.resource;
    keep_system_fields(&mut object, old);
    let gvk = resource.gvk();
    let empty_field = restore_empty_field(resource, applied, &mut object);
    let mut reservation = None;
    if resource.is("", "services") && part == Part::Main {
        strategy::before_allocation_on_update(old, &mut object);
        let taken = cx.core.services.allocate(&mut object, Some(old), cx.is_dry_run());
        reservation = Some(taken.map_err(|refused| allocation_error(cx, &object, refused))?);
    }
    match &resource.type_info {
        TypeInfo::Builtin(_) if custom::is_crd(resource) => {
            custom::prepare_update(&mut object, old, part);
        }
        TypeInfo::Builtin(_) => with_strategy_context(cx, &applied, |cx| match part {
            Part::Main => strategy::prepare_for_update(gvk, old, &mut object, cx),
            Part::Status => strategy::prepare_for_status_update(gvk, old, &mut object, cx),
            Part::Other(name) => {
                strategy::prepare_for_subresource_update(gvk, name, old, &mut object, cx);
            }
        }),
        TypeInfo::Custom(custom) => custom.prepare_update(&mut object, old, part),
    }

    let errors = validate_update(resource, &object, old, part);
    if !errors.is_empty() {
        return Err(invalid(cx, &object, &errors));
    }
    remove_empty_field(empty_field, &mut object);
    if !resource.is_custom() {
        strategy::canonicalize(gvk, &mut object);
    }
    if !resource.is_custom() && part == Part::Main {
        for warning in strategy::warnings::on_update(gvk, old, &object) {
            cx.warnings.add(warning);
        }
        if custom::is_crd(resource) {
            warn_unrecognized_formats(cx, &object, &evenkeel_schema::unrecognized_formats(old));
        }
    }
    if resource.is_custom() && part == Part::Main {
        warn_unqualified_finalizers(cx, &object, &old.finalizers());
    }
    Ok(Prepared { object, reservation })
}

/// Restores a list or map that was sent empty, for kinds whose rules distinguish nil from empty;
/// see [`nil_or_empty_field`].
fn restore_empty_field(
    resource: &Resource,
    applied: Applied,
    object: &mut Value,
) -> Option<NilOrEmptyField> {
    let field = nil_or_empty_field(resource.gvk()).filter(|_| applied.sent_empty)?;
    let map = object.pointer_mut(field.parent)?.as_object_mut()?;
    map.entry(field.field).or_insert_with(|| if field.is_map { json!({}) } else { json!([]) });
    Some(field)
}

/// Removes the field that [`restore_empty_field`] added, which is not stored.
fn remove_empty_field(empty_field: Option<NilOrEmptyField>, object: &mut Value) {
    let Some(field) = empty_field else { return };
    if let Some(Value::Object(map)) = object.pointer_mut(field.parent)
        && map.get(field.field).is_some_and(|value| *value == json!([]) || *value == json!({}))
    {
        map.remove(field.field);
    }
}

/// Warns of new finalizers without a domain.
fn warn_unqualified_finalizers(cx: &RequestContext, object: &Value, known: &[&str]) {
    const STANDARD: [&str; 3] = ["orphan", "foregroundDeletion", "kubernetes"];
    let known: HashSet<&str> = known.iter().copied().collect();
    let mut added = object.finalizers();
    added.retain(|name| !known.contains(name) && !name.contains('/') && !STANDARD.contains(name));
    added.sort_unstable();
    for name in added {
        let path = if name.contains('.') { " including a path (/)" } else { "" };
        cx.warnings.add(format!(
            "metadata.finalizers: {name:?}: prefer a domain-qualified finalizer name{path} to \
             avoid accidental conflicts with other finalizer writers"
        ));
    }
}

fn validate_create(resource: &Resource, object: &Value) -> Vec<field::Error> {
    match &resource.type_info {
        TypeInfo::Builtin(_) if custom::is_crd(resource) => evenkeel_schema::validate_crd(object),
        TypeInfo::Builtin(_) => validate::create(resource.gvk(), object),
        TypeInfo::Custom(custom) => {
            let (metadata, name_rule) = (metadata_of(object), names::subdomain_name);
            let mut errors =
                metadata::validate(metadata, resource.namespaced, name_rule, "metadata");
            errors.extend(custom.schema.validate(object));
            errors
        }
    }
}

fn validate_update(
    resource: &Resource,
    new: &Value,
    old: &Value,
    part: Part<'_>,
) -> Vec<field::Error> {
    let gvk = resource.gvk();
    let (new_meta, old_meta) = (metadata_of(new), metadata_of(old));
    let common =
        || metadata::validate_common_fields(new_meta, old_meta, resource.namespaced, "metadata");
    match &resource.type_info {
        TypeInfo::Builtin(_) if custom::is_crd(resource) => {
            let mut errors = common();
            errors.extend(match part {
                Part::Status => evenkeel_schema::validate_crd_status_update(old, new),
                Part::Main | Part::Other(_) => evenkeel_schema::validate_crd_update(old, new),
            });
            errors
        }
        TypeInfo::Builtin(_) => match part {
            Part::Main => validate::update(gvk, new, old),
            Part::Status => validate::status_update(gvk, new, old),
            Part::Other(name) => validate::subresource_update(gvk, name, new, old),
        },
        TypeInfo::Custom(custom) => {
            let mut errors = common();
            // Upstream applies these rules twice: for all kinds and for custom resources.
            errors.extend(metadata::validate_update(new_meta, old_meta, "metadata"));
            errors.extend(match part {
                Part::Status => custom.schema.validate_status_update(old, new),
                Part::Main | Part::Other(_) => custom.schema.validate_update(old, new),
            });
            errors
        }
    }
}

/// Warns of formats in a CRD that validation does not recognize, except `known` ones.
fn warn_unrecognized_formats(cx: &RequestContext, crd: &Value, known: &[String]) {
    for format in evenkeel_schema::unrecognized_formats(crd) {
        if !known.contains(&format) {
            cx.warnings.add(format!("unrecognized format {}", Quoted(&format)));
        }
    }
}

/// Calls `f` with the request in the form of the kind's strategy.
fn with_strategy_context(
    cx: &RequestContext,
    applied: &Applied,
    f: impl FnOnce(&strategy::Context<'_>),
) {
    let identity = &cx.identity;
    f(&strategy::Context {
        user: User {
            name: &identity.user,
            uid: &identity.uid,
            groups: &identity.groups,
            extra: &identity.extra,
        },
        now: &cx.core.clock_rng.timestamp(),
        labels_from_template: applied.labels_from_template,
    });
}

fn allocation_error(cx: &RequestContext, service: &Value, refused: AllocateError) -> Status {
    match refused {
        AllocateError::Invalid(errors) => invalid(cx, service, &errors),
        AllocateError::Failed(status) => status,
    }
}

fn invalid(cx: &RequestContext, object: &Value, errors: &[field::Error]) -> Status {
    let resource = &cx.resource;
    let kind = object.get("kind").and_then(Value::as_str).unwrap_or(&resource.kind);
    Status::invalid(
        GroupResource { group: &resource.group, resource: kind },
        object.meta_str("name"),
        errors,
    )
}

fn metadata_of(object: &Value) -> &Value {
    object.get("metadata").unwrap_or(&Value::Null)
}

/// Generates the name of an object that has a `generateName` only, like upstream's
/// `SimpleNameGenerator`.
fn generate_name(cx: &RequestContext, object: &mut Value) {
    const LONGEST_BASE: usize = 58;
    let base = object.meta_str("generateName");
    if base.is_empty() || !object.meta_str("name").is_empty() {
        return;
    }
    let cut = (0..=base.len().min(LONGEST_BASE)).rev().find(|at| base.is_char_boundary(*at));
    let name = format!("{}{}", &base[..cut.unwrap_or(0)], cx.core.clock_rng.name_suffix());
    set_meta(object, "name", Some(name.into()));
}

/// Preserves fields that clients cannot change, without an error, as upstream's
/// `rest.BeforeUpdate` does.
fn keep_system_fields(object: &mut Value, old: &Value) {
    if object.meta_str("uid").is_empty() {
        set_meta(object, "uid", old.meta("uid").cloned());
    }
    // Kinds that require a resourceVersion have been checked; for the others it means the latest.
    if matches!(object.meta_str("resourceVersion"), "" | "0") {
        set_meta(object, "resourceVersion", old.meta("resourceVersion").cloned());
    }
    set_meta(object, "generation", old.meta("generation").cloned());
    // Existing values cannot be changed; validation rejects setting them.
    for field in ["creationTimestamp", "deletionTimestamp"] {
        if let Some(time) = old.meta(field) {
            set_meta(object, field, Some(time.clone()));
        }
    }
    if object.meta("deletionGracePeriodSeconds").is_none_or(Value::is_null) {
        let seconds = old.meta("deletionGracePeriodSeconds").cloned();
        set_meta(object, "deletionGracePeriodSeconds", seconds);
    }
    set_meta(object, "selfLink", None);
}
