//! The scheduler cache: nodes, and the resources that the pods on them request.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use evenkeel::Key;
use k8s_openapi::api::core::v1::{Node, Pod, PodSpec, Taint};

use super::fit::{Amounts, Needs};
use super::topology::{self, Census, Map, Survey, Term};
use super::{node_affinity, tolerates};
use crate::pods;

/// How many feasible nodes are scored at most, so that a large cluster is not searched through for
/// every pod. Mirrors `numFeasibleNodesToFind`.
const COMPARED: usize = 64;

/// All nodes and the pods on them.
#[derive(Default)]
pub(super) struct Book {
    nodes: Vec<Site>,
    by_name: HashMap<Arc<str>, usize>,
    pods: HashMap<Key, Tenant>,
    /// Pods on nodes with required anti-affinity terms.
    hostile: BTreeSet<Key>,
    /// How many pods on nodes have each priority.
    priorities: BTreeMap<i32, usize>,
    /// Unschedulable pods with their priority.
    waiting: BTreeMap<Key, i32>,
    /// Those of them that may become schedulable when other pods are bound.
    curious: BTreeMap<Key, i32>,
    /// Where the last search ended. The next one starts there, so that all nodes are considered.
    cursor: usize,
}

/// A node. `present` is false for a node that is deleted or not seen yet; no pod is placed on it.
struct Site {
    name: Arc<str>,
    present: bool,
    labels: BTreeMap<String, String>,
    taints: Vec<Taint>,
    unschedulable: bool,
    capacity: Amounts,
    most_pods: i64,
    given: Given,
}

/// What the pods of a node request.
#[derive(Clone, Default)]
struct Given {
    amounts: Amounts,
    pods: i64,
    ports: Vec<(String, i32)>,
}

impl Given {
    fn give(&mut self, needs: &Needs) {
        self.amounts.add(&needs.amounts);
        self.pods += 1;
        self.ports.extend(needs.ports.iter().cloned());
    }

    fn take_back(&mut self, needs: &Needs) {
        self.amounts.sub(&needs.amounts);
        self.pods -= 1;
        for port in &needs.ports {
            if let Some(at) = self.ports.iter().position(|used| used == port) {
                self.ports.swap_remove(at);
            }
        }
    }
}

struct Tenant {
    uid: String,
    site: usize,
    needs: Needs,
}

/// The state of a pod in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Placed {
    /// It has a node, or is assumed on one.
    Here,
    /// It has terminated and released its resources.
    Ended,
    /// It has no node.
    Nowhere,
}

impl Book {
    fn site(&mut self, name: &str) -> usize {
        if let Some(&at) = self.by_name.get(name) {
            return at;
        }
        let name: Arc<str> = name.into();
        self.nodes.push(Site {
            name: name.clone(),
            present: false,
            labels: BTreeMap::new(),
            taints: Vec::new(),
            unschedulable: false,
            capacity: Amounts::default(),
            most_pods: 0,
            given: Given::default(),
        });
        self.by_name.insert(name, self.nodes.len() - 1);
        self.nodes.len() - 1
    }

    /// Adds or updates a node. Returns whether an unschedulable pod might fit now.
    pub(super) fn put_node(&mut self, node: &Node) -> bool {
        let at = self.site(node.metadata.name.as_deref().unwrap_or_default());
        let site = &mut self.nodes[at];
        let spec = node.spec.as_ref();
        let status = node.status.as_ref();
        let allocatable = status.and_then(|s| s.allocatable.as_ref().or(s.capacity.as_ref()));
        let capacity = Amounts::of(allocatable);
        let labels = node.metadata.labels.clone().unwrap_or_default();
        let taints: Vec<Taint> = spec
            .and_then(|spec| spec.taints.as_ref())
            .into_iter()
            .flatten()
            .filter(|taint| taint.effect != "PreferNoSchedule")
            .cloned()
            .collect();
        let unschedulable = spec.and_then(|spec| spec.unschedulable) == Some(true);
        let changed = !site.present
            || site.labels != labels
            || site.taints != taints
            || site.unschedulable != unschedulable
            || site.capacity != capacity;
        site.present = true;
        site.most_pods = capacity.get("pods");
        (site.labels, site.taints) = (labels, taints);
        (site.unschedulable, site.capacity) = (unschedulable, capacity);
        changed
    }

    /// Marks a node as deleted. The requests of its pods count until they are deleted too.
    pub(super) fn remove_node(&mut self, name: &str) {
        if let Some(&at) = self.by_name.get(name) {
            self.nodes[at].present = false;
        }
    }

