//! The built-in resources: one row each, in discovery order.
//!
//! These are all resources of a default Kubernetes 1.36 (22 group-versions, 68 resources, 45
//! subresources), and those of versions that are served on request only. Adding a built-in kind
//! starts with a row here.

use self::Scope::{Cluster, Namespaced};

/// The scope of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    Namespaced,
    Cluster,
}

/// One built-in resource in one version.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) plural: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) scope: Scope,
    pub(crate) verbs: &'static [&'static str],
    pub(crate) short_names: &'static [&'static str],
    pub(crate) categories: &'static [&'static str],
    pub(crate) subresources: &'static [SubRow],
}

/// A subresource of a row. An empty kind is that of the resource.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SubRow {
    pub(crate) name: &'static str,
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) verbs: &'static [&'static str],
}

const ALL: &[&str] =
    &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
const ALL_BUT_COLLECTION: &[&str] =
    &["create", "delete", "get", "list", "patch", "update", "watch"];
const CREATE: &[&str] = &["create"];
const READ: &[&str] = &["get", "list"];
const GET: &[&str] = &["get"];
const UPDATE: &[&str] = &["update"];
const EDIT: &[&str] = &["get", "patch", "update"];
const CONNECT: &[&str] = &["create", "get"];
const PROXY: &[&str] = &["create", "delete", "get", "patch", "update"];

const STATUS: SubRow = sub("status", ("", "", ""), EDIT);
const SCALE: SubRow = sub("scale", ("autoscaling", "v1", "Scale"), EDIT);

const fn sub(
    name: &'static str,
    (group, version, kind): (&'static str, &'static str, &'static str),
    verbs: &'static [&'static str],
) -> SubRow {
    SubRow { name, group, version, kind, verbs }
}

#[expect(clippy::too_many_arguments, reason = "the arguments are the columns of the table below")]
const fn row(
    (group, version): (&'static str, &'static str),
    plural: &'static str,
    kind: &'static str,
    scope: Scope,
    verbs: &'static [&'static str],
    short_names: &'static [&'static str],
    categories: &'static [&'static str],
    subresources: &'static [SubRow],
) -> Row {
    Row { group, version, plural, kind, scope, verbs, short_names, categories, subresources }
}

