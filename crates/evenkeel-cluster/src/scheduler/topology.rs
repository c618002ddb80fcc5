//! Required inter-pod affinity, inter-pod anti-affinity and topology spread constraints.
//!
//! Only pods with such constraints cost anything. The pods to count are found in the informer cache
//! by label when a pod is scheduled; the scheduler cache has the nodes they are on.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel::Key;
use evenkeel::cache::Cache;
use evenkeel::{Kind, Object};
use k8s_openapi::api::core::v1::{
    Namespace, Pod, PodAffinityTerm, PodSpec, TopologySpreadConstraint,
};
use kube::core::{Expression, Selector, SelectorExt as _};

type Labels = BTreeMap<String, String>;

/// Pods that match a selector in some namespaces, counted per value of a topology key.
#[derive(Clone, Debug)]
pub(super) struct Term {
    topology: String,
    namespaces: BTreeSet<String>,
    /// Selects further namespaces by label.
    namespace_selector: Option<Selector>,
    selector: Selector,
}

impl Term {
    /// A term without a selector matches no pods.
    fn of(term: &PodAffinityTerm, own: &str) -> Option<Self> {
        let mut namespaces: BTreeSet<String> = term.namespaces.iter().flatten().cloned().collect();
        let namespace_selector = term.namespace_selector.as_ref();
        if namespaces.is_empty() && namespace_selector.is_none() {
            namespaces.insert(own.to_owned());
        }
        Some(Self {
            topology: term.topology_key.clone(),
            namespaces,
            namespace_selector: namespace_selector
                .and_then(|namespace_selector| Selector::try_from(namespace_selector.clone()).ok()),
            selector: Selector::try_from(term.label_selector.clone()?).ok()?,
        })
    }

    /// Whether the term matches a pod with these labels.
    fn matches_pod(&self, namespace: &str, labels: &Labels, lister: &PodLister<'_>) -> bool {
        let listed = || {
            let namespace_selector = self.namespace_selector.as_ref();
            namespace_selector.is_some_and(|namespace_selector| {
                namespace_selector.matches(&lister.namespace_labels(namespace))
            })
        };
        self.selector.matches(labels) && (self.namespaces.contains(namespace) || listed())
    }
}

/// Returns the required anti-affinity terms of a pod.
pub(super) fn required_anti_affinity(spec: &PodSpec, namespace: &str) -> Vec<Term> {
    let anti = spec.affinity.as_ref().and_then(|affinity| affinity.pod_anti_affinity.as_ref());
    let terms =
        anti.and_then(|anti| anti.required_during_scheduling_ignored_during_execution.as_ref());
    terms.into_iter().flatten().filter_map(|term| Term::of(term, namespace)).collect()
}

fn required_affinity(spec: &PodSpec, namespace: &str) -> Vec<Term> {
    let affinity = spec.affinity.as_ref().and_then(|affinity| affinity.pod_affinity.as_ref());
    let terms = affinity
        .and_then(|affinity| affinity.required_during_scheduling_ignored_during_execution.as_ref());
    terms.into_iter().flatten().filter_map(|term| Term::of(term, namespace)).collect()
}

fn spread_constraints(spec: &PodSpec) -> impl Iterator<Item = &TopologySpreadConstraint> {
    let all = spec.topology_spread_constraints.iter().flatten();
    all.filter(|constraint| constraint.when_unsatisfiable == "DoNotSchedule")
}

/// Whether the nodes a pod may run on depend on where other pods run.
pub(super) fn depends_on_pods(spec: &PodSpec) -> bool {
    let affinity = spec.affinity.as_ref();
    affinity.is_some_and(|it| it.pod_affinity.is_some() || it.pod_anti_affinity.is_some())
        || spread_constraints(spec).next().is_some()
}

/// Lists pods and namespaces from the informer cache.
pub(super) struct PodLister<'a>(pub(super) &'a Cache);

