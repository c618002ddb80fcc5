//! The strategy table: one entry per resource.

use evenkeel_types::Gvk;

use super::{GarbageCollection, Generation, Strategy};

/// Defaults of all strategies.
const DEFAULT: Strategy = Strategy {
    has_status: false,
    generation: Generation::Unset,
    create_on_update: false,
    unconditional_update: true,
    returns_deleted: false,
    graceful_delete: false,
    garbage_collection: GarbageCollection::Background,
    reset_fields: &[],
    status_reset_fields: &[],
    status_keeps_metadata: &[],
};

/// A resource with a status that the main resource ignores.
const STATUS: Strategy = Strategy {
    has_status: true,
    reset_fields: &["status"],
    status_reset_fields: &["spec"],
    ..DEFAULT
};

/// A resource whose generation is incremented when the spec changes.
const STATUS_AND_GENERATION: Strategy =
    Strategy { generation: Generation::Incremented(&["spec"]), ..STATUS };

/// The metadata fields that a subresource for one part of an object does not change.
pub(super) const ALL_METADATA: &[&str] = &[
    "deletionTimestamp",
    "generation",
    "selfLink",
    "labels",
    "annotations",
    "finalizers",
    "ownerReferences",
];

/// A resource whose status subresource does not change the metadata.
const STATUS_ONLY: Strategy = Strategy {
    status_reset_fields: &["metadata", "spec"],
    status_keeps_metadata: ALL_METADATA,
    ..STATUS
};

/// An admission configuration. Updates require a resourceVersion.
const ADMISSION: Strategy = Strategy {
    generation: Generation::Incremented(&["spec"]),
    unconditional_update: false,
    ..DEFAULT
};

const FLOW_CONTROL: Strategy = Strategy {
    generation: Generation::Incremented(&["spec"]),
    status_keeps_metadata: &[
        "annotations",
        "creationTimestamp",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "finalizers",
        "generateName",
        "generation",
        "labels",
        "name",
        "namespace",
        "ownerReferences",
        "selfLink",
        "uid",
    ],
    ..STATUS_ONLY
};

