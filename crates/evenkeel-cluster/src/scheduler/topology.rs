//! Required inter-pod affinity, inter-pod anti-affinity and topology spread constraints.
//!
//! Only pods with such constraints cost anything. The pods to count are found in the informer cache
//! by label when a pod is scheduled; the scheduler cache has the nodes they are on.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel::Key;
use evenkeel::cache::{Cache, Entry, Query};
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
    among: Option<Selector>,
    selector: Selector,
}

impl Term {
    /// A term without a selector matches no pods.
    fn of(term: &PodAffinityTerm, own: &str) -> Option<Self> {
        let mut namespaces: BTreeSet<String> = term.namespaces.iter().flatten().cloned().collect();
        let among = term.namespace_selector.as_ref();
        if namespaces.is_empty() && among.is_none() {
            namespaces.insert(own.to_owned());
        }
        Some(Self {
            topology: term.topology_key.clone(),
            namespaces,
            among: among.and_then(|among| Selector::try_from(among.clone()).ok()),
            selector: Selector::try_from(term.label_selector.clone()?).ok()?,
        })
    }

    /// Whether the term matches a pod with these labels.
    fn means(&self, namespace: &str, labels: &Labels, census: &Census<'_>) -> bool {
        let listed = || {
            let among = self.among.as_ref();
            among.is_some_and(|among| among.matches(&census.namespace(namespace)))
        };
        self.selector.matches(labels) && (self.namespaces.contains(namespace) || listed())
    }
}

/// Returns the required anti-affinity terms of a pod.
pub(super) fn repels(spec: &PodSpec, namespace: &str) -> Vec<Term> {
    let anti = spec.affinity.as_ref().and_then(|affinity| affinity.pod_anti_affinity.as_ref());
    let terms =
        anti.and_then(|anti| anti.required_during_scheduling_ignored_during_execution.as_ref());
    terms.into_iter().flatten().filter_map(|term| Term::of(term, namespace)).collect()
}

fn attracts(spec: &PodSpec, namespace: &str) -> Vec<Term> {
    let affinity = spec.affinity.as_ref().and_then(|affinity| affinity.pod_affinity.as_ref());
    let terms = affinity
        .and_then(|affinity| affinity.required_during_scheduling_ignored_during_execution.as_ref());
    terms.into_iter().flatten().filter_map(|term| Term::of(term, namespace)).collect()
}

fn spreads(spec: &PodSpec) -> impl Iterator<Item = &TopologySpreadConstraint> {
    let all = spec.topology_spread_constraints.iter().flatten();
    all.filter(|constraint| constraint.when_unsatisfiable == "DoNotSchedule")
}

/// Whether the nodes a pod may run on depend on where other pods run.
pub(super) fn minds(spec: &PodSpec) -> bool {
    let affinity = spec.affinity.as_ref();
    affinity.is_some_and(|it| it.pod_affinity.is_some() || it.pod_anti_affinity.is_some())
        || spreads(spec).next().is_some()
}

/// Lists pods and namespaces from the informer cache.
pub(super) struct Census<'a>(pub(super) &'a Cache);

impl Census<'_> {
    fn find<K: Object>(&self, query: &Query<'_>) -> Vec<std::sync::Arc<Entry>> {
        // Both types are synced before the scheduler runs.
        self.0.list(&Kind::of::<K>(), query).unwrap_or_default()
    }

    fn pods(&self, namespace: Option<&str>, labels: &Selector) -> Vec<Key> {
        let query = Query { namespace, labels: labels.clone(), ..Query::default() };
        let found = self.find::<Pod>(&query);
        found.into_iter().map(|entry| entry.meta().key().clone()).collect()
    }

    fn of(&self, term: &Term) -> BTreeSet<Key> {
        let mut namespaces = term.namespaces.clone();
        if let Some(among) = &term.among {
            let query = Query { labels: among.clone(), ..Query::default() };
            let found = self.find::<Namespace>(&query);
            namespaces.extend(found.iter().map(|entry| entry.meta().key().name().to_owned()));
        }
        let within = |namespace: &String| self.pods(Some(namespace), &term.selector);
        namespaces.iter().flat_map(within).collect()
    }

    fn namespace(&self, name: &str) -> Labels {
        let entry = self.0.get(&Kind::of::<Namespace>(), &Key::cluster(name)).ok().flatten();
        let labels = entry.iter().flat_map(|entry| entry.meta().labels());
        labels.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }
}

/// The topology domains of other pods, as far as they matter for one pod.
#[derive(Default)]
pub(super) struct Survey {
    /// Domains with pods that match an affinity term, by topology key.
    wanted: Vec<(String, BTreeSet<String>)>,
    /// Domains with pods that match an anti-affinity term.
    unbearable: Vec<(String, BTreeSet<String>)>,
    /// Domains of existing pods whose anti-affinity terms match this pod.
    hostile: BTreeSet<(String, String)>,
    spread: Vec<Spread>,
}

struct Spread {
    topology: String,
    counts: BTreeMap<String, i32>,
    /// The largest permitted count of a domain, this pod excluded.
    most: i32,
}

