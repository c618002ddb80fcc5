//! The scheduler cache: nodes, and the resources that the pods on them request.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use evenkeel::Key;
use k8s_openapi::api::core::v1::{Node, Pod, PodSpec, Taint};

use super::fit::{PodRequirements, Resources};
use super::topology::{self, Placement, PodLister, Term, TopologyDomains};
use super::{node_affinity, tolerates};
use crate::pods;

/// How many feasible nodes are scored at most, so that a large cluster is not searched through for
/// every pod. Mirrors `numFeasibleNodesToFind`.
const MAX_FEASIBLE_NODES: usize = 64;

/// All nodes and the pods on them.
#[derive(Default)]
pub(super) struct SchedulerCache {
    nodes: Vec<NodeInfo>,
    by_name: HashMap<Arc<str>, usize>,
    pods: HashMap<Key, PodState>,
    /// Pods on nodes with required anti-affinity terms.
    pods_with_anti_affinity: BTreeSet<Key>,
    /// How many pods on nodes have each priority.
    priorities: BTreeMap<i32, usize>,
    /// Unschedulable pods with their priority.
    unschedulable: BTreeMap<Key, i32>,
    /// Those of them that may become schedulable when other pods are bound.
    waiting_for_pods: BTreeMap<Key, i32>,
    /// Where the last search ended. The next one starts there, so that all nodes are considered.
    cursor: usize,
}

/// A node. `present` is false for a node that is deleted or not seen yet; no pod is placed on it.
struct NodeInfo {
    name: Arc<str>,
    present: bool,
    labels: BTreeMap<String, String>,
    taints: Vec<Taint>,
    unschedulable: bool,
    capacity: Resources,
    allowed_pods: i64,
    requested: Requested,
}

/// What the pods of a node request.
#[derive(Clone, Default)]
struct Requested {
    resources: Resources,
    pods: i64,
    ports: Vec<(String, i32)>,
}

impl Requested {
    fn add_pod(&mut self, requirements: &PodRequirements) {
        self.resources.add(&requirements.resources);
        self.pods += 1;
        self.ports.extend(requirements.ports.iter().cloned());
    }

    fn remove_pod(&mut self, requirements: &PodRequirements) {
        self.resources.sub(&requirements.resources);
        self.pods -= 1;
        for port in &requirements.ports {
            if let Some(at) = self.ports.iter().position(|used| used == port) {
                self.ports.swap_remove(at);
            }
        }
    }
}

struct PodState {
    uid: String,
    node: usize,
    requirements: PodRequirements,
}

/// The state of a pod in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PodPlacement {
    /// It has a node, or is assumed on one.
    Assigned,
    /// It has terminated and released its resources.
    Released,
    /// It has no node.
    Unassigned,
}

impl SchedulerCache {
    fn node_index(&mut self, name: &str) -> usize {
        if let Some(&at) = self.by_name.get(name) {
            return at;
        }
        let name: Arc<str> = name.into();
        self.nodes.push(NodeInfo {
            name: name.clone(),
            present: false,
            labels: BTreeMap::new(),
            taints: Vec::new(),
            unschedulable: false,
            capacity: Resources::default(),
            allowed_pods: 0,
            requested: Requested::default(),
        });
        self.by_name.insert(name, self.nodes.len() - 1);
        self.nodes.len() - 1
    }

    /// Adds or updates a node. Returns whether an unschedulable pod might fit now.
    pub(super) fn put_node(&mut self, node: &Node) -> bool {
        let at = self.node_index(node.metadata.name.as_deref().unwrap_or_default());
        let node_info = &mut self.nodes[at];
        let spec = node.spec.as_ref();
        let status = node.status.as_ref();
        let allocatable = status.and_then(|s| s.allocatable.as_ref().or(s.capacity.as_ref()));
        let capacity = Resources::of(allocatable);
        let labels = node.metadata.labels.clone().unwrap_or_default();
        let taints: Vec<Taint> = spec
            .and_then(|spec| spec.taints.as_ref())
            .into_iter()
            .flatten()
            .filter(|taint| taint.effect != "PreferNoSchedule")
            .cloned()
            .collect();
        let unschedulable = spec.and_then(|spec| spec.unschedulable) == Some(true);
        let changed = !node_info.present
            || node_info.labels != labels
            || node_info.taints != taints
            || node_info.unschedulable != unschedulable
            || node_info.capacity != capacity;
        node_info.present = true;
        node_info.allowed_pods = capacity.get("pods");
        (node_info.labels, node_info.taints) = (labels, taints);
        (node_info.unschedulable, node_info.capacity) = (unschedulable, capacity);
        changed
    }

    /// Marks a node as deleted. The requests of its pods count until they are deleted too.
    pub(super) fn remove_node(&mut self, name: &str) {
        if let Some(&at) = self.by_name.get(name) {
            self.nodes[at].present = false;
        }
    }