    /// Adds or updates a pod.
    pub(super) fn put_pod(&mut self, key: &Key, pod: &Pod) -> Placed {
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        if self.pods.get(key).is_some_and(|tenant| tenant.uid != uid) {
            self.remove_pod(key);
        }
        if pods::is_terminal(pod) {
            return if self.remove_pod(key) { Placed::Ended } else { Placed::Here };
        }
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
        let held = self.pods.get(key).map(|tenant| self.nodes[tenant.site].name.clone());
        match (node, held) {
            (None, None) => Placed::Nowhere,
            (None, Some(_)) => Placed::Here,
            (Some(node), Some(held)) if *node == *held => Placed::Here,
            (Some(node), _) => {
                self.remove_pod(key);
                let site = self.site(node);
                self.settle(key, uid, site, Needs::of(pod));
                Placed::Here
            }
        }
    }

    fn settle(&mut self, key: &Key, uid: &str, at: usize, needs: Needs) {
        self.nodes[at].given.give(&needs);
        if !needs.repels.is_empty() {
            self.hostile.insert(key.clone());
        }
        *self.priorities.entry(needs.priority).or_default() += 1;
        self.waiting.remove(key);
        self.pods.insert(key.clone(), Tenant { uid: uid.to_owned(), site: at, needs });
    }

    /// Removes a pod that is deleted or terminated. Returns whether it held resources.
    pub(super) fn remove_pod(&mut self, key: &Key) -> bool {
        self.waiting.remove(key);
        let Some(tenant) = self.pods.remove(key) else { return false };
        if !tenant.needs.repels.is_empty() {
            self.hostile.remove(key);
        }
        if let Some(count) = self.priorities.get_mut(&tenant.needs.priority) {
            *count -= 1;
            if *count == 0 {
                self.priorities.remove(&tenant.needs.priority);
            }
        }
        self.nodes[tenant.site].given.take_back(&tenant.needs);
        true
    }

    /// Takes the unschedulable pods; they are added again if they still do not fit.
    pub(super) fn take_waiting(&mut self) -> BTreeMap<Key, i32> {
        self.curious.clear();
        std::mem::take(&mut self.waiting)
    }

    /// Takes the pods that wait for other pods to be bound.
    pub(super) fn take_curious(&mut self) -> BTreeMap<Key, i32> {
        std::mem::take(&mut self.curious)
    }

    /// Selects a node and assumes the pod on it, or returns why no node fits.
    pub(super) fn place(
        &mut self,
        key: &Key,
        pod: &Pod,
        needs: &Needs,
        census: &Census<'_>,
    ) -> Result<String, String> {
        let survey = Survey::of(pod, key, self, census);
        let Some(spec) = &pod.spec else { return Err("pod has no spec".to_owned()) };
        let count = self.nodes.len();
        let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
        let (mut best, mut found) = (None, 0);
        for step in 0..count {
            let at = (self.cursor + step) % count;
            let site = &self.nodes[at];
            if !site.present {
                continue;
            }
            let refusal = site.refuses(spec).or_else(|| site.lacks(needs, &site.given));
            let refusal = refusal.or_else(|| survey.refuses(&site.labels).map(str::to_owned));
            if let Some(reason) = refusal {
                *reasons.entry(reason).or_default() += 1;
                continue;
            }
            let score = (site.given.amounts.load(&site.capacity), site.given.pods);
            if best.is_none_or(|(least, _)| score < least) {
                best = Some((score, at));
            }
            found += 1;
            if found == COMPARED {
                break;
            }
        }
        let Some((_, at)) = best else {
            self.waiting.insert(key.clone(), needs.priority);
            if topology::minds(spec) {
                self.curious.insert(key.clone(), needs.priority);
            }
            return Err(self.refusal(&reasons));
        };
        self.cursor = (at + 1) % count;
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        self.settle(key, uid, at, needs.clone());
        Ok(self.nodes[at].name.to_string())
    }

