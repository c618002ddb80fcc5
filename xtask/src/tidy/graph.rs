//! A graph of names: its cycles, and a picture of its layers.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// Who depends on what, and in which files that is stated.
#[derive(Default)]
pub(super) struct Graph {
    edges: BTreeMap<String, BTreeMap<String, BTreeSet<String>>>,
}

impl Graph {
    pub(super) fn add_node(&mut self, name: &str) {
        self.edges.entry(name.to_owned()).or_default();
    }

    /// Adds a dependency, found in `file`.
    pub(super) fn add_edge(&mut self, from: &str, to: &str, file: &str) {
        self.add_node(to);
        let targets = self.edges.entry(from.to_owned()).or_default();
        targets.entry(to.to_owned()).or_default().insert(file.to_owned());
    }

    /// All that can be reached from a node, by one step or more.
    fn reachable(&self, from: &str) -> BTreeSet<&str> {
        let (mut reached, mut next) = (BTreeSet::new(), vec![from]);
        while let Some(node) = next.pop() {
            for to in self.edges.get(node).into_iter().flat_map(BTreeMap::keys) {
                if reached.insert(to.as_str()) {
                    next.push(to);
                }
            }
        }
        reached
    }

    /// The strongly connected components of more than one node.
    pub(super) fn cycles(&self) -> Vec<Vec<String>> {
        let reach: BTreeMap<&str, BTreeSet<&str>> =
            self.edges.keys().map(|node| (node.as_str(), self.reachable(node))).collect();
        let mut cycles = BTreeSet::new();
        for (node, reached) in &reach {
            let back = |other: &&&str| reach.get(**other).is_some_and(|it| it.contains(node));
            let cycle: Vec<String> =
                reached.iter().filter(back).map(|it| (*it).to_owned()).collect();
            if cycle.len() > 1 {
                cycles.insert(cycle);
            }
        }
        cycles.into_iter().collect()
    }

    /// The dependencies among some nodes, with their files.
    pub(super) fn edges_within<'a>(
        &'a self,
        nodes: &'a [String],
    ) -> impl Iterator<Item = String> + 'a {
        let inside = |name: &String| nodes.contains(name);
        self.edges.iter().filter(move |(from, _)| inside(from)).flat_map(move |(from, targets)| {
            targets.iter().filter(move |(to, _)| inside(to)).map(move |(to, files)| {
                let files: Vec<&str> = files.iter().map(String::as_str).collect();
                format!("{from} -> {to} ({})", files.join(", "))
            })
        })
    }

    /// The layers from the bottom up: each node stands above all that it depends on.
    pub(super) fn picture(&self) -> String {
        let cycles = self.cycles();
        let together = |one: &str, other: &str| {
            cycles.iter().any(|it| it.iter().any(|n| n == one) && it.iter().any(|n| n == other))
        };
        let mut levels: BTreeMap<&str, usize> = BTreeMap::new();
        // Each pass moves nodes up by at least one level; there are no more levels than nodes.
        for _ in 0..self.edges.len() {
            for (node, targets) in &self.edges {
                let below = targets.keys().filter(|to| !together(node, to));
                let level =
                    below.filter_map(|to| levels.get(to.as_str())).max().map_or(0, |it| it + 1);
                levels.insert(node, level);
            }
        }
        let mut text = String::new();
        for level in (0..=levels.values().copied().max().unwrap_or_default()).rev() {
            for (node, _) in levels.iter().filter(|(_, at)| **at == level) {
                let targets: Vec<&str> = self.edges[*node].keys().map(String::as_str).collect();
                // Writing to a String cannot fail.
                let _ = writeln!(text, "{level:>2}  {node:<16} -> {}", targets.join(" "));
            }
        }
        for cycle in &cycles {
            let _ = writeln!(text, "cycle: {}", cycle.join(" "));
            for edge in self.edges_within(cycle) {
                let _ = writeln!(text, "  {edge}");
            }
        }
        text
    }
}
