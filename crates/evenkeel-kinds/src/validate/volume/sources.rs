//! Validates volume sources shared by pod volumes and PersistentVolumes.

use serde_json::Value;

use super::super::checks;
use super::super::read::Read;
use super::super::report::{Errors, Path};
use crate::names;

pub(in crate::validate) const INITIATOR_TOO_LONG: &str = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.";

pub(in crate::validate) fn file_mode(errs: &mut Errors, path: Path<'_>, mode: Option<i64>) {
    if let Some(mode) = mode.filter(|m| !(0..=0o777).contains(m)) {
        let detail = "must be a number between 0 and 0777 (octal), both inclusive";
        errs.invalid(path, mode, detail);
    }
}

pub(in crate::validate) fn no_backsteps(errs: &mut Errors, path: Path<'_>, target: &str) {
    if has_backsteps(target) {
        errs.invalid(path, target, "must not contain '..'");
    }
}

pub(in crate::validate) fn has_backsteps(target: &str) -> bool {
    target.split('/').any(|part| part == "..")
}

/// Checks a relative path that does not contain `..`.
pub(in crate::validate) fn descending_path(errs: &mut Errors, path: Path<'_>, target: &str) {
    if target.starts_with('/') {
        errs.invalid(path, target, "must be a relative path");
    }
    no_backsteps(errs, path, target);
}

/// Like [`descending_path`], but also rejects names that start with `..`, which the kubelet
/// reserves.
pub(in crate::validate) fn local_path(errs: &mut Errors, path: Path<'_>, target: &str) {
    descending_path(errs, path, target);
    if target.starts_with("..") && !target.starts_with("../") {
        errs.invalid(path, target, "must not start with '..'");
    }
}

pub(in crate::validate) fn host_path(errs: &mut Errors, path: Path<'_>, source: &Value) {
    let target = source.text("path");
    if target.is_empty() {
        errs.required(path.child("path"), "");
        return;
    }
    no_backsteps(errs, path.child("path"), target);
    const TYPES: &[&str] = &[
        "",
        "BlockDevice",
        "CharDevice",
        "Directory",
        "DirectoryOrCreate",
        "File",
        "FileOrCreate",
        "Socket",
    ];
    checks::one_of_if_set(errs, path.child("type"), source.at("type"), TYPES);
}

fn partition(errs: &mut Errors, path: Path<'_>, source: &Value) {
    let partition = source.num("partition");
    if !(0..=255).contains(&partition) {
        errs.invalid(path.child("partition"), partition, "must be between 1 and 255, inclusive");
    }
}

pub(in crate::validate) fn gce_persistent_disk(errs: &mut Errors, path: Path<'_>, source: &Value) {
    checks::required_text(errs, path, source, "pdName");
    partition(errs, path, source);
}

pub(in crate::validate) fn aws_elastic_block_store(
    errs: &mut Errors,
    path: Path<'_>,
    source: &Value,
) {
    checks::required_text(errs, path, source, "volumeID");
    partition(errs, path, source);
}

pub(in crate::validate) fn nfs(errs: &mut Errors, path: Path<'_>, source: &Value) {
    checks::required_text(errs, path, source, "server");
    checks::required_text(errs, path, source, "path");
    let target = source.text("path");
    if !target.starts_with('/') {
        errs.invalid(path.child("path"), target, "must be an absolute path");
    }
}

const QUALIFIED: &str = "must be valid format starting with iqn, eui, or naa";
const FORMAT: &str = "must be valid format";

pub(in crate::validate) fn iscsi(errs: &mut Errors, path: Path<'_>, source: &Value) {
    checks::required_text(errs, path, source, "targetPortal");
    iscsi_names(errs, path, source, QUALIFIED);
}

pub(in crate::validate) fn persistent_iscsi(
    errs: &mut Errors,
    path: Path<'_>,
    source: &Value,
    volume: &str,
) {
    checks::required_text(errs, path, source, "targetPortal");
    let portal = source.text("targetPortal");
    if source.has("initiatorName") && volume.len() + 1 + portal.len() > 64 {
        errs.invalid(path.child("targetportal"), portal, INITIATOR_TOO_LONG);
    }
    iscsi_names(errs, path, source, FORMAT);
}

