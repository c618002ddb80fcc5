//! Which other pods a pod wants near, cannot bear near, or must be spread among: what is required of
//! affinity, anti-affinity and topology spread.
//!
//! Only pods that ask for something pay. Those that have to be counted are looked up by their labels
//! in the cache when a pod is placed; where they are, the book knows.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel::Key;
use evenkeel::cache::{Cache, Entry, Query};
use evenkeel::{Kind, Object};
use k8s_openapi::api::core::v1::{
    Namespace, Pod, PodAffinityTerm, PodSpec, TopologySpreadConstraint,
};
use kube::core::{Expression, Selector, SelectorExt as _};

type Labels = BTreeMap<String, String>;

/// Pods of some labels in some namespaces, seen from the places that a label of nodes tells apart.
#[derive(Clone, Debug)]
pub(super) struct Term {
    topology: String,
    namespaces: BTreeSet<String>,
    /// Namespaces with these labels too.
    among: Option<Selector>,
    selector: Selector,
}

impl Term {
    /// A term without a selector means no pods at all.
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

    /// Whether the pod is one of those.
    fn means(&self, namespace: &str, labels: &Labels, census: &Census<'_>) -> bool {
        let listed = || {
            let among = self.among.as_ref();
            among.is_some_and(|among| among.matches(&census.namespace(namespace)))
        };
        self.selector.matches(labels) && (self.namespaces.contains(namespace) || listed())
    }
}

/// What no pod near this one may be, by its own word.
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

/// Whether where a pod may go depends on where others are.
pub(super) fn minds(spec: &PodSpec) -> bool {
    let affinity = spec.affinity.as_ref();
    affinity.is_some_and(|it| it.pod_affinity.is_some() || it.pod_anti_affinity.is_some())
        || spreads(spec).next().is_some()
}

/// The pods and namespaces there are.
pub(super) struct Census<'a>(pub(super) &'a Cache);

impl Census<'_> {
    fn find<K: Object>(&self, query: &Query<'_>) -> Vec<std::sync::Arc<Entry>> {
        // Both types are listed before the scheduler runs.
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

/// Where others are, as far as it matters to one pod.
#[derive(Default)]
pub(super) struct Survey {
    /// Places with what the pod wants near, by the label that tells them apart.
    wanted: Vec<(String, BTreeSet<String>)>,
    /// Places with what it cannot bear.
    unbearable: Vec<(String, BTreeSet<String>)>,
    /// Places of those who cannot bear it.
    hostile: BTreeSet<(String, String)>,
    spread: Vec<Spread>,
}

struct Spread {
    topology: String,
    counts: BTreeMap<String, i32>,
    /// How many there may be in one place, this pod not counted.
    most: i32,
}

/// Who is where, as the book has it.
pub(super) trait Map {
    /// The labels of the node that a pod is on.
    fn home(&self, pod: &Key) -> Option<&Labels>;
    /// The nodes that the pod's selectors admit.
    fn admitting<'a>(&'a self, spec: &'a PodSpec) -> impl Iterator<Item = &'a Labels>;
    /// The pods that cannot bear others near, and whom.
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
        // Those near are to be all that is wanted, not one for each wish.
        let all = terms.iter().map(|term| census.of(term)).reduce(|one, other| &one & &other);
        let all = all.unwrap_or_default();
        let mut wanted: Vec<_> = terms
            .iter()
            .map(|term| (term.topology.clone(), Some(places(&all, &term.topology))))
            .collect();
        let nobody =
            wanted.iter().all(|(_, places)| places.as_ref().is_none_or(BTreeSet::is_empty));
        if nobody && terms.iter().all(|term| term.means(namespace, labels, census)) {
            // The first of those who want each other near goes anywhere that is a place at all.
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

    /// Why a node with these labels is no place for the pod.
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
        // A node counts if it could take the pod, and is somewhere by all constraints.
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
