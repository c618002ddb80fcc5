//! Stage 7: the rules of the kind.
//!
//! The server fills in what only it may set, each kind prepares the object (status apart from
//! spec, generation), and the result is checked: metadata, schema, rules of built-in kinds.

use std::collections::HashSet;

use evenkeel_kinds::defaults::{Applied, NilOrEmptyField, nil_or_empty_field};
use evenkeel_kinds::strategy::{self, User};
use evenkeel_kinds::validate;
use evenkeel_schema::{field, metadata, names};
use evenkeel_types::go::Quoted;
use serde_json::{Value, json};

use super::mutate::Mutated;
use crate::call::Call;
use crate::object::{Metadata as _, metadata_mut, set_meta};
use crate::registry::custom;
use crate::registry::resource::{Nature, Resource};
use crate::service::{Refused, Reservation};
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
    let empty_field = restore_empty_field(resource, applied, &mut object);
    let mut reservation = None;
    // Who creates a service by its status gets one without an address.
    if resource.is("", "services") && call.subresource.is_none() {
        strategy::before_allocation_on_create(&mut object);
        let taken = core.services.allocate(&mut object, None, call.is_dry_run());
        reservation = Some(taken.map_err(|refused| without_address(call, &object, refused))?);
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
    let errors = faults_of_new(resource, &object);
    if !errors.is_empty() {
        return Err(invalid(call, &object, &errors));
    }
    remove_empty_field(empty_field, &mut object);
    if !resource.is_custom() {
        strategy::canonicalize(gvk, &mut object);
        for warning in strategy::warnings::on_create(gvk, &object) {
            call.warnings.add(warning);
        }
    }
    if custom::is_definition(resource) {
        warn_of_formats(call, &object, &[]);
    }
    if resource.is_custom() {
        warn_of_finalizers(call, &object, &[]);
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
    let empty_field = restore_empty_field(resource, applied, &mut object);
    let mut reservation = None;
    if resource.is("", "services") && part == Part::Main {
        strategy::before_allocation_on_update(old, &mut object);
        let taken = call.core.services.allocate(&mut object, Some(old), call.is_dry_run());
        reservation = Some(taken.map_err(|refused| without_address(call, &object, refused))?);
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

    let errors = faults_of_update(resource, &object, old, part);
    if !errors.is_empty() {
        return Err(invalid(call, &object, &errors));
    }
    remove_empty_field(empty_field, &mut object);
    if !resource.is_custom() {
        strategy::canonicalize(gvk, &mut object);
    }
    if !resource.is_custom() && part == Part::Main {
        for warning in strategy::warnings::on_update(gvk, old, &object) {
            call.warnings.add(warning);
        }
        if custom::is_definition(resource) {
            warn_of_formats(call, &object, &evenkeel_schema::unrecognized_formats(old));
        }
    }
    if resource.is_custom() && part == Part::Main {
        warn_of_finalizers(call, &object, &old.finalizers());
    }
    Ok(Checked { object, reservation })
}

/// Puts back a list or map that was given empty, for rules that can tell; see [`nil_or_empty_field`].
fn restore_empty_field(
    resource: &Resource,
    applied: Applied,
    object: &mut Value,
) -> Option<NilOrEmptyField> {
    let place = nil_or_empty_field(resource.gvk()).filter(|_| applied.sent_empty)?;
    let map = object.pointer_mut(place.parent)?.as_object_mut()?;
    map.entry(place.field).or_insert_with(|| if place.is_map { json!({}) } else { json!([]) });
    Some(place)
}

/// What is stored does not show it.
fn remove_empty_field(empty_field: Option<NilOrEmptyField>, object: &mut Value) {
    let Some(place) = empty_field else { return };
    if let Some(Value::Object(map)) = object.pointer_mut(place.parent)
        && map.get(place.field).is_some_and(|value| *value == json!([]) || *value == json!({}))
    {
        map.remove(place.field);
    }
}

/// New finalizers should say whose they are.
fn warn_of_finalizers(call: &Call, object: &Value, known: &[&str]) {
    const STANDARD: [&str; 3] = ["orphan", "foregroundDeletion", "kubernetes"];
    let known: HashSet<&str> = known.iter().copied().collect();
    let mut added = object.finalizers();
    added.retain(|name| !known.contains(name) && !name.contains('/') && !STANDARD.contains(name));
    added.sort_unstable();
    for name in added {
        let path = if name.contains('.') { " including a path (/)" } else { "" };
        call.warnings.add(format!(
            "metadata.finalizers: {name:?}: prefer a domain-qualified finalizer name{path} to \
             avoid accidental conflicts with other finalizer writers"
        ));
    }
}

fn faults_of_new(resource: &Resource, object: &Value) -> Vec<field::Error> {
    match &resource.nature {
        Nature::Builtin(_) if custom::is_definition(resource) => {
            evenkeel_schema::validate_crd(object)
        }
        Nature::Builtin(_) => validate::create(resource.gvk(), object),
        Nature::Custom(custom) => {
            let (metadata, name_rule) = (metadata_of(object), names::subdomain_name);
            let mut errors =
                metadata::validate(metadata, resource.namespaced, name_rule, "metadata");
            errors.extend(custom.schema.validate(object));
            errors
        }
    }
}

fn faults_of_update(
    resource: &Resource,
    new: &Value,
    old: &Value,
    part: Part<'_>,
) -> Vec<field::Error> {
    let gvk = resource.gvk();
    let (new_meta, old_meta) = (metadata_of(new), metadata_of(old));
    let common =
        || metadata::validate_common_fields(new_meta, old_meta, resource.namespaced, "metadata");
    match &resource.nature {
        Nature::Builtin(_) if custom::is_definition(resource) => {
            let mut errors = common();
            errors.extend(match part {
                Part::Status => evenkeel_schema::validate_crd_status_update(old, new),
                Part::Main | Part::Other(_) => evenkeel_schema::validate_crd_update(old, new),
            });
            errors
        }
        Nature::Builtin(_) => match part {
            Part::Main => validate::update(gvk, new, old),
            Part::Status => validate::status_update(gvk, new, old),
            Part::Other(name) => validate::subresource_update(gvk, name, new, old),
        },
        Nature::Custom(custom) => {
            let mut errors = common();
            // Upstream has these rules both for all kinds and for custom ones.
            errors.extend(metadata::validate_update(new_meta, old_meta, "metadata"));
            errors.extend(match part {
                Part::Status => custom.schema.validate_status_update(old, new),
                Part::Main | Part::Other(_) => custom.schema.validate_update(old, new),
            });
            errors
        }
    }
}

/// Warns of formats in a definition that mean nothing to validation, but for those known of.
fn warn_of_formats(call: &Call, definition: &Value, known: &[String]) {
    for format in evenkeel_schema::unrecognized_formats(definition) {
        if !known.contains(&format) {
            call.warnings.add(format!("unrecognized format {}", Quoted(&format)));
        }
    }
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

fn without_address(call: &Call, service: &Value, refused: Refused) -> Status {
    match refused {
        Refused::Invalid(errors) => invalid(call, service, &errors),
        Refused::Failed(status) => status,
    }
}

fn invalid(call: &Call, object: &Value, errors: &[field::Error]) -> Status {
    let resource = &call.resource;
    let kind = object.get("kind").and_then(Value::as_str).unwrap_or(&resource.kind);
    Status::invalid(Named { group: &resource.group, kind }, object.meta_str("name"), errors)
}

fn metadata_of(object: &Value) -> &Value {
    object.get("metadata").unwrap_or(&Value::Null)
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
    set_meta(object, "generation", old.meta("generation").cloned());
    // What there is of these cannot be changed; setting them is for validation to refuse.
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
