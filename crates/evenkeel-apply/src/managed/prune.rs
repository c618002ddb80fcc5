//! Removes what an applier gave up.
//!
//! A field, list item or map entry goes only if the applier owned it, no longer applies it, and no
//! other manager owns it. Managers speak in their own versions, so the question is asked in each
//! of them.

use std::{borrow::Cow, collections::BTreeMap};

use serde_json::Value;

use super::{ApplyError, ConvertError, Entry, ManagedFields, Request};
use crate::{schema::ObjectType, set::Set};

/// Whether the applier owned something (`last`) that it no longer applies, or somebody speaks
/// another version, which the merged object has to fit.
pub(super) fn is_needed(
    request: &Request<'_>,
    last: &Entry,
    own: &Entry,
    others: &ManagedFields,
) -> bool {
    let reapplied = last.api_version == own.api_version && last.fields.is_subset(&own.fields);
    // Everything is applied again, the usual case: nothing can go.
    (!reapplied || others.has_other_version(own))
        && !last.fields.is_empty()
        && request.versions.object_type(&last.api_version).is_some()
}

/// The merged object without what the applier owned (`last`) and nobody owns any more.
pub(super) fn prune(
    request: &Request<'_>,
    merged: Value,
    others: &ManagedFields,
    own: &Entry,
    last: &Entry,
) -> Result<Value, ApplyError> {
    let Some(ty) = request.versions.object_type(&last.api_version) else { return Ok(merged) };
    let in_last_version = match request.to_version(&merged, &last.api_version) {
        Ok(Cow::Borrowed(_)) => merged,
        Ok(Cow::Owned(converted)) => converted,
        Err(ConvertError::MissingVersion) => return Ok(merged),
        Err(error) => {
            return Err(convert_error("", "merged", "to last applied version", error));
        }
    };
    let last_fields = ty.with_named_fields(&last.fields);
    let pruned = ty.remove(in_last_version.clone(), &last_fields);
    let managers = others.iter().chain([own]);
    let pruned = add_back_owned(request, &in_last_version, pruned, &last.api_version, managers)?;
    let pruned = add_back_dangling(request, ty, in_last_version, &pruned, last, &last_fields)?;
    // What ends the pruning is told without saying so.
    request
        .to_version(&pruned, request.api_version)
        .map(Cow::into_owned)
        .map_err(|error| ApplyError::Convert { step: "prune fields".into(), error })
}

/// Adds back what any manager owns, version by version.
fn add_back_owned<'m>(
    request: &Request<'_>,
    merged: &Value,
    pruned: Value,
    last_version: &str,
    managers: impl Iterator<Item = &'m Entry>,
) -> Result<Value, ApplyError> {
    let mut owned: BTreeMap<&str, Vec<Set>> = BTreeMap::new();
    for entry in managers {
        owned.entry(&entry.api_version).or_default().push(entry.fields.clone());
    }
    // The version the object is in comes first: converting may need fields that were just pruned.
    let first = owned.remove_entry(last_version);
    let mut merged = merged.clone();
    let mut pruned = pruned;
    for (version, owned) in first.into_iter().chain(owned) {
        let Some(ty) = request.versions.object_type(version) else { continue };
        merged = match request.to_version(&merged, version) {
            Ok(object) => object.into_owned(),
            Err(ConvertError::MissingVersion) => continue,
            Err(error) => {
                return Err(convert_error(ADD_BACK_OWNED, "merged", &at(version), error));
            }
        };
        let converted = match request.to_version(&pruned, version) {
            Ok(object) => object,
            Err(ConvertError::MissingVersion) => continue,
            Err(error) => {
                return Err(convert_error(ADD_BACK_OWNED, "pruned", &at(version), error));
            }
        };
        let owned = ty.with_named_fields(&Set::union_all(owned));
        let kept = named_fields(ty, &converted)?.union(owned);
        let removed = named_fields(ty, &merged)?.difference(&kept);
        pruned = ty.remove(merged.clone(), &removed);
    }
    Ok(pruned)
}

/// Adds back what went although the applier never owned it.
fn add_back_dangling(
    request: &Request<'_>,
    ty: &ObjectType,
    merged: Value,
    pruned: &Value,
    last: &Entry,
    last_fields: &Set,
) -> Result<Value, ApplyError> {
    let pruned = match request.to_version(pruned, &last.api_version) {
        Ok(object) => object,
        Err(ConvertError::MissingVersion) => return Ok(merged),
        Err(error) => {
            return Err(convert_error(
                ADD_BACK_DANGLING,
                "pruned",
                "to last applied version",
                error,
            ));
        }
    };
    let removed = named_fields(ty, &merged)?.difference(&named_fields(ty, &pruned)?);
    let removed = removed.intersection(last_fields);
    Ok(ty.remove(merged, &removed))
}

fn named_fields(ty: &ObjectType, object: &Value) -> Result<Set, ApplyError> {
    let error = |error| ApplyError::Merge { step: "prune fields", error };
    Ok(ty.with_named_fields(&ty.to_field_set(object).map_err(error)?))
}

const ADD_BACK_OWNED: &str = "failed add back owned items: ";
const ADD_BACK_DANGLING: &str = "failed add back dangling items: ";

fn at(version: &str) -> String {
    format!("at version {version}")
}

fn convert_error(doing: &str, which: &str, to: &str, error: ConvertError) -> ApplyError {
    let step = format!("prune fields: {doing}failed to convert {which} object {to}");
    ApplyError::Convert { step, error }
}
