//! Validates the metadata of built-in kinds: the rules of [`evenkeel_schema::metadata`] and those
//! for finalizers.

use evenkeel_schema::metadata;
use serde_json::Value;

use crate::names::Reasons;
use crate::validate::read::Read;
use crate::validate::report::{Errors, Path};

pub(crate) fn check_create(
    errs: &mut Errors,
    meta: &Value,
    namespaced: bool,
    name_reasons: impl Fn(&str, bool) -> Reasons,
) {
    errs.extend(if errs.metadata_is_valid {
        metadata::validate_names(meta, name_reasons, "metadata")
    } else {
        metadata::validate(meta, namespaced, name_reasons, "metadata")
    });
}

pub(crate) fn check_update(errs: &mut Errors, new: &Value, old: &Value) {
    if !errs.metadata_is_valid {
        errs.extend(metadata::validate_update(new, old, "metadata"));
    }
}

/// Validates the metadata of an update of any kind, before the rules of that kind.
pub(crate) fn check_common_fields(errs: &mut Errors, new: &Value, old: &Value, namespaced: bool) {
    errs.extend(metadata::validate_common_fields(new, old, namespaced, "metadata"));
    errs.metadata_is_valid = errs.is_empty();
}

/// Validates finalizers: three standard ones have no domain, all others must have one.
pub(crate) fn check_builtin_finalizers(errs: &mut Errors, meta: &Value) {
    let path = Path::root("metadata");
    let path = path.child("finalizers");
    for (i, finalizer) in meta.texts("finalizers").enumerate() {
        builtin_finalizer(errs, path.index(i), finalizer);
    }
}

pub(crate) fn builtin_finalizer(errs: &mut Errors, path: Path<'_>, finalizer: &str) {
    let known = matches!(finalizer, "kubernetes" | "orphan" | "foregroundDeletion");
    if !known && !finalizer.contains('/') {
        let detail = "name is neither a standard finalizer name nor is it fully qualified";
        errs.invalid(path, finalizer, detail);
    }
}
