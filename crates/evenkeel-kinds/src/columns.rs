//! Table output of built-in kinds: column definitions and the cells of each row, as printed by
//! `kubectl get`.
//!
//! The table encoder reads [`definitions`] once per response and one [`row`] per object. Both come
//! from the same `Printer`, so headers and cells cannot diverge. Objects must be in stored form:
//! defaulted, with canonical quantities and timestamps. Printing never fails: an absent field
//! prints as its zero value, as in upstream.

/// Builds the cells of one row, each converted to the JSON type of its expression.
macro_rules! cells {
    ($($cell:expr),+ $(,)?) => { vec![$(serde_json::Value::from($cell)),+] };
}

mod access;
mod admission;
mod age;
mod autoscaling;
mod cluster;
mod devices;
mod network;
mod pod;
mod scheduling;
mod storage;
mod text;
mod volumes;
mod workloads;

#[cfg(test)]
mod tests;

use std::cmp::Ordering;

use evenkeel_types::Gvk;
use serde_json::{Value, json};

pub use age::{date, human_duration};

use text::{age, int, name, str};

/// One entry of a table's `columnDefinitions`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Heading. kubectl prints it in upper case.
    pub name: &'static str,
    /// OpenAPI type of the cells: `string`, `integer`, `boolean` or `date`.
    pub value_type: &'static str,
    /// OpenAPI format: `name` for the column that identifies the object, otherwise empty.
    pub format: &'static str,
    /// Human-readable description of the column.
    pub description: &'static str,
    /// 0 if always shown, 1 if shown only in wide output.
    pub priority: i32,
}

/// A condition of a table row. kubectl uses it to hide completed rows on request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowCondition {
    /// The condition type. Only `Completed` is in use.
    pub type_name: &'static str,
    /// Always `True`: upstream omits the condition instead of reporting it as false.
    pub status: &'static str,
    /// The terminal phase of the object.
    pub reason: &'static str,
    /// Human-readable message.
    pub message: &'static str,
}

/// Prints the objects of one kind.
struct Printer {
    columns: &'static [Column],
    cells: fn(&Value, i64) -> Vec<Value>,
}

