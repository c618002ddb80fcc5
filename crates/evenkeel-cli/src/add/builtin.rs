//! The kinds of Kubernetes that controllers and webhooks can be added for.

/// The modules of `k8s_openapi::api` and their kinds.
const KINDS: &[(&str, &[&str])] = &[
    ("apps::v1", &["DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"]),
    ("autoscaling::v2", &["HorizontalPodAutoscaler"]),
    ("batch::v1", &["CronJob", "Job"]),
    ("coordination::v1", &["Lease"]),
    (
        "core::v1",
        &[
            "ConfigMap",
            "LimitRange",
            "Namespace",
            "Node",
            "PersistentVolume",
            "PersistentVolumeClaim",
            "Pod",
            "ReplicationController",
            "ResourceQuota",
            "Secret",
            "Service",
            "ServiceAccount",
        ],
    ),
    ("discovery::v1", &["EndpointSlice"]),
    ("networking::v1", &["Ingress", "IngressClass", "NetworkPolicy"]),
    ("policy::v1", &["PodDisruptionBudget"]),
    ("rbac::v1", &["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"]),
    ("scheduling::v1", &["PriorityClass"]),
    ("storage::v1", &["StorageClass"]),
];

/// Returns the Rust path of a kind.
pub(super) fn path(kind: &str) -> Option<String> {
    let (module, _) = KINDS.iter().find(|(_, kinds)| kinds.contains(&kind))?;
    Some(format!("k8s_openapi::api::{module}::{kind}"))
}
