//! Validates PersistentVolumes.

use evenkeel_types::quantity::Quantity;
use serde_json::Value;

use super::checks::{self, SelectorValues};
use super::printed::{self, Printed, Ty, diff};
use super::read::Read;
use super::report::{Errors, Path};
use super::volume::sources;
use super::{builtin_create, builtin_update, persistent_volume_claim, resources, scheduling};
use crate::names::NameRule;

pub(super) fn create(errs: &mut Errors, volume: &Value) {
    validate(errs, volume, SelectorValues::Validated);
    mount_options(errs, volume);
}

/// Validates the mount options annotation, which only some volume types support.
fn mount_options(errs: &mut Errors, volume: &Value) {
    const ANNOTATION: &str = "volume.beta.kubernetes.io/mount-options";
    const MOUNTED: &[&str] = &[
        "gcePersistentDisk",
        "awsElasticBlockStore",
        "glusterfs",
        "nfs",
        "rbd",
        "quobyte",
        "iscsi",
        "cinder",
        "cephfs",
        "azureFile",
        "vsphereVolume",
        "azureDisk",
        "photonPersistentDisk",
    ];
    let spec = volume.at("spec");
    if volume.at("metadata").at("annotations").has(ANNOTATION)
        && !MOUNTED.iter().any(|source| spec.has(source))
    {
        let path = Path::root("metadata");
        let path = path.child("annotations");
        let detail = "may not specify mount options for this volume type";
        errs.forbidden(path.child(ANNOTATION), detail);
    }
}

fn validate(errs: &mut Errors, volume: &Value, affinity_values: SelectorValues) {
    builtin_create(errs, volume, false, NameRule::Subdomain);
    let name = volume.at("metadata").text("name");
    spec(errs, Path::root("spec"), volume.at("spec"), name, false, affinity_values);
}

/// Validates the spec of a PersistentVolume, or with `inline` one in a VolumeAttachment.
pub(super) fn spec(
    errs: &mut Errors,
    path: Path<'_>,
    spec: &Value,
    name: &str,
    inline: bool,
    affinity_values: SelectorValues,
) {
    const INLINE: &str = "may not be specified in the context of inline volumes";
    if inline {
        if spec.has("claimRef") {
            errs.forbidden(path.child("claimRef"), INLINE);
        }
        if spec.map("capacity").is_some_and(|c| !c.is_empty()) {
            errs.forbidden(path.child("capacity"), INLINE);
        }
        if !spec.has("csi") {
            let detail = "has to be specified in the context of inline volumes";
            errs.required(path.child("csi"), detail);
        }
    }
    if spec.list("accessModes").is_empty() {
        errs.required(path.child("accessModes"), "");
    }
    persistent_volume_claim::access_modes(errs, path.child("accessModes"), spec);
    if !inline {
        capacity(errs, path.child("capacity"), spec);
    }
    let policy = spec.text("persistentVolumeReclaimPolicy");
    if !policy.is_empty() {
        let path = path.child("persistentVolumeReclaimPolicy");
        const POLICIES: &[&str] = &["Delete", "Recycle", "Retain"];
        if inline && policy != "Retain" {
            errs.forbidden(path, "may only be Retain in the context of inline volumes");
        } else if !inline && !POLICIES.contains(&policy) {
            errs.not_supported(path, policy, POLICIES);
        }
    }
    let affinity = spec.at("nodeAffinity");
    if !affinity.is_null() {
        let path = path.child("nodeAffinity");
        if inline {
            errs.forbidden(path, INLINE);
        } else if affinity.has("required") {
            let required = affinity.at("required");
            scheduling::node_selector(errs, path.child("required"), required, affinity_values);
        } else {
            errs.required(path.child("required"), "must specify required node constraints");
        }
    }
    source(errs, path, spec, name);
    let host_path = spec.at("hostPath").text("path");
    if spec.has("hostPath") && is_root(host_path) && policy == "Recycle" {
        let detail = "may not be 'recycle' for a hostPath mount of '/'";
        errs.forbidden(path.child("persistentVolumeReclaimPolicy"), detail);
    }
    let class = spec.text("storageClassName");
    if !class.is_empty() {
        let path = path.child("storageClassName");
        if inline {
            errs.forbidden(path, INLINE);
        } else {
            checks::dns1123_subdomain(errs, path, class);
        }
    }
    if let Some(mode) = spec.text_opt("volumeMode") {
        let path = path.child("volumeMode");
        if inline && mode != "Filesystem" {
            let detail = "may not specify volumeMode other than Filesystem in the context of \
                          inline volumes";
            errs.forbidden(path, detail);
        } else if !inline {
            checks::one_of_if_set(
                errs,
                path,
                spec.at("volumeMode"),
                persistent_volume_claim::VOLUME_MODES,
            );
        }
    }
    if let Some(class) = spec.text_opt("volumeAttributesClassName")
        && !inline
    {
        if class.is_empty() {
            let detail = "an empty string is disallowed";
            errs.required(path.child("volumeAttributesClassName"), detail);
        } else {
            checks::dns1123_subdomain(errs, path.child("volumeAttributesClassName"), class);
        }
        if !spec.has("csi") {
            let detail = "has to be specified when using volumeAttributesClassName";
            errs.required(path.child("csi"), detail);
        }
    }
}

