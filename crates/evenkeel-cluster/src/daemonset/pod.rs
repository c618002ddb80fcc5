//! Pods of a DaemonSet, and the nodes eligible for them.

use evenkeel::Result;
use k8s_openapi::api::apps::v1::{DaemonSet, DaemonSetSpec};
use k8s_openapi::api::core::v1::{
    Affinity, Node, NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod,
    PodSpec, PodTemplateSpec, Taint, Toleration,
};

use crate::scheduler::{affinity_selects, tolerates};
use crate::{history, pods};

/// Whether a node runs a pod. Mirrors `NodeShouldRunDaemonPod`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Eligibility {
    /// The node should run a pod.
    Run,
    /// No pod is created, but an existing one continues to run.
    KeepRunning,
    /// The node should not run a pod.
    Exclude,
}

/// Returns the tolerations added to every DaemonSet pod.
fn tolerations(spec: &PodSpec) -> Vec<Toleration> {
    let host = spec.host_network == Some(true);
    let mut all = vec![
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
    ];
    all.extend(host.then_some(("network-unavailable", "NoSchedule")));
    let toleration = |(name, effect): (&str, &str)| Toleration {
        key: Some(format!("node.kubernetes.io/{name}")),
        operator: Some("Exists".to_owned()),
        effect: Some(effect.to_owned()),
        ..Toleration::default()
    };
    all.into_iter().map(toleration).collect()
}

/// Returns whether `node` should run a pod of `template`.
pub(super) fn eligibility(template: &PodTemplateSpec, node: &Node) -> Eligibility {
    let spec = template.spec.clone().unwrap_or_default();
    let name = node.metadata.name.as_deref().unwrap_or_default();
    let labels = node.metadata.labels.clone().unwrap_or_default();
    if spec.node_name.as_deref().is_some_and(|wanted| !wanted.is_empty() && wanted != name)
        || !affinity_selects(&spec, name, &labels)
    {
        return Eligibility::Exclude;
    }
    let mut tolerated = spec.tolerations.clone().unwrap_or_default();
    tolerated.extend(tolerations(&spec));
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
    let untolerated =
        |taint: &&Taint| !tolerated.iter().any(|toleration| tolerates(toleration, taint));
    let mut untolerated = taints.iter().filter(untolerated).map(|taint| taint.effect.as_str());
    if untolerated.clone().any(|effect| effect == "NoExecute") {
        Eligibility::Exclude
    } else if untolerated.any(|effect| effect == "NoSchedule") {
        Eligibility::KeepRunning
    } else {
        Eligibility::Run
    }
}

/// Builds a pod for `node` only.
pub(super) fn build(set: &DaemonSet, spec: &DaemonSetSpec, node: &str, hash: &str) -> Result<Pod> {
    let mut pod = pods::from_template(&spec.template, set)?;
    let name = set.metadata.name.as_deref().unwrap_or_default();
    pod.metadata.generate_name = Some(pods::name_prefix(name));
    let labels = pod.metadata.labels.get_or_insert_default();
    labels.insert(history::HASH.to_owned(), hash.to_owned());
    if let Some(generation) = set.metadata.generation {
        labels.insert("pod-template-generation".to_owned(), generation.to_string());
    }
    let spec = pod.spec.get_or_insert_default();
    let added = tolerations(spec);
    let tolerated = spec.tolerations.get_or_insert_default();
    tolerated.extend(
        added.into_iter().filter(|toleration| !tolerated.contains(toleration)).collect::<Vec<_>>(),
    );
    let term = NodeSelectorTerm {
        match_fields: Some(vec![NodeSelectorRequirement {
            key: "metadata.name".to_owned(),
            operator: "In".to_owned(),
            values: Some(vec![node.to_owned()]),
        }]),
        ..NodeSelectorTerm::default()
    };
    // Replaces the affinity of the template: the node has been checked against it already.
    let affinity: &mut Affinity = spec.affinity.get_or_insert_default();
    let nodes: &mut NodeAffinity = affinity.node_affinity.get_or_insert_default();
    nodes.required_during_scheduling_ignored_during_execution =
        Some(NodeSelector { node_selector_terms: vec![term] });
    Ok(pod)
}

/// Returns the node a pod is on, or was created for.
pub(super) fn target_node(pod: &Pod) -> Option<&str> {
    let spec = pod.spec.as_ref()?;
    if let Some(node) = spec.node_name.as_deref().filter(|node| !node.is_empty()) {
        return Some(node);
    }
    let affinity = spec.affinity.as_ref()?.node_affinity.as_ref()?;
    let required = affinity.required_during_scheduling_ignored_during_execution.as_ref()?;
    let fields = required.node_selector_terms.iter().flat_map(|t| t.match_fields.iter().flatten());
    let mut names = fields.filter(|field| field.key == "metadata.name" && field.operator == "In");
    names.next()?.values.as_ref()?.first().map(String::as_str)
}
