//! What each node has given away, and who has it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use evenkeel::Key;
use k8s_openapi::api::core::v1::{Node, Pod, PodSpec, Taint};

use super::fit::{Amounts, Needs};
use super::neighbours::{self, Census, Map, Survey, Term};
use super::{affinity, tolerates};
use crate::pods;

/// How many nodes that fit are compared before the best of them is taken, so that a large cluster
/// is not searched through for every pod.
const COMPARED: usize = 64;

/// All nodes and all pods on them.
#[derive(Default)]
pub(super) struct Book {
    nodes: Vec<Site>,
    by_name: HashMap<Arc<str>, usize>,
    pods: HashMap<Key, Tenant>,
    /// Pods on nodes that cannot bear others near.
    hostile: BTreeSet<Key>,
    /// Pods that fit nowhere.
    waiting: BTreeSet<Key>,
    /// Those of them that may fit once others have a node.
    curious: BTreeSet<Key>,
    /// Where the last search ended; the next begins there, so that all nodes get their turn.
    cursor: usize,
}

/// A node. One that is gone, or not known yet, has `present` unset and takes nothing.
struct Site {
    name: Arc<str>,
    present: bool,
    labels: BTreeMap<String, String>,
    taints: Vec<Taint>,
    unschedulable: bool,
    capacity: Amounts,
    most_pods: i64,
    used: Amounts,
    pods: i64,
    ports: Vec<(String, i32)>,
}

struct Tenant {
    uid: String,
    site: usize,
    needs: Needs,
}

/// Where a pod stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Placed {
    /// It has a node, or one has been chosen for it.
    Here,
    /// It has just given its room back.
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
            used: Amounts::default(),
            pods: 0,
            ports: Vec::new(),
        });
        self.by_name.insert(name, self.nodes.len() - 1);
        self.nodes.len() - 1
    }

    /// Takes a node up as it is; tells whether a pod might fit that did not before.
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

    /// The node is gone; what its pods used is kept until they are.
    pub(super) fn remove_node(&mut self, name: &str) {
        if let Some(&at) = self.by_name.get(name) {
            self.nodes[at].present = false;
        }
    }

    /// Takes a pod up as it is.
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
        let site = &mut self.nodes[at];
        site.used.add(&needs.amounts);
        site.pods += 1;
        site.ports.extend(needs.ports.iter().cloned());
        if !needs.repels.is_empty() {
            self.hostile.insert(key.clone());
        }
        self.waiting.remove(key);
        self.pods.insert(key.clone(), Tenant { uid: uid.to_owned(), site: at, needs });
    }

    /// The pod is gone or has ended; tells whether it had room.
    pub(super) fn remove_pod(&mut self, key: &Key) -> bool {
        self.waiting.remove(key);
        let Some(tenant) = self.pods.remove(key) else { return false };
        if !tenant.needs.repels.is_empty() {
            self.hostile.remove(key);
        }
        let site = &mut self.nodes[tenant.site];
        site.used.sub(&tenant.needs.amounts);
        site.pods -= 1;
        for port in &tenant.needs.ports {
            if let Some(at) = site.ports.iter().position(|used| used == port) {
                site.ports.swap_remove(at);
            }
        }
        true
    }

    /// Those who wait for room; they will say so again if there is none.
    pub(super) fn take_waiting(&mut self) -> BTreeSet<Key> {
        self.curious.clear();
        std::mem::take(&mut self.waiting)
    }

    /// Those who wait for others to have a node.
    pub(super) fn take_curious(&mut self) -> BTreeSet<Key> {
        std::mem::take(&mut self.curious)
    }

    /// Chooses a node and writes the pod into it, or says why none fits.
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
            let refusal = site.refuses(spec, needs);
            let refusal = refusal.or_else(|| survey.refuses(&site.labels).map(str::to_owned));
            if let Some(reason) = refusal {
                *reasons.entry(reason).or_default() += 1;
                continue;
            }
            let score = (site.used.load(&site.capacity), site.pods);
            if best.is_none_or(|(least, _)| score < least) {
                best = Some((score, at));
            }
            found += 1;
            if found == COMPARED {
                break;
            }
        }
        let Some((_, at)) = best else {
            self.waiting.insert(key.clone());
            if neighbours::minds(spec) {
                self.curious.insert(key.clone());
            }
            return Err(self.refusal(&reasons));
        };
        self.cursor = (at + 1) % count;
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        self.settle(key, uid, at, needs.clone());
        Ok(self.nodes[at].name.to_string())
    }

    /// In the words of the scheduler.
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
        let admitting = present.filter(|site| affinity::selects(spec, &site.name, &site.labels));
        admitting.map(|site| &site.labels)
    }

    fn hostile(&self) -> impl Iterator<Item = (&Key, &[Term])> {
        let found = |key| Some((key, self.pods.get(key)?.needs.repels.as_slice()));
        self.hostile.iter().filter_map(found)
    }
}

impl Site {
    /// Why the node does not take the pod.
    fn refuses(&self, spec: &PodSpec, needs: &Needs) -> Option<String> {
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
        if !affinity::selects(spec, &self.name, &self.labels) {
            return Some("node(s) didn't match Pod's node affinity/selector".to_owned());
        }
        if needs.ports.iter().any(|port| self.ports.contains(port)) {
            return Some("node(s) didn't have free ports for the requested pod ports".to_owned());
        }
        if self.pods >= self.most_pods {
            return Some("Too many pods".to_owned());
        }
        let lacking = needs.amounts.lacking(&self.capacity, &self.used)?;
        Some(format!("Insufficient {lacking}"))
    }
}