    /// Adds or updates a pod.
    pub(super) fn put_pod(&mut self, key: &Key, pod: &Pod) -> PodPlacement {
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        if self.pods.get(key).is_some_and(|state| state.uid != uid) {
            self.remove_pod(key);
        }
        if pods::is_terminal(pod) {
            return if self.remove_pod(key) {
                PodPlacement::Released
            } else {
                PodPlacement::Assigned
            };
        }
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
        let held = self.pods.get(key).map(|state| self.nodes[state.node].name.clone());
        match (node, held) {
            (None, None) => PodPlacement::Unassigned,
            (None, Some(_)) => PodPlacement::Assigned,
            (Some(node), Some(held)) if *node == *held => PodPlacement::Assigned,
            (Some(node), _) => {
                self.remove_pod(key);
                let index = self.node_index(node);
                self.assign(key, uid, index, PodRequirements::of(pod));
                PodPlacement::Assigned
            }
        }
    }

    fn assign(&mut self, key: &Key, uid: &str, at: usize, requirements: PodRequirements) {
        self.nodes[at].requested.add_pod(&requirements);
        if !requirements.anti_affinity.is_empty() {
            self.pods_with_anti_affinity.insert(key.clone());
        }
        *self.priorities.entry(requirements.priority).or_default() += 1;
        self.unschedulable.remove(key);
        self.pods.insert(key.clone(), PodState { uid: uid.to_owned(), node: at, requirements });
    }

    /// Removes a pod that is deleted or terminated. Returns whether it held resources.
    pub(super) fn remove_pod(&mut self, key: &Key) -> bool {
        self.unschedulable.remove(key);
        let Some(state) = self.pods.remove(key) else { return false };
        if !state.requirements.anti_affinity.is_empty() {
            self.pods_with_anti_affinity.remove(key);
        }
        if let Some(count) = self.priorities.get_mut(&state.requirements.priority) {
            *count -= 1;
            if *count == 0 {
                self.priorities.remove(&state.requirements.priority);
            }
        }
        self.nodes[state.node].requested.remove_pod(&state.requirements);
        true
    }

    /// Takes the unschedulable pods; they are added again if they still do not fit.
    pub(super) fn take_unschedulable(&mut self) -> BTreeMap<Key, i32> {
        self.waiting_for_pods.clear();
        std::mem::take(&mut self.unschedulable)
    }

    /// Takes the pods that wait for other pods to be bound.
    pub(super) fn take_waiting_for_pods(&mut self) -> BTreeMap<Key, i32> {
        std::mem::take(&mut self.waiting_for_pods)
    }

    /// Selects a node and assumes the pod on it, or returns why no node fits.
    pub(super) fn schedule(
        &mut self,
        key: &Key,
        pod: &Pod,
        requirements: &PodRequirements,
        lister: &PodLister<'_>,
    ) -> Result<String, String> {
        let domains = TopologyDomains::of(pod, key, self, lister);
        let Some(spec) = &pod.spec else { return Err("pod has no spec".to_owned()) };
        let count = self.nodes.len();
        let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
        let (mut best, mut found) = (None, 0);
        for step in 0..count {
            let at = (self.cursor + step) % count;
            let node_info = &self.nodes[at];
            if !node_info.present {
                continue;
            }
            let reason = node_info
                .reject_reason(spec)
                .or_else(|| node_info.insufficient_resource(requirements, &node_info.requested));
            let reason =
                reason.or_else(|| domains.reject_reason(&node_info.labels).map(str::to_owned));
            if let Some(reason) = reason {
                *reasons.entry(reason).or_default() += 1;
                continue;
            }
            let score = (
                node_info.requested.resources.utilization(&node_info.capacity),
                node_info.requested.pods,
            );
            if best.is_none_or(|(least, _)| score < least) {
                best = Some((score, at));
            }
            found += 1;
            if found == MAX_FEASIBLE_NODES {
                break;
            }
        }
        let Some((_, at)) = best else {
            self.unschedulable.insert(key.clone(), requirements.priority);
            if topology::depends_on_pods(spec) {
                self.waiting_for_pods.insert(key.clone(), requirements.priority);
            }
            return Err(self.unschedulable_message(&reasons));
        };
        self.cursor = (at + 1) % count;
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        self.assign(key, uid, at, requirements.clone());
        Ok(self.nodes[at].name.to_string())
    }

