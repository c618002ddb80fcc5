//! The rules for metadata that hold for every kind.

use evenkeel_types::go;
use serde_json::{Map, Value};

use crate::field::Error;
use crate::names;
use crate::names::Reasons;

const ANNOTATIONS_MAX: usize = 256 * 1024;
const MANAGER_MAX: usize = 128;
const SUBRESOURCE_MAX: usize = 256;
const IMMUTABLE: &str = "field is immutable";

/// What is wrong with the metadata of a new object.
///
/// `name_rule` gets the name, and whether it is only a prefix to which a suffix will be added.
pub fn validate(
    metadata: &Value,
    namespaced: bool,
    name_rule: impl Fn(&str, bool) -> Reasons,
    path: &str,
) -> Vec<Error> {
    let mut errors = Vec::new();
    let generate_name = text(metadata, "generateName");
    if !generate_name.is_empty() {
        for wrong in name_rule(generate_name, true) {
            errors.push(Error::invalid(format!("{path}.generateName"), generate_name, wrong));
        }
    }
    let name = text(metadata, "name");
    if name.is_empty() {
        let detail = "name or generateName is required";
        errors.push(Error::required(format!("{path}.name"), detail));
    } else {
        for wrong in name_rule(name, false) {
            errors.push(Error::invalid(format!("{path}.name"), name, wrong));
        }
    }
    let namespace = text(metadata, "namespace");
    match (namespaced, namespace.is_empty()) {
        (true, true) => errors.push(Error::required(format!("{path}.namespace"), "")),
        (true, false) => {
            for wrong in names::dns1123_label(namespace) {
                errors.push(Error::invalid(format!("{path}.namespace"), namespace, wrong));
            }
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
    labels(metadata, path, &mut errors);
    annotations(metadata, path, &mut errors);
    owner_references(metadata, path, &mut errors);
    finalizers(metadata, path, &mut errors);
    managed_fields(metadata, path, &mut errors);
    errors
}

/// What an update does to metadata that it may not do.
pub fn validate_update(new: &Value, old: &Value, path: &str) -> Vec<Error> {
    let mut errors = Vec::new();
    if old.get("deletionTimestamp").is_some_and(|t| !t.is_null()) {
        let old_finalizers: Vec<&str> = texts(old, "finalizers").collect();
        let mut added: Vec<&str> =
            texts(new, "finalizers").filter(|f| !old_finalizers.contains(f)).collect();
        added.sort_unstable();
        added.dedup();
        if !added.is_empty() {
            let shown: Vec<String> = added.iter().map(|f| go::quote(f)).collect();
            errors.push(Error::forbidden(
                format!("{path}.finalizers"),
                format!(
                    "no new finalizers can be added if the object is being deleted, found new \
                     finalizers []string{{{}}}",
                    shown.join(", ")
                ),
            ));
        }
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
        let get = |metadata: &Value| metadata.get(name).cloned().unwrap_or(Value::Null);
        if get(new) != get(old) {
            errors.push(Error::invalid(format!("{path}.{name}"), get(new), IMMUTABLE));
        }
    }
    labels(new, path, &mut errors);
    annotations(new, path, &mut errors);
    owner_references(new, path, &mut errors);
    managed_fields(new, path, &mut errors);
    errors
}

fn labels(metadata: &Value, path: &str, errors: &mut Vec<Error>) {
    let path = format!("{path}.labels");
    for (key, value) in map(metadata, "labels").into_iter().flatten() {
        for wrong in names::qualified_name(key) {
            errors.push(Error::invalid(&*path, key.as_str(), wrong));
        }
        let value = value.as_str().unwrap_or("");
        for wrong in names::label_value(value) {
            errors.push(Error::invalid(&*path, value, wrong));
        }
    }
}

fn annotations(metadata: &Value, path: &str, errors: &mut Vec<Error>) {
    let path = format!("{path}.annotations");
    let mut size = 0;
    for (key, value) in map(metadata, "annotations").into_iter().flatten() {
        size += key.len() + value.as_str().unwrap_or("").len();
        for wrong in names::qualified_name(&key.to_lowercase()) {
            errors.push(Error::invalid(&*path, key.as_str(), wrong));
        }
    }
    if size > ANNOTATIONS_MAX {
        errors.push(Error::too_long(path, ANNOTATIONS_MAX));
    }
}

fn owner_references(metadata: &Value, path: &str, errors: &mut Vec<Error>) {
    let path = format!("{path}.ownerReferences");
    let Some(list) = metadata.get("ownerReferences").and_then(Value::as_array) else { return };
    let mut controller: Option<String> = None;
    for reference in list {
        let api_version = text(reference, "apiVersion");
        let (kind, name, uid) =
            (text(reference, "kind"), text(reference, "name"), text(reference, "uid"));
        // The version of an apiVersion that does not parse is empty, too.
        let parts: Vec<&str> = api_version.split('/').collect();
        if parts.len() > 2 || parts.last().is_none_or(|version| version.is_empty()) {
            let detail = "version must not be empty";
            errors.push(Error::invalid(format!("{path}.apiVersion"), api_version, detail));
        }
        for (field, value) in [("kind", kind), ("name", name), ("uid", uid)] {
            if value.is_empty() {
                errors.push(Error::invalid(format!("{path}.{field}"), value, "must not be empty"));
            }
        }
        if api_version == "v1" && kind == "Event" {
            errors.push(Error::invalid_text(
                &*path,
                &owner_text(reference),
                "/v1, Kind=Event is disallowed from being an owner",
            ));
        }
        if reference.get("controller").and_then(Value::as_bool) == Some(true) {
            let current = format!("{kind}/{name}");
            match &controller {
                Some(first) => {
                    let shown: Vec<String> = list.iter().map(owner_text).collect();
                    let detail = format!(
                        "Only one reference can have Controller set to true. Found \"true\" in \
                         references for {first} and {current}"
                    );
                    let shown = format!("[{}]", shown.join(","));
                    errors.push(Error::invalid_text(&*path, &shown, &detail));
                }
                None => controller = Some(current),
            }
        }
    }
}

/// An owner reference with its fields in Go's order.
fn owner_text(reference: &Value) -> String {
    let mut fields = Vec::new();
    for key in ["apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"] {
        if let Some(value) = reference.get(key) {
            fields.push(format!("\"{key}\":{}", go::json(value)));
        }
    }
    format!("{{{}}}", fields.join(","))
}

fn finalizers(metadata: &Value, path: &str, errors: &mut Vec<Error>) {
    let path = format!("{path}.finalizers");
    for finalizer in texts(metadata, "finalizers") {
        for wrong in names::qualified_name(finalizer) {
            errors.push(Error::invalid(&*path, finalizer, wrong));
        }
    }
    let has = |name| texts(metadata, "finalizers").any(|finalizer| finalizer == name);
    if has("orphan") && has("foregroundDeletion") {
        errors.push(Error::invalid(
            path,
            metadata.get("finalizers").cloned().unwrap_or_default(),
            "finalizer orphan and foregroundDeletion cannot be both set",
        ));
    }
}

fn managed_fields(metadata: &Value, path: &str, errors: &mut Vec<Error>) {
    let list = metadata.get("managedFields").and_then(Value::as_array);
    for (i, entry) in list.into_iter().flatten().enumerate() {
        let path = format!("{path}.managedFields[{i}]");
        let operation = text(entry, "operation");
        if !matches!(operation, "Apply" | "Update") {
            let detail = "must be `Apply` or `Update`";
            errors.push(Error::invalid(format!("{path}.operation"), operation, detail));
        }
        let fields_type = text(entry, "fieldsType");
        if !matches!(fields_type, "" | "FieldsV1") {
            let detail = "must be `FieldsV1`";
            errors.push(Error::invalid(format!("{path}.fieldsType"), fields_type, detail));
        }
        let manager = text(entry, "manager");
        if manager.len() > MANAGER_MAX {
            errors.push(Error::too_long(format!("{path}.manager"), MANAGER_MAX));
        }
        for (at, c) in manager.char_indices().filter(|(_, c)| !go::is_print(*c)) {
            errors.push(Error::invalid(
                format!("{path}.manager"),
                manager,
                format!("invalid character U+{:04X} (at position {at})", c as u32),
            ));
        }
        if text(entry, "subresource").len() > SUBRESOURCE_MAX {
            errors.push(Error::too_long(format!("{path}.subresource"), SUBRESOURCE_MAX));
        }
    }
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or("")
}

fn texts<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a str> {
    value.get(key).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

fn map<'a>(value: &'a Value, key: &str) -> Option<&'a Map<String, Value>> {
    value.get(key).and_then(Value::as_object)
}

fn generation(metadata: &Value) -> i64 {
    metadata.get("generation").and_then(Value::as_i64).unwrap_or(0)
}
