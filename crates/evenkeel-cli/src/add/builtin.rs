//! The kinds of Kubernetes that controllers and webhooks can be added for.

/// What pods of a sample have in common.
macro_rules! pod {
    () => {
        "containers: [{name: web, image: 'web:1'}]"
    };
}

/// A Deployment, ReplicaSet, StatefulSet or DaemonSet.
const WORKLOAD: &str = concat!(
    "spec:\n  selector: {matchLabels: {app: sample}}\n  template:\n    metadata: {labels: {app: \
     sample}}\n    spec: {",
    pod!(),
    "}\n"
);

const CONTROLLER: &str = concat!(
    "spec:\n  selector: {app: sample}\n  template:\n    metadata: {labels: {app: sample}}\n    \
     spec: {",
    pod!(),
    "}\n"
);

const JOB: &str = concat!("spec:\n  template:\n    spec: {restartPolicy: Never, ", pod!(), "}\n");

const CRON_JOB: &str = concat!(
    "spec:\n  schedule: 0 * * * *\n  jobTemplate:\n    spec:\n      template:\n        spec: \
     {restartPolicy: Never, ",
    pod!(),
    "}\n"
);

const POD: &str = concat!("spec: {", pod!(), "}\n");

const VOLUME: &str = "spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], hostPath: \
                      {path: /data}}\n";

const CLAIM: &str = "spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}\n";

const AUTOSCALER: &str = "spec: {maxReplicas: 3, scaleTargetRef: {apiVersion: apps/v1, kind: \
                          Deployment, name: sample}}\n";

const BINDING: &str =
    "roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}\n";

/// Kinds with the fields of a valid object other than its metadata.
type Kinds = &'static [(&'static str, &'static str)];

/// The modules of `k8s_openapi::api` with their API version and kinds.
const KINDS: &[(&str, &str, Kinds)] = &[
    (
        "apps::v1",
        "apps/v1",
        &[
            ("DaemonSet", WORKLOAD),
            ("Deployment", WORKLOAD),
            ("ReplicaSet", WORKLOAD),
            ("StatefulSet", WORKLOAD),
        ],
    ),
    ("autoscaling::v2", "autoscaling/v2", &[("HorizontalPodAutoscaler", AUTOSCALER)]),
    ("batch::v1", "batch/v1", &[("CronJob", CRON_JOB), ("Job", JOB)]),
    (
        "coordination::v1",
        "coordination.k8s.io/v1",
        &[("Lease", "spec: {holderIdentity: sample}\n")],
    ),
    (
        "core::v1",
        "v1",
        &[
            ("ConfigMap", "data: {text: Hello}\n"),
            ("LimitRange", "spec: {limits: [{type: Container, default: {memory: 1Gi}}]}\n"),
            ("Namespace", ""),
            ("Node", ""),
            ("PersistentVolume", VOLUME),
            ("PersistentVolumeClaim", CLAIM),
            ("Pod", POD),
            ("ReplicationController", CONTROLLER),
            ("ResourceQuota", "spec: {hard: {pods: 10}}\n"),
            ("Secret", "stringData: {text: Hello}\n"),
            ("Service", "spec: {selector: {app: sample}, ports: [{port: 80}]}\n"),
            ("ServiceAccount", ""),
        ],
    ),
    (
        "discovery::v1",
        "discovery.k8s.io/v1",
        &[("EndpointSlice", "addressType: IPv4\nendpoints: [{addresses: [192.0.2.1]}]\n")],
    ),
    (
        "networking::v1",
        "networking.k8s.io/v1",
        &[
            ("Ingress", "spec: {defaultBackend: {service: {name: sample, port: {number: 80}}}}\n"),
            ("IngressClass", "spec: {controller: example.com/sample}\n"),
            ("NetworkPolicy", "spec: {podSelector: {}}\n"),
        ],
    ),
    (
        "policy::v1",
        "policy/v1",
        &[(
            "PodDisruptionBudget",
            "spec: {minAvailable: 1, selector: {matchLabels: {app: sample}}}\n",
        )],
    ),
    (
        "rbac::v1",
        "rbac.authorization.k8s.io/v1",
        &[
            ("ClusterRole", "rules: []\n"),
            ("ClusterRoleBinding", BINDING),
            ("Role", "rules: []\n"),
            ("RoleBinding", BINDING),
        ],
    ),
    ("scheduling::v1", "scheduling.k8s.io/v1", &[("PriorityClass", "value: 1000\n")]),
    ("storage::v1", "storage.k8s.io/v1", &[("StorageClass", "provisioner: example.com/sample\n")]),
];

/// Returns the Rust path of a kind, and the YAML of a valid object.
pub(super) fn find(kind: &str) -> Option<(String, String)> {
    let (module, version, fields) = KINDS.iter().find_map(|(module, version, kinds)| {
        let (_, fields) = kinds.iter().find(|(name, _)| *name == kind)?;
        Some((module, version, fields))
    })?;
    let sample =
        format!("apiVersion: {version}\nkind: {kind}\nmetadata:\n  name: sample\n{fields}");
    Some((format!("k8s_openapi::api::{module}::{kind}"), sample))
}

/// Returns the names of the kinds.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    KINDS.iter().flat_map(|(_, _, kinds)| kinds.iter().map(|(name, _)| *name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apply;
    use crate::target::Connection;

    #[tokio::test]
    async fn samples_are_valid() {
        let cluster = evenkeel_cluster::Cluster::start().await.unwrap();
        let connection = Connection {
            client: cluster.client(),
            namespace: "default".to_owned(),
            context: String::new(),
            url: String::new(),
        };
        let samples = names().map(|kind| serde_saphyr::from_str(&find(kind).unwrap().1).unwrap());
        apply::apply_quietly(&connection, &samples.collect::<Vec<_>>()).await.unwrap();
        cluster.stop().await;
    }
}
