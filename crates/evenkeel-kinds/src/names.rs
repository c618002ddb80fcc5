//! Which names the objects of a kind may have.
//!
//! [`rule`] says which of the syntaxes in [`evenkeel_schema::names`] those of a built-in kind
//! follow; custom resources follow [`NameRule::Subdomain`].

pub(crate) use evenkeel_schema::names::*;
use evenkeel_types::Gvk;

/// The syntax of `metadata.name` for one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameRule {
    /// A DNS-1123 subdomain: most kinds, and all custom resources.
    Subdomain,
    /// A DNS-1123 label: namespaces, services, stateful sets.
    Label,
    /// Anything that survives as one segment of a URL path: RBAC.
    PathSegment,
    /// An IP address in canonical form.
    Ip,
    /// The syntax of a ConfigMap's keys: lease candidates.
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

/// The name syntax of a kind; kinds not built in follow the one of custom resources.
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
