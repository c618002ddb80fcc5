//! Admission plugins, which may change or reject a write, in upstream's order and by upstream's
//! names.

mod namespace_lifecycle;

mod taint_nodes_by_condition;

mod priority;

mod default_toleration_seconds;

mod default_class;

mod in_use_protection;

mod pvc_resize;

mod runtime_class;

use serde_json::Value;

use crate::context::RequestContext;
use crate::status::Status;

/// The operation on the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Create,
    Update,
    Delete,
}

/// The attributes of a write that plugins read.
pub(crate) struct Attributes<'a> {
    pub(crate) cx: &'a RequestContext,
    pub(crate) operation: Operation,
    /// The object to be stored; `None` on delete.
    pub(crate) object: Option<&'a mut Value>,
    /// The stored object; `None` on create.
    pub(crate) old: Option<&'a Value>,
}

/// An admission plugin. Both methods do nothing by default.
pub(crate) trait Plugin: Send + Sync {
    fn mutate(&self, attributes: &mut Attributes<'_>) -> Result<(), Status> {
        let _ = attributes;
        Ok(())
    }

    fn validate(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        let _ = attributes;
        Ok(())
    }
}

/// A plugin by its upstream name. Enabled by default.
struct Entry {
    name: &'static str,
    plugin: Box<dyn Plugin>,
}

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

/// The enabled plugins, in the order they run.
pub(crate) struct Chain(Vec<Entry>);

impl Chain {
    /// Creates a chain of all plugins except `disabled`.
    ///
    /// # Errors
    ///
    /// If a name is not an upstream plugin; the message lists the known names.
    pub(crate) fn new(disabled: &[String]) -> Result<Self, String> {
        if let Some(unknown) = disabled.iter().find(|name| !UPSTREAM.contains(&name.as_str())) {
            return Err(format!(
                "disable-admission-plugins plugin {unknown:?} is unknown; plugins are: {}",
                UPSTREAM.join(", ")
            ));
        }
        let all: [(&'static str, Box<dyn Plugin>); 9] = [
            ("NamespaceLifecycle", Box::new(namespace_lifecycle::NamespaceLifecycle)),
            ("TaintNodesByCondition", Box::new(taint_nodes_by_condition::TaintNodesByCondition)),
            ("Priority", Box::new(priority::Priority)),
            (
                "DefaultTolerationSeconds",
                Box::new(default_toleration_seconds::DefaultTolerationSeconds),
            ),
            ("DefaultStorageClass", Box::new(default_class::STORAGE)),
            (
                "StorageObjectInUseProtection",
                Box::new(in_use_protection::StorageObjectInUseProtection),
            ),
            ("PersistentVolumeClaimResize", Box::new(pvc_resize::PersistentVolumeClaimResize)),
            ("RuntimeClass", Box::new(runtime_class::RuntimeClass)),
            ("DefaultIngressClass", Box::new(default_class::INGRESS)),
        ];
        let all = all.into_iter().map(|(name, plugin)| Entry { name, plugin });
        Ok(Self(all.filter(|entry| !disabled.iter().any(|d| d == entry.name)).collect()))
    }

    pub(crate) fn mutate(&self, attributes: &mut Attributes<'_>) -> Result<(), Status> {
        self.0.iter().try_for_each(|entry| entry.plugin.mutate(attributes))
    }

    pub(crate) fn validate(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        self.0.iter().try_for_each(|entry| entry.plugin.validate(attributes))
    }
}
