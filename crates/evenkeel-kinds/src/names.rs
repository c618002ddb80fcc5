//! Name syntax of each kind.
//!
//! [`rule`] returns which syntax of [`evenkeel_schema::names`] applies to a built-in kind. Custom
//! resources use [`NameRule::Subdomain`].

pub(crate) use evenkeel_schema::names::*;
use evenkeel_types::Gvk;

/// The syntax of `metadata.name` for one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameRule {
    /// A DNS-1123 subdomain: most kinds and all custom resources.
    Subdomain,
    /// A DNS-1123 label: Namespaces, Services, StatefulSets.
    Label,
    /// Any single segment of a URL path: RBAC kinds.
    PathSegment,
    /// An IP address in canonical form.
    Ip,
    /// The syntax of ConfigMap keys: LeaseCandidates.
    ConfigKey,
}

impl NameRule {
    /// Checks a `name`, or with `prefix` a `generateName`, to which a suffix will be added.
    pub(crate) fn check(self, name: &str, prefix: bool) -> Reasons {
        match self {
            Self::Subdomain => subdomain_name(name, prefix),
            Self::Label => label_name(name, prefix),
            Self::PathSegment => path_segment(name, prefix),
            Self::Ip => crate::validate::ip::canonical_reasons(name),
            Self::ConfigKey => config_key(name),
        }
    }
}

/// Returns the name syntax of a kind; that of custom resources if it is not built in.
pub(crate) fn rule(gvk: Gvk<'_>) -> NameRule {
    match (gvk.group, gvk.kind) {
        ("", "Namespace" | "Service") | ("apps", "StatefulSet") => NameRule::Label,
        ("rbac.authorization.k8s.io", _) => NameRule::PathSegment,
        ("networking.k8s.io", "IPAddress") => NameRule::Ip,
        ("coordination.k8s.io", "LeaseCandidate") => NameRule::ConfigKey,
        (
            "certificates.k8s.io",
            "CertificateSigningRequest" | "ClusterTrustBundle" | "PodCertificateRequest",
        )
        | ("apiregistration.k8s.io", "APIService")
        | ("" | "events.k8s.io", "Event")
        | ("policy", "PodDisruptionBudget") => NameRule::PathSegment,
        _ => NameRule::Subdomain,
    }
}
