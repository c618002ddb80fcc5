//! Validates and defaults `CustomResourceDefinition` objects.
//!
//! Upstream validates an internal form in which the fields shared by all versions are stored once,
//! at the top level ([`spec::Spec`]). The paths in its errors are those of the internal form, so
//! the paths here are too. CEL expressions in `x-kubernetes-validations` are checked for shape
//! only.

mod columns;
mod conversion;
mod defaults;
mod field_path;
mod openapi;
mod options;
mod render;
mod rules;
mod schema;
mod shape;
mod spec;
mod versions;

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use self::options::Options;
use self::spec::{Names, Spec};
use crate::field::{Error, exceeds_text_limit};
use crate::{metadata, names};
use evenkeel_types::format;
use evenkeel_types::url::Url;

const APPROVED: &str = "api-approved.kubernetes.io";

/// Validates a new CRD, including its metadata.
///
/// The CRD must be defaulted ([`default_crd`]) and have `status.storedVersions` set.
pub fn validate_crd(crd: &Value) -> Vec<Error> {
    let spec = Spec::new(crd);
    let required_name = format!("{}.{}", spec.names.plural, spec.group);
    let name_rule = |name: &str, prefix: bool| {
        let mut wrong = names::subdomain_name(name, prefix);
        if name != required_name {
            wrong.push("must be spec.names.plural+\".\"+spec.group".into());
        }
        wrong
    };
    let meta = crd.get("metadata").unwrap_or(&Value::Null);
    let mut errors = metadata::validate(meta, false, name_rule, "metadata");
    versions::check(&spec, &Options::create(), &mut errors);
    check_status(crd, &spec, &mut errors);
    check_approval(crd, None, &mut errors);
    check_preserve_unknown(&spec, None, &mut errors);
    errors
}

/// Validates an update of a CRD.
pub fn validate_crd_update(old: &Value, new: &Value) -> Vec<Error> {
    let (old_spec, spec) = (Spec::new(old), Spec::new(new));
    let options = Options::update(old, &old_spec, &spec);
    let meta = |crd: &Value| crd.get("metadata").cloned().unwrap_or_default();
    let mut errors = metadata::validate_update(&meta(new), &meta(old), "metadata");
    versions::check(&spec, &options, &mut errors);
    let mut immutable = |path: &str, new: &str, old: &str| {
        if new != old {
            errors.push(Error::invalid(path, new, "field is immutable"));
        }
    };
    if options.immutable_names {
        immutable("spec.scope", spec.scope, old_spec.scope);
        immutable("spec.names.kind", spec.names.kind, old_spec.names.kind);
    }
    immutable("spec.group", spec.group, old_spec.group);
    immutable("spec.names.plural", spec.names.plural, old_spec.names.plural);
    check_status(new, &spec, &mut errors);
    check_approval(new, Some(old), &mut errors);
    check_preserve_unknown(&spec, Some(&old_spec), &mut errors);
    errors
}

/// Validates an update through the `status` subresource of a CRD.
pub fn validate_crd_status_update(old: &Value, new: &Value) -> Vec<Error> {
    let meta = |crd: &Value| crd.get("metadata").cloned().unwrap_or_default();
    let mut errors = metadata::validate_update(&meta(new), &meta(old), "metadata");
    check_accepted_names(new, &mut errors);
    errors
}

/// Returns the `format` values in the CRD's schemas that validation ignores.
///
/// The server returns a warning `unrecognized format "x"` for each; on update only for formats that
/// the stored CRD does not use.
pub fn unrecognized_formats(crd: &Value) -> Vec<String> {
    let found = std::cell::RefCell::new(Vec::new());
    let spec = Spec::new(crd);
    let schemas = spec.shared.schema().into_iter();
    let schemas = schemas.chain(spec.versions.iter().filter_map(|v| v.parts.schema()));
    for schema in schemas {
        schema.has(&|schema| {
            let format = schema.text("format");
            if !format.is_empty() && !format::is_recognized(schema.type_name(), format) {
                found.borrow_mut().push(format.to_owned());
            }
            false
        });
    }
    found.into_inner()
}

/// Sets the defaults of a CRD: singular, list kind, conversion and stored versions.
pub fn default_crd(crd: &mut Value) {
    let Some(crd) = crd.as_object_mut() else { return };
    let spec = child(crd, "spec");
    let names = child(spec, "names");
    let kind = names.get("kind").and_then(Value::as_str).unwrap_or("").to_owned();
    let unset = |names: &Map<String, Value>, key: &str| {
        names.get(key).and_then(Value::as_str).is_none_or(str::is_empty)
    };
    if !kind.is_empty() {
        if unset(names, "singular") {
            names.insert("singular".to_owned(), kind.to_lowercase().into());
        }
        if unset(names, "listKind") {
            names.insert("listKind".to_owned(), format!("{kind}List").into());
        }
    }
    if spec.get("conversion").is_none_or(Value::is_null) {
        spec.insert("conversion".to_owned(), json!({"strategy": "None"}));
    }
    let service = spec
        .get_mut("conversion")
        .and_then(|conversion| conversion.pointer_mut("/webhook/clientConfig/service"))
        .and_then(Value::as_object_mut);
    if let Some(service) = service
        && service.get("port").is_none_or(Value::is_null)
    {
        service.insert("port".to_owned(), 443.into());
    }
    if stored_versions(crd).is_empty() {
        add_stored_version(crd);
    }
}

