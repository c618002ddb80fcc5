//! Nodes: users `system:node:NAME` in the group `system:nodes`, which no bootstrap binding names.
//!
//! Upstream's Node authorizer grants them the rules of the ClusterRole `system:node`, and restricts
//! objects that pods use to the nodes of these pods. Here such objects are not granted at all: the
//! kubelets of this server read none.

use crate::authz::Attributes;
use crate::identity::Identity;

/// The role of nodes.
pub(super) const ROLE: &str = "system:node";

/// Resources of which upstream grants only some objects.
const RESTRICTED: &[(&str, &str)] = &[
    ("", "configmaps"),
    ("", "persistentvolumeclaims"),
    ("", "persistentvolumes"),
    ("", "secrets"),
    ("", "serviceaccounts"),
    ("resource.k8s.io", "resourceclaims"),
    ("resource.k8s.io", "resourceslices"),
    ("storage.k8s.io", "csinodes"),
    ("storage.k8s.io", "volumeattachments"),
];

/// Returns the node whose kubelet the user is.
fn node(user: &Identity) -> Option<&str> {
    let name = user.user.strip_prefix("system:node:")?;
    (!name.is_empty() && user.is_in("system:nodes")).then_some(name)
}

/// Returns whether the rules of [`ROLE`] apply to a request.
pub(super) fn applies(attributes: &Attributes<'_>) -> bool {
    let Some(node) = node(attributes.user) else { return false };
    let Some(resource) = &attributes.resource else { return false };
    let named = (resource.group, resource.resource);
    match named {
        // The name of a new lease is in its body.
        ("coordination.k8s.io", "leases") => {
            resource.namespace == "kube-node-lease"
                && (resource.name == node || attributes.verb == "create")
        }
        _ => !RESTRICTED.contains(&named),
    }
}