    /// Returns the node on which a pod would fit if pods of lower priority were deleted, and those
    /// pods: the victims whose highest priority is lowest, then the fewest.
    pub(super) fn select_victims(
        &self,
        key: &Key,
        pod: &Pod,
        requirements: &PodRequirements,
        lister: &PodLister<'_>,
    ) -> Option<(String, Vec<Key>)> {
        let spec = pod.spec.as_ref()?;
        self.priorities.keys().next().filter(|lowest| **lowest < requirements.priority)?;
        let domains = TopologyDomains::of(pod, key, self, lister);
        let mut lower: BTreeMap<usize, Vec<(&Key, &PodRequirements)>> = BTreeMap::new();
        for (key, state) in &self.pods {
            if state.requirements.priority < requirements.priority {
                lower.entry(state.node).or_default().push((key, &state.requirements));
            }
        }
        let mut options = Vec::new();
        for (at, mut lower) in lower {
            let node_info = &self.nodes[at];
            let rejected = || {
                node_info.reject_reason(spec).is_some()
                    || domains.reject_reason(&node_info.labels).is_some()
            };
            if !node_info.present || rejected() {
                continue;
            }
            let mut requested = node_info.requested.clone();
            lower.iter().for_each(|(_, requirements)| requested.remove_pod(requirements));
            if node_info.insufficient_resource(requirements, &requested).is_some() {
                continue;
            }
            // As many pods as fit are reprieved, those of higher priority first.
            lower.sort_by_key(|(key, requirements)| {
                (std::cmp::Reverse(requirements.priority), *key)
            });
            lower.retain(|(_, stays)| {
                let mut with = requested.clone();
                with.add_pod(stays);
                let is_victim = node_info.insufficient_resource(requirements, &with).is_some();
                if !is_victim {
                    requested = with;
                }
                is_victim
            });
            let highest = lower.first().map_or(i32::MIN, |(_, requirements)| requirements.priority);
            options.push((highest, lower.len(), &node_info.name, lower));
        }
        let best = options
            .into_iter()
            .min_by_key(|(highest, count, name, _)| (*highest, *count, Arc::clone(name)));
        let (_, _, node, victims) = best?;
        Some((node.to_string(), victims.into_iter().map(|(key, _)| key.clone()).collect()))
    }

    /// The message of kube-scheduler.
    fn unschedulable_message(&self, reasons: &BTreeMap<String, usize>) -> String {
        let present = self.nodes.iter().filter(|node_info| node_info.present).count();
        if present == 0 {
            return "no nodes available to schedule pods".to_owned();
        }
        let mut parts: Vec<String> =
            reasons.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
        parts.sort();
        format!("0/{present} nodes are available: {}.", parts.join(", "))
    }
}

impl Placement for SchedulerCache {
    fn node_labels(&self, pod: &Key) -> Option<&BTreeMap<String, String>> {
        let node_info = &self.nodes[self.pods.get(pod)?.node];
        node_info.present.then_some(&node_info.labels)
    }

    fn matching_nodes<'a>(
        &'a self,
        spec: &'a PodSpec,
    ) -> impl Iterator<Item = &'a BTreeMap<String, String>> {
        let present = self.nodes.iter().filter(|node_info| node_info.present);
        let matching = present
            .filter(|node_info| node_affinity::selects(spec, &node_info.name, &node_info.labels));
        matching.map(|node_info| &node_info.labels)
    }

    fn pods_with_anti_affinity(&self) -> impl Iterator<Item = (&Key, &[Term])> {
        let found = |key| Some((key, self.pods.get(key)?.requirements.anti_affinity.as_slice()));
        self.pods_with_anti_affinity.iter().filter_map(found)
    }
}

impl NodeInfo {
    /// Returns why the node does not accept the pod, regardless of free resources.
    fn reject_reason(&self, spec: &PodSpec) -> Option<String> {
        let tolerations = spec.tolerations.as_deref().unwrap_or_default();
        let tolerated = |taint: &Taint| tolerations.iter().any(|t| tolerates(t, taint));
        if self.unschedulable {
            let cordon = Taint {
                key: "node.kubernetes.io/unschedulable".to_owned(),
                effect: "NoSchedule".to_owned(),
                ..Taint::default()
            };
            if !tolerated(&cordon) {
                return Some("node(s) were unschedulable".to_owned());
            }
        }
        if let Some(taint) = self.taints.iter().find(|taint| !tolerated(taint)) {
            let value = taint.value.as_deref().unwrap_or_default();
            return Some(format!("node(s) had untolerated taint {{{}: {value}}}", taint.key));
        }
        if !node_affinity::selects(spec, &self.name, &self.labels) {
            return Some("node(s) didn't match Pod's node affinity/selector".to_owned());
        }
        None
    }

    /// Returns which requested resource of the pod is not free on the node.
    fn insufficient_resource(
        &self,
        requirements: &PodRequirements,
        requested: &Requested,
    ) -> Option<String> {
        if requirements.ports.iter().any(|port| requested.ports.contains(port)) {
            return Some("node(s) didn't have free ports for the requested pod ports".to_owned());
        }
        if requested.pods >= self.allowed_pods {
            return Some("Too many pods".to_owned());
        }
        let insufficient =
            requirements.resources.insufficient(&self.capacity, &requested.resources)?;
        Some(format!("Insufficient {insufficient}"))
    }
}