/// Every built-in resource.
#[rustfmt::skip]
pub(crate) const ROWS: &[Row] = &[
    row(("", "v1"), "bindings", "Binding", Namespaced, CREATE, &[], &[], &[]),
    row(("", "v1"), "componentstatuses", "ComponentStatus", Cluster, READ, &["cs"], &[], &[]),
    row(("", "v1"), "configmaps", "ConfigMap", Namespaced, ALL, &["cm"], &[], &[]),
    row(("", "v1"), "endpoints", "Endpoints", Namespaced, ALL, &["ep"], &[], &[]),
    row(("", "v1"), "events", "Event", Namespaced, ALL, &["ev"], &[], &[]),
    row(("", "v1"), "limitranges", "LimitRange", Namespaced, ALL, &["limits"], &[], &[]),
    row(("", "v1"), "namespaces", "Namespace", Cluster, ALL_BUT_COLLECTION, &["ns"], &[], &[sub("finalize", ("", "", ""), UPDATE), STATUS]),
    row(("", "v1"), "nodes", "Node", Cluster, ALL, &["no"], &[], &[sub("proxy", ("", "", "NodeProxyOptions"), PROXY), STATUS]),
    row(("", "v1"), "persistentvolumeclaims", "PersistentVolumeClaim", Namespaced, ALL, &["pvc"], &[], &[STATUS]),
    row(("", "v1"), "persistentvolumes", "PersistentVolume", Cluster, ALL, &["pv"], &[], &[STATUS]),
    row(("", "v1"), "pods", "Pod", Namespaced, ALL, &["po"], &["all"], &[sub("attach", ("", "", "PodAttachOptions"), CONNECT), sub("binding", ("", "", "Binding"), CREATE), sub("ephemeralcontainers", ("", "", ""), EDIT), sub("eviction", ("policy", "v1", "Eviction"), CREATE), sub("exec", ("", "", "PodExecOptions"), CONNECT), sub("log", ("", "", ""), GET), sub("portforward", ("", "", "PodPortForwardOptions"), CONNECT), sub("proxy", ("", "", "PodProxyOptions"), PROXY), sub("resize", ("", "", ""), EDIT), STATUS]),
    row(("", "v1"), "podtemplates", "PodTemplate", Namespaced, ALL, &[], &[], &[]),
    row(("", "v1"), "replicationcontrollers", "ReplicationController", Namespaced, ALL, &["rc"], &["all"], &[SCALE, STATUS]),
    row(("", "v1"), "resourcequotas", "ResourceQuota", Namespaced, ALL, &["quota"], &[], &[STATUS]),
    row(("", "v1"), "secrets", "Secret", Namespaced, ALL, &[], &[], &[]),
    row(("", "v1"), "serviceaccounts", "ServiceAccount", Namespaced, ALL, &["sa"], &[], &[sub("token", ("authentication.k8s.io", "v1", "TokenRequest"), CREATE)]),
    row(("", "v1"), "services", "Service", Namespaced, ALL, &["svc"], &["all"], &[sub("proxy", ("", "", "ServiceProxyOptions"), PROXY), STATUS]),
    row(("apiregistration.k8s.io", "v1"), "apiservices", "APIService", Cluster, ALL, &[], &["api-extensions"], &[STATUS]),
    row(("apps", "v1"), "controllerrevisions", "ControllerRevision", Namespaced, ALL, &[], &[], &[]),
    row(("apps", "v1"), "daemonsets", "DaemonSet", Namespaced, ALL, &["ds"], &["all"], &[STATUS]),
    row(("apps", "v1"), "deployments", "Deployment", Namespaced, ALL, &["deploy"], &["all"], &[SCALE, STATUS]),
    row(("apps", "v1"), "replicasets", "ReplicaSet", Namespaced, ALL, &["rs"], &["all"], &[SCALE, STATUS]),
    row(("apps", "v1"), "statefulsets", "StatefulSet", Namespaced, ALL, &["sts"], &["all"], &[SCALE, STATUS]),
    row(("events.k8s.io", "v1"), "events", "Event", Namespaced, ALL, &["ev"], &[], &[]),
    row(("authentication.k8s.io", "v1"), "selfsubjectreviews", "SelfSubjectReview", Cluster, CREATE, &[], &[], &[]),
    row(("authentication.k8s.io", "v1"), "tokenreviews", "TokenReview", Cluster, CREATE, &[], &[], &[]),
    row(("authorization.k8s.io", "v1"), "localsubjectaccessreviews", "LocalSubjectAccessReview", Namespaced, CREATE, &[], &[], &[]),
    row(("authorization.k8s.io", "v1"), "selfsubjectaccessreviews", "SelfSubjectAccessReview", Cluster, CREATE, &[], &[], &[]),
    row(("authorization.k8s.io", "v1"), "selfsubjectrulesreviews", "SelfSubjectRulesReview", Cluster, CREATE, &[], &[], &[]),
    row(("authorization.k8s.io", "v1"), "subjectaccessreviews", "SubjectAccessReview", Cluster, CREATE, &[], &[], &[]),
    row(("autoscaling", "v2"), "horizontalpodautoscalers", "HorizontalPodAutoscaler", Namespaced, ALL, &["hpa"], &["all"], &[STATUS]),
    row(("autoscaling", "v1"), "horizontalpodautoscalers", "HorizontalPodAutoscaler", Namespaced, ALL, &["hpa"], &["all"], &[STATUS]),
    row(("batch", "v1"), "cronjobs", "CronJob", Namespaced, ALL, &["cj"], &["all"], &[STATUS]),
    row(("batch", "v1"), "jobs", "Job", Namespaced, ALL, &[], &["all"], &[STATUS]),
    row(("certificates.k8s.io", "v1"), "certificatesigningrequests", "CertificateSigningRequest", Cluster, ALL, &["csr"], &[], &[sub("approval", ("", "", ""), EDIT), STATUS]),
    row(("networking.k8s.io", "v1"), "ingressclasses", "IngressClass", Cluster, ALL, &[], &[], &[]),
    row(("networking.k8s.io", "v1"), "ingresses", "Ingress", Namespaced, ALL, &["ing"], &[], &[STATUS]),
    row(("networking.k8s.io", "v1"), "ipaddresses", "IPAddress", Cluster, ALL, &["ip"], &[], &[]),
    row(("networking.k8s.io", "v1"), "networkpolicies", "NetworkPolicy", Namespaced, ALL, &["netpol"], &[], &[]),
    row(("networking.k8s.io", "v1"), "servicecidrs", "ServiceCIDR", Cluster, ALL, &[], &[], &[STATUS]),
    row(("policy", "v1"), "poddisruptionbudgets", "PodDisruptionBudget", Namespaced, ALL, &["pdb"], &[], &[STATUS]),
    row(("rbac.authorization.k8s.io", "v1"), "clusterrolebindings", "ClusterRoleBinding", Cluster, ALL, &[], &[], &[]),
    row(("rbac.authorization.k8s.io", "v1"), "clusterroles", "ClusterRole", Cluster, ALL, &[], &[], &[]),
    row(("rbac.authorization.k8s.io", "v1"), "rolebindings", "RoleBinding", Namespaced, ALL, &[], &[], &[]),
    row(("rbac.authorization.k8s.io", "v1"), "roles", "Role", Namespaced, ALL, &[], &[], &[]),
    row(("storage.k8s.io", "v1"), "csidrivers", "CSIDriver", Cluster, ALL, &[], &[], &[]),
    row(("storage.k8s.io", "v1"), "csinodes", "CSINode", Cluster, ALL, &[], &[], &[]),
    row(("storage.k8s.io", "v1"), "csistoragecapacities", "CSIStorageCapacity", Namespaced, ALL, &[], &[], &[]),
    row(("storage.k8s.io", "v1"), "storageclasses", "StorageClass", Cluster, ALL, &["sc"], &[], &[]),
    row(("storage.k8s.io", "v1"), "volumeattachments", "VolumeAttachment", Cluster, ALL, &[], &[], &[STATUS]),
    row(("storage.k8s.io", "v1"), "volumeattributesclasses", "VolumeAttributesClass", Cluster, ALL, &["vac"], &[], &[]),
    row(("admissionregistration.k8s.io", "v1"), "mutatingadmissionpolicies", "MutatingAdmissionPolicy", Cluster, ALL, &[], &["api-extensions"], &[]),
    row(("admissionregistration.k8s.io", "v1"), "mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding", Cluster, ALL, &[], &["api-extensions"], &[]),
    row(("admissionregistration.k8s.io", "v1"), "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", Cluster, ALL, &[], &["api-extensions"], &[]),
    row(("admissionregistration.k8s.io", "v1"), "validatingadmissionpolicies", "ValidatingAdmissionPolicy", Cluster, ALL, &[], &["api-extensions"], &[STATUS]),
    row(("admissionregistration.k8s.io", "v1"), "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", Cluster, ALL, &[], &["api-extensions"], &[]),
    row(("admissionregistration.k8s.io", "v1"), "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", Cluster, ALL, &[], &["api-extensions"], &[]),
    row(("apiextensions.k8s.io", "v1"), "customresourcedefinitions", "CustomResourceDefinition", Cluster, ALL, &["crd", "crds"], &["api-extensions"], &[STATUS]),
    row(("scheduling.k8s.io", "v1"), "priorityclasses", "PriorityClass", Cluster, ALL, &["pc"], &[], &[]),
    row(("coordination.k8s.io", "v1"), "leases", "Lease", Namespaced, ALL, &[], &[], &[]),
    row(("node.k8s.io", "v1"), "runtimeclasses", "RuntimeClass", Cluster, ALL, &[], &[], &[]),
    row(("discovery.k8s.io", "v1"), "endpointslices", "EndpointSlice", Namespaced, ALL, &[], &[], &[]),
    row(("resource.k8s.io", "v1"), "deviceclasses", "DeviceClass", Cluster, ALL, &[], &[], &[]),
    row(("resource.k8s.io", "v1"), "resourceclaims", "ResourceClaim", Namespaced, ALL, &[], &[], &[STATUS]),
    row(("resource.k8s.io", "v1"), "resourceclaimtemplates", "ResourceClaimTemplate", Namespaced, ALL, &[], &[], &[]),
    row(("resource.k8s.io", "v1"), "resourceslices", "ResourceSlice", Cluster, ALL, &[], &[], &[]),
    row(("flowcontrol.apiserver.k8s.io", "v1"), "flowschemas", "FlowSchema", Cluster, ALL, &[], &[], &[STATUS]),
    row(("flowcontrol.apiserver.k8s.io", "v1"), "prioritylevelconfigurations", "PriorityLevelConfiguration", Cluster, ALL, &[], &[], &[STATUS]),
    row(("storagemigration.k8s.io", "v1beta1"), "storageversionmigrations", "StorageVersionMigration", Cluster, ALL, &[], &[], &[STATUS]),
];
