//! Removes what an applier gave up.
//!
//! A field, list item or map entry goes only if the applier owned it, no longer applies it, and no
//! other manager owns it. Managers speak in their own versions, so the question is asked in each
//! of them.

use std::{borrow::Cow, collections::BTreeMap};

use serde_json::Value;

use super::{ApplyError, ConvertError, Entry, Managers, Request, object};
use crate::{schema::ObjectType, set::Set};

/// Whether the applier owned something (`last`) that it no longer applies.
pub(super) fn gives_up(request: &Request<'_>, last: &Entry, own: &Entry) -> bool {
    let again = last.api_version == own.api_version && last.fields.is_subset(&own.fields);
    // Everything is applied again, the usual case: nothing can go.
    !again && !last.fields.is_empty() && request.versions.object_type(&last.api_version).is_some()
}

/// The merged object without what the applier owned (`last`) and nobody owns any more.
pub(super) fn prune(
    request: &Request<'_>,
    merged: Value,
    others: &Managers,
    own: &Entry,
    last: &Entry,
) -> Result<Value, ApplyError> {
    let Some(ty) = request.versions.object_type(&last.api_version) else { return Ok(merged) };
    let in_last_version = match convert(request, &merged, &last.api_version) {
        Ok(Cow::Borrowed(_)) => merged,
        Ok(Cow::Owned(converted)) => converted,
        Err(ConvertError::MissingVersion) => return Ok(merged),
        Err(error) => {
            return Err(failed("convert merged object to last applied version", error));
        }
    };
    let last_fields = ty.with_named_fields(&last.fields);
    let pruned = ty.remove(in_last_version.clone(), &last_fields);
    let owners = others.iter().chain([own]);
    let pruned = add_back_owned(request, &in_last_version, pruned, &last.api_version, owners)?;
    let pruned = add_back_dangling(request, ty, in_last_version, &pruned, last, &last_fields)?;
    convert(request, &pruned, request.api_version)
        .map(Cow::into_owned)
        .map_err(|error| failed("convert pruned object", error))
}

/// Adds back what any manager owns, version by version.
fn add_back_owned<'m>(
    request: &Request<'_>,
    merged: &Value,
    pruned: Value,
    last_version: &str,
    owners: impl Iterator<Item = &'m Entry>,
) -> Result<Value, ApplyError> {
    let mut owned: BTreeMap<&str, Vec<Set>> = BTreeMap::new();
    for entry in owners {
        owned.entry(&entry.api_version).or_default().push(entry.fields.clone());
    }
    // The version the object is in comes first: converting may need fields that were just pruned.
    let first = owned.remove_entry(last_version);
    let mut merged = merged.clone();
    let mut pruned = pruned;
    for (version, owned) in first.into_iter().chain(owned) {
        let Some(ty) = request.versions.object_type(version) else { continue };
        merged = match convert(request, &merged, version) {
            Ok(object) => object.into_owned(),
            Err(ConvertError::MissingVersion) => continue,
            Err(error) => {
                return Err(failed(&format!("convert merged object at version {version}"), error));
            }
        };
        let converted = match convert(request, &pruned, version) {
            Ok(object) => object,
            Err(ConvertError::MissingVersion) => continue,
            Err(error) => {
                return Err(failed(&format!("convert pruned object at version {version}"), error));
            }
        };
        let owned = ty.with_named_fields(&Set::union_all(owned));
        let kept = named_fields(ty, &converted)?.union(owned);
        let gone = named_fields(ty, &merged)?.difference(&kept);
        pruned = ty.remove(merged.clone(), &gone);
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
    let pruned = match convert(request, pruned, &last.api_version) {
        Ok(object) => object,
        Err(ConvertError::MissingVersion) => return Ok(merged),
        Err(error) => {
            return Err(failed("convert pruned object to last applied version", error));
        }
    };
    let gone = named_fields(ty, &merged)?.difference(&named_fields(ty, &pruned)?);
    let gone = gone.intersection(last_fields);
    Ok(ty.remove(merged, &gone))
}

fn named_fields(ty: &ObjectType, object: &Value) -> Result<Set, ApplyError> {
    let error = |error| ApplyError::Merge { step: "prune fields", error };
    Ok(ty.with_named_fields(&ty.to_field_set(object).map_err(error)?))
}

/// The object in a version; itself if it is in it already.
fn convert<'o>(
    request: &Request<'_>,
    object: &'o Value,
    api_version: &str,
) -> Result<Cow<'o, Value>, ConvertError> {
    let current = object::api_version(object);
    if current == api_version || (current.is_empty() && api_version == request.api_version) {
        return Ok(Cow::Borrowed(object));
    }
    request.versions.convert(object, api_version).map(Cow::Owned)
}

fn failed(step: &str, error: ConvertError) -> ApplyError {
    ApplyError::Convert { step: format!("prune fields: failed to {step}"), error }
}
