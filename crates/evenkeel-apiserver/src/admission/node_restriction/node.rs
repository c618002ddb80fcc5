//! What a kubelet may change of its Node.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Request, is_same};
use crate::context::Operation;
use crate::status::Status;

/// Labels of Kubernetes that a kubelet may set on its Node.
const KUBELET_LABELS: [&str; 11] = [
    "beta.kubernetes.io/arch",
    "beta.kubernetes.io/instance-type",
    "beta.kubernetes.io/os",
    "failure-domain.beta.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "kubernetes.io/arch",
    "kubernetes.io/hostname",
    "kubernetes.io/os",
    "node.kubernetes.io/instance-type",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
];

impl Request<'_, '_> {
    pub(super) fn check_node(&self) -> Result<(), Status> {
        let (node, requested) = (self.node, self.attributes.name());
        self.require(
            requested == node,
            &format!("node {node:?} is not allowed to modify node {requested:?}"),
        )?;
        let (new, old) = (self.object(), self.old());
        let changed = changed_labels(new, old);
        let forbidden: Vec<&str> =
            changed.into_iter().filter(|label| is_forbidden(label)).collect();
        let labels = forbidden.join(", ");
        match self.attributes.operation {
            Operation::Create => {
                let why = "create pods with a non-nil configSource";
                self.require_node(new["spec"]["configSource"].is_null(), why)?;
                self.require_node(labels.is_empty(), &format!("set the following labels: {labels}"))
            }
            Operation::Update => {
                let same = |part: &str, field: &str| is_same(&new[part][field], &old[part][field]);
                let source = new["spec"]["configSource"].is_null() || same("spec", "configSource");
                self.require_node(source, "update configSource to a new non-nil configSource")?;
                self.require_node(same("spec", "taints"), "modify taints")?;
                let owners = same("metadata", "ownerReferences");
                self.require_node(owners, "modify ownerReferences")?;
                self.require(
                    labels.is_empty(),
                    &format!("is not allowed to modify labels: {labels}"),
                )
            }
            _ => Ok(()),
        }
    }

    fn require_node(&self, allowed: bool, what: &str) -> Result<(), Status> {
        self.require(allowed, &format!("node {:?} is not allowed to {what}", self.node))
    }
}

/// Returns the labels that are added, removed or set to another value.
fn changed_labels<'a>(new: &'a Value, old: &'a Value) -> BTreeSet<&'a str> {
    let labels = |object: &'a Value| object["metadata"]["labels"].as_object();
    let (new, old) = (labels(new), labels(old));
    let keys = new.into_iter().chain(old).flat_map(|labels| labels.keys());
    let value = |labels: Option<&'a serde_json::Map<String, Value>>, key: &str| {
        labels.and_then(|labels| labels.get(key))
    };
    keys.filter(|key| value(new, key) != value(old, key)).map(String::as_str).collect()
}

/// Returns whether a kubelet may not set a label: those of Kubernetes that it does not know, and
/// those that administrators use to keep workloads from nodes.
fn is_forbidden(label: &str) -> bool {
    let Some((domain, _)) = label.split_once('/') else { return false };
    let is_in = |suffix: &str| {
        let rest = domain.strip_suffix(suffix);
        rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    if is_in("node-restriction.kubernetes.io") {
        return true;
    }
    let of_kubelets = KUBELET_LABELS.contains(&label)
        || is_in("kubelet.kubernetes.io")
        || is_in("node.kubernetes.io");
    (is_in("kubernetes.io") || is_in("k8s.io")) && !of_kubelets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kubelets_set_their_own_labels_and_those_of_others() {
        for label in [
            "zone",
            "example.com/zone",
            "kubernetes.io/hostname",
            "node.kubernetes.io/anything",
            "a.kubelet.kubernetes.io/anything",
            "notkubernetes.io/x",
        ] {
            assert!(!is_forbidden(label), "{label}");
        }
        for label in [
            "kubernetes.io/anything",
            "node-role.kubernetes.io/control-plane",
            "k8s.io/x",
            "a.k8s.io/x",
            "node-restriction.kubernetes.io/x",
            "a.node-restriction.kubernetes.io/x",
        ] {
            assert!(is_forbidden(label), "{label}");
        }
    }
}
