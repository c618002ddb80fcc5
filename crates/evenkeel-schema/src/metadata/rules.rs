//! Validates the metadata of any kind, built-in or custom.
//!
//! Runs after the server has set the fields it manages (name from `generateName`, uid, timestamps).
//! Errors have the order and the repetitions of kube-apiserver. Paths are formatted only for
//! errors, so validating correct metadata allocates none.

use std::collections::HashSet;
use std::fmt::Display;

use evenkeel_types::go;
use serde_json::Value;

use crate::field::Error;
use crate::names::{self, Reasons};

const ANNOTATIONS_MAX: usize = 256 * 1024;
const MANAGER_MAX: usize = 128;
const SUBRESOURCE_MAX: usize = 256;
const IMMUTABLE: &str = "field is immutable";

/// Validates the metadata of a new object. Mirrors upstream's `ValidateObjectMeta`.
///
/// `name_rule` receives the name and whether it is only a prefix to which a suffix will be added.
pub fn validate(
    metadata: &Value,
    namespaced: bool,
    name_rule: impl Fn(&str, bool) -> Reasons,
    path: &str,
) -> Vec<Error> {
    let mut errors = validate_names(metadata, name_rule, path);
    let namespace = text(metadata, "namespace");
    match (namespaced, namespace.is_empty()) {
        (true, true) => errors.push(Error::required(format!("{path}.namespace"), "")),
        (true, false) => {
            let wrong = names::dns1123_label(namespace);
            push_invalid(&mut errors, format_args!("{path}.namespace"), namespace, wrong);
        }
        (false, true) => {}
        (false, false) => {
            let detail = "not allowed on this type";
            errors.push(Error::forbidden(format!("{path}.namespace"), detail));
        }
    }
    let generation = generation(metadata);
    if generation < 0 {
        let detail = "must be greater than or equal to 0";
        errors.push(Error::invalid(format!("{path}.generation"), generation, detail));
    }
    check_labels_and_annotations(metadata, path, &mut errors);
    check_owner_references(metadata, path, &mut errors);
    check_finalizers(metadata, path, &mut errors);
    check_managed_fields(metadata, path, &mut errors);
    errors
}

/// Validates `name` and `generateName`: a part of [`validate`].
pub fn validate_names(
    metadata: &Value,
    name_rule: impl Fn(&str, bool) -> Reasons,
    path: &str,
) -> Vec<Error> {
    let mut errors = Vec::new();
    let generate_name = text(metadata, "generateName");
    if !generate_name.is_empty() {
        let wrong = name_rule(generate_name, true);
        push_invalid(&mut errors, format_args!("{path}.generateName"), generate_name, wrong);
    }
    let name = text(metadata, "name");
    if name.is_empty() {
        let detail = "name or generateName is required";
        errors.push(Error::required(format!("{path}.name"), detail));
    } else {
        push_invalid(&mut errors, format_args!("{path}.name"), name, name_rule(name, false));
    }
    errors
}

/// Validates an update of metadata. Mirrors upstream's `ValidateObjectMetaUpdate`.
///
/// The update must have a `resourceVersion`. Where a kind allows updates without one, the server
/// sets it before validation.
pub fn validate_update(new: &Value, old: &Value, path: &str) -> Vec<Error> {
    let mut errors = Vec::new();
    if old.get("deletionTimestamp").is_some_and(|t| !t.is_null()) {
        check_no_new_finalizers(new, old, path, &mut errors);
    }
    if text(new, "resourceVersion").is_empty() {
        let detail = "must be specified for an update";
        errors.push(Error::invalid(format!("{path}.resourceVersion"), "", detail));
    }
    if generation(new) < generation(old) {
        let detail = "must not be decremented";
        errors.push(Error::invalid(format!("{path}.generation"), generation(new), detail));
    }
    for name in ["name", "namespace", "uid"] {
        if text(new, name) != text(old, name) {
            errors.push(Error::invalid(format!("{path}.{name}"), text(new, name), IMMUTABLE));
        }
    }
    for name in ["creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        let [now, was] = [new, old].map(|metadata| metadata.get(name).unwrap_or(&Value::Null));
        if now != was {
            errors.push(Error::invalid(format!("{path}.{name}"), now.clone(), IMMUTABLE));
        }
    }
    check_labels_and_annotations(new, path, &mut errors);
    check_owner_references(new, path, &mut errors);
    check_managed_fields(new, path, &mut errors);
    errors
}