/// Placement of pods on nodes, as the scheduler cache has it.
pub(super) trait Map {
    /// Returns the labels of the node that a pod is on.
    fn home(&self, pod: &Key) -> Option<&Labels>;
    /// Returns the labels of the nodes that match the pod's node selector and node affinity.
    fn admitting<'a>(&'a self, spec: &'a PodSpec) -> impl Iterator<Item = &'a Labels>;
    /// Returns the pods with required anti-affinity terms, and the terms.
    fn hostile(&self) -> impl Iterator<Item = (&Key, &[Term])>;
}

impl Survey {
    pub(super) fn of(pod: &Pod, key: &Key, map: &impl Map, census: &Census<'_>) -> Self {
        let Some(spec) = &pod.spec else { return Self::default() };
        let namespace = key.namespace().unwrap_or_default();
        let empty = Labels::new();
        let labels = pod.metadata.labels.as_ref().unwrap_or(&empty);
        let mut survey = Self::default();
        for (other, terms) in map.hostile().filter(|(other, _)| *other != key) {
            let Some(home) = map.home(other) else { continue };
            for term in terms.iter().filter(|term| term.means(namespace, labels, census)) {
                let place = home.get(&term.topology).cloned();
                survey.hostile.extend(place.map(|place| (term.topology.clone(), place)));
            }
        }
        if !minds(spec) {
            return survey;
        }
        let places = |pods: &BTreeSet<Key>, topology: &str| -> BTreeSet<String> {
            let homes = pods.iter().filter(|pod| *pod != key).filter_map(|pod| map.home(pod));
            homes.filter_map(|home| home.get(topology).cloned()).collect()
        };
        for term in repels(spec, namespace) {
            let places = places(&census.of(&term), &term.topology);
            survey.unbearable.push((term.topology, places));
        }
        let terms = attracts(spec, namespace);
        // A pod has to match all affinity terms to count.
        let all = terms.iter().map(|term| census.of(term)).reduce(|one, other| &one & &other);
        let all = all.unwrap_or_default();
        let mut wanted: Vec<_> = terms
            .iter()
            .map(|term| (term.topology.clone(), Some(places(&all, &term.topology))))
            .collect();
        let nobody =
            wanted.iter().all(|(_, places)| places.as_ref().is_none_or(BTreeSet::is_empty));
        if nobody && terms.iter().all(|term| term.means(namespace, labels, census)) {
            // The first pod of a group with affinity to itself may go to any node with the topology
            // key.
            wanted.iter_mut().for_each(|(_, places)| *places = None);
        }
        survey.wanted = wanted
            .into_iter()
            .map(|(topology, places)| {
                let everywhere = || {
                    map.admitting(spec).filter_map(|node| node.get(&topology).cloned()).collect()
                };
                let places = places.unwrap_or_else(everywhere);
                (topology, places)
            })
            .collect();
        survey.spread = spreads(spec)
            .map(|constraint| Spread::of(constraint, spec, labels, key, map, census))
            .collect();
        survey
    }

    /// Returns why a node with these labels is not feasible for the pod.
    pub(super) fn refuses(&self, node: &Labels) -> Option<&'static str> {
        let among = |(topology, places): &(String, BTreeSet<String>)| {
            node.get(topology).is_some_and(|place| places.contains(place))
        };
        for spread in &self.spread {
            let Some(place) = node.get(&spread.topology) else {
                return Some(
                    "node(s) didn't match pod topology spread constraints (missing required label)",
                );
            };
            if spread.counts.get(place).is_none_or(|count| *count > spread.most) {
                return Some("node(s) didn't match pod topology spread constraints");
            }
        }
        if !self.wanted.iter().all(among) {
            return Some("node(s) didn't match pod affinity rules");
        }
        if self.unbearable.iter().any(among) {
            return Some("node(s) didn't match pod anti-affinity rules");
        }
        let hostile = |(topology, place): &(String, String)| node.get(topology) == Some(place);
        if self.hostile.iter().any(hostile) {
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
        map: &impl Map,
        census: &Census<'_>,
    ) -> Self {
        let topology = constraint.topology_key.clone();
        // A node counts if it matches the pod's node affinity and has the topology keys of all
        // constraints.
        let complete = |node: &&Labels| spreads(spec).all(|it| node.contains_key(&it.topology_key));
        let nodes = map.admitting(spec).filter(complete);
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
        for other in selector.iter().flat_map(|it| census.pods(key.namespace(), it)) {
            let place = map.home(&other).filter(|_| other != *key);
            let count = place.and_then(|home| counts.get_mut(home.get(&topology)?));
            if let Some(count) = count {
                *count += 1;
            }
        }
        let least = counts.values().min().copied().unwrap_or(0);
        let domains = i32::try_from(counts.len()).unwrap_or(i32::MAX);
        let few = constraint.min_domains.is_some_and(|wanted| domains < wanted);
        let least = if few { 0 } else { least };
        let most = least.saturating_add(constraint.max_skew).saturating_sub(itself.into());
        Self { topology, counts, most }
    }
}