/// Brings a valid CRD into the form in which it is stored.
pub fn canonicalize_crd(crd: &mut Value) {
    let versions = crd.pointer_mut("/spec/versions").and_then(Value::as_array_mut);
    for version in versions.into_iter().flatten() {
        if let Some(schema) = version.pointer_mut("/schema/openAPIV3Schema") {
            defaults::coerce(schema);
        }
    }
}

/// Adds the storage version to `status.storedVersions`. Called on every write.
pub fn record_storage_version(crd: &mut Value) {
    if let Some(crd) = crd.as_object_mut() {
        add_stored_version(crd);
    }
}

fn add_stored_version(crd: &mut Map<String, Value>) {
    let versions = crd.get("spec").and_then(|spec| spec.get("versions")).and_then(Value::as_array);
    let storage = versions
        .into_iter()
        .flatten()
        .find(|version| version.get("storage").and_then(Value::as_bool) == Some(true));
    let Some(name) = storage.map(|version| spec::text(version, "name").to_owned()) else { return };
    let mut stored: Vec<String> = stored_versions(crd).into_iter().map(str::to_owned).collect();
    if !stored.contains(&name) {
        stored.push(name);
        child(crd, "status").insert("storedVersions".to_owned(), stored.into());
    }
}

fn stored_versions(crd: &Map<String, Value>) -> Vec<&str> {
    let stored = crd.get("status").and_then(|status| status.get("storedVersions"));
    let stored = stored.and_then(Value::as_array).into_iter().flatten();
    stored.filter_map(Value::as_str).collect()
}

/// Returns the object at `key`, inserting an empty one if absent.
fn child<'a>(map: &'a mut Map<String, Value>, key: &str) -> &'a mut Map<String, Value> {
    let slot = map.entry(key).or_insert(Value::Null);
    if !slot.is_object() {
        *slot = Value::Object(Map::new());
    }
    match slot {
        Value::Object(map) => map,
        _ => unreachable!("replaced by an object above"),
    }
}

fn check_status(crd: &Value, spec: &Spec<'_>, errors: &mut Vec<Error>) {
    check_accepted_names(crd, errors);
    let path = "status.storedVersions";
    let stored = crd.as_object().map(stored_versions).unwrap_or_default();
    if stored.is_empty() {
        errors.push(Error::invalid(path, Value::Null, "must have at least one stored version"));
        return;
    }
    let known: HashSet<&str> = stored.iter().copied().collect();
    let shown = stored.iter().map(|name| name.len() + 3).sum();
    for version in spec.versions.iter().filter(|version| version.storage) {
        if !known.contains(version.name) && !exceeds_text_limit(errors, shown) {
            let detail = format!("must have the storage version {}", version.name);
            errors.push(Error::invalid(path, stored.clone(), detail));
        }
    }
    let versions: HashSet<&str> = spec.versions.iter().map(|version| version.name).collect();
    for (i, name) in stored.iter().enumerate() {
        if !versions.contains(name) {
            errors.push(Error::invalid(
                format!("{path}[{i}]"),
                *name,
                format!(
                    "missing from spec.versions; {name} was previously a storage version, and must \
                     remain in spec.versions until a storage migration ensures no data remains \
                     persisted in {name} and removes {name} from status.storedVersions"
                ),
            ));
        }
    }
}

fn check_accepted_names(crd: &Value, errors: &mut Vec<Error>) {
    if let Some(accepted) = crd.pointer("/status/acceptedNames") {
        versions::check_names(&Names::new(Some(accepted)), "status.acceptedNames", errors);
    }
}

/// State of the API approval annotation of a CRD in a protected group (`*.k8s.io`).
#[derive(PartialEq, Eq)]
enum Approval {
    Missing,
    Bypassed,
    Approved,
    Malformed,
}

fn approval(crd: &Value) -> (Approval, &str) {
    let annotations = crd.pointer("/metadata/annotations");
    let text = annotations.and_then(|a| a.get(APPROVED)).and_then(Value::as_str).unwrap_or("");
    let state = if text.is_empty() {
        Approval::Missing
    } else if text.starts_with("unapproved") {
        Approval::Bypassed
    } else {
        match Url::parse_request_uri(text) {
            Ok(url) if !url.host.is_empty() && !url.scheme.is_empty() => Approval::Approved,
            _ => Approval::Malformed,
        }
    };
    (state, text)
}

fn check_approval(new: &Value, old: Option<&Value>, errors: &mut Vec<Error>) {
    const SEE: &str = "see https://github.com/kubernetes/enhancements/pull/1111";
    let group = new.pointer("/spec/group").and_then(Value::as_str).unwrap_or("");
    let protected = ["k8s.io", "kubernetes.io"].iter().any(|domain| {
        group.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    });
    let (state, text) = approval(new);
    if !protected || old.is_some_and(|old| approval(old).0 == state) {
        return;
    }
    let path = format!("metadata.annotations[{APPROVED}]");
    match state {
        Approval::Missing => errors.push(Error::required(
            path,
            format!("protected groups must have approval annotation \"{APPROVED}\", {SEE}"),
        )),
        Approval::Malformed => errors.push(Error::invalid(
            path,
            text,
            format!(
                "protected groups must have approval annotation \"{APPROVED}\" with either a URL \
                 or a reason starting with \"unapproved\", {SEE}"
            ),
        )),
        Approval::Bypassed | Approval::Approved => {}
    }
}

fn check_preserve_unknown(spec: &Spec<'_>, old: Option<&Spec<'_>>, errors: &mut Vec<Error>) {
    if spec.preserve_unknown && !old.is_some_and(|old| old.preserve_unknown) {
        errors.push(Error::invalid(
            "spec.preserveUnknownFields",
            true,
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in \
             spec.versions[*].schema instead",
        ));
    }
}
