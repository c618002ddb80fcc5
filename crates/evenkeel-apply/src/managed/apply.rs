//! The apply path.
//!
//! The configuration is merged into the live object, what the applier gave up is pruned, and
//! whatever then differs from the live object must not belong to somebody else. An apply that
//! changes nothing leaves the object and all times alone.

use serde_json::Value;
use thiserror::Error;

use super::{
    Conflicts, ConvertError, DecodeError, Entry, Managers, Operation, Request, UpdateError,
    last_applied, object,
    prune::prune,
    update::{Changes, record, store, strip, take_over},
};
use crate::{
    typed::{Comparison, Duplicates, ValidationErrors},
    value::equal,
};

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
    let live = live.unwrap_or(request.zero);
    let managers = Managers::decode(object::managed_fields(live)).map_err(ApplyError::Decode)?;
    check(request, applied)?;

    let live = object::clone_without_managed_fields(live);
    let attempt = Attempt::new(request, live, managers)?;
    let mut result = attempt.run(applied, force);
    if let Err(ApplyError::Conflict(conflicts)) = &mut result
        && request.manager == last_applied::MANAGER
        && let Some(allowed) = last_applied::allowed_conflicts(request, &attempt.live)
    {
        conflicts.retain(|conflict| !allowed.has(&conflict.path));
        if conflicts.is_empty() {
            result = attempt.run(applied, true);
        }
    }
    let (merged, mut managers) = result?;

    let changed = merged.is_some();
    let mut object = match merged {
        Some(merged) => merged,
        None => attempt.live,
    };
    if request.manager == last_applied::MANAGER {
        last_applied::rewrite(&mut object, applied);
    }
    if changed && let Some(at) = managers.find(&attempt.own) {
        managers.entries[at].time = Some(request.now.into());
    }
    store(&mut object, managers);
    Ok(Applied { object, changed })
}

/// Refuses configurations that are not for this endpoint.
fn check(request: &Request<'_>, applied: &Value) -> Result<(), ApplyError> {
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

/// An apply, repeatable with and without force.
struct Attempt<'a> {
    request: &'a Request<'a>,
    /// The stored object, without managed fields and in its own version.
    live: Value,
    managers: Managers,
    /// Who applies; its fields do not count.
    own: Entry,
}

impl<'a> Attempt<'a> {
    fn new(
        request: &'a Request<'a>,
        live: Value,
        mut managers: Managers,
    ) -> Result<Self, ApplyError> {
        if managers.is_empty() {
            // Whatever is there now belongs to whoever wrote it before anybody applied.
            managers = record(request, request.zero, &live, managers, BEFORE_FIRST_APPLY)?;
        }
        let own = request.entry(request.manager, Operation::Apply, Default::default());
        Ok(Self { request, live, managers: request.reconcile(managers), own })
    }

    /// The new object, or `None` if it would be the same, and the managers.
    fn run(&self, applied: &Value, force: bool) -> Result<(Option<Value>, Managers), ApplyError> {
        let Self { request, own, .. } = self;
        let ty = request.object_type()?;
        let live = request.versioned(&self.live).map_err(|error| ApplyError::Convert {
            step: format!(
                "convert live object ({}) to proper version",
                object::describe(&self.live)
            ),
            error,
        })?;
        for (which, object, duplicates) in
            [("patch", applied, Duplicates::Refuse), ("live", live.as_ref(), Duplicates::Allow)]
        {
            let typed =
                |error| ApplyError::Typed { which, object: object::describe(object), error };
            ty.validate(object, duplicates).map_err(typed)?;
        }

        let merge = |error| ApplyError::Merge { step: "merge config", error };
        let merged = ty.merge(live.clone().into_owned(), applied).map_err(merge)?;
        let field_set = |error| ApplyError::Merge { step: "get field set", error };
        let fields = request.reset_fields.apply(ty.to_field_set(applied).map_err(field_set)?);

        let mut managers = self.managers.clone();
        let last = managers.find(own).map(|at| managers.entries[at].clone());
        let time = last.as_ref().and_then(|last| last.time.clone());
        managers.insert(Entry { fields, time, ..own.clone() });
        let new = prune(request, merged, &managers, own, last.as_ref())?;

        let same = equal(&live, &new);
        let changes = if same {
            Comparison::default()
        } else {
            let changes = ty.compare(&live, &new).map_err(UpdateError::Compare)?;
            request.filter(changes)
        };
        let mut changes = Changes::new(request, &live, &new, changes);
        if !force {
            refuse_conflicts(&managers, own, &mut changes)?;
        }
        take_over(&mut managers, Some(own), &mut changes)?;
        if let Some(at) = managers.find(own) {
            let entry = &mut managers.entries[at];
            entry.fields = strip(std::mem::take(&mut entry.fields));
            if entry.fields.is_empty() {
                managers.entries.remove(at);
            }
        }
        Ok(((!same).then_some(new), managers))
    }
}

fn refuse_conflicts(
    managers: &Managers,
    own: &Entry,
    changes: &mut Changes<'_>,
) -> Result<(), ApplyError> {
    let mut conflicts = Conflicts::default();
    for entry in managers.iter().filter(|entry| !entry.same_manager(own)) {
        let Some(changes) = changes.in_version(&entry.api_version)? else { continue };
        let modified = entry.fields.intersection(&changes.modified);
        let added = entry.fields.intersection(&changes.added);
        modified.union(added).for_each(|path| conflicts.push(entry, path.to_vec()));
    }
    conflicts.sort();
    if conflicts.is_empty() { Ok(()) } else { Err(ApplyError::Conflict(conflicts)) }
}