/// Validates the metadata of an update for any kind, before the rules of that kind. Mirrors
/// upstream's `validateCommonFields`.
pub fn validate_common_fields(
    new: &Value,
    old: &Value,
    namespaced: bool,
    path: &str,
) -> Vec<Error> {
    let mut errors = validate(new, namespaced, names::path_segment, path);
    errors.extend(validate_update(new, old, path));
    errors
}

/// Validates labels, or a map with the same syntax such as a node selector.
pub fn check_labels(labels: &Value, path: impl Display + Copy, errors: &mut Vec<Error>) {
    for (key, value) in labels.as_object().into_iter().flatten() {
        push_invalid(errors, path, key, names::qualified_name(key));
        let value = value.as_str().unwrap_or_default();
        push_invalid(errors, path, value, names::label_value(value));
    }
}

/// Validates annotations.
pub fn check_annotations(annotations: &Value, path: impl Display + Copy, errors: &mut Vec<Error>) {
    for (key, _) in annotations.as_object().into_iter().flatten() {
        // Keys may be in any letter case, so they are checked in lower case.
        let wrong = if key.bytes().any(|b| b.is_ascii_uppercase() || !b.is_ascii()) {
            names::qualified_name(&key.to_lowercase())
        } else {
            names::qualified_name(key)
        };
        push_invalid(errors, path, key, wrong);
    }
    check_annotations_size(annotations, path, errors);
}

/// Validates the total size of annotations.
pub fn check_annotations_size(annotations: &Value, path: impl Display, errors: &mut Vec<Error>) {
    if total_bytes(annotations) > ANNOTATIONS_MAX {
        errors.push(Error::too_long(path.to_string(), ANNOTATIONS_MAX));
    }
}

/// Returns the total number of bytes in the keys and values of a map of strings.
pub fn total_bytes(map: &Value) -> usize {
    let entries = map.as_object().into_iter().flatten();
    entries.map(|(key, value)| key.len() + value.as_str().unwrap_or_default().len()).sum()
}

/// Adds an `Invalid` error for each reason.
fn push_invalid(errors: &mut Vec<Error>, path: impl Display, value: &str, reasons: Reasons) {
    for reason in reasons {
        errors.push(Error::invalid(path.to_string(), value, reason));
    }
}

fn check_labels_and_annotations(metadata: &Value, path: &str, errors: &mut Vec<Error>) {
    if let Some(labels) = metadata.get("labels") {
        check_labels(labels, format_args!("{path}.labels"), errors);
    }
    if let Some(annotations) = metadata.get("annotations") {
        check_annotations(annotations, format_args!("{path}.annotations"), errors);
    }
}

fn check_no_new_finalizers(new: &Value, old: &Value, path: &str, errors: &mut Vec<Error>) {
    let before: HashSet<&str> = texts(old, "finalizers").collect();
    let mut added: Vec<&str> = texts(new, "finalizers").filter(|f| !before.contains(f)).collect();
    if added.is_empty() {
        return;
    }
    added.sort_unstable();
    added.dedup();
    let shown: Vec<String> = added.into_iter().map(go::quote).collect();
    errors.push(Error::forbidden(
        format!("{path}.finalizers"),
        format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers \
             []string{{{}}}",
            shown.join(", ")
        ),
    ));
}

