//! Warnings about PersistentVolumeClaims, PersistentVolumes and CSIDrivers.

use evenkeel_types::quantity::Quantity;

use std::fmt;

use super::{annotations, pod, volume};
use crate::defaults::set::{self, Object};
use crate::strategy::semantic;

const STORAGE_CLASS: &str = "volume.beta.kubernetes.io/storage-class";
const STORAGE_CLASS_MESSAGE: &str =
    r#"deprecated since v1.8; use "storageClassName" attribute instead"#;

/// Adds the warnings about a PersistentVolumeClaim.
pub(super) fn warn_about_claim(object: &Object, warnings: &mut Vec<String>) {
    if annotations(object).is_some_and(|all| all.contains_key(STORAGE_CLASS)) {
        warnings.push(format!("metadata.annotations[{STORAGE_CLASS}]: {STORAGE_CLASS_MESSAGE}"));
    }
    if let Some(spec) = set::get(object, "spec") {
        warn_about_claim_spec(spec, format_args!("spec"), warnings);
    }
}

/// Adds the warnings about the spec of a PersistentVolumeClaim or a template of one at `path`.
pub(super) fn warn_about_claim_spec(
    spec: &Object,
    path: fmt::Arguments<'_>,
    warnings: &mut Vec<String>,
) {
    let Some(resources) = set::get(spec, "resources") else { return };
    for list in ["requests", "limits"] {
        check_fraction(resources, list, "storage", format_args!("{path}.resources"), warnings);
    }
}

/// Warns about a fractional number of bytes.
pub(super) fn check_fraction(
    parent: &Object,
    list: &str,
    name: &str,
    path: fmt::Arguments<'_>,
    warnings: &mut Vec<String>,
) {
    let Some(text) = set::get(parent, list).and_then(|list| list.get(name)?.as_str()) else {
        return;
    };
    // Only these suffixes can produce a fraction, and they are rare.
    if !text.ends_with(['m', 'u', 'n']) && !text.contains(['.', 'e', 'E']) {
        return;
    }
    if let Ok(amount) = Quantity::parse(text)
        && amount != amount.clone().rounded_up(0)
    {
        warnings.push(format!(
            r#"{path}.{list}[{name}]: fractional byte value "{amount}" is invalid, must be an integer"#
        ));
    }
}

/// Adds the warnings about a PersistentVolume.
pub(super) fn warn_about_volume(object: &Object, warnings: &mut Vec<String>) {
    for (key, message) in [
        (STORAGE_CLASS, STORAGE_CLASS_MESSAGE),
        (
            "volume.beta.kubernetes.io/mount-options",
            r#"deprecated since v1.31; use "mountOptions" attribute instead"#,
        ),
    ] {
        if annotations(object).is_some_and(|all| all.contains_key(key)) {
            warnings.push(format!("metadata.annotations[{key}]: {message}"));
        }
    }
    let Some(spec) = set::get(object, "spec") else { return };
    if set::string(spec, "persistentVolumeReclaimPolicy") == "Recycle" {
        warnings.push(
            "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. \
             Instead, the recommended approach is to use dynamic provisioning."
                .to_owned(),
        );
    }
    let required = set::get(spec, "nodeAffinity").and_then(|a| set::get(a, "required"));
    if let Some(required) = required {
        for (i, term) in set::list(required, "nodeSelectorTerms").enumerate() {
            let path = format!("spec.nodeAffinity.required.nodeSelectorTerms[{i}]");
            pod::warn_about_node_selector_term(term, &path, warnings);
        }
    }
    for kind in ["cephfs", "photonPersistentDisk", "scaleIO", "storageos", "glusterfs", "rbd"] {
        if spec.contains_key(kind)
            && let Some((name, message)) = volume::deprecated(kind)
        {
            warnings.push(format!("spec.{name}: {message}"));
        }
    }
}

/// Warns about a CSIDriver that requests tokens without `serviceAccountTokenInSecrets`.
pub(super) fn warn_about_driver(old: Option<&Object>, object: &Object, warnings: &mut Vec<String>) {
    let tokens =
        |object: &Object| set::get(object, "spec").and_then(|s| s.get("tokenRequests")).cloned();
    let now = tokens(object);
    let unset = set::get(object, "spec")
        .is_none_or(|spec| set::is_unset(spec.get("serviceAccountTokenInSecrets")));
    let changed = old.is_none_or(|old| !semantic::equal(tokens(old).as_ref(), now.as_ref()));
    if unset && changed && !set::is_empty(now.as_ref()) {
        warnings.push(
            "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to \
             true to prevent possible logging of tokens in volume attributes"
                .to_owned(),
        );
    }
}
