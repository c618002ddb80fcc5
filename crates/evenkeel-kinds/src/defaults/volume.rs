//! Defaults of pod volumes, PersistentVolumes and PersistentVolumeClaims.

use serde_json::Value;

use super::resources;
use super::set::{self, Object};

/// Sets the defaults of a pod volume.
pub(super) fn apply(volume: &mut Object) {
    let mut has_source = false;
    for (kind, value) in volume.iter_mut() {
        let Some(found) = value.as_object_mut() else { continue };
        has_source = true;
        match kind.as_str() {
            "secret" | "configMap" => set::pointer(found, "defaultMode", MODE),
            "downwardAPI" => {
                set::pointer(found, "defaultMode", MODE);
                downward_items(found);
            }
            "projected" => {
                set::pointer(found, "defaultMode", MODE);
                set::items(found, "sources").for_each(projection);
            }
            "image" => {
                let policy = super::image::pull_policy(set::string(found, "reference"));
                set::text(found, "pullPolicy", policy);
            }
            "ephemeral" => {
                if let Some(template) = set::child(found, "volumeClaimTemplate") {
                    claim_spec(template);
                }
            }
            kind => source(kind, found),
        }
    }
    if !has_source {
        set::structure(volume, "emptyDir");
    }
}

fn projection(part: &mut Object) {
    if let Some(downward) = set::child(part, "downwardAPI") {
        downward_items(downward);
    }
    if let Some(token) = set::child(part, "serviceAccountToken") {
        set::pointer(token, "expirationSeconds", 3600);
    }
}

/// Default file mode: readable by all, writable by the owner.
const MODE: i32 = 0o644;

fn downward_items(source: &mut Object) {
    for item in set::items(source, "items") {
        field_ref(item);
    }
}

/// Sets the API version of a field reference.
pub(super) fn field_ref(parent: &mut Object) {
    if let Some(reference) = set::child(parent, "fieldRef") {
        set::text(reference, "apiVersion", "v1");
    }
}

/// Sets the defaults of sources that pod volumes and PersistentVolumes share.
fn source(kind: &str, source: &mut Object) {
    match kind {
        "hostPath" => set::text_pointer(source, "type", ""),
        "iscsi" => set::text(source, "iscsiInterface", "default"),
        "rbd" => {
            set::text(source, "pool", "rbd");
            set::text(source, "user", "admin");
            set::text(source, "keyring", "/etc/ceph/keyring");
        }
        "azureDisk" => {
            set::text_pointer(source, "cachingMode", "ReadWrite");
            set::text_pointer(source, "fsType", "ext4");
            set::pointer(source, "readOnly", false);
            set::text_pointer(source, "kind", "Shared");
        }
        "scaleIO" => {
            set::text(source, "storageMode", "ThinProvisioned");
            set::text(source, "fsType", "xfs");
        }
        _ => {}
    }
}

fn sources(spec: &mut Object) {
    for (kind, value) in spec.iter_mut() {
        if let Some(found) = value.as_object_mut() {
            source(kind, found);
        }
    }
}

/// Sets the defaults of a PersistentVolumeClaim or a template of one in a StatefulSet.
pub(super) fn claim(claim: &mut Object) {
    claim_spec(claim);
    if let Some(status) = set::structure(claim, "status") {
        set::text(status, "phase", "Pending");
        resources::round(status, "capacity");
        resources::round(status, "allocatedResources");
    }
}

fn claim_spec(parent: &mut Object) {
    if let Some(spec) = set::structure(parent, "spec") {
        set::text_pointer(spec, "volumeMode", "Filesystem");
        resources::round_requirements(spec, "resources");
    }
}

/// Sets the defaults of a PersistentVolume.
pub(super) fn persistent(volume: &mut Object) {
    if let Some(status) = set::structure(volume, "status") {
        set::text(status, "phase", "Pending");
    }
    if let Some(spec) = set::structure(volume, "spec") {
        set::text(spec, "persistentVolumeReclaimPolicy", "Retain");
        set::text_pointer(spec, "volumeMode", "Filesystem");
        resources::round(spec, "capacity");
        sources(spec);
    }
}

/// Sets the defaults of a VolumeAttachment, which may contain an inline PersistentVolume.
pub(super) fn attachment(attachment: &mut Object) {
    let inline = attachment
        .get_mut("spec")
        .and_then(|spec| spec.pointer_mut("/source/inlineVolumeSpec"))
        .and_then(Value::as_object_mut);
    if let Some(spec) = inline {
        resources::round(spec, "capacity");
        sources(spec);
    }
}
