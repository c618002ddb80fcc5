//! What `kubectl get` shows of a built-in kind: column definitions, and the cells of one row.
//!
//! The table encoder asks for [`definitions`] once per response and for one [`row`] per object;
//! both come from the same `Printer`, so a header and its cells cannot drift apart. Objects are
//! expected as stored: defaulted, with canonical quantities and timestamps. Nothing here fails:
//! an absent field prints as its zero value, as it would in Kubernetes.

/// Cells of one row, each converted to the JSON type its expression has.
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
    /// Heading; kubectl prints it in upper case.
    pub name: &'static str,
    /// OpenAPI type of the cells: `string`, `integer`, `boolean` or `date`.
    pub value_type: &'static str,
    /// OpenAPI format; `name` marks the column that identifies the object, otherwise empty.
    pub format: &'static str,
    /// What the column tells, for humans.
    pub description: &'static str,
    /// Zero is always shown, one only in wide output.
    pub priority: i32,
}

/// Says of a whole row what its cells do not: kubectl hides completed rows on request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowCondition {
    /// The only type in use is `Completed`.
    pub type_name: &'static str,
    /// `True`: Kubernetes leaves the condition out instead of reporting it false.
    pub status: &'static str,
    /// The phase that ended the row's object.
    pub reason: &'static str,
    /// The same for humans.
    pub message: &'static str,
}

/// How one kind is printed.
struct Printer {
    columns: &'static [Column],
    cells: fn(&Value, i64) -> Vec<Value>,
}

/// Columns of the kind, in the order of the cells of [`row`].
///
/// Kinds without columns of their own get their name and creation time, as do unknown ones.
pub fn definitions(gvk: Gvk<'_>) -> &'static [Column] {
    printer(gvk).columns
}

/// The cells of one object at `now`, in seconds since the Unix epoch.
///
/// As many cells as columns, except for `IPAddress`: Kubernetes sends its age without a heading.
/// Print objects as stored, under [`crate::convert::storage_gvk`], whatever version was asked for:
/// an autoscaler of version one no longer knows the order of its metrics.
pub fn row(gvk: Gvk<'_>, object: &Value, now: i64) -> Vec<Value> {
    (printer(gvk).cells)(object, now)
}

/// The condition of the object's row, if it has one: only pods that ran to their end do.
pub fn row_conditions(gvk: Gvk<'_>, object: &Value) -> Option<&'static RowCondition> {
    match (gvk.group, gvk.kind) {
        ("", "Pod") => pod::completion(object),
        _ => None,
    }
}

/// Whether the kind has no columns of its own. Empty lists of these have rows that are null.
pub fn is_plain(gvk: Gvk<'_>) -> bool {
    std::ptr::eq(printer(gvk), &raw const DEFAULT)
}

/// The order of rows in a list, for kinds whose table is not in the order of the list.
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

    /// The column as it stands in a `Table`.
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
    /// The condition as it stands in a `TableRow`.
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

/// For kinds without a printer: unlike an age, the creation time is left to the client to render.
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

/// For kinds of which there is nothing more to say than that they exist.
const NAME_AND_AGE: Printer =
    Printer { columns: &[NAME, AGE], cells: |object, now| cells![name(object), age(object, now)] };

/// The `scale` subresource of anything that has one. Its name column carries no format.
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

/// Versions of a kind print alike, unless they name fields differently.
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
