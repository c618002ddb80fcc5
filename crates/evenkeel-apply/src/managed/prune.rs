//! Removes fields that an applier no longer applies, as smd's `Updater.prune`.
//!
//! A field, list item or map entry is removed only if the applier owned it, no longer applies it,
//! and no other manager owns it. Managers own fields in different versions, so this is checked in
//! each version.

use std::{borrow::Cow, collections::BTreeMap};

use serde_json::Value;

use super::{ApplyError, ConvertError, Entry, ManagedFields, Request};
use crate::{schema::ObjectType, set::Set};

/// Returns whether the applier owned fields (`last`) that it no longer applies, or a manager wrote
/// in another version, for which the merged object has to be valid.
pub(super) fn is_needed(
    request: &Request<'_>,
    last: &Entry,
    own: &Entry,
    others: &ManagedFields,
) -> bool {
    let reapplied = last.api_version == own.api_version && last.fields.is_subset(&own.fields);
    // In the common case everything is applied again and nothing can be removed.
    (!reapplied || others.has_other_version(own))
        && !last.fields.is_empty()
        && request.versions.object_type(&last.api_version).is_some()
}

/// Removes fields that the applier owned (`last`) and no manager owns any more.
pub(super) fn prune(
    request: &Request<'_>,
    merged: Value,
    others: &ManagedFields,
    own: &Entry,
    last: &Entry,
) -> Result<Value, ApplyError> {
    let Some(ty) = request.versions.object_type(&last.api_version) else { return Ok(merged) };
    let in_last_version = match request.convert_to_version(&merged, &last.api_version) {
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
    // Upstream returns this error without a further prefix.
    request
        .convert_to_version(&pruned, request.api_version)
        .map(Cow::into_owned)
        .map_err(|error| ApplyError::Convert { step: "prune fields".into(), error })
}

/// Adds back fields that any manager owns, version by version (smd's `addBackOwnedItems`).
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
    // The version of the object is first: conversion may need fields that were just pruned.
    let first = owned.remove_entry(last_version);
    let mut merged = merged.clone();
    let mut pruned = pruned;
    for (version, owned) in first.into_iter().chain(owned) {
        let Some(ty) = request.versions.object_type(version) else { continue };
        merged = match request.convert_to_version(&merged, version) {
            Ok(object) => object.into_owned(),
            Err(ConvertError::MissingVersion) => continue,
            Err(error) => {
                return Err(convert_error(ADD_BACK_OWNED, "merged", &at(version), error));
            }
        };
        let converted = match request.convert_to_version(&pruned, version) {
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

/// Adds back fields that the applier never owned (smd's `addBackDanglingItems`).
fn add_back_dangling(
    request: &Request<'_>,
    ty: &ObjectType,
    merged: Value,
    pruned: &Value,
    last: &Entry,
    last_fields: &Set,
) -> Result<Value, ApplyError> {
    let pruned = match request.convert_to_version(pruned, &last.api_version) {
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
