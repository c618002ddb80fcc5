//! Columns of PersistentVolumes, PersistentVolumeClaims, StorageClasses and CSI kinds.

use serde_json::Value;

use super::text::{
    NONE, UNSET, age, annotation, count, deleted, flag, join, list, name, quantity, set_or, str,
};
use super::{AGE, Column, NAME, Printer};

pub(super) const PERSISTENT_VOLUME: Printer = Printer {
    columns: &[
        NAME,
        Column::text("Capacity", "Size of the volume."),
        Column::text("Access Modes", "Ways the volume can be mounted."),
        Column::text("Reclaim Policy", "What becomes of the volume without its claim."),
        Column::text("Status", "Phase of the volume."),
        Column::text("Claim", "Claim the volume is bound to."),
        Column::text("StorageClass", "Storage class of the volume."),
        Column::text("VolumeAttributesClass", "Attributes class of the volume."),
        Column::text("Reason", "Why the volume is in its phase."),
        AGE,
        Column::text("VolumeMode", "Whether the volume is a file system or a block device.").wide(),
    ],
    cells: |object, now| {
        let (spec, status) = (&object["spec"], &object["status"]);
        let claim = match &spec["claimRef"] {
            Value::Null => String::new(),
            claim => format!("{}/{}", str(&claim["namespace"]), str(&claim["name"])),
        };
        cells![
            name(object),
            quantity(&spec["capacity"]["storage"]),
            access_modes(&spec["accessModes"]),
            str(&spec["persistentVolumeReclaimPolicy"]),
            phase(object),
            claim,
            storage_class(object),
            set_or(&spec["volumeAttributesClassName"], UNSET),
            str(&status["reason"]),
            age(object, now),
            set_or(&spec["volumeMode"], UNSET),
        ]
    },
};

pub(super) const PERSISTENT_VOLUME_CLAIM: Printer = Printer {
    columns: &[
        NAME,
        Column::text("Status", "Phase of the claim."),
        Column::text("Volume", "Volume the claim is bound to."),
        Column::text("Capacity", "Size of the volume."),
        Column::text("Access Modes", "Ways the volume can be mounted."),
        Column::text("StorageClass", "Storage class of the claim."),
        Column::text("VolumeAttributesClass", "Attributes class of the claim."),
        AGE,
        Column::text("VolumeMode", "Whether the volume is a file system or a block device.").wide(),
    ],
    cells: |object, now| {
        let (spec, status) = (&object["spec"], &object["status"]);
        let volume = str(&spec["volumeName"]);
        // Capacity and access modes are printed only if the claim has a volume.
        let (capacity, modes) = match volume {
            "" => Default::default(),
            _ => (quantity(&status["capacity"]["storage"]), access_modes(&status["accessModes"])),
        };
        cells![
            name(object),
            phase(object),
            volume,
            capacity,
            modes,
            storage_class(object),
            set_or(&spec["volumeAttributesClassName"], UNSET),
            age(object, now),
            set_or(&spec["volumeMode"], UNSET),
        ]
    },
};

pub(super) const STORAGE_CLASS: Printer = Printer {
    columns: &[
        NAME,
        Column::text("Provisioner", "Driver that makes the volumes."),
        Column::text("ReclaimPolicy", "What becomes of a volume without its claim."),
        Column::text("VolumeBindingMode", "When volumes are made and bound."),
        Column::text("AllowVolumeExpansion", "Whether volumes can grow."),
        AGE,
    ],
    cells: |object, now| {
        let is_default = [
            "storageclass.kubernetes.io/is-default-class",
            "storageclass.beta.kubernetes.io/is-default-class",
        ]
        .iter()
        .any(|key| annotation(object, key) == Some("true"));
        let name = name(object);
        cells![
            if is_default { format!("{name} (default)") } else { name.to_owned() },
            str(&object["provisioner"]),
            set_or(&object["reclaimPolicy"], "Delete"),
            set_or(&object["volumeBindingMode"], "Immediate"),
            flag(&object["allowVolumeExpansion"]),
            age(object, now),
        ]
    },
};

pub(super) const VOLUME_ATTRIBUTES_CLASS: Printer = Printer {
    columns: &[NAME, Column::text("DriverName", "Driver the attributes are for."), AGE],
    cells: |object, now| cells![name(object), str(&object["driverName"]), age(object, now)],
};

pub(super) const VOLUME_ATTACHMENT: Printer = Printer {
    columns: &[
        NAME,
        Column::text("Attacher", "Driver that attaches the volume.").identifying(),
        Column::text("PV", "Volume to attach."),
        Column::text("Node", "Node to attach it to."),
        Column::boolean("Attached", "Whether it is attached."),
        AGE,
    ],
    cells: |object, now| {
        let spec = &object["spec"];
        cells![
            name(object),
            str(&spec["attacher"]),
            str(&spec["source"]["persistentVolumeName"]),
            str(&spec["nodeName"]),
            flag(&object["status"]["attached"]),
            age(object, now),
        ]
    },
};

pub(super) const CSI_NODE: Printer = Printer {
    columns: &[NAME, Column::integer("Drivers", "Drivers registered on the node."), AGE],
    cells: |object, now| cells![name(object), count(&object["spec"]["drivers"]), age(object, now)],
};

pub(super) const CSI_DRIVER: Printer = Printer {
    columns: &[
        NAME,
        Column::boolean("AttachRequired", "Whether volumes are attached before mounting."),
        Column::boolean("PodInfoOnMount", "Whether mounts come with facts about the pod."),
        Column::boolean("StorageCapacity", "Whether the driver publishes capacity."),
        Column::text("TokenRequests", "Audiences of the tokens the driver receives."),
        Column::boolean("RequiresRepublish", "Whether mounts are refreshed periodically."),
        Column::text("Modes", "Kinds of volumes the driver supports."),
        AGE,
    ],
    cells: |object, now| {
        let spec = &object["spec"];
        let tokens = match &spec["tokenRequests"] {
            Value::Null => UNSET.to_owned(),
            requests => join(list(requests).iter().map(|request| str(&request["audience"])), ","),
        };
        let modes = match join(list(&spec["volumeLifecycleModes"]).iter().map(str), ",") {
            none if none.is_empty() => NONE.to_owned(),
            modes => modes,
        };
        cells![
            name(object),
            spec["attachRequired"].as_bool().unwrap_or(true),
            flag(&spec["podInfoOnMount"]),
            flag(&spec["storageCapacity"]),
            tokens,
            flag(&spec["requiresRepublish"]),
            modes,
            age(object, now),
        ]
    },
};

fn phase(object: &Value) -> &str {
    if deleted(object) { "Terminating" } else { str(&object["status"]["phase"]) }
}

/// Returns the storage class name. The beta annotation takes precedence over the field.
fn storage_class(object: &Value) -> &str {
    annotation(object, "volume.beta.kubernetes.io/storage-class")
        .unwrap_or_else(|| str(&object["spec"]["storageClassName"]))
}

fn access_modes(modes: &Value) -> String {
    const SHORT: [(&str, &str); 4] = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let modes = list(modes);
    let named = SHORT.iter().filter(|(long, _)| modes.iter().any(|mode| mode == long));
    join(named.map(|&(_, short)| short), ",")
}