impl PodLister<'_> {
    /// Returns the keys of matching objects; an empty namespace selects all.
    fn find<K: Object>(&self, namespace: &str, labels: &Selector) -> Vec<Key> {
        let selected = self.0.list(&Kind::of::<K>()).in_namespace(namespace);
        // Both types are synced before the scheduler runs.
        selected.matching(labels.clone()).keys().unwrap_or_default()
    }

    fn pods_matching(&self, term: &Term) -> BTreeSet<Key> {
        let mut namespaces = term.namespaces.clone();
        if let Some(namespace_selector) = &term.namespace_selector {
            let found = self.find::<Namespace>("", namespace_selector);
            namespaces.extend(found.iter().map(|key| key.name().to_owned()));
        }
        let within = |namespace: &String| self.find::<Pod>(namespace, &term.selector);
        namespaces.iter().flat_map(within).collect()
    }

    fn namespace_labels(&self, name: &str) -> Labels {
        let entry = self.0.get(&Kind::of::<Namespace>(), &Key::cluster(name)).ok().flatten();
        let labels = entry.iter().flat_map(|entry| entry.meta().labels());
        labels.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }
}

/// The topology domains of other pods, as far as they matter for one pod.
#[derive(Default)]
pub(super) struct TopologyDomains {
    /// Domains with pods that match an affinity term, by topology key.
    affinity: Vec<(String, BTreeSet<String>)>,
    /// Domains with pods that match an anti-affinity term.
    anti_affinity: Vec<(String, BTreeSet<String>)>,
    /// Domains of existing pods whose anti-affinity terms match this pod.
    existing_anti_affinity: BTreeSet<(String, String)>,
    spread: Vec<Spread>,
}

struct Spread {
    topology: String,
    counts: BTreeMap<String, i32>,
    /// The largest permitted count of a domain, this pod excluded.
    max_count: i32,
}

/// Placement of pods on nodes, as the scheduler cache has it.
pub(super) trait Placement {
    /// Returns the labels of the node that a pod is on.
    fn node_labels(&self, pod: &Key) -> Option<&Labels>;
    /// Returns the labels of the nodes that match the pod's node selector and node affinity.
    fn matching_nodes<'a>(&'a self, spec: &'a PodSpec) -> impl Iterator<Item = &'a Labels>;
    /// Returns the pods with required anti-affinity terms, and the terms.
    fn pods_with_anti_affinity(&self) -> impl Iterator<Item = (&Key, &[Term])>;
}

impl TopologyDomains {
    pub(super) fn of(
        pod: &Pod,
        key: &Key,
        placement: &impl Placement,
        lister: &PodLister<'_>,
    ) -> Self {
        let Some(spec) = &pod.spec else { return Self::default() };
        let namespace = key.namespace().unwrap_or_default();
        let empty = Labels::new();
        let labels = pod.metadata.labels.as_ref().unwrap_or(&empty);
        let mut domains = Self::default();
        for (other, terms) in placement.pods_with_anti_affinity().filter(|(other, _)| *other != key)
        {
            let Some(node) = placement.node_labels(other) else { continue };
            for term in terms.iter().filter(|term| term.matches_pod(namespace, labels, lister)) {
                let value = node.get(&term.topology).cloned();
                domains
                    .existing_anti_affinity
                    .extend(value.map(|value| (term.topology.clone(), value)));
            }
        }
        if !depends_on_pods(spec) {
            return domains;
        }
        let values = |pods: &BTreeSet<Key>, topology: &str| -> BTreeSet<String> {
            let nodes =
                pods.iter().filter(|pod| *pod != key).filter_map(|pod| placement.node_labels(pod));
            nodes.filter_map(|node| node.get(topology).cloned()).collect()
        };
        for term in required_anti_affinity(spec, namespace) {
            let values = values(&lister.pods_matching(&term), &term.topology);
            domains.anti_affinity.push((term.topology, values));
        }
        let terms = required_affinity(spec, namespace);
        // A pod has to match all affinity terms to count.
        let all =
            terms.iter().map(|term| lister.pods_matching(term)).reduce(|one, other| &one & &other);
        let all = all.unwrap_or_default();
        let mut wanted: Vec<_> = terms
            .iter()
            .map(|term| (term.topology.clone(), Some(values(&all, &term.topology))))
            .collect();
        let none_match =
            wanted.iter().all(|(_, values)| values.as_ref().is_none_or(BTreeSet::is_empty));
        if none_match && terms.iter().all(|term| term.matches_pod(namespace, labels, lister)) {
            // The first pod of a group with affinity to itself may go to any node with the topology
            // key.
            wanted.iter_mut().for_each(|(_, values)| *values = None);
        }
        domains.affinity = wanted
            .into_iter()
            .map(|(topology, values)| {
                let everywhere = || {
                    placement
                        .matching_nodes(spec)
                        .filter_map(|node| node.get(&topology).cloned())
                        .collect()
                };
                let values = values.unwrap_or_else(everywhere);
                (topology, values)
            })
            .collect();
        domains.spread = spread_constraints(spec)
            .map(|constraint| Spread::of(constraint, spec, labels, key, placement, lister))
            .collect();
        domains
    }

