//! What may stand in `metadata`, and how it may change.
//!
//! The rules hold for built-in and custom resources alike; they run after the server has filled in
//! what it owns (name from `generateName`, uid, timestamps). Errors come in the order, and with the
//! repetitions, of kube-apiserver.

use evenkeel_schema::field::Error;
use evenkeel_types::go;
use serde_json::Value;

use crate::names::{self, NameRule, Reasons};
use crate::validate::read::Read;
use crate::validate::report::{Errors, Path};
use crate::validate::{checks, printed};

#[cfg(test)]
mod tests;

/// All annotations of an object together, keys and values, may have this many bytes.
pub(crate) const ANNOTATIONS_MAX_BYTES: usize = 256 * 1024;

/// Checks the metadata of an object about to be created.
///
/// `namespaced` says whether the kind lives in namespaces; the name must have been generated.
pub fn validate_create(meta: &Value, namespaced: bool, rule: NameRule) -> Vec<Error> {
    let mut errs = Errors::new();
    check_create(&mut errs, meta, namespaced, |name, prefix| rule.check(name, prefix));
    errs.into_vec()
}

/// Checks how the metadata of an object is about to change.
///
/// The update must carry the `resourceVersion` it is based on; whether an update without one is
/// acceptable for the kind, and fills it in, is for the server to decide before.
pub fn validate_update(new: &Value, old: &Value) -> Vec<Error> {
    let mut errs = Errors::new();
    check_update(&mut errs, new, old);
    errs.into_vec()
}

/// What every update is checked for, whatever its kind, before the rules of that kind.
pub fn validate_any_update(new: &Value, old: &Value, namespaced: bool) -> Vec<Error> {
    let mut errs = Errors::new();
    check_any_update(&mut errs, new, old, namespaced);
    errs.into_vec()
}

pub(crate) fn check_any_update(errs: &mut Errors, new: &Value, old: &Value, namespaced: bool) {
    check_create(errs, new, namespaced, |name, prefix| NameRule::PathSegment.check(name, prefix));
    check_update(errs, new, old);
    errs.meta_is_sound = errs.is_empty();
}

pub(crate) fn check_create(
    errs: &mut Errors,
    meta: &Value,
    namespaced: bool,
    name_reasons: impl Fn(&str, bool) -> Reasons,
) {
    let path = Path::root("metadata");
    let generate_name = meta.text("generateName");
    if !generate_name.is_empty() {
        let reasons = name_reasons(generate_name, true);
        errs.reasons(path.child("generateName"), generate_name, reasons);
    }
    let name = meta.text("name");
    if name.is_empty() {
        errs.required(path.child("name"), "name or generateName is required");
    } else {
        errs.reasons(path.child("name"), name, name_reasons(name, false));
    }

    if errs.meta_is_sound {
        return;
    }
    let namespace = meta.text("namespace");
    match (namespaced, namespace.is_empty()) {
        (true, true) => errs.required(path.child("namespace"), ""),
        (true, false) => {
            errs.reasons(path.child("namespace"), namespace, names::dns1123_label(namespace));
        }
        (false, false) => errs.forbidden(path.child("namespace"), "not allowed on this type"),
        (false, true) => {}
    }
    checks::non_negative(errs, path.child("generation"), meta.int("generation"));
    checks::labels(errs, path.child("labels"), meta.at("labels"));
    annotations(errs, path.child("annotations"), meta.at("annotations"));
    owner_references(errs, path.child("ownerReferences"), meta.at("ownerReferences"));
    finalizers(errs, path.child("finalizers"), meta.list("finalizers"));
    managed_fields(errs, path.child("managedFields"), meta.list("managedFields"));
}

pub(crate) fn check_update(errs: &mut Errors, new: &Value, old: &Value) {
    if errs.meta_is_sound {
        return;
    }
    let path = Path::root("metadata");
    if old.has("deletionTimestamp") {
        no_new_finalizers(errs, path.child("finalizers"), new, old);
    }
    if new.text("resourceVersion").is_empty() {
        errs.invalid(path.child("resourceVersion"), "", "must be specified for an update");
    }
    if new.num("generation") < old.num("generation") {
        errs.invalid(path.child("generation"), new.num("generation"), "must not be decremented");
    }
    for field in ["name", "namespace", "uid"] {
        let (now, was) = (new.text(field), old.text(field));
        if now != was {
            errs.invalid(path.child(field), now, checks::IMMUTABLE);
        }
    }
    for field in ["creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        let (now, was) = (new.at(field), old.at(field));
        if now != was {
            errs.invalid(path.child(field), now.clone(), checks::IMMUTABLE);
        }
    }
    checks::labels(errs, path.child("labels"), new.at("labels"));
    annotations(errs, path.child("annotations"), new.at("annotations"));
    owner_references(errs, path.child("ownerReferences"), new.at("ownerReferences"));
    managed_fields(errs, path.child("managedFields"), new.list("managedFields"));
}

