//! Admission plugins, which may change or reject a write, in upstream's order and by upstream's
//! names.

mod namespace_lifecycle;

mod limit_ranger;

mod taint_nodes_by_condition;

mod pod_security;

mod priority;

mod default_toleration_seconds;

mod default_class;

mod in_use_protection;

mod pvc_resize;

mod runtime_class;

mod resource_quota;

pub(crate) mod webhook;

use self::webhook::Webhooks;
use crate::context::{Chain, Plugin};

/// All admission plugins of kube-apiserver 1.36. Those that are not implemented can be disabled,
/// too.
const UPSTREAM: &[&str] = &[
    "AlwaysAdmit",
    "AlwaysDeny",
    "AlwaysPullImages",
    "CertificateApproval",
    "CertificateSigning",
    "CertificateSubjectRestriction",
    "ClusterTrustBundleAttest",
    "DefaultIngressClass",
    "DefaultStorageClass",
    "DefaultTolerationSeconds",
    "DenyServiceExternalIPs",
    "EventRateLimit",
    "ExtendedResourceToleration",
    "ImagePolicyWebhook",
    "JobValidation",
    "LimitPodHardAntiAffinityTopology",
    "LimitRanger",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionWebhook",
    "NamespaceAutoProvision",
    "NamespaceExists",
    "NamespaceLifecycle",
    "NodeDeclaredFeatureValidator",
    "NodeRestriction",
    "OwnerReferencesPermissionEnforcement",
    "PersistentVolumeClaimResize",
    "PodGroupProtection",
    "PodGroupWorkloadExists",
    "PodNodeSelector",
    "PodResizeValidator",
    "PodSecurity",
    "PodTolerationRestriction",
    "PodTopologyLabels",
    "Priority",
    "ResourceQuota",
    "RuntimeClass",
    "ServiceAccount",
    "StorageObjectInUseProtection",
    "TaintNodesByCondition",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionWebhook",
];

/// Creates a chain of all plugins except `disabled`, which call `webhooks`.
///
/// # Errors
///
/// If a name is not an upstream plugin; the message lists the known names.
pub(crate) fn chain(disabled: &[String], webhooks: &Webhooks) -> Result<Chain, String> {
    if let Some(unknown) = disabled.iter().find(|name| !UPSTREAM.contains(&name.as_str())) {
        return Err(format!(
            "disable-admission-plugins plugin {unknown:?} is unknown; plugins are: {}",
            UPSTREAM.join(", ")
        ));
    }
    let all: Vec<(&'static str, Box<dyn Plugin>)> = vec![
        ("NamespaceLifecycle", Box::new(namespace_lifecycle::NamespaceLifecycle)),
        ("LimitRanger", Box::new(limit_ranger::LimitRanger)),
        ("TaintNodesByCondition", Box::new(taint_nodes_by_condition::TaintNodesByCondition)),
        ("PodSecurity", Box::new(pod_security::PodSecurity)),
        ("Priority", Box::new(priority::Priority)),
        (
            "DefaultTolerationSeconds",
            Box::new(default_toleration_seconds::DefaultTolerationSeconds),
        ),
        ("DefaultStorageClass", Box::new(default_class::STORAGE)),
        ("StorageObjectInUseProtection", Box::new(in_use_protection::StorageObjectInUseProtection)),
        ("PersistentVolumeClaimResize", Box::new(pvc_resize::PersistentVolumeClaimResize)),
        ("RuntimeClass", Box::new(runtime_class::RuntimeClass)),
        ("DefaultIngressClass", Box::new(default_class::INGRESS)),
        ("MutatingAdmissionWebhook", Box::new(webhook::Mutating(webhooks.mutating.clone()))),
        ("ValidatingAdmissionWebhook", Box::new(webhook::Validating(webhooks.validating.clone()))),
        ("ResourceQuota", Box::new(resource_quota::ResourceQuota)),
    ];
    let enabled = all.into_iter().filter(|(name, _)| !disabled.iter().any(|d| d == name));
    Ok(Chain::new(enabled.map(|(_, plugin)| plugin).collect()))
}
