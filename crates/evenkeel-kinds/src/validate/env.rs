//! Validates environment variables and downward API references.

use evenkeel_types::quantity::Quantity;
use serde_json::Value;

use super::checks;
use super::read::Read;
use super::report::{Errors, Path};
use super::volume::sources;
use crate::names::{self, NameRule};

/// Fields that an environment variable may reference.
pub(super) const ENV_FIELDS: &[&str] = &[
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

/// Fields that a file of a downward API volume may reference.
pub(super) const VOLUME_FIELDS: &[&str] = &[
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
];

const RESOURCES: &[&str] = &[
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

pub(super) fn env(errs: &mut Errors, path: Path<'_>, vars: &[Value]) {
    for (i, var) in vars.iter().enumerate() {
        let path = path.index(i);
        let name = var.text("name");
        if name.is_empty() {
            errs.required(path.child("name"), "");
        } else {
            errs.reasons(path.child("name"), name, names::env_var_name(name));
        }
        let from = var.at("valueFrom");
        if !from.is_null() {
            value_from(errs, path.child("valueFrom"), from, var.text("value"));
        }
    }
}

fn value_from(errs: &mut Errors, path: Path<'_>, from: &Value, value: &str) {
    let mut sources = 0;
    let field = from.at("fieldRef");
    if !field.is_null() {
        sources += 1;
        field_selector(errs, path.child("fieldRef"), field, ENV_FIELDS);
    }
    let resource = from.at("resourceFieldRef");
    if !resource.is_null() {
        sources += 1;
        resource_selector(errs, path.child("resourceFieldRef"), resource, false);
    }
    for kind in ["configMapKeyRef", "secretKeyRef"] {
        let key = from.at(kind);
        if !key.is_null() {
            sources += 1;
            key_selector(errs, path.child(kind), key);
        }
    }
    let file = from.at("fileKeyRef");
    if !file.is_null() {
        sources += 1;
        file_key_selector(errs, path.child("fileKeyRef"), file);
    }
    if sources == 0 {
        let detail = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, \
                      `secretKeyRef` or `fileKeyRef`";
        errs.invalid(path, "", detail);
    } else if !value.is_empty() {
        errs.invalid(path, "", "may not be specified when `value` is not empty");
    } else if sources > 1 {
        errs.invalid(path, "", "may not have more than one field specified at a time");
    }
}

pub(super) fn env_from(errs: &mut Errors, path: Path<'_>, sources: &[Value]) {
    for (i, source) in sources.iter().enumerate() {
        let at = path.index(i);
        let prefix = source.text("prefix");
        if !prefix.is_empty() {
            errs.reasons(at.child("prefix"), prefix, names::env_var_name(prefix));
        }
        let mut found = 0;
        for kind in ["configMapRef", "secretRef"] {
            let object = source.at(kind);
            if object.is_null() {
                continue;
            }
            found += 1;
            let name = object.text("name");
            let at = at.child(kind);
            if name.is_empty() {
                errs.required(at.child("name"), "");
            } else {
                errs.reasons(at.child("name"), name, NameRule::Subdomain.check(name, true));
            }
        }
        if found == 0 {
            errs.invalid(path, "", "must specify one of: `configMapRef` or `secretRef`");
        } else if found > 1 {
            errs.invalid(path, "", "may not have more than one field specified at a time");
        }
    }
}

fn key_selector(errs: &mut Errors, path: Path<'_>, selector: &Value) {
    checks::dns1123_subdomain(errs, path.child("name"), selector.text("name"));
    let key = selector.text("key");
    if key.is_empty() {
        errs.required(path.child("key"), "");
    } else {
        errs.reasons(path.child("key"), key, names::config_key(key));
    }
}

fn file_key_selector(errs: &mut Errors, path: Path<'_>, selector: &Value) {
    let key = selector.text("key");
    if key.is_empty() {
        errs.required(path.child("key"), "");
    } else {
        errs.reasons(path.child("key"), key, names::env_var_name(key));
    }
    let volume = selector.text("volumeName");
    if volume.is_empty() {
        errs.required(path.child("volumeName"), "");
    } else {
        checks::dns1123_label(errs, path.child("volumeName"), volume);
    }
    let file = selector.text("path");
    if file.is_empty() {
        errs.required(path.child("path"), "");
    } else {
        sources::no_backsteps(errs, path.child("path"), file);
    }
}

/// Validates a reference to a pod field such as `metadata.labels['app']`.
pub(super) fn field_selector(
    errs: &mut Errors,
    path: Path<'_>,
    selector: &Value,
    supported: &[&str],
) {
    let (version, field) = (selector.text("apiVersion"), selector.text("fieldPath"));
    if version.is_empty() {
        errs.required(path.child("apiVersion"), "");
        return;
    }
    if field.is_empty() {
        errs.required(path.child("fieldPath"), "");
        return;
    }
    let subscripted = subscript(field);
    let known = match subscripted {
        Some((base, _)) => matches!(base, "metadata.annotations" | "metadata.labels"),
        None => is_known_field(field),
    };
    let failure = if version != "v1" {
        Some(format!("unsupported pod version: {version}"))
    } else if !known {
        Some(match subscripted {
            Some(_) => format!("field label does not support subscript: {field}"),
            None => format!("field label not supported: {field}"),
        })
    } else {
        None
    };
    if let Some(failure) = failure {
        let detail = format!("error converting fieldPath: {failure}");
        errs.invalid(path.child("fieldPath"), field, detail);
        return;
    }
    match subscripted {
        Some(("metadata.annotations", key)) => {
            let key = key.to_lowercase();
            checks::qualified_name(errs, path, &key);
        }
        Some((_, key)) => checks::qualified_name(errs, path, key),
        None => {
            // `spec.host` is an old name of `spec.nodeName`.
            let field = if field == "spec.host" { "spec.nodeName" } else { field };
            if !supported.contains(&field) {
                errs.not_supported(path.child("fieldPath"), field, supported);
            }
        }
    }
}

fn subscript(field: &str) -> Option<(&str, &str)> {
    let (base, key) = field.strip_suffix("']")?.split_once("['")?;
    (!base.is_empty()).then_some((base, key))
}

/// Returns whether the downward API supports the field, here or elsewhere.
fn is_known_field(field: &str) -> bool {
    ENV_FIELDS.contains(&field)
        || VOLUME_FIELDS.contains(&field)
        || matches!(
            field,
            "spec.restartPolicy" | "spec.schedulerName" | "status.phase" | "spec.host"
        )
}

/// Validates a reference to a container resource such as `limits.cpu`.
pub(super) fn resource_selector(
    errs: &mut Errors,
    path: Path<'_>,
    selector: &Value,
    in_volume: bool,
) {
    let resource = selector.text("resource");
    let huge_pages =
        resource.starts_with("requests.hugepages-") || resource.starts_with("limits.hugepages-");
    if in_volume && selector.text("containerName").is_empty() {
        errs.required(path.child("containerName"), "");
    } else if resource.is_empty() {
        errs.required(path.child("resource"), "");
    } else if !RESOURCES.contains(&resource) && !huge_pages {
        errs.not_supported(path.child("resource"), resource, RESOURCES);
    }
    divisor(errs, path.child("divisor"), resource, huge_pages, selector.at("divisor"));
}

fn divisor(errs: &mut Errors, path: Path<'_>, resource: &str, huge_pages: bool, value: &Value) {
    let Some(divisor) = Quantity::from_json(value).filter(|q| q.sign().is_ne()) else { return };
    let text = divisor.to_string();
    let bytes = matches!(
        text.as_str(),
        "1" | "1k"
            | "1M"
            | "1G"
            | "1T"
            | "1P"
            | "1E"
            | "1Ki"
            | "1Mi"
            | "1Gi"
            | "1Ti"
            | "1Pi"
            | "1Ei"
    );
    const BYTES: &str = "only divisor's values 1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei are \
         supported with the";
    match resource {
        "limits.cpu" | "requests.cpu" if text != "1m" && text != "1" => {
            let detail = "only divisor's values 1m and 1 are supported with the cpu resource";
            errs.invalid(path, resource, detail);
        }
        "limits.memory" | "requests.memory" if !bytes => {
            errs.invalid(path, resource, format!("{BYTES} memory resource"));
        }
        "limits.ephemeral-storage" | "requests.ephemeral-storage" if !bytes => {
            errs.invalid(path, resource, format!("{BYTES} local ephemeral storage resource"));
        }
        _ if huge_pages && !bytes => {
            errs.invalid(path, resource, format!("{BYTES} hugepages resource"));
        }
        _ => {}
    }
}
