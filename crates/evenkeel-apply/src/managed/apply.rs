//! Server-side apply, as smd's `Updater.Apply`.
//!
//! The configuration is merged into the live object, fields that the manager no longer applies are
//! pruned, and all changes of the live object must not conflict with other managers. An apply
//! without changes leaves the object and all timestamps unchanged, and does not copy or decode what
//! it does not need: controllers apply the same configuration repeatedly.

use serde_json::Value;
use thiserror::Error;

use super::{
    Conflicts, ConvertError, DecodeError, ManagedFields, Operation, Request, UpdateError,
    entry::LastEntry,
    last_applied, object, prune,
    update::{
        Changes, Reconciled, STRIPPED_META, record_update, remove_changed_fields, strip_meta,
        write_managed_fields,
    },
};
use crate::typed::{Duplicates, ValidationErrors};

const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// The result of an apply.
#[derive(Clone, Debug, PartialEq)]
pub struct Applied {
    /// The object to store, with its managedFields.
    pub object: Value,
    /// Whether the object differs from the live one, apart from managedFields. If not, it must be
    /// stored without defaulting.
    pub changed: bool,
}

/// Why an apply is rejected.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ApplyError {
    /// Other managers own fields that the configuration would change: 409 Conflict.
    #[error(transparent)]
    Conflict(Conflicts),
    /// The configuration is not valid for this endpoint: 400 Bad Request.
    #[error("{0}")]
    BadRequest(String),
    /// The managedFields of the live object are invalid: 500.
    #[error("failed to decode managed fields: {0}")]
    Decode(DecodeError),
    /// The configuration or the live object does not match the schema: 500.
    #[error("failed to create typed {which} object ({object}): {error}")]
    Typed {
        /// `patch` or `live`.
        which: &'static str,
        /// The object, as `namespace/name; group/version, Kind=kind`.
        object: String,
        /// The violations.
        error: ValidationErrors,
    },
    /// The live object has no managers yet and does not match the schema: 500.
    #[error(
        "failed to create manager for existing fields: failed to convert new object ({object}) to \
         smd typed: {error}"
    )]
    ExistingFields {
        /// The object, as `namespace/name; group/version, Kind=kind`.
        object: String,
        /// The violations.
        error: ValidationErrors,
    },
    /// The objects cannot be merged: 500.
    #[error("failed to {step}: {error}")]
    Merge {
        /// The failed step.
        step: &'static str,
        /// The violations.
        error: ValidationErrors,
    },
    /// A version conversion failed: 500.
    #[error("failed to {step}: {error}")]
    Convert {
        /// The failed step.
        step: String,
        /// The cause.
        error: ConvertError,
    },
    /// The managers could not be updated: 500.
    #[error(transparent)]
    Update(#[from] UpdateError),
}

/// Applies a configuration.
///
/// `live` is the stored object, or `None` to create one. Without `force`, changing fields of other
/// managers is a conflict; with `force`, those managers lose the fields.
pub fn apply(
    request: &Request<'_>,
    live: Option<&Value>,
    applied: &Value,
    force: bool,
) -> Result<Applied, ApplyError> {
    validate_configuration(request, applied)?;
    let live = live.unwrap_or(request.empty_object);
    let mut result = try_apply(request, live, applied, force);
    if let Err(ApplyError::Conflict(conflicts)) = &mut result
        && request.manager == last_applied::MANAGER
        && let Some(allowed) = last_applied::allowed_conflicts(request, live)
    {
        conflicts.retain(|conflict| !allowed.has(&conflict.path));
        if conflicts.is_empty() {
            result = try_apply(request, live, applied, true);
        }
    }
    let Outcome { merged, managers } = result?;

    let changed = merged.is_some();
    let mut object = match (merged, &managers) {
        (Some(merged), _) => merged,
        (None, Some(_)) => object::clone_without_managed_fields(live),
        (None, None) => live.clone(),
    };
    if request.manager == last_applied::MANAGER {
        last_applied::update_annotation(&mut object, applied);
    }
    if let Some(managers) = managers {
        write_managed_fields(&mut object, managers);
    }
    Ok(Applied { object, changed })
}

/// Rejects configurations that are not valid for this endpoint.
fn validate_configuration(request: &Request<'_>, applied: &Value) -> Result<(), ApplyError> {
    let bad_request = |message: String| Err(ApplyError::BadRequest(message));
    let kind = applied.get("kind").and_then(Value::as_str).unwrap_or_default();
    if object::api_version(applied) != request.api_version || kind != request.kind {
        let given = object::group_version_kind(applied);
        return bad_request(format!("invalid object type: {given}"));
    }
    if object::managed_fields(applied).is_some() {
        return bad_request("metadata.managedFields must be nil".into());
    }
    Ok(())
}

