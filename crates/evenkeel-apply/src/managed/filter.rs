//! Filters for reset fields: the fields that managers can own through an endpoint.
//!
//! The main resource resets `status`, `/status` resets `spec`, and a few subresources include only
//! specific fields (`/resize`: the resources of containers).

use crate::{path::PathElement, set::Set};

/// Restricts a field set to the fields of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Filter {
    /// All except these fields and the fields below them.
    Exclude(Set),
    /// Only these paths and the fields below them.
    Include(Vec<Vec<PathElementMatcher>>),
}

/// One element of an included path, as smd's `PathElementMatcher`.
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