fn capacity(errs: &mut Errors, path: Path<'_>, spec: &Value) {
    let entries = spec.map("capacity").map(serde_json::Map::len).unwrap_or_default();
    if entries == 0 {
        errs.required(path, "");
    }
    if entries > 1 || !spec.at("capacity").has("storage") {
        let shown = Printed(Ty::Map(&Ty::Quantity), spec.at("capacity"));
        errs.not_supported_printed(path, shown, &["storage"]);
    }
    for (name, value) in spec.entries("capacity") {
        persistent_volume_claim::basic_resource(errs, path.key(name), value);
        let amount = Quantity::from_json(value).unwrap_or(Quantity::ZERO);
        resources::positive(errs, path.key(name), &amount);
    }
}

/// Returns whether a path is the root directory after removing dots and repeated slashes.
fn is_root(path: &str) -> bool {
    let mut depth = 0_usize;
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => depth = depth.saturating_sub(1),
            _ => depth += 1,
        }
    }
    path.starts_with('/') && depth == 0
}

/// Field, name in the error about a second source, and name in other errors, in upstream's order.
const SOURCES: &[(&str, &str, &str)] = &[
    ("hostPath", "hostPath", "hostPath"),
    ("gcePersistentDisk", "gcePersistentDisk", "persistentDisk"),
    ("awsElasticBlockStore", "awsElasticBlockStore", "awsElasticBlockStore"),
    ("glusterfs", "glusterfs", "glusterfs"),
    ("flocker", "flocker", "flocker"),
    ("nfs", "nfs", "nfs"),
    ("rbd", "rbd", "rbd"),
    ("quobyte", "quobyte", "quobyte"),
    ("cephfs", "cephFS", "cephfs"),
    ("iscsi", "iscsi", "iscsi"),
    ("cinder", "cinder", "cinder"),
    ("fc", "fc", "fc"),
    ("flexVolume", "", "flexVolume"),
    ("azureFile", "azureFile", "azureFile"),
    ("vsphereVolume", "vsphereVolume", "vsphereVolume"),
    ("photonPersistentDisk", "photonPersistentDisk", "photonPersistentDisk"),
    ("portworxVolume", "portworxVolume", "portworxVolume"),
    ("azureDisk", "azureDisk", "azureDisk"),
    ("scaleIO", "scaleIO", "scaleIO"),
    ("local", "local", "local"),
    ("storageos", "storageos", "storageos"),
    ("csi", "csi", "csi"),
];

