//! Field sets: a trie of path elements, as structured-merge-diff's `fieldpath.Set`.
//!
//! Invariant: siblings are strictly ascending, and every node is a member or has children, so that
//! two sets with the same members are the same tree.

use std::{cmp::Ordering, fmt};

use crate::path::{self, Path, PathElement};

mod fields_v1;
#[cfg(test)]
mod tests;

pub use fields_v1::FieldsError;

/// A set of field paths.
///
/// A member does not imply its parents or children: `.a.b` may be in the set without `.a`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Set {
    nodes: Vec<Node>,
}

/// One node of the trie: whether its path is in the set, and the members below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) element: PathElement,
    pub(crate) member: bool,
    pub(crate) children: Set,
}

/// The result of a walk for one position: whether it is a member, and the members below it.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    pub(crate) member: bool,
    pub(crate) children: Set,
}

impl Tree {
    pub(crate) fn is_empty(&self) -> bool {
        !self.member && self.children.is_empty()
    }

    pub(crate) fn at(self, element: PathElement) -> Node {
        Node { element, member: self.member, children: self.children }
    }
}

// === impl Set ===

impl Set {
    /// Creates an empty set.
    pub const fn new() -> Self {
        Self { nodes: Vec::new() }
    }

    /// Creates the set of the given paths.
    pub fn from_paths<P: AsRef<[PathElement]>>(paths: impl IntoIterator<Item = P>) -> Self {
        let mut set = Self::new();
        for path in paths {
            set.insert(path.as_ref());
        }
        set
    }

    /// Returns whether the set has no members.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Returns the number of members.
    pub fn len(&self) -> usize {
        self.nodes.iter().map(|node| usize::from(node.member) + node.children.len()).sum()
    }

    /// Adds a path. The empty path is ignored: it would be the object itself.
    pub fn insert(&mut self, path: &[PathElement]) {
        let Some((element, rest)) = path.split_first() else { return };
        let at = match self.find(element) {
            Ok(at) => at,
            Err(at) => {
                let node = Tree::default().at(element.clone());
                self.nodes.insert(at, node);
                at
            }
        };
        match rest {
            [] => self.nodes[at].member = true,
            rest => self.nodes[at].children.insert(rest),
        }
    }

    /// Returns whether the path is a member.
    pub fn has(&self, path: &[PathElement]) -> bool {
        let Some((element, rest)) = path.split_first() else { return false };
        let Some(node) = self.node(element) else { return false };
        if rest.is_empty() { node.member } else { node.children.has(rest) }
    }

