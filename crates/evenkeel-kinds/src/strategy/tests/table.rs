//! The strategy table compared with the behaviour of kube-apiserver 1.36.3 for one object of each
//! kind.

use evenkeel_types::Gvk;

use super::super::{GarbageCollection, Generation, of, reset_fields};

/// Group and kind; whether an update of a missing object created it, whether an update without a
/// resourceVersion was accepted, whether a delete returned the object, whether there is a status
/// subresource, and the generation after create.
type Row = (&'static str, &'static str, bool, bool, bool, bool, Option<u8>);

#[rustfmt::skip]
const OBSERVED: &[Row] = &[
    ("", "ConfigMap", false, true, false, false, None),
    ("", "Endpoints", true, true, false, false, None),
    ("", "Event", true, true, false, false, None),
    ("", "LimitRange", true, true, false, false, None),
    ("", "Namespace", false, true, true, true, None),
    ("", "Node", false, true, false, true, None),
    ("", "PersistentVolume", false, true, true, true, None),
    ("", "PersistentVolumeClaim", false, true, true, true, None),
    ("", "Pod", false, true, true, true, Some(1)),
    ("", "PodTemplate", false, true, true, false, Some(1)),
    ("", "ReplicationController", false, true, true, true, Some(1)),
    ("", "ResourceQuota", false, true, true, true, None),
    ("", "Secret", false, true, false, false, None),
    ("", "Service", true, true, true, true, None),
    ("", "ServiceAccount", false, true, true, false, None),
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicy", false, false, false, false, Some(1)),
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicyBinding", false, false, false, false, Some(1)),
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration", false, false, false, false, Some(1)),
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy", false, false, false, true, Some(1)),
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding", false, false, false, false, Some(1)),
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration", false, false, false, false, Some(1)),
    ("apiregistration.k8s.io", "APIService", false, false, false, true, None),
    ("apps", "ControllerRevision", false, true, false, false, None),
    ("apps", "DaemonSet", false, true, false, true, Some(1)),
    ("apps", "Deployment", false, true, false, true, Some(1)),
    ("apps", "ReplicaSet", false, true, false, true, Some(1)),
    ("apps", "StatefulSet", false, true, false, true, Some(1)),
    ("autoscaling", "HorizontalPodAutoscaler", false, true, false, true, None),
    ("batch", "CronJob", false, true, false, true, Some(1)),
    ("batch", "Job", false, true, true, true, Some(1)),
    ("certificates.k8s.io", "CertificateSigningRequest", false, true, false, true, None),
    ("coordination.k8s.io", "Lease", true, false, false, false, None),
    ("discovery.k8s.io", "EndpointSlice", false, true, false, false, Some(1)),
    ("events.k8s.io", "Event", true, true, false, false, None),
    ("flowcontrol.apiserver.k8s.io", "FlowSchema", false, true, false, true, Some(1)),
    ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration", false, true, false, true, Some(1)),
    ("networking.k8s.io", "IPAddress", false, true, false, false, None),
    ("networking.k8s.io", "Ingress", false, true, false, true, Some(1)),
    ("networking.k8s.io", "IngressClass", false, true, false, false, Some(1)),
    ("networking.k8s.io", "NetworkPolicy", false, true, false, false, Some(1)),
    ("networking.k8s.io", "ServiceCIDR", false, true, false, true, None),
    ("node.k8s.io", "RuntimeClass", true, false, false, false, None),
    ("policy", "PodDisruptionBudget", false, false, false, true, Some(1)),
    ("rbac.authorization.k8s.io", "ClusterRole", true, true, false, false, None),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding", true, true, false, false, None),
    ("rbac.authorization.k8s.io", "Role", true, true, false, false, None),
    ("rbac.authorization.k8s.io", "RoleBinding", true, true, false, false, None),
    ("resource.k8s.io", "DeviceClass", false, true, true, false, Some(1)),
    ("resource.k8s.io", "ResourceClaim", false, true, true, true, None),
    ("resource.k8s.io", "ResourceClaimTemplate", false, true, true, false, None),
    ("resource.k8s.io", "ResourceSlice", false, true, true, false, Some(1)),
    ("scheduling.k8s.io", "PriorityClass", false, true, false, false, Some(1)),
    ("storage.k8s.io", "CSIDriver", false, false, true, false, None),
    ("storage.k8s.io", "CSINode", false, false, true, false, None),
    ("storage.k8s.io", "CSIStorageCapacity", false, false, false, false, None),
    ("storage.k8s.io", "StorageClass", false, true, true, false, None),
    ("storage.k8s.io", "VolumeAttachment", false, false, true, true, None),
    ("storage.k8s.io", "VolumeAttributesClass", false, true, true, false, None),
];

#[test]
fn strategies_match_kube_apiserver() {
    for &(group, kind, create_on_update, unconditional, returned, has_status, generation) in
        OBSERVED
    {
        let strategy = of(Gvk::new(group, "v1", kind));
        let name = format!("{group}/{kind}");
        assert_eq!(strategy.create_on_update, create_on_update, "{name}");
        assert_eq!(strategy.unconditional_update, unconditional, "{name}");
        assert_eq!(strategy.has_status, has_status, "{name}");
        // An object that orphans its dependents still exists after the delete, so it is returned.
        let orphans = strategy.garbage_collection == GarbageCollection::Orphan;
        assert_eq!(strategy.returns_deleted || orphans, returned, "{name}");
        let starts = matches!(
            strategy.generation,
            Generation::AlwaysOne | Generation::Incremented(_) | Generation::IncrementedExactly(_)
        );
        assert_eq!(starts.then_some(1), generation, "{name}");
    }
}

#[test]
fn main_resource_ignores_status_if_there_is_a_status_subresource() {
    for &(group, kind, ..) in OBSERVED {
        let gvk = Gvk::new(group, "v1", kind);
        let strategy = of(gvk);
        assert_eq!(
            strategy.has_status,
            strategy.reset_fields.contains(&"status"),
            "{group}/{kind}"
        );
        assert_eq!(strategy.has_status, strategy.status_reset_fields.contains(&"spec"));
        assert_eq!(reset_fields(gvk, ""), strategy.reset_fields);
        assert_eq!(reset_fields(gvk, "status"), strategy.status_reset_fields);
    }
}

#[test]
fn pod_subresources_have_no_reset_fields() {
    let pod = Gvk::new("", "v1", "Pod");
    assert!(reset_fields(pod, "ephemeralcontainers").is_empty());
    assert!(reset_fields(pod, "resize").is_empty());
    let request = Gvk::new("certificates.k8s.io", "v1", "CertificateSigningRequest");
    assert_eq!(reset_fields(request, "approval"), ["spec", "status.certificate"]);
}
