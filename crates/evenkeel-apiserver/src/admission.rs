//! Admission plugins, which may change or reject a write, in upstream's order and by upstream's
//! names.

mod namespace_lifecycle;

mod limit_ranger;

mod service_account;

mod node_restriction;

mod taint_nodes_by_condition;

mod pod_security;

mod priority;

mod default_toleration_seconds;

mod default_class;

mod in_use_protection;

mod pvc_resize;

mod runtime_class;

mod certificates;

mod owner_references;

mod pod_topology_labels;

mod resource_quota;

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

/// Plugins that run only if they are enabled. ServiceAccount is one of them because a server without
/// controllers has no account `default`.
const OFF_BY_DEFAULT: &[&str] =
    &["NodeRestriction", "OwnerReferencesPermissionEnforcement", "ServiceAccount"];

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
        match self.enabled.iter().find(|name| self.disabled.contains(*name)) {
            None => Ok(()),
            Some(both) => Err(format!(
                "[{both}] in enable-admission-plugins and disable-admission-plugins overlapped"
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
/// If a name is not an upstream plugin; the message lists the known names.
pub(crate) fn chain(
    selection: &Selection,
    policies: &Policies,
    webhooks: &Webhooks,
) -> Result<Chain, String> {
    selection.check()?;
    let all: Vec<(&'static str, Box<dyn Plugin>)> = vec![
        ("NamespaceLifecycle", Box::new(namespace_lifecycle::NamespaceLifecycle)),
        ("LimitRanger", Box::new(limit_ranger::LimitRanger)),
        ("ServiceAccount", Box::new(service_account::ServiceAccount)),
        ("NodeRestriction", Box::new(node_restriction::NodeRestriction)),
        ("TaintNodesByCondition", Box::new(taint_nodes_by_condition::TaintNodesByCondition)),
        ("PodSecurity", Box::new(pod_security::PodSecurity)),
        ("Priority", Box::new(priority::Priority)),
        (
            "DefaultTolerationSeconds",
            Box::new(default_toleration_seconds::DefaultTolerationSeconds),
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
        ("PodTopologyLabels", Box::new(pod_topology_labels::PodTopologyLabels)),
        ("MutatingAdmissionPolicy", Box::new(policy::Mutating(policies.mutating.clone()))),
        ("MutatingAdmissionWebhook", Box::new(webhook::Mutating(webhooks.mutating.clone()))),
        ("ValidatingAdmissionPolicy", Box::new(policy::Validating(policies.validating.clone()))),
        ("ValidatingAdmissionWebhook", Box::new(webhook::Validating(webhooks.validating.clone()))),
        ("ResourceQuota", Box::new(resource_quota::ResourceQuota)),
    ];
    let enabled = all.into_iter().filter(|(name, _)| selection.runs(name));
    Ok(Chain::new(enabled.map(|(_, plugin)| plugin).collect()))
}
