//! The apply path.
//!
//! The configuration is merged into the live object, what the applier gave up is pruned, and
//! whatever then differs from the live object must not belong to somebody else. An apply that
//! changes nothing leaves the object and all times alone, and does not copy or decode what it need
//! not look at: controllers apply the same thing over and over.

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

/// The outcome of an apply.
#[derive(Clone, Debug, PartialEq)]
pub struct Applied {
    /// The object to store, with its managed fields.
    pub object: Value,
    /// Whether anything but the managed fields differs from the live object. If not, the object
    /// must be stored as it is, without defaulting.
    pub changed: bool,
}

/// Why an apply is refused.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ApplyError {
    /// Others own what the configuration would change: 409 Conflict.
    #[error(transparent)]
    Conflict(Conflicts),
    /// The configuration is not one for this endpoint: 400 Bad Request.
    #[error("{0}")]
    BadRequest(String),
    /// The live object's managed fields are broken: 500.
    #[error("failed to decode managed fields: {0}")]
    Decode(#[source] DecodeError),
    /// The configuration or the live object does not fit the schema: 500.
    #[error("failed to create typed {which} object ({object}): {error}")]
    Typed {
        /// `patch` or `live`.
        which: &'static str,
        /// The object, as `namespace/name; group/version, Kind=kind`.
        object: String,
        /// What does not fit.
        #[source]
        error: ValidationErrors,
    },
    /// The two do not merge: 500.
    #[error("failed to {step}: {error}")]
    Merge {
        /// What was being done.
        step: &'static str,
        /// What went wrong.
        #[source]
        error: ValidationErrors,
    },
    /// A version conversion failed: 500.
    #[error("failed to {step}: {error}")]
    Convert {
        /// What was being done.
        step: String,
        /// What went wrong.
        #[source]
        error: ConvertError,
    },
    /// Ownership could not be worked out: 500.
    #[error(transparent)]
    Update(#[from] UpdateError),
}

/// Applies a configuration.
///
/// `live` is the stored object, or `None` to create one. Without `force`, changing what others own
/// is a conflict; with it, they lose it.
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

/// Refuses configurations that are not for this endpoint.
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

/// What an apply comes to.
struct Outcome {
    /// The new object, without managed fields; `None` if it is the live one.
    merged: Option<Value>,
    /// The new managers; `None` if they are the live ones.
    managers: Option<ManagedFields>,
}

fn try_apply(
    request: &Request<'_>,
    stored: &Value,
    applied: &Value,
    force: bool,
) -> Result<Outcome, ApplyError> {
    let ty = request.object_type()?;
    let live = request.to_request_version(stored).map_err(|error| ApplyError::Convert {
        step: format!("convert live object ({}) to proper version", object::describe(stored)),
        error,
    })?;
    let check = |which, object, duplicates| {
        let typed = |error| ApplyError::Typed { which, object: object::describe(object), error };
        ty.validate(object, duplicates).map_err(typed)
    };
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
        // Whatever is there now belongs to whoever wrote it before anybody applied.
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