/// Returns the columns of a kind, in the order of the cells of [`row`].
///
/// Unknown kinds and kinds without columns of their own have name and creation time.
pub fn definitions(gvk: Gvk<'_>) -> &'static [Column] {
    printer(gvk).columns
}

/// Returns the cells of one object at `now`, in seconds since the Unix epoch.
///
/// There are as many cells as columns, except for `IPAddress`: upstream sends its age without a
/// column. Objects must be printed in their storage version ([`crate::convert::storage_gvk`]),
/// whatever version was requested, because a HorizontalPodAutoscaler in v1 does not keep the order
/// of its metrics.
pub fn row(gvk: Gvk<'_>, object: &Value, now: i64) -> Vec<Value> {
    (printer(gvk).cells)(object, now)
}

/// Returns the condition of the object's row. Only pods in a terminal phase have one.
pub fn row_conditions(gvk: Gvk<'_>, object: &Value) -> Option<&'static RowCondition> {
    match (gvk.group, gvk.kind) {
        ("", "Pod") => pod::completion(object),
        _ => None,
    }
}

/// Returns whether the kind has no columns of its own. Empty lists of such kinds have null rows.
pub fn has_default_columns(gvk: Gvk<'_>) -> bool {
    std::ptr::eq(printer(gvk), &raw const DEFAULT)
}

/// Returns the sort order of rows, for kinds whose table is not in list order.
pub fn row_order(gvk: Gvk<'_>) -> Option<fn(&Value, &Value) -> Ordering> {
    match (gvk.group, gvk.kind) {
        ("flowcontrol.apiserver.k8s.io", "FlowSchema") => Some(cluster::by_matching_precedence),
        _ => None,
    }
}

impl Column {
    const fn new(name: &'static str, value_type: &'static str, description: &'static str) -> Self {
        Self { name, value_type, format: "", description, priority: 0 }
    }

    const fn text(name: &'static str, description: &'static str) -> Self {
        Self::new(name, "string", description)
    }

    const fn integer(name: &'static str, description: &'static str) -> Self {
        Self::new(name, "integer", description)
    }

    const fn boolean(name: &'static str, description: &'static str) -> Self {
        Self::new(name, "boolean", description)
    }

    const fn identifying(mut self) -> Self {
        self.format = "name";
        self
    }

    const fn wide(mut self) -> Self {
        self.priority = 1;
        self
    }

    /// Returns the column as an entry of `columnDefinitions`.
    pub fn to_json(&self) -> Value {
        json!({
            "name": self.name,
            "type": self.value_type,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        })
    }
}

impl RowCondition {
    /// Returns the condition as an entry of a row's `conditions`.
    pub fn to_json(&self) -> Value {
        json!({
            "type": self.type_name,
            "status": self.status,
            "reason": self.reason,
            "message": self.message,
        })
    }
}

const NAME: Column = Column::text("Name", "Name of the object.").identifying();
const AGE: Column = Column::text("Age", "Time since the object was created.");
const CONTAINERS: Column =
    Column::text("Containers", "Container names of the pod template.").wide();
const IMAGES: Column = Column::text("Images", "Container images of the pod template.").wide();
const SELECTOR: Column = Column::text("Selector", "Labels of the pods it manages.").wide();

/// For kinds without a printer. The client renders the creation time.
static DEFAULT: Printer = Printer {
    columns: &[NAME, Column::new("Created At", "date", "When the object was created.")],
    cells: |object, _| {
        let created = match str(&object["metadata"]["creationTimestamp"]) {
            "" => "0001-01-01T00:00:00Z",
            created => created,
        };
        cells![name(object), created]
    },
};

/// For kinds with no further columns.
const NAME_AND_AGE: Printer =
    Printer { columns: &[NAME, AGE], cells: |object, now| cells![name(object), age(object, now)] };

/// For the `scale` subresource of any kind. Its name column has no format.
const SCALE: Printer = Printer {
    columns: &[
        Column::text("Name", "Name of the object."),
        Column::integer("Desired", "Replicas asked for."),
        Column::integer("Available", "Replicas observed."),
        AGE,
    ],
    cells: |object, now| {
        cells![
            name(object),
            int(&object["spec"]["replicas"]),
            int(&object["status"]["replicas"]),
            age(object, now),
        ]
    },
};

/// Returns the printer of a kind. Versions share it unless their field names differ.
fn printer(gvk: Gvk<'_>) -> &'static Printer {
    match gvk.group {
        "" => core(gvk.kind),
        "admissionregistration.k8s.io" => match gvk.kind {
            "MutatingAdmissionPolicy" => &admission::MUTATING_POLICY,
            "MutatingAdmissionPolicyBinding" | "ValidatingAdmissionPolicyBinding" => {
                &admission::POLICY_BINDING
            }
            "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration" => {
                &admission::WEBHOOK_CONFIGURATION
            }
            "ValidatingAdmissionPolicy" => &admission::VALIDATING_POLICY,
            _ => &DEFAULT,
        },
        "apiregistration.k8s.io" if gvk.kind == "APIService" => &cluster::API_SERVICE,
        "apps" => match gvk.kind {
            "ControllerRevision" => &workloads::CONTROLLER_REVISION,
            "DaemonSet" => &workloads::DAEMON_SET,
            "Deployment" => &workloads::DEPLOYMENT,
            "ReplicaSet" => &workloads::REPLICA_SET,
            "StatefulSet" => &workloads::STATEFUL_SET,
            _ => &DEFAULT,
        },
        "autoscaling" => match (gvk.version, gvk.kind) {
            (_, "Scale") => &SCALE,
            ("v1", "HorizontalPodAutoscaler") => &autoscaling::HORIZONTAL_POD_AUTOSCALER_V1,
            (_, "HorizontalPodAutoscaler") => &autoscaling::HORIZONTAL_POD_AUTOSCALER,
            _ => &DEFAULT,
        },
        "batch" => match gvk.kind {
            "CronJob" => &workloads::CRON_JOB,
            "Job" => &workloads::JOB,
            _ => &DEFAULT,
        },
        "certificates.k8s.io" => match gvk.kind {
            "CertificateSigningRequest" => &access::CERTIFICATE_SIGNING_REQUEST,
            "ClusterTrustBundle" => &access::CLUSTER_TRUST_BUNDLE,
            "PodCertificateRequest" => &access::POD_CERTIFICATE_REQUEST,
            _ => &DEFAULT,
        },
        "coordination.k8s.io" => match gvk.kind {
            "Lease" => &cluster::LEASE,
            "LeaseCandidate" => &cluster::LEASE_CANDIDATE,
            _ => &DEFAULT,
        },
        "discovery.k8s.io" if gvk.kind == "EndpointSlice" => &network::ENDPOINT_SLICE,
        "events.k8s.io" if gvk.kind == "Event" => &cluster::EVENTS_EVENT,
        "flowcontrol.apiserver.k8s.io" => match gvk.kind {
            "FlowSchema" => &cluster::FLOW_SCHEMA,
            "PriorityLevelConfiguration" => &cluster::PRIORITY_LEVEL_CONFIGURATION,
            _ => &DEFAULT,
        },
        "internal.apiserver.k8s.io" if gvk.kind == "StorageVersion" => &storage::STORAGE_VERSION,
        "networking.k8s.io" => match gvk.kind {
            "IPAddress" => &network::IP_ADDRESS,
            "Ingress" => &network::INGRESS,
            "IngressClass" => &network::INGRESS_CLASS,
            "NetworkPolicy" => &network::NETWORK_POLICY,
            "ServiceCIDR" => &network::SERVICE_CIDR,
            _ => &DEFAULT,
        },
        "node.k8s.io" if gvk.kind == "RuntimeClass" => &scheduling::RUNTIME_CLASS,
        "policy" if gvk.kind == "PodDisruptionBudget" => &scheduling::POD_DISRUPTION_BUDGET,
        "rbac.authorization.k8s.io" => match gvk.kind {
            "ClusterRoleBinding" | "RoleBinding" => &access::ROLE_BINDING,
            _ => &DEFAULT,
        },
        "resource.k8s.io" => match gvk.kind {
            "DeviceClass" | "ResourceClaimTemplate" => &NAME_AND_AGE,
            "DeviceTaintRule" => &devices::DEVICE_TAINT_RULE,
            "ResourceClaim" => &devices::RESOURCE_CLAIM,
            "ResourcePoolStatusRequest" => &devices::RESOURCE_POOL_STATUS_REQUEST,
            "ResourceSlice" => &devices::RESOURCE_SLICE,
            _ => &DEFAULT,
        },
        "scheduling.k8s.io" => match gvk.kind {
            "PodGroup" => &scheduling::POD_GROUP,
            "PriorityClass" => &scheduling::PRIORITY_CLASS,
            "Workload" => &NAME_AND_AGE,
            _ => &DEFAULT,
        },
        "storage.k8s.io" => match gvk.kind {
            "CSIDriver" => &volumes::CSI_DRIVER,
            "CSINode" => &volumes::CSI_NODE,
            "StorageClass" => &volumes::STORAGE_CLASS,
            "VolumeAttachment" => &volumes::VOLUME_ATTACHMENT,
            "VolumeAttributesClass" => &volumes::VOLUME_ATTRIBUTES_CLASS,
            _ => &DEFAULT,
        },
        "storagemigration.k8s.io" if gvk.kind == "StorageVersionMigration" => {
            &storage::STORAGE_VERSION_MIGRATION
        }
        _ => &DEFAULT,
    }
}

fn core(kind: &str) -> &'static Printer {
    match kind {
        "ComponentStatus" => &cluster::COMPONENT_STATUS,
        "ConfigMap" => &cluster::CONFIG_MAP,
        "Endpoints" => &network::ENDPOINTS,
        "Event" => &cluster::EVENT,
        "Namespace" => &cluster::NAMESPACE,
        "Node" => &cluster::NODE,
        "PersistentVolume" => &volumes::PERSISTENT_VOLUME,
        "PersistentVolumeClaim" => &volumes::PERSISTENT_VOLUME_CLAIM,
        "Pod" => &pod::POD,
        "PodTemplate" => &workloads::POD_TEMPLATE,
        "ReplicationController" => &workloads::REPLICATION_CONTROLLER,
        "ResourceQuota" => &cluster::RESOURCE_QUOTA,
        "Secret" => &cluster::SECRET,
        "Service" => &network::SERVICE,
        "ServiceAccount" => &NAME_AND_AGE,
        _ => &DEFAULT,
    }
}
