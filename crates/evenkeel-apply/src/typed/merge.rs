//! Merges an applied configuration into a live value, as the `mergingWalker` of
//! structured-merge-diff (`typed/merge.go`) with the rule `ruleKeepRHS`: [`Walker::merge`] is its
//! `doScalar`, `doList` and `doMap`, `merge_maps` its `visitMapItems`, and [`merged_order`] the loop of
//! its `visitListItems`.
//!
//! The walk only reads. Its result is an [`Edit`] that borrows from the configuration: none if
//! nothing changes, otherwise as large as the difference. Unchanged parts are not copied, and parts
//! that the configuration does not mention are not visited.

use std::{cmp::Ordering, iter::Peekable};

use serde_json::{Map, Value};

use super::{Shape, Walker, item::ItemId};
use crate::{
    path::PathElement,
    schema::{ElementRelationship, ListType, MapType, TypeId},
    value::equal,
};

/// The changes that turn a live value into the merged one.
#[derive(Debug)]
pub(crate) enum Edit<'a> {
    /// Replaces the value.
    Set(&'a Value),
    /// Edits or adds entries.
    Entries(Vec<(&'a str, Edit<'a>)>),
    /// Replaces the list by these items.
    Items(Vec<Slot<'a>>),
}

/// An item of a merged list.
#[derive(Debug)]
pub(crate) enum Slot<'a> {
    /// The live item at a position, possibly edited.
    Live(usize, Option<Edit<'a>>),
    /// An item of the configuration.
    New(&'a Value),
}

impl Edit<'_> {
    /// Applies the edit to the live value or a copy of it.
    pub(crate) fn apply(self, value: &mut Value) {
        match self {
            Self::Set(new) => *value = new.clone(),
            Self::Entries(edits) => {
                if !value.is_object() {
                    *value = Value::Object(Map::new());
                }
                let Value::Object(entries) = value else { return };
                for (name, edit) in edits {
                    match (entries.get_mut(name), edit) {
                        (Some(entry), edit) => edit.apply(entry),
                        (None, edit) => {
                            let mut entry = Value::Null;
                            edit.apply(&mut entry);
                            entries.insert(name.to_owned(), entry);
                        }
                    }
                }
            }
            Self::Items(slots) => {
                let mut live = match value.take() {
                    Value::Array(items) => items,
                    _ => Vec::new(),
                };
                let item = |slot| match slot {
                    Slot::New(item) => item.clone(),
                    Slot::Live(at, edit) => {
                        let mut item = live.get_mut(at).map(Value::take).unwrap_or_default();
                        if let Some(edit) = edit {
                            edit.apply(&mut item);
                        }
                        item
                    }
                };
                *value = Value::Array(slots.into_iter().map(item).collect());
            }
        }
    }
}

impl Walker<'_> {
    /// Returns `None` if the live value equals the merged one.
    pub(super) fn merge<'a>(
        &mut self,
        live: &Value,
        applied: &'a Value,
        ty: TypeId,
    ) -> Option<Edit<'a>> {
        // `doLeaf`: the applied value replaces the live one.
        let whole = || (!equal(live, applied)).then_some(Edit::Set(applied));
        match self.shape(ty, Some(applied))? {
            Shape::Scalar(_) => whole(),
            Shape::List(list) => {
                let items = applied.as_array().map_or(&[][..], Vec::as_slice);
                let live_items = live.as_array().map_or(&[][..], Vec::as_slice);
                // Two empty lists are a leaf, as upstream: this keeps the difference of empty and null.
                if matches!(list.relationship, ElementRelationship::Atomic)
                    || (live_items.is_empty() && items.is_empty())
                {
                    return whole();
                }
                self.merge_lists(live_items, items, list)
            }
            Shape::Map(map) => {
                let entries = applied.as_object();
                let live_entries = live.as_object();
                let empty = |map: Option<&Map<_, _>>| map.is_none_or(Map::is_empty);
                if map.atomic || (empty(live_entries) && empty(entries)) {
                    return whole();
                }
                self.merge_maps(live_entries, entries?, map)
            }
        }
    }

    fn merge_maps<'a>(
        &mut self,
        live: Option<&Map<String, Value>>,
        applied: &'a Map<String, Value>,
        map: &MapType,
    ) -> Option<Edit<'a>> {
        let mut edits = Vec::new();
        // Both maps are sorted by name, so that one pass over the live one finds all counterparts.
        let mut live = live.into_iter().flatten().peekable();
        for (name, value) in applied {
            let Some((ty, _)) = self.entry(map, name) else { continue };
            let edit = match advance(&mut live, name) {
                None => Some(Edit::Set(value)),
                Some(before) => {
                    let element = || PathElement::field(name);
                    self.at(element, |walker| walker.merge(before, value, ty)).flatten()
                }
            };
            edits.extend(edit.map(|edit| (name.as_str(), edit)));
        }
        (!edits.is_empty()).then_some(Edit::Entries(edits))
    }

    fn merge_lists<'a>(
        &mut self,
        live: &[Value],
        applied: &'a [Value],
        list: &ListType,
    ) -> Option<Edit<'a>> {
        let (ids, new) = (self.identify(live, list)?, self.identify(applied, list)?);
        let mut slot = |step| match step {
            Step::Keep(at) => Slot::Live(at, None),
            Step::New(after) => Slot::New(&applied[after]),
            Step::Merge(at, after) => {
                let merge =
                    |walker: &mut Self| walker.merge(&live[at], &applied[after], list.element);
                Slot::Live(at, self.at(|| new[after].to_element(), merge).flatten())
            }
        };
        // Most applies have the items of the live list in its order.
        let slots: Vec<_> = if ids == new {
            (0..ids.len()).map(|at| slot(Step::Merge(at, at))).collect()
        } else {
            merged_order(&ids, &new).into_iter().map(slot).collect()
        };
        let untouched = |(position, slot): (usize, &Slot<'_>)| matches!(slot, Slot::Live(at, None) if *at == position);
        let same = slots.len() == live.len() && slots.iter().enumerate().all(untouched);
        (!same).then_some(Edit::Items(slots))
    }
}