    /// Returns the node on which a pod would fit if pods of lower priority were deleted, and those
    /// pods: the victims whose highest priority is lowest, then the fewest.
    pub(super) fn victims(
        &self,
        key: &Key,
        pod: &Pod,
        needs: &Needs,
        census: &Census<'_>,
    ) -> Option<(String, Vec<Key>)> {
        let spec = pod.spec.as_ref()?;
        self.priorities.keys().next().filter(|lowest| **lowest < needs.priority)?;
        let survey = Survey::of(pod, key, self, census);
        let mut lower: BTreeMap<usize, Vec<(&Key, &Needs)>> = BTreeMap::new();
        for (key, tenant) in &self.pods {
            if tenant.needs.priority < needs.priority {
                lower.entry(tenant.site).or_default().push((key, &tenant.needs));
            }
        }
        let mut options = Vec::new();
        for (at, mut lower) in lower {
            let site = &self.nodes[at];
            let refuses = || site.refuses(spec).is_some() || survey.refuses(&site.labels).is_some();
            if !site.present || refuses() {
                continue;
            }
            let mut given = site.given.clone();
            lower.iter().for_each(|(_, needs)| given.take_back(needs));
            if site.lacks(needs, &given).is_some() {
                continue;
            }
            // As many pods as fit are reprieved, those of higher priority first.
            lower.sort_by_key(|(key, needs)| (std::cmp::Reverse(needs.priority), *key));
            lower.retain(|(_, stays)| {
                let mut with = given.clone();
                with.give(stays);
                let goes = site.lacks(needs, &with).is_some();
                if !goes {
                    given = with;
                }
                goes
            });
            let highest = lower.first().map_or(i32::MIN, |(_, needs)| needs.priority);
            options.push((highest, lower.len(), &site.name, lower));
        }
        let best = options
            .into_iter()
            .min_by_key(|(highest, count, name, _)| (*highest, *count, Arc::clone(name)));
        let (_, _, node, victims) = best?;
        Some((node.to_string(), victims.into_iter().map(|(key, _)| key.clone()).collect()))
    }

    /// The message of kube-scheduler.
    fn refusal(&self, reasons: &BTreeMap<String, usize>) -> String {
        let present = self.nodes.iter().filter(|site| site.present).count();
        if present == 0 {
            return "no nodes available to schedule pods".to_owned();
        }
        let mut parts: Vec<String> =
            reasons.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
        parts.sort();
        format!("0/{present} nodes are available: {}.", parts.join(", "))
    }
}

impl Map for Book {
    fn home(&self, pod: &Key) -> Option<&BTreeMap<String, String>> {
        let site = &self.nodes[self.pods.get(pod)?.site];
        site.present.then_some(&site.labels)
    }

    fn admitting<'a>(
        &'a self,
        spec: &'a PodSpec,
    ) -> impl Iterator<Item = &'a BTreeMap<String, String>> {
        let present = self.nodes.iter().filter(|site| site.present);
        let admitting =
            present.filter(|site| node_affinity::selects(spec, &site.name, &site.labels));
        admitting.map(|site| &site.labels)
    }

    fn hostile(&self) -> impl Iterator<Item = (&Key, &[Term])> {
        let found = |key| Some((key, self.pods.get(key)?.needs.repels.as_slice()));
        self.hostile.iter().filter_map(found)
    }
}

impl Site {
    /// Returns why the node does not accept the pod, regardless of free resources.
    fn refuses(&self, spec: &PodSpec) -> Option<String> {
        let tolerations = spec.tolerations.as_deref().unwrap_or_default();
        let bears = |taint: &Taint| tolerations.iter().any(|t| tolerates(t, taint));
        if self.unschedulable {
            let cordon = Taint {
                key: "node.kubernetes.io/unschedulable".to_owned(),
                effect: "NoSchedule".to_owned(),
                ..Taint::default()
            };
            if !bears(&cordon) {
                return Some("node(s) were unschedulable".to_owned());
            }
        }
        if let Some(taint) = self.taints.iter().find(|taint| !bears(taint)) {
            let value = taint.value.as_deref().unwrap_or_default();
            return Some(format!("node(s) had untolerated taint {{{}: {value}}}", taint.key));
        }
        if !node_affinity::selects(spec, &self.name, &self.labels) {
            return Some("node(s) didn't match Pod's node affinity/selector".to_owned());
        }
        None
    }

    /// Returns which requested resource of the pod is not free on the node.
    fn lacks(&self, needs: &Needs, given: &Given) -> Option<String> {
        if needs.ports.iter().any(|port| given.ports.contains(port)) {
            return Some("node(s) didn't have free ports for the requested pod ports".to_owned());
        }
        if given.pods >= self.most_pods {
            return Some("Too many pods".to_owned());
        }
        let lacking = needs.amounts.lacking(&self.capacity, &given.amounts)?;
        Some(format!("Insufficient {lacking}"))
    }
}