    /// Returns the paths that are in either set.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        if self.is_empty() || other.is_empty() {
            return if self.is_empty() { other } else { self };
        }
        let mut nodes = Vec::with_capacity(self.nodes.len().max(other.nodes.len()));
        let (mut left, mut right) =
            (self.nodes.into_iter().peekable(), other.nodes.into_iter().peekable());
        loop {
            let order = match (left.peek(), right.peek()) {
                (Some(a), Some(b)) => a.element.cmp(&b.element),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => return Self { nodes },
            };
            let a = if order.is_le() { left.next() } else { None };
            let b = if order.is_ge() { right.next() } else { None };
            nodes.extend(match (a, b) {
                (Some(mut a), Some(b)) => {
                    a.member |= b.member;
                    a.children = a.children.union(b.children);
                    Some(a)
                }
                (a, b) => a.or(b),
            });
        }
    }

    /// Returns the paths that are in any of the sets.
    pub(crate) fn union_all(mut sets: Vec<Self>) -> Self {
        // Pairwise: sequential unions would move every element once per set.
        while sets.len() > 1 {
            let mut pairs = sets.into_iter();
            sets = Vec::with_capacity(pairs.len().div_ceil(2));
            while let Some(first) = pairs.next() {
                sets.push(first.union(pairs.next().unwrap_or_default()));
            }
        }
        sets.pop().unwrap_or_default()
    }

    /// Returns the paths that are in both sets.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let mut others = other.nodes.as_slice();
        let mut set = Self::new();
        for node in &self.nodes {
            if let Some(other) = seek(&mut others, &node.element) {
                let member = node.member && other.member;
                let children = node.children.intersection(&other.children);
                if member || !children.is_empty() {
                    set.nodes.push(Node { element: node.element.clone(), member, children });
                }
            }
        }
        set
    }

    /// Returns whether every member of this set is in the other.
    pub fn is_subset(&self, other: &Self) -> bool {
        let mut others = other.nodes.as_slice();
        self.nodes.iter().all(|node| {
            seek(&mut others, &node.element).is_some_and(|other| {
                (!node.member || other.member) && node.children.is_subset(&other.children)
            })
        })
    }

    /// Returns the paths that are in this set and not in the other: removing `.a` keeps `.a.b`.
    #[must_use]
    pub fn difference(mut self, other: &Self) -> Self {
        self.subtract(other, &|node, other| {
            node.member &= !other.member;
            node.children = std::mem::take(&mut node.children).difference(&other.children);
        });
        self
    }

    /// Returns the paths that are in this set and neither in the other nor below one of its
    /// members.
    #[must_use]
    pub fn recursive_difference(mut self, other: &Self) -> Self {
        self.subtract(other, &|node, other| {
            let children = std::mem::take(&mut node.children);
            if other.member {
                node.member = false;
            } else {
                node.children = children.recursive_difference(&other.children);
            }
        });
        self
    }

    /// Edits the nodes that are also in the other set and removes nodes that become empty.
    fn subtract(&mut self, other: &Self, edit: &impl Fn(&mut Node, &Node)) {
        let mut others = other.nodes.as_slice();
        if others.is_empty() {
            return;
        }
        self.nodes.retain_mut(|node| {
            if let Some(other) = seek(&mut others, &node.element) {
                edit(node, other);
            }
            node.member || !node.children.is_empty()
        });
    }

    /// Returns the members without members below them.
    pub fn leaves(&self) -> Self {
        let leaf = |node: &Node| Node {
            element: node.element.clone(),
            member: node.member && node.children.is_empty(),
            children: node.children.leaves(),
        };
        Self { nodes: self.nodes.iter().map(leaf).collect() }
    }

    /// Calls `visit` for every member: the members of a level first, then those below.
    pub fn for_each(&self, mut visit: impl FnMut(&[PathElement])) {
        self.walk(&mut Path::new(), &mut visit);
    }

    /// Returns every member, in the order of [`Set::for_each`].
    pub fn paths(&self) -> Vec<Path> {
        let mut paths = Vec::new();
        self.for_each(|path| paths.push(path.to_vec()));
        paths
    }

    fn walk(&self, prefix: &mut Path, visit: &mut impl FnMut(&[PathElement])) {
        for node in self.nodes.iter().filter(|node| node.member) {
            prefix.push(node.element.clone());
            visit(prefix);
            prefix.pop();
        }
        for node in self.nodes.iter().filter(|node| !node.children.is_empty()) {
            prefix.push(node.element.clone());
            node.children.walk(prefix, visit);
            prefix.pop();
        }
    }

    fn find(&self, element: &PathElement) -> Result<usize, usize> {
        // Walkers insert in ascending order, so the end is checked first.
        match self.nodes.last().map(|last| last.element.cmp(element)) {
            None | Some(Ordering::Less) => Err(self.nodes.len()),
            Some(Ordering::Equal) => Ok(self.nodes.len() - 1),
            Some(Ordering::Greater) => {
                self.nodes.binary_search_by(|node| node.element.cmp(element))
            }
        }
    }

    pub(crate) fn node(&self, element: &PathElement) -> Option<&Node> {
        self.find(element).ok().map(|at| &self.nodes[at])
    }

    /// Returns the node of a field, without building an element.
    pub(crate) fn field(&self, name: &str) -> Option<&Node> {
        let order = |node: &Node| match &node.element {
            PathElement::Field(field) => (**field).cmp(name),
            _ => Ordering::Greater,
        };
        self.nodes.binary_search_by(order).ok().map(|at| &self.nodes[at])
    }

    /// Returns the node for which `order` is equal. `order` must be consistent with the order of
    /// elements.
    pub(crate) fn search(&self, order: impl FnMut(&Node) -> Ordering) -> Option<&Node> {
        self.nodes.binary_search_by(order).ok().map(|at| &self.nodes[at])
    }

    pub(crate) fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    pub(crate) fn into_nodes(self) -> Vec<Node> {
        self.nodes
    }

    pub(crate) fn reserve(&mut self, additional: usize) {
        self.nodes.reserve(additional);
    }

    /// Appends a node that sorts after all others. Empty nodes are skipped.
    pub(crate) fn push(&mut self, element: PathElement, tree: Tree) {
        debug_assert!(self.nodes.last().is_none_or(|last| last.element < element));
        if !tree.is_empty() {
            self.nodes.push(tree.at(element));
        }
    }

    /// Creates a set from nodes that satisfy the invariant of the type.
    pub(crate) fn from_sorted(nodes: Vec<Node>) -> Self {
        debug_assert!(nodes.is_sorted_by(|a, b| a.element < b.element));
        Self { nodes }
    }
}

/// Advances sorted nodes past an element and returns its node.
///
/// Uses exponential search, so that few elements are found among many without visiting all of them.
fn seek<'n>(nodes: &mut &'n [Node], element: &PathElement) -> Option<&'n Node> {
    let mut stride = 1;
    let mut from = 0;
    while nodes.get(from + stride - 1).is_some_and(|node| node.element < *element) {
        from += stride;
        stride *= 2;
    }
    let until = nodes.len().min(from + stride);
    let at = from + nodes[from..until].partition_point(|node| node.element < *element);
    *nodes = &nodes[at..];
    let (first, rest) = nodes.split_first()?;
    if first.element != *element {
        return None;
    }
    *nodes = rest;
    Some(first)
}

/// Formats one member per line.
impl fmt::Display for Set {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines = Vec::new();
        self.for_each(|member| lines.push(path::print(member)));
        f.write_str(&lines.join("\n"))
    }
}