/// Advances a sorted map to the entry with this name.
fn advance<'l>(
    entries: &mut Peekable<impl Iterator<Item = (&'l String, &'l Value)>>,
    name: &str,
) -> Option<&'l Value> {
    loop {
        match entries.peek()?.0.as_str().cmp(name) {
            Ordering::Less => entries.next(),
            Ordering::Equal => return entries.next().map(|(_, value)| value),
            Ordering::Greater => return None,
        };
    }
}

/// One item of a merged list.
#[derive(Clone, Copy)]
enum Step {
    /// The live item at this position, unchanged.
    Keep(usize),
    /// A live item and the applied item with the same key.
    Merge(usize, usize),
    /// An applied item without a live one.
    New(usize),
}

/// The live items with the key of an applied item.
#[derive(Clone, Copy)]
enum LiveMatch {
    None,
    Once(usize),
    /// Duplicates are not merged: the applied item replaces all of them.
    Multiple,
}

/// Orders a merged list: shared items in applied order, live-only items at their position relative
/// to the shared ones, new items where the configuration has them.
///
/// The loop of smd's `visitListItems`, branch by branch, because the order is observable. `l` and `r`
/// are its `lI` and `rI`, `next_shared` its `nextShared`, `done` its `mergedRHS`.
fn merged_order(live: &[ItemId<'_>], applied: &[ItemId<'_>]) -> Vec<Step> {
    let mut by_id: Vec<usize> = (0..applied.len()).collect();
    by_id.sort_by(|&a, &b| applied[a].cmp(&applied[b]));
    let find = |id: &ItemId<'_>| {
        by_id.binary_search_by(|&at| applied[at].cmp(id)).ok().map(|found| by_id[found])
    };
    let counterpart: Vec<Option<usize>> = live.iter().map(find).collect();
    let mut live_match = vec![LiveMatch::None; applied.len()];
    for (at, counterpart) in counterpart.iter().enumerate() {
        if let Some(counterpart) = *counterpart {
            live_match[counterpart] = match live_match[counterpart] {
                LiveMatch::None => LiveMatch::Once(at),
                _ => LiveMatch::Multiple,
            };
        }
    }
    let merge = |at: usize| match live_match[at] {
        LiveMatch::Once(live) => Step::Merge(live, at),
        _ => Step::New(at),
    };

    let mut shared = (0..applied.len()).filter(|&at| !matches!(live_match[at], LiveMatch::None));
    let mut next_shared = shared.next();
    let mut done = vec![false; applied.len()];
    let mut steps = Vec::with_capacity(live.len().max(applied.len()));
    let (mut l, mut r) = (0, 0);
    while l < live.len() || r < applied.len() {
        if l < live.len() && r < applied.len() {
            // Both are at the same item.
            if counterpart[l] == Some(r) {
                steps.push(merge(r));
                done[r] = true;
                l += 1;
                r += 1;
                next_shared = shared.next();
                continue;
            }
            if counterpart[l].is_some() && next_shared.is_some() && next_shared != counterpart[l] {
                // A shared item that is merged later.
                l += 1;
                continue;
            }
        }
        if l < live.len() {
            match counterpart[l] {
                // Only the live list has it. It comes before the applied items that follow the last
                // shared one.
                None => {
                    steps.push(Step::Keep(l));
                    l += 1;
                    continue;
                }
                // It was merged at its position in the configuration. The applied item below is added
                // in the same pass, as upstream does.
                Some(at) if done[at] => l += 1,
                // The next shared item: the applied items before it come first.
                Some(_) => {}
            }
        }
        if r < applied.len() {
            steps.push(merge(r));
            done[r] = true;
            if next_shared == Some(r) {
                next_shared = shared.next();
            }
            r += 1;
        }
    }
    steps
}
