//! Admission plugins, which may change or reject a write, in upstream's order and by upstream's
//! names.

mod namespace_lifecycle;

mod namespace_exists;

mod anti_affinity;

mod limit_ranger;

mod service_account;

mod node_restriction;

mod taint_nodes_by_condition;

mod always_pull_images;

mod pod_security;

mod priority;

mod default_toleration_seconds;

mod extended_resource_toleration;

mod default_class;

mod in_use_protection;

mod pvc_resize;

mod runtime_class;

mod certificates;

mod owner_references;

mod deny_service_external_ips;

mod pod_topology_labels;

mod resource_quota;

mod always_deny;

mod convert;

mod expressions;

mod request;

mod rules;

mod selection;

pub(crate) mod policy;

pub(crate) mod webhook;

use self::policy::Policies;
use self::webhook::Webhooks;
use crate::context::{Chain, Plugin};

/// All admission plugins of kube-apiserver 1.36. Those without an effect here have none upstream,
/// either, because their API or feature gate is disabled by default; [`NOT_IMPLEMENTED`] excepted.
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

/// Plugins that run only if they are enabled. ServiceAccount is one of them because a server without
/// controllers has no account `default`.
const OFF_BY_DEFAULT: &[&str] = &[
    "AlwaysDeny",
    "AlwaysPullImages",
    "DenyServiceExternalIPs",
    "ExtendedResourceToleration",
    "LimitPodHardAntiAffinityTopology",
    "NamespaceAutoProvision",
    "NamespaceExists",
    "NodeRestriction",
    "OwnerReferencesPermissionEnforcement",
    "ServiceAccount",
];

/// Plugins that cannot be enabled: a server that accepts them would allow what they reject.
const NOT_IMPLEMENTED: &[&str] = &[
    "EventRateLimit",
    "ImagePolicyWebhook",
    "PodNodeSelector",
    "PodResizeValidator",
    "PodTolerationRestriction",
];

/// Which plugins run, by upstream's names.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selection {
    /// In addition to those that run by default.
    pub(crate) enabled: Vec<String>,
    pub(crate) disabled: Vec<String>,
}

impl Selection {
    fn check(&self) -> Result<(), String> {
        let lists = [("enable", &self.enabled), ("disable", &self.disabled)];
        for (flag, names) in lists {
            if let Some(unknown) = names.iter().find(|name| !UPSTREAM.contains(&name.as_str())) {
                return Err(format!(
                    "{flag}-admission-plugins plugin {unknown:?} is unknown; plugins are: {}",
                    UPSTREAM.join(", ")
                ));
            }
        }
        if let Some(both) = self.enabled.iter().find(|name| self.disabled.contains(*name)) {
            return Err(format!(
                "[{both}] in enable-admission-plugins and disable-admission-plugins overlapped"
            ));
        }
        match self.enabled.iter().find(|name| NOT_IMPLEMENTED.contains(&name.as_str())) {
            None => Ok(()),
            Some(name) => Err(format!(
                "enable-admission-plugins plugin {name:?} is not implemented by Evenkeel"
            )),
        }
    }

    fn runs(&self, name: &str) -> bool {
        let is_in = |names: &[String]| names.iter().any(|other| other == name);
        is_in(&self.enabled) || !(OFF_BY_DEFAULT.contains(&name) || is_in(&self.disabled))
    }
}

/// Creates a chain of the selected plugins, which evaluate `policies` and call `webhooks`.
///
/// # Errors
///
/// If a name is not an upstream plugin, with the known names in the message, or if an enabled plugin
/// is not implemented.
pub(crate) fn chain(
    selection: &Selection,
    policies: &Policies,
    webhooks: &Webhooks,
) -> Result<Chain, String> {
    selection.check()?;
    let all: Vec<(&'static str, Box<dyn Plugin>)> = vec![
        ("NamespaceAutoProvision", Box::new(namespace_exists::NamespaceAutoProvision)),
        ("NamespaceLifecycle", Box::new(namespace_lifecycle::NamespaceLifecycle)),
        ("NamespaceExists", Box::new(namespace_exists::NamespaceExists)),
        (
            "LimitPodHardAntiAffinityTopology",
            Box::new(anti_affinity::LimitPodHardAntiAffinityTopology),
        ),
        ("LimitRanger", Box::new(limit_ranger::LimitRanger)),
        ("ServiceAccount", Box::new(service_account::ServiceAccount)),
        ("NodeRestriction", Box::new(node_restriction::NodeRestriction)),
        ("TaintNodesByCondition", Box::new(taint_nodes_by_condition::TaintNodesByCondition)),
        ("AlwaysPullImages", Box::new(always_pull_images::AlwaysPullImages)),
        ("PodSecurity", Box::new(pod_security::PodSecurity)),
        ("Priority", Box::new(priority::Priority)),
        (
            "DefaultTolerationSeconds",
            Box::new(default_toleration_seconds::DefaultTolerationSeconds),
        ),
        (
            "ExtendedResourceToleration",
            Box::new(extended_resource_toleration::ExtendedResourceToleration),
        ),
        ("DefaultStorageClass", Box::new(default_class::STORAGE)),
        ("StorageObjectInUseProtection", Box::new(in_use_protection::StorageObjectInUseProtection)),
        (
            "OwnerReferencesPermissionEnforcement",
            Box::new(owner_references::OwnerReferencesPermissionEnforcement),
        ),
        ("PersistentVolumeClaimResize", Box::new(pvc_resize::PersistentVolumeClaimResize)),
        ("RuntimeClass", Box::new(runtime_class::RuntimeClass)),
        ("CertificateApproval", Box::new(certificates::CertificateApproval)),
        ("CertificateSigning", Box::new(certificates::CertificateSigning)),
        ("CertificateSubjectRestriction", Box::new(certificates::CertificateSubjectRestriction)),
        ("DefaultIngressClass", Box::new(default_class::INGRESS)),
        ("DenyServiceExternalIPs", Box::new(deny_service_external_ips::DenyServiceExternalIps)),
        ("PodTopologyLabels", Box::new(pod_topology_labels::PodTopologyLabels)),
        ("MutatingAdmissionPolicy", Box::new(policy::Mutating(policies.mutating.clone()))),
        ("MutatingAdmissionWebhook", Box::new(webhook::Mutating(webhooks.mutating.clone()))),
        ("ValidatingAdmissionPolicy", Box::new(policy::Validating(policies.validating.clone()))),
        ("ValidatingAdmissionWebhook", Box::new(webhook::Validating(webhooks.validating.clone()))),
        ("ResourceQuota", Box::new(resource_quota::ResourceQuota)),
        ("AlwaysDeny", Box::new(always_deny::AlwaysDeny)),
    ];
    let enabled = all.into_iter().filter(|(name, _)| selection.runs(name));
    Ok(Chain::new(enabled.map(|(_, plugin)| plugin).collect()))
}
