//! The names that simulated nodes send requests by, besides those of controllers.

/// The service account that several controllers of nodes have.
pub(crate) const NODE_CONTROLLER: &str = "node-controller";

/// Precedes the name of the node in the user names of kubelets.
pub(crate) const NODE_PREFIX: &str = "system:node:";

/// Returns the user name of the kubelet of a node.
pub(crate) fn node(name: &str) -> String {
    format!("{NODE_PREFIX}{name}")
}