/// Returns the strategy of the resource of a built-in kind.
///
/// Kinds that are not stored, such as reviews and bindings, and kinds that are not built in have
/// the default strategy.
pub fn of(gvk: Gvk<'_>) -> &'static Strategy {
    match gvk.group {
        "" => core(gvk.kind),
        "apps" => match gvk.kind {
            "Deployment" => &Strategy {
                generation: Generation::Incremented(&["spec", "metadata.annotations"]),
                status_reset_fields: &["spec", "metadata.labels"],
                status_keeps_metadata: &["labels"],
                ..STATUS
            },
            "DaemonSet" | "ReplicaSet" | "StatefulSet" => &STATUS_AND_GENERATION,
            _ => &DEFAULT,
        },
        "batch" => match gvk.kind {
            "Job" => {
                &Strategy { garbage_collection: GarbageCollection::Orphan, ..STATUS_AND_GENERATION }
            }
            "CronJob" => &STATUS_AND_GENERATION,
            _ => &DEFAULT,
        },
        "autoscaling" => match gvk.kind {
            "HorizontalPodAutoscaler" => &STATUS,
            _ => &DEFAULT,
        },
        "networking.k8s.io" => match gvk.kind {
            "Ingress" => &STATUS_AND_GENERATION,
            "IngressClass" => {
                &Strategy { generation: Generation::Incremented(&["spec"]), ..DEFAULT }
            }
            "NetworkPolicy" => {
                &Strategy { generation: Generation::IncrementedExactly(&["spec"]), ..DEFAULT }
            }
            "ServiceCIDR" => &STATUS_ONLY,
            _ => &DEFAULT,
        },
        "policy" => match gvk.kind {
            "PodDisruptionBudget" => {
                &Strategy { unconditional_update: false, ..STATUS_AND_GENERATION }
            }
            _ => &DEFAULT,
        },
        "rbac.authorization.k8s.io" => &Strategy { create_on_update: true, ..DEFAULT },
        "events.k8s.io" => &EVENT,
        "coordination.k8s.io" => {
            &Strategy { create_on_update: true, unconditional_update: false, ..DEFAULT }
        }
        "discovery.k8s.io" => &Strategy {
            generation: Generation::Incremented(&[
                "addressType",
                "endpoints",
                "ports",
                "metadata.labels",
            ]),
            ..DEFAULT
        },
        "node.k8s.io" => {
            &Strategy { create_on_update: true, unconditional_update: false, ..DEFAULT }
        }
        "scheduling.k8s.io" => &Strategy { generation: Generation::AlwaysOne, ..DEFAULT },
        "storage.k8s.io" => storage(gvk.kind),
        "admissionregistration.k8s.io" => match gvk.kind {
            "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration" => {
                &Strategy { generation: Generation::IncrementedExactly(&["webhooks"]), ..ADMISSION }
            }
            "ValidatingAdmissionPolicy" => &Strategy {
                generation: Generation::Incremented(&["spec"]),
                unconditional_update: false,
                ..STATUS_ONLY
            },
            _ => &ADMISSION,
        },
        "apiregistration.k8s.io" => &Strategy {
            unconditional_update: false,
            status_keeps_metadata: &["labels", "annotations", "finalizers", "ownerReferences"],
            ..STATUS_ONLY
        },
        "apiextensions.k8s.io" => {
            &Strategy { unconditional_update: false, ..STATUS_AND_GENERATION }
        }
        "certificates.k8s.io" => match gvk.kind {
            "CertificateSigningRequest" => &Strategy {
                reset_fields: &["spec", "status"],
                status_reset_fields: &["spec", "status.conditions"],
                ..STATUS
            },
            _ => &DEFAULT,
        },
        "flowcontrol.apiserver.k8s.io" => &FLOW_CONTROL,
        "resource.k8s.io" => match gvk.kind {
            "ResourceClaim" => &Strategy { returns_deleted: true, ..STATUS_ONLY },
            "DeviceClass" | "ResourceSlice" => &Strategy {
                generation: Generation::Incremented(&["spec"]),
                returns_deleted: true,
                ..DEFAULT
            },
            _ => &RETURNS_DELETED,
        },
        "storagemigration.k8s.io" => &Strategy { unconditional_update: false, ..STATUS_ONLY },
        _ => &DEFAULT,
    }
}

const RETURNS_DELETED: Strategy = Strategy { returns_deleted: true, ..DEFAULT };
const EVENT: Strategy = Strategy {
    create_on_update: true,
    garbage_collection: GarbageCollection::Unsupported,
    ..DEFAULT
};

fn core(kind: &str) -> &'static Strategy {
    match kind {
        "Pod" => &Strategy {
            returns_deleted: true,
            graceful_delete: true,
            status_reset_fields: &[
                "spec",
                "metadata.deletionTimestamp",
                "metadata.ownerReferences",
            ],
            status_keeps_metadata: &["ownerReferences"],
            ..STATUS_AND_GENERATION
        },
        "Service" => &Strategy { create_on_update: true, returns_deleted: true, ..STATUS },
        "Namespace" | "PersistentVolume" | "PersistentVolumeClaim" | "ResourceQuota" => {
            &Strategy { returns_deleted: true, ..STATUS }
        }
        "Node" => &STATUS,
        "ReplicationController" => {
            &Strategy { garbage_collection: GarbageCollection::Orphan, ..STATUS_AND_GENERATION }
        }
        "PodTemplate" => &Strategy {
            generation: Generation::Incremented(&["template"]),
            returns_deleted: true,
            ..DEFAULT
        },
        "ServiceAccount" => &RETURNS_DELETED,
        "Endpoints" | "LimitRange" => &Strategy { create_on_update: true, ..DEFAULT },
        "Event" => &EVENT,
        _ => &DEFAULT,
    }
}

fn storage(kind: &str) -> &'static Strategy {
    match kind {
        "StorageClass" | "VolumeAttributesClass" => &RETURNS_DELETED,
        "CSINode" => &Strategy { unconditional_update: false, ..RETURNS_DELETED },
        "CSIDriver" => &Strategy {
            generation: Generation::IncrementedOnUpdate(&["spec"]),
            unconditional_update: false,
            ..RETURNS_DELETED
        },
        "CSIStorageCapacity" => &Strategy { unconditional_update: false, ..DEFAULT },
        "VolumeAttachment" => {
            &Strategy { returns_deleted: true, unconditional_update: false, ..STATUS_ONLY }
        }
        _ => &DEFAULT,
    }
}

/// Returns the dotted paths of fields that a subresource ignores. The empty subresource is the main
/// resource.
pub fn reset_fields(gvk: Gvk<'_>, subresource: &str) -> &'static [&'static str] {
    let strategy = of(gvk);
    match (gvk.group, gvk.kind, subresource) {
        // These ignore many fields but do not reset their ownership.
        ("", "Pod", "ephemeralcontainers" | "resize") => &[],
        ("certificates.k8s.io", "CertificateSigningRequest", "approval") => {
            &["spec", "status.certificate"]
        }
        (_, _, "status") => strategy.status_reset_fields,
        _ => strategy.reset_fields,
    }
}
