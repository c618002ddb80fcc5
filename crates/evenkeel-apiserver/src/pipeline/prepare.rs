//! Prepares and validates the object by the rules of its kind.
//!
//! Sets fields that only the server may set, such as uid and name, calls the hook that reserves what
//! the kind needs, runs the kind's strategy (status apart from spec, generation), and validates
//! metadata, schema and the rules of built-in kinds.

use evenkeel_kinds::defaults::Applied;
use evenkeel_kinds::strategy::{self, User};
use evenkeel_schema::field;
use serde_json::Value;

use super::mutate::Mutated;
use crate::context::{RequestContext, Reservation};
use crate::object::{Metadata as _, metadata_mut, set_meta};
use crate::registry::resource::Part;
use crate::status::{GroupResource, Status};

/// An object that conforms to the rules of its kind.
pub(crate) struct Prepared {
    pub(super) object: Value,
    /// What the kind has reserved until the object is stored.
    pub(super) reservation: Option<Box<dyn Reservation>>,
}

impl Prepared {
    pub(crate) fn value(&self) -> &Value {
        &self.object
    }
}

pub(crate) fn on_create(cx: &RequestContext, mutated: Mutated) -> Result<Prepared, Status> {
    let Mutated { mut object, applied } = mutated;
    let Applied { labels_from_template, sent_empty } = applied;
    let resource = &*cx.resource;
    set_system_fields(cx, &mut object);
    let restored = sent_empty.restore(&mut object);
    let reservation = cx.hooks.begin_create(cx, &mut object)?;
    with_strategy_context(cx, labels_from_template, |strategy| {
        resource.prepare_create(&mut object, strategy)
    });
    let errors = resource.validate_create(&object);
    if !errors.is_empty() {
        return Err(invalid(cx, &object, &errors));
    }
    if let Some(error) = cx.hooks.authorize(cx, &object, None) {
        return Err(invalid(cx, &object, &[error]));
    }
    restored.remove(&mut object);
    for warning in resource.create_warnings(&object) {
        cx.warnings.add(warning);
    }
    resource.canonicalize(&mut object);
    Ok(Prepared { object, reservation })
}

pub(crate) fn on_update(
    cx: &RequestContext,
    mutated: Mutated,
    old: &Value,
    part: Part<'_>,
) -> Result<Prepared, Status> {
    let Mutated { mut object, applied } = mutated;
    let Applied { labels_from_template, sent_empty } = applied;
    let resource = &*cx.resource;
    keep_system_fields(&mut object, old);
    let restored = sent_empty.restore(&mut object);
    let reservation = cx.hooks.begin_update(cx, &mut object, old, part)?;
    with_strategy_context(cx, labels_from_template, |strategy| {
        resource.prepare_update(&mut object, old, part, strategy);
    });
    let mut warnings = Vec::new();
    let errors = resource.validate_update(&object, old, part, &mut warnings);
    for warning in warnings {
        cx.warnings.add(warning);
    }
    if !errors.is_empty() {
        return Err(invalid(cx, &object, &errors));
    }
    if part == Part::Main
        && let Some(error) = cx.hooks.authorize(cx, &object, Some(old))
    {
        return Err(invalid(cx, &object, &[error]));
    }
    restored.remove(&mut object);
    if part == Part::Main {
        for warning in resource.update_warnings(&object, old) {
            cx.warnings.add(warning);
        }
    }
    resource.canonicalize(&mut object);
    Ok(Prepared { object, reservation })
}

/// Sets the fields of a new object that only the server may set.
fn set_system_fields(cx: &RequestContext, object: &mut Value) {
    let metadata = metadata_mut(object);
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
        metadata.remove(field);
    }
    metadata.insert("creationTimestamp".into(), cx.core.clock_rng.timestamp().into());
    metadata.insert("uid".into(), cx.core.clock_rng.uid().into());
    if cx.resource.namespaced {
        metadata.insert("namespace".into(), cx.namespace.clone().into());
    }
    generate_name(cx, object);
}

/// Calls `f` with the request in the form of the kind's strategy.
fn with_strategy_context(
    cx: &RequestContext,
    labels_from_template: bool,
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
        labels_from_template,
    });
}

/// Returns the 422 status of an object with errors.
pub(crate) fn invalid(cx: &RequestContext, object: &Value, errors: &[field::Error]) -> Status {
    let resource = &cx.resource;
    let kind = object.get("kind").and_then(Value::as_str).unwrap_or(&resource.kind);
    Status::invalid(
        GroupResource { group: &resource.group, resource: kind },
        object.meta_str("name"),
        errors,
    )
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