fn iscsi_names(errs: &mut Errors, path: Path<'_>, source: &Value, unqualified: &'static str) {
    let iqn = source.text("iqn");
    if iqn.is_empty() {
        errs.required(path.child("iqn"), "");
    } else if let Err(detail) = iscsi_name(iqn, unqualified) {
        errs.invalid(path.child("iqn"), iqn, detail);
    }
    let lun = source.num("lun");
    if !(0..=255).contains(&lun) {
        errs.invalid(path.child("lun"), lun, "must be between 0 and 255, inclusive");
    }
    let chap = source.is("chapAuthDiscovery") || source.is("chapAuthSession");
    let secret = source.at("secretRef");
    if chap && secret.is_null() {
        errs.required(path.child("secretRef"), "");
    }
    if unqualified == FORMAT && !secret.is_null() && secret.text("name").is_empty() {
        errs.required(path.child("secretRef").child("name"), "");
    }
    if let Some(initiator) = source.text_opt("initiatorName")
        && let Err(detail) = iscsi_name(initiator, unqualified)
    {
        errs.invalid(path.child("initiatorname"), initiator, detail);
    }
}

/// Checks `iqn.2001-04.com.example:storage`, `eui.` and 16, or `naa.` and 32 hexadecimal digits.
fn iscsi_name(name: &str, unqualified: &'static str) -> Result<(), &'static str> {
    let fits = match name.get(..3) {
        Some("iqn") => is_iqn(name),
        Some("eui") => is_hex_name(name, 16),
        Some("naa") => is_hex_name(name, 32),
        _ => return Err(unqualified),
    };
    if fits { Ok(()) } else { Err(FORMAT) }
}

fn is_iqn(name: &str) -> bool {
    let Some(rest) = name.strip_prefix("iqn.") else { return false };
    let Some((date, rest)) = rest.split_at_checked(8) else { return false };
    let digits =
        |range: std::ops::Range<usize>| date.as_bytes()[range].iter().all(u8::is_ascii_digit);
    if !digits(0..4) || &date[4..5] != "-" || !digits(5..7) || &date[7..8] != "." {
        return false;
    }
    let Some((authority, target)) = rest.split_once(':') else { return false };
    !authority.is_empty()
        && authority.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'.')
        && !target.is_empty()
        && !target.bytes().any(|b| b",;*&$|".contains(&b) || b.is_ascii_whitespace())
}

fn is_hex_name(name: &str, digits: usize) -> bool {
    name.len() == 4 + digits && name.bytes().skip(4).all(|b| b.is_ascii_alphanumeric())
}

pub(in crate::validate) fn flocker(errs: &mut Errors, path: Path<'_>, source: &Value) {
    let (name, uuid) = (source.text("datasetName"), source.text("datasetUUID"));
    if name.is_empty() && uuid.is_empty() {
        errs.required(path, "one of datasetName and datasetUUID is required");
    }
    if !name.is_empty() && !uuid.is_empty() {
        let detail = "datasetName and datasetUUID can not be specified simultaneously";
        errs.invalid(path, "resource", detail);
    }
    if name.contains('/') {
        errs.invalid(path.child("datasetName"), name, "must not contain '/'");
    }
}

pub(in crate::validate) fn rbd(errs: &mut Errors, path: Path<'_>, source: &Value) {
    if source.list("monitors").is_empty() {
        errs.required(path.child("monitors"), "");
    }
    checks::required_text(errs, path, source, "image");
}

pub(in crate::validate) fn cinder(errs: &mut Errors, path: Path<'_>, source: &Value) {
    checks::required_text(errs, path, source, "volumeID");
    let secret = source.at("secretRef");
    if !secret.is_null() {
        checks::required_text(errs, path.child("secretRef"), secret, "name");
    }
}

pub(in crate::validate) fn quobyte(errs: &mut Errors, path: Path<'_>, source: &Value) {
    const PAIRS: &str = "must be a host:port pair or multiple pairs separated by commas";
    let registry = source.text("registry");
    if registry.is_empty() {
        errs.required(path.child("registry"), PAIRS);
    } else if source.text("tenant").len() >= 65 {
        let detail = "must be a UUID and may not exceed a length of 64 characters";
        errs.required(path.child("tenant"), detail);
    } else {
        for pair in registry.split(',') {
            let fits = match pair.rsplit_once(':') {
                Some((host, _)) => !host.contains(':') || host.ends_with(']'),
                None => false,
            };
            if !fits {
                errs.invalid(path.child("registry"), registry, PAIRS);
            }
        }
    }
    checks::required_text(errs, path, source, "volume");
}