fn source(errs: &mut Errors, path: Path<'_>, spec: &Value, name: &str) {
    let mut found = false;
    for (key, second, own) in SOURCES {
        let source = spec.at(key);
        if source.is_null() {
            continue;
        }
        // A flex volume may be combined with another source.
        if found && !second.is_empty() {
            errs.forbidden(path.child(second), "may not specify more than 1 volume type");
            continue;
        }
        found = true;
        one_source(errs, path.child(own), key, source, name);
        if *key == "local" && !spec.has("nodeAffinity") {
            errs.required(path.child("nodeAffinity"), "Local volume requires node affinity");
        }
    }
    if !found {
        errs.required(path, "must specify a volume type");
    }
}

fn one_source(errs: &mut Errors, path: Path<'_>, key: &str, source: &Value, name: &str) {
    match key {
        "hostPath" => sources::host_path(errs, path, source),
        "gcePersistentDisk" => sources::gce_persistent_disk(errs, path, source),
        "awsElasticBlockStore" => sources::aws_elastic_block_store(errs, path, source),
        "glusterfs" => {
            checks::required_text(errs, path, source, "endpoints");
            checks::required_text(errs, path, source, "path");
            match source.text_opt("endpointsNamespace") {
                Some("") => {
                    let detail =
                        "if the endpointnamespace is set, it must be a valid namespace name";
                    errs.invalid(path.child("endpointsNamespace"), "", detail);
                }
                Some(namespace) => {
                    checks::dns1123_label(errs, path.child("endpointsNamespace"), namespace);
                }
                None => {}
            }
        }
        "flocker" => sources::flocker(errs, path, source),
        "nfs" => sources::nfs(errs, path, source),
        "rbd" => sources::rbd(errs, path, source),
        "quobyte" => sources::quobyte(errs, path, source),
        "cephfs" => {
            if source.list("monitors").is_empty() {
                errs.required(path.child("monitors"), "");
            }
        }
        "iscsi" => sources::persistent_iscsi(errs, path, source, name),
        "cinder" => {
            sources::cinder(errs, path, source);
            namespaced_secret(errs, path, source);
        }
        "fc" => sources::fc(errs, path, source),
        "flexVolume" => sources::flex(errs, path, source),
        "azureFile" => {
            checks::required_text(errs, path, source, "secretName");
            checks::required_text(errs, path, source, "shareName");
            if source.text_opt("secretNamespace") == Some("") {
                errs.required(path.child("secretNamespace"), "");
            }
        }
        "vsphereVolume" => checks::required_text(errs, path, source, "volumePath"),
        "photonPersistentDisk" => checks::required_text(errs, path, source, "pdID"),
        "portworxVolume" => checks::required_text(errs, path, source, "volumeID"),
        "azureDisk" => sources::azure_disk(errs, path, source),
        "scaleIO" => sources::scale_io(errs, path, source),
        "local" => {
            if source.text("path").is_empty() {
                errs.required(path.child("path"), "");
            } else {
                sources::no_backsteps(errs, path.child("path"), source.text("path"));
            }
        }
        "storageos" => {
            sources::storageos(errs, path, source);
            namespaced_secret(errs, path, source);
        }
        _ => csi(errs, path, source),
    }
}

fn namespaced_secret(errs: &mut Errors, path: Path<'_>, source: &Value) {
    let secret = source.at("secretRef");
    if !secret.is_null() {
        checks::required_text(errs, path.child("secretRef"), secret, "namespace");
    }
}

fn csi(errs: &mut Errors, path: Path<'_>, csi: &Value) {
    sources::csi_driver_name(errs, path.child("driver"), csi.text("driver"));
    checks::required_text(errs, path, csi, "volumeHandle");
    for field in [
        "controllerPublishSecretRef",
        "controllerExpandSecretRef",
        "nodePublishSecretRef",
        "nodeExpandSecretRef",
    ] {
        let secret = csi.at(field);
        if secret.is_null() {
            continue;
        }
        let path = path.child(field);
        let (name, namespace) = (secret.text("name"), secret.text("namespace"));
        if name.is_empty() {
            errs.required(path.child("name"), "");
        } else {
            checks::dns1123_subdomain(errs, path.child("name"), name);
        }
        if namespace.is_empty() {
            errs.required(path.child("namespace"), "");
        } else {
            checks::dns1123_label(errs, path.child("namespace"), namespace);
        }
    }
}

