//! The fields an endpoint lets somebody own.
//!
//! The main resource ignores `status`, `/status` ignores `spec`, and a few subresources only see
//! what they are for (`/resize`: the containers' resources).

use crate::{path::PathElement, set::Set};

/// Narrows a field set to what an endpoint manages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Filter {
    /// All but these fields and what lies below them.
    Exclude(Set),
    /// Only what lies on or below one of these paths.
    Include(Vec<Vec<PathElementMatcher>>),
}

/// One step of an including path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathElementMatcher {
    /// This element.
    Element(PathElement),
    /// Any element.
    Wildcard,
}

impl Filter {
    pub(super) fn apply(&self, set: Set) -> Set {
        match self {
            Self::Exclude(fields) => set.recursive_difference(fields),
            Self::Include(patterns) => {
                include(set, &patterns.iter().map(Vec::as_slice).collect::<Vec<_>>())
            }
        }
    }
}

fn include(set: Set, patterns: &[&[PathElementMatcher]]) -> Set {
    if patterns.iter().any(|pattern| pattern.is_empty()) {
        return set;
    }
    let mut kept = Set::new();
    for node in set.into_nodes() {
        let tails: Vec<_> = patterns
            .iter()
            .filter_map(|pattern| match pattern.split_first()? {
                (PathElementMatcher::Element(element), _) if *element != node.element => None,
                (_, tail) => Some(tail),
            })
            .collect();
        if !tails.is_empty() {
            let children = include(node.children, &tails);
            kept.push(node.element, crate::set::Tree { member: node.member, children });
        }
    }
    kept
}