    /// Returns why a node with these labels is not feasible for the pod.
    pub(super) fn reject_reason(&self, node: &Labels) -> Option<&'static str> {
        let contains = |(topology, values): &(String, BTreeSet<String>)| {
            node.get(topology).is_some_and(|value| values.contains(value))
        };
        for spread in &self.spread {
            let Some(value) = node.get(&spread.topology) else {
                return Some(
                    "node(s) didn't match pod topology spread constraints (missing required label)",
                );
            };
            if spread.counts.get(value).is_none_or(|count| *count > spread.max_count) {
                return Some("node(s) didn't match pod topology spread constraints");
            }
        }
        if !self.affinity.iter().all(contains) {
            return Some("node(s) didn't match pod affinity rules");
        }
        if self.anti_affinity.iter().any(contains) {
            return Some("node(s) didn't match pod anti-affinity rules");
        }
        let existing_anti_affinity =
            |(topology, value): &(String, String)| node.get(topology) == Some(value);
        if self.existing_anti_affinity.iter().any(existing_anti_affinity) {
            return Some("node(s) didn't satisfy existing pods anti-affinity rules");
        }
        None
    }
}

impl Spread {
    fn of(
        constraint: &TopologySpreadConstraint,
        spec: &PodSpec,
        labels: &Labels,
        key: &Key,
        placement: &impl Placement,
        lister: &PodLister<'_>,
    ) -> Self {
        let topology = constraint.topology_key.clone();
        // A node counts if it matches the pod's node affinity and has the topology keys of all
        // constraints.
        let complete =
            |node: &&Labels| spread_constraints(spec).all(|it| node.contains_key(&it.topology_key));
        let nodes = placement.matching_nodes(spec).filter(complete);
        let mut counts: BTreeMap<String, i32> =
            nodes.filter_map(|node| Some((node.get(&topology)?.clone(), 0))).collect();
        let selector = constraint.label_selector.as_ref();
        let selector = selector.and_then(|selector| Selector::try_from(selector.clone()).ok());
        let selector = selector.map(|selector| {
            let keys = constraint.match_label_keys.iter().flatten();
            let same = keys.filter_map(|name| {
                Some(Expression::Equal(name.clone(), labels.get(name)?.clone()))
            });
            selector.into_iter().chain(same).collect::<Selector>()
        });
        let itself = selector.as_ref().is_some_and(|selector| selector.matches(labels));
        let namespace = key.namespace().unwrap_or_default();
        for other in selector.iter().flat_map(|it| lister.find::<Pod>(namespace, it)) {
            let value = placement.node_labels(&other).filter(|_| other != *key);
            let count = value.and_then(|node| counts.get_mut(node.get(&topology)?));
            if let Some(count) = count {
                *count += 1;
            }
        }
        let min_count = counts.values().min().copied().unwrap_or(0);
        let domains = i32::try_from(counts.len()).unwrap_or(i32::MAX);
        let few = constraint.min_domains.is_some_and(|wanted| domains < wanted);
        let min_count = if few { 0 } else { min_count };
        let max_count = min_count.saturating_add(constraint.max_skew).saturating_sub(itself.into());
        Self { topology, counts, max_count }
    }
}