/// Built-in kinds know three finalizers without a domain; any other must have one.
pub(crate) fn check_builtin_finalizers(errs: &mut Errors, meta: &Value) {
    let path = Path::root("metadata");
    let path = path.child("finalizers");
    for (i, finalizer) in meta.list("finalizers").iter().enumerate() {
        builtin_finalizer(errs, path.index(i), finalizer.as_str().unwrap_or_default());
    }
}

pub(crate) fn builtin_finalizer(errs: &mut Errors, path: Path<'_>, finalizer: &str) {
    let known = matches!(finalizer, "kubernetes" | "orphan" | "foregroundDeletion");
    if !known && !finalizer.contains('/') {
        let detail = "name is neither a standard finalizer name nor is it fully qualified";
        errs.invalid(path, finalizer, detail);
    }
}

pub(crate) fn annotations(errs: &mut Errors, path: Path<'_>, annotations: &Value) {
    for (key, _) in annotations.as_object().into_iter().flatten() {
        // Only the case of a key is free, so checking it in lower case is enough.
        let reasons = if key.bytes().any(|b| b.is_ascii_uppercase() || !b.is_ascii()) {
            names::qualified_name(&key.to_lowercase())
        } else {
            names::qualified_name(key)
        };
        errs.reasons(path, key, reasons);
    }
    if annotation_bytes(annotations) > ANNOTATIONS_MAX_BYTES {
        errs.too_long(path, ANNOTATIONS_MAX_BYTES);
    }
}

/// How many bytes the keys and values of annotations have together.
pub(crate) fn annotation_bytes(annotations: &Value) -> usize {
    let entries = annotations.as_object().into_iter().flatten();
    entries.map(|(key, value)| key.len() + value.as_str().unwrap_or_default().len()).sum()
}

fn owner_references(errs: &mut Errors, path: Path<'_>, references: &Value) {
    let mut controller: Option<String> = None;
    for reference in references.as_array().map(Vec::as_slice).unwrap_or_default() {
        let (api_version, kind) = (reference.text("apiVersion"), reference.text("kind"));
        // More than one slash is no group and version at all.
        let (group, version) = match api_version.split_once('/') {
            None => ("", api_version),
            Some((_, rest)) if rest.contains('/') => ("", ""),
            Some(parts) => parts,
        };
        if version.is_empty() {
            errs.invalid(path.child("apiVersion"), api_version, "version must not be empty");
        }
        for field in ["kind", "name", "uid"] {
            if reference.text(field).is_empty() {
                errs.invalid(path.child(field), "", "must not be empty");
            }
        }
        if group.is_empty() && version == "v1" && kind == "Event" {
            let detail = "/v1, Kind=Event is disallowed from being an owner";
            errs.invalid_printed(path, printed::owner_reference(reference), detail);
        }
        if reference.is("controller") {
            let current = format!("{kind}/{}", reference.text("name"));
            match &controller {
                None => controller = Some(current),
                Some(first) => {
                    let detail = format!(
                        "Only one reference can have Controller set to true. Found \"true\" in \
                         references for {first} and {current}"
                    );
                    errs.invalid_printed(path, printed::owner_references(references), detail);
                }
            }
        }
    }
}

fn finalizers(errs: &mut Errors, path: Path<'_>, finalizers: &[Value]) {
    let (mut orphan, mut foreground) = (false, false);
    for finalizer in finalizers {
        let finalizer = finalizer.as_str().unwrap_or_default();
        errs.reasons(path, finalizer, names::qualified_name(finalizer));
        orphan |= finalizer == "orphan";
        foreground |= finalizer == "foregroundDeletion";
    }
    if orphan && foreground {
        let detail = "finalizer orphan and foregroundDeletion cannot be both set";
        errs.invalid(path, finalizers.to_vec(), detail);
    }
}

fn no_new_finalizers(errs: &mut Errors, path: Path<'_>, new: &Value, old: &Value) {
    let before = old.list("finalizers");
    let mut added: Vec<&str> = new
        .list("finalizers")
        .iter()
        .filter(|f| !before.contains(f))
        .filter_map(Value::as_str)
        .collect();
    if added.is_empty() {
        return;
    }
    added.sort_unstable();
    added.dedup();
    let quoted: Vec<String> = added.iter().map(|f| go::quote(f)).collect();
    errs.forbidden(
        path,
        format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers \
             []string{{{}}}",
            quoted.join(", ")
        ),
    );
}

fn managed_fields(errs: &mut Errors, path: Path<'_>, entries: &[Value]) {
    for (i, entry) in entries.iter().enumerate() {
        let path = path.index(i);
        let operation = entry.text("operation");
        if !matches!(operation, "Apply" | "Update") {
            errs.invalid(path.child("operation"), operation, "must be `Apply` or `Update`");
        }
        let fields_type = entry.text("fieldsType");
        if !fields_type.is_empty() && fields_type != "FieldsV1" {
            errs.invalid(path.child("fieldsType"), fields_type, "must be `FieldsV1`");
        }
        checks::field_manager(errs, path.child("manager"), entry.text("manager"));
        if entry.text("subresource").len() > 256 {
            errs.too_long(path.child("subresource"), 256);
        }
    }
}