pub(in crate::validate) fn fc(errs: &mut Errors, path: Path<'_>, source: &Value) {
    let (wwns, wwids) = (source.list("targetWWNs"), source.list("wwids"));
    if wwns.is_empty() && wwids.is_empty() {
        let detail = "must specify either targetWWNs or wwids, but not both";
        errs.required(path.child("targetWWNs"), detail);
    }
    if !wwns.is_empty() && !wwids.is_empty() {
        let detail = "targetWWNs and wwids can not be specified simultaneously";
        errs.invalid(path.child("targetWWNs"), wwns.to_vec(), detail);
    }
    if !wwns.is_empty() {
        match source.int("lun") {
            None => errs.required(path.child("lun"), "lun is required if targetWWNs is specified"),
            Some(lun) if !(0..=255).contains(&lun) => {
                errs.invalid(path.child("lun"), lun, "must be between 0 and 255, inclusive");
            }
            Some(_) => {}
        }
    }
}

pub(in crate::validate) fn flex(errs: &mut Errors, path: Path<'_>, source: &Value) {
    checks::required_text(errs, path, source, "driver");
    for (key, _) in source.entries("options") {
        let namespace = key.split_once('/').map_or(key, |(namespace, _)| namespace);
        let normalized = format!(".{}", namespace.to_lowercase());
        if normalized.ends_with(".kubernetes.io") || normalized.ends_with(".k8s.io") {
            let detail = "kubernetes.io and k8s.io namespaces are reserved";
            errs.invalid(path.child("options").key(key), key, detail);
        }
    }
}

pub(in crate::validate) fn azure_disk(errs: &mut Errors, path: Path<'_>, source: &Value) {
    checks::required_text(errs, path, source, "diskName");
    checks::required_text(errs, path, source, "diskURI");
    const CACHING: &[&str] = &["None", "ReadOnly", "ReadWrite"];
    checks::one_of_if_set(errs, path.child("cachingMode"), source.at("cachingMode"), CACHING);
    const KINDS: &[&str] = &["Dedicated", "Managed", "Shared"];
    checks::one_of_if_set(errs, path.child("kind"), source.at("kind"), KINDS);
    let uri = source.text("diskURI");
    match source.text_opt("kind") {
        Some("Managed") if !uri.starts_with("/subscriptions/") => {
            const MANAGED: &str = "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}";
            errs.not_supported(path.child("diskURI"), uri, &[MANAGED]);
        }
        Some(kind) if kind != "Managed" && !uri.starts_with("https://") => {
            const BLOB: &str =
                "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd";
            errs.not_supported(path.child("diskURI"), uri, &[BLOB]);
        }
        _ => {}
    }
}

pub(in crate::validate) fn storageos(errs: &mut Errors, path: Path<'_>, source: &Value) {
    let name = source.text("volumeName");
    if name.is_empty() {
        errs.required(path.child("volumeName"), "");
    } else {
        checks::dns1123_label(errs, path.child("volumeName"), name);
    }
    let namespace = source.text("volumeNamespace");
    if !namespace.is_empty() {
        checks::dns1123_label(errs, path.child("volumeNamespace"), namespace);
    }
    let secret = source.at("secretRef");
    if !secret.is_null() {
        checks::required_text(errs, path.child("secretRef"), secret, "name");
    }
}

pub(in crate::validate) fn scale_io(errs: &mut Errors, path: Path<'_>, source: &Value) {
    for field in ["gateway", "system", "volumeName"] {
        checks::required_text(errs, path, source, field);
    }
}

pub(in crate::validate) fn csi_driver_name(errs: &mut Errors, path: Path<'_>, name: &str) {
    if name.is_empty() {
        errs.required(path, "");
        return;
    }
    if name.len() > 63 {
        errs.too_long(path, 63);
    }
    errs.reasons(path, name, names::dns1123_subdomain(&name.to_lowercase()));
}