/// The outcome of an apply.
struct Outcome {
    /// The new object without managedFields; `None` if it equals the live object.
    merged: Option<Value>,
    /// The new managers; `None` if they are unchanged.
    managers: Option<ManagedFields>,
}

fn try_apply(
    request: &Request<'_>,
    stored: &Value,
    applied: &Value,
    force: bool,
) -> Result<Outcome, ApplyError> {
    let ty = request.object_type()?;
    let live = request.convert_to_request_version(stored).map_err(|error| ApplyError::Convert {
        step: format!("convert live object ({}) to proper version", object::describe(stored)),
        error,
    })?;
    let check = |which, object, duplicates| {
        let typed = |error| ApplyError::Typed { which, object: object::describe(object), error };
        ty.validate(object, duplicates).map_err(typed)
    };
    if !ty.is_builtin() && !has_managers(stored) {
        // As upstream's `skipNonAppliedManager`, before the configuration is checked.
        let object = object::describe(&live);
        ty.validate(&live, Duplicates::Allow)
            .map_err(|error| ApplyError::ExistingFields { object, error })?;
    }
    check("patch", applied, Duplicates::Reject)?;
    if !ty.is_builtin() {
        check("live", &live, Duplicates::Allow)?;
    }
    let merge = |error| ApplyError::Merge { step: "merge config", error };
    let edit = ty.edit(&live, applied).map_err(merge)?;
    let field_set = |error| ApplyError::Merge { step: "get field set", error };
    let fields =
        request.without_reset(request.api_version, ty.to_field_set(applied).map_err(field_set)?);
    let stripped = fields.intersection(&STRIPPED_META);
    let mut own = request.entry(request.manager, Operation::Apply, strip_meta(fields));

    let (mut others, last) = ManagedFields::decode_others(object::managed_fields(stored), &own)
        .map_err(ApplyError::Decode)?;
    if others.is_empty() && last.is_none() {
        // Existing fields are owned by `before-first-apply`, as upstream's `skipNonAppliedManager`
        // does.
        others = record_update(request, request.empty_object, stored, others, BEFORE_FIRST_APPLY)?;
    }
    let reconciled = request.reconcile(&mut others, &live)?;
    let last = match last {
        Some(LastEntry::Unchanged(_)) if edit.is_none() && !reconciled => {
            return Ok(Outcome { merged: None, managers: None });
        }
        Some(LastEntry::Unchanged(time)) => {
            own.time = time;
            others.has_other_version(&own).then(|| own.clone())
        }
        Some(LastEntry::Changed(mut last)) => {
            own.time = last.time.clone();
            (request.reconcile_entry(&mut last, &live)? != Reconciled::VersionRemoved)
                .then_some(last)
        }
        None => None,
    };

    own.fields = own.fields.union(stripped);
    let last = last.filter(|last| prune::is_needed(request, last, &own, &others));
    let mut merged = None;
    if edit.is_some() || last.is_some() {
        let mut object = object::clone_without_managed_fields(&live);
        if let Some(edit) = edit {
            edit.apply(&mut object);
        }
        if let Some(last) = last {
            object = prune::prune(request, object, &others, &own, &last)?;
        }
        merged =
            Some(object).filter(|object| !object::equal_ignoring_managed_fields(&live, object));
    }
    if let Some(merged) = &merged
        && !others.is_empty()
    {
        let live = object::clone_without_managed_fields(&live);
        let mut changes = Changes::new(request, &live, merged);
        if !force {
            check_conflicts(&others, &mut changes)?;
        }
        remove_changed_fields(&mut others, &mut changes)?;
    }
    own.fields = strip_meta(own.fields);
    if merged.is_some() {
        own.time = Some(request.now.into());
    }
    let mut managers = others;
    managers.entries.push(own);
    managers.entries.retain(|entry| !entry.fields.is_empty());
    Ok(Outcome { merged, managers: Some(managers) })
}

fn has_managers(stored: &Value) -> bool {
    object::managed_fields(stored).and_then(Value::as_array).is_some_and(|all| !all.is_empty())
}

fn check_conflicts(others: &ManagedFields, changes: &mut Changes<'_>) -> Result<(), ApplyError> {
    let mut conflicts = Conflicts::default();
    for entry in others.iter() {
        let Some(changes) = changes.in_version(&entry.api_version)? else { continue };
        let modified = entry.fields.intersection(&changes.modified);
        let added = entry.fields.intersection(&changes.added);
        modified.union(added).for_each(|path| conflicts.push(entry, path.to_vec()));
    }
    conflicts.sort();
    if conflicts.is_empty() { Ok(()) } else { Err(ApplyError::Conflict(conflicts)) }
}