pub(super) fn update(errs: &mut Errors, new: &Value, old: &Value) {
    let (spec, old_spec) = (new.at("spec"), old.at("spec"));
    let values = scheduling::node_selector_values(old_spec.at("nodeAffinity").at("required"));
    validate(errs, new, values);
    mount_options(errs, new);
    validate(errs, new, values);

    let mut now = spec.clone();
    let has_expand_secret = |spec: &Value| spec.at("csi").has("controllerExpandSecretRef");
    if old_spec.has("csi")
        && !has_expand_secret(old_spec)
        && has_expand_secret(spec)
        && let Some(csi) = now.get_mut("csi").and_then(Value::as_object_mut)
    {
        csi.remove("controllerExpandSecretRef");
    }
    let ty = Ty::Struct(printed::PERSISTENT_VOLUME_SOURCE);
    if !printed::same(ty, &now, old_spec) {
        let difference = diff::unified(&printed::pretty(ty, old_spec), &printed::pretty(ty, &now));
        let detail =
            format!("spec.persistentvolumesource is immutable after creation\n{difference}");
        errs.forbidden(Path::root("spec").child("persistentvolumesource"), detail);
    }
    let (mode, old_mode) = (spec.at("volumeMode"), old_spec.at("volumeMode"));
    if mode != old_mode {
        errs.invalid(Path::root("volumeMode"), mode.clone(), checks::IMMUTABLE);
    }
    if old_spec.has("nodeAffinity") {
        node_affinity(errs, spec.at("nodeAffinity"), old_spec.at("nodeAffinity"));
    }
    if old_spec.has("volumeAttributesClassName") && !spec.has("volumeAttributesClassName") {
        let path = Path::root("spec");
        let detail = "update from non-nil value to nil is forbidden";
        errs.forbidden(path.child("volumeAttributesClassName"), detail);
    }
}

/// Validates that node affinity is unchanged, except that beta labels may become their GA labels.
fn node_affinity(errs: &mut Errors, new: &Value, old: &Value) {
    const GRADUATED: &[(&str, &str)] = &[
        ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"),
        ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"),
        ("beta.kubernetes.io/os", "kubernetes.io/os"),
        ("beta.kubernetes.io/arch", "kubernetes.io/arch"),
        ("beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type"),
    ];
    let mut before = old.clone();
    let terms = before
        .get_mut("required")
        .and_then(|r| r.get_mut("nodeSelectorTerms"))
        .and_then(Value::as_array_mut);
    let new_terms = new.at("required").list("nodeSelectorTerms");
    for (term, now) in terms.into_iter().flatten().zip(new_terms) {
        let expressions = term.get_mut("matchExpressions").and_then(Value::as_array_mut);
        let now = now.list("matchExpressions");
        for (expression, now) in expressions.into_iter().flatten().zip(now) {
            let pair = (expression.text("key"), now.text("key"));
            // Upstream maps a label without a beta version to an empty name.
            let unmapped = pair.1.is_empty() && !GRADUATED.iter().any(|(old, _)| *old == pair.0);
            if (GRADUATED.contains(&pair) || unmapped)
                && let Some(expression) = expression.as_object_mut()
            {
                expression.insert("key".to_owned(), now.at("key").clone());
            }
        }
    }
    let ty = Ty::Opt(&Ty::Struct(printed::VOLUME_NODE_AFFINITY));
    if !printed::same(ty, new, &before) {
        let detail = "field is immutable, except for updating from beta label to GA";
        errs.invalid_printed(Path::root("nodeAffinity"), Printed(ty, new), detail);
    }
}

pub(super) fn status_update(errs: &mut Errors, new: &Value, old: &Value) {
    builtin_update(errs, new, old);
    if new.at("metadata").text("resourceVersion").is_empty() {
        errs.required(Path::root("resourceVersion"), "");
    }
}