fn check_owner_references(metadata: &Value, path: &str, errors: &mut Vec<Error>) {
    let mut controller: Option<String> = None;
    for reference in list(metadata, "ownerReferences") {
        let path = || format!("{path}.ownerReferences");
        let (api_version, kind) = (text(reference, "apiVersion"), text(reference, "kind"));
        // An `apiVersion` with more than one slash does not parse.
        let version = match api_version.split_once('/') {
            None => api_version,
            Some((_, rest)) if rest.contains('/') => "",
            Some((_, version)) => version,
        };
        if version.is_empty() {
            let detail = "version must not be empty";
            errors.push(Error::invalid(path() + ".apiVersion", api_version, detail));
        }
        for field in ["kind", "name", "uid"] {
            if text(reference, field).is_empty() {
                errors.push(Error::invalid(format!("{}.{field}", path()), "", "must not be empty"));
            }
        }
        if matches!(api_version, "v1" | "/v1") && kind == "Event" {
            let detail = "/v1, Kind=Event is disallowed from being an owner";
            errors.push(Error::invalid_text(path(), &format_owner_reference(reference), detail));
        }
        if reference.get("controller").and_then(Value::as_bool) == Some(true) {
            let current = format!("{kind}/{}", text(reference, "name"));
            match &controller {
                None => controller = Some(current),
                Some(first) => {
                    let shown: Vec<String> = list(metadata, "ownerReferences")
                        .iter()
                        .map(format_owner_reference)
                        .collect();
                    let detail = format!(
                        "Only one reference can have Controller set to true. Found \"true\" in \
                         references for {first} and {current}"
                    );
                    let shown = format!("[{}]", shown.join(","));
                    errors.push(Error::invalid_text(path(), &shown, &detail));
                }
            }
        }
    }
}

/// Prints an owner reference with its fields in the order of the Go struct.
fn format_owner_reference(reference: &Value) -> String {
    let always =
        ["apiVersion", "kind", "name", "uid"].map(|key| (key, text(reference, key).into()));
    let optional = ["controller", "blockOwnerDeletion"]
        .map(|key| (key, reference.get(key).cloned().unwrap_or_default()));
    let fields = always.iter().chain(optional.iter().filter(|(_, value)| !value.is_null()));
    let fields: Vec<String> =
        fields.map(|(key, value)| format!("\"{key}\":{}", go::json(value))).collect();
    format!("{{{}}}", fields.join(","))
}

fn check_finalizers(metadata: &Value, path: &str, errors: &mut Vec<Error>) {
    for finalizer in texts(metadata, "finalizers") {
        let wrong = names::qualified_name(finalizer);
        push_invalid(errors, format_args!("{path}.finalizers"), finalizer, wrong);
    }
    let has = |name| texts(metadata, "finalizers").any(|finalizer| finalizer == name);
    if has("orphan") && has("foregroundDeletion") {
        errors.push(Error::invalid(
            format!("{path}.finalizers"),
            list(metadata, "finalizers").to_vec(),
            "finalizer orphan and foregroundDeletion cannot be both set",
        ));
    }
}

fn check_managed_fields(metadata: &Value, path: &str, errors: &mut Vec<Error>) {
    for (i, entry) in list(metadata, "managedFields").iter().enumerate() {
        let at = |field: &str| format!("{path}.managedFields[{i}].{field}");
        let operation = text(entry, "operation");
        if !matches!(operation, "Apply" | "Update") {
            let detail = "must be `Apply` or `Update`";
            errors.push(Error::invalid(at("operation"), operation, detail));
        }
        let fields_type = text(entry, "fieldsType");
        if !matches!(fields_type, "" | "FieldsV1") {
            let detail = "must be `FieldsV1`";
            errors.push(Error::invalid(at("fieldsType"), fields_type, detail));
        }
        let manager = text(entry, "manager");
        if manager.len() > MANAGER_MAX {
            errors.push(Error::too_long(at("manager"), MANAGER_MAX));
        }
        for (position, c) in manager.char_indices().filter(|(_, c)| !go::is_print(*c)) {
            let detail = format!("invalid character U+{:04X} (at position {position})", c as u32);
            errors.push(Error::invalid(at("manager"), manager, detail));
        }
        if text(entry, "subresource").len() > SUBRESOURCE_MAX {
            errors.push(Error::too_long(at("subresource"), SUBRESOURCE_MAX));
        }
    }
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or("")
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn texts<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a str> {
    list(value, key).iter().map(|item| item.as_str().unwrap_or_default())
}

fn generation(metadata: &Value) -> i64 {
    metadata.get("generation").and_then(Value::as_i64).unwrap_or(0)
}

#[cfg(test)]
mod tests;
