//! Defaults of volumes: those of pods, persistent ones, and claims.

use serde_json::Value;

use super::resources;
use super::set::{self, Object};

/// A volume of a pod.
pub(super) fn apply(volume: &mut Object) {
    let has_source = volume.iter().any(|(key, value)| key != "name" && !value.is_null());
    if !has_source {
        set::structure(volume, "emptyDir");
        return;
    }
    if let Some(image) = set::child(volume, "image") {
        let policy = super::image::pull_policy(set::string(image, "reference"));
        set::text(image, "pullPolicy", policy);
    }
    for files in ["secret", "configMap"] {
        if let Some(source) = set::child(volume, files) {
            set::pointer(source, "defaultMode", MODE);
        }
    }
    if let Some(source) = set::child(volume, "downwardAPI") {
        set::pointer(source, "defaultMode", MODE);
        downward_items(source);
    }
    if let Some(source) = set::child(volume, "projected") {
        set::pointer(source, "defaultMode", MODE);
        for part in set::items(source, "sources") {
            if let Some(downward) = set::child(part, "downwardAPI") {
                downward_items(downward);
            }
            if let Some(token) = set::child(part, "serviceAccountToken") {
                set::pointer(token, "expirationSeconds", 3600);
            }
        }
    }
    if let Some(template) =
        set::child(volume, "ephemeral").and_then(|e| set::child(e, "volumeClaimTemplate"))
    {
        claim_spec(template);
    }
    source(volume);
}

/// Readable by all, writable by the owner: 0644.
const MODE: i32 = 0o644;

fn downward_items(source: &mut Object) {
    for item in set::items(source, "items") {
        field_ref(item);
    }
}

/// A reference to a field names the version of the object it is read from.
pub(super) fn field_ref(holder: &mut Object) {
    if let Some(reference) = set::child(holder, "fieldRef") {
        set::text(reference, "apiVersion", "v1");
    }
}

/// What a pod's volume and a persistent volume have in common.
pub(super) fn source(volume: &mut Object) {
    if let Some(path) = set::child(volume, "hostPath") {
        set::text_pointer(path, "type", "");
    }
    if let Some(iscsi) = set::child(volume, "iscsi") {
        set::text(iscsi, "iscsiInterface", "default");
    }
    if let Some(rbd) = set::child(volume, "rbd") {
        set::text(rbd, "pool", "rbd");
        set::text(rbd, "user", "admin");
        set::text(rbd, "keyring", "/etc/ceph/keyring");
    }
    if let Some(disk) = set::child(volume, "azureDisk") {
        set::text_pointer(disk, "cachingMode", "ReadWrite");
        set::text_pointer(disk, "fsType", "ext4");
        set::pointer(disk, "readOnly", false);
        set::text_pointer(disk, "kind", "Shared");
    }
    if let Some(scale_io) = set::child(volume, "scaleIO") {
        set::text(scale_io, "storageMode", "ThinProvisioned");
        set::text(scale_io, "fsType", "xfs");
    }
}

/// A claim, as an object or as a template in a StatefulSet.
pub(super) fn claim(claim: &mut Object) {
    claim_spec(claim);
    if let Some(status) = set::structure(claim, "status") {
        set::text(status, "phase", "Pending");
        resources::round(status, "capacity");
        resources::round(status, "allocatedResources");
    }
}

fn claim_spec(holder: &mut Object) {
    if let Some(spec) = set::structure(holder, "spec") {
        set::text_pointer(spec, "volumeMode", "Filesystem");
        resources::round_requirements(spec, "resources");
    }
}

/// A persistent volume.
pub(super) fn persistent(volume: &mut Object) {
    if let Some(status) = set::structure(volume, "status") {
        set::text(status, "phase", "Pending");
    }
    if let Some(spec) = set::structure(volume, "spec") {
        set::text(spec, "persistentVolumeReclaimPolicy", "Retain");
        set::text_pointer(spec, "volumeMode", "Filesystem");
        resources::round(spec, "capacity");
        source(spec);
    }
}

/// An attachment may carry a whole persistent volume inline.
pub(super) fn attachment(attachment: &mut Object) {
    let inline = attachment
        .get_mut("spec")
        .and_then(|spec| spec.pointer_mut("/source/inlineVolumeSpec"))
        .and_then(Value::as_object_mut);
    if let Some(spec) = inline {
        resources::round(spec, "capacity");
        source(spec);
    }
}
