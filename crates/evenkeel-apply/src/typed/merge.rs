//! Lays an applied configuration over a live value.
//!
//! The live value is consumed and edited in place, so what the configuration does not mention is
//! neither walked nor copied.

use serde_json::{Map, Value};

use super::{Shape, Walk, item::Item};
use crate::{
    path::PathElement,
    schema::{ListType, MapType, Relation, TypeId},
};

impl Walk<'_> {
    pub(super) fn merge(&mut self, live: Value, applied: &Value, ty: TypeId) -> Value {
        self.merge_at(Some(live), applied, ty).unwrap_or(Value::Null)
    }

    /// `None` if nothing is left to say, as when two nulls of a list meet.
    fn merge_at(&mut self, live: Option<Value>, applied: &Value, ty: TypeId) -> Option<Value> {
        let Some(live) = live else { return Some(applied.clone()) };
        match self.shape(ty, Some(applied))? {
            Shape::Scalar(_) => Some(applied.clone()),
            Shape::List(list) => {
                let live = as_array(live);
                let items = applied.as_array().map_or(&[][..], Vec::as_slice);
                if matches!(list.relation, Relation::Atomic)
                    || (live.is_empty() && items.is_empty())
                {
                    return Some(applied.clone());
                }
                let merged = self.merge_lists(live, items, list);
                (!merged.is_empty()).then_some(Value::Array(merged))
            }
            Shape::Map(map) => {
                let live = as_object(live);
                let entries = applied.as_object();
                if map.atomic || (live.is_empty() && entries.is_none_or(Map::is_empty)) {
                    return Some(applied.clone());
                }
                let merged = self.merge_maps(live, entries, map);
                (!merged.is_empty()).then_some(Value::Object(merged))
            }
        }
    }

    fn merge_maps(
        &mut self,
        mut live: Map<String, Value>,
        applied: Option<&Map<String, Value>>,
        map: &MapType,
    ) -> Map<String, Value> {
        for (name, value) in applied.into_iter().flatten() {
            let Some(ty) = self.entry_type(map, name) else { continue };
            // Taking the value and leaving null keeps the entry in place while it is merged.
            let slot = live.get_mut(name);
            let before = slot.map(Value::take);
            let known = before.is_some();
            let element = || PathElement::field(name);
            let merged = self.at(element, |walk| walk.merge_at(before, value, ty)).flatten();
            match (merged, known) {
                (Some(merged), true) => live[name] = merged,
                (Some(merged), false) => {
                    live.insert(name.clone(), merged);
                }
                (None, true) => {
                    live.remove(name);
                }
                (None, false) => {}
            }
        }
        live
    }

    fn merge_lists(
        &mut self,
        mut live: Vec<Value>,
        applied: &[Value],
        list: &ListType,
    ) -> Vec<Value> {
        let plan = {
            let (Some(ids), Some(new)) = (self.identify(&live, list), self.identify(applied, list))
            else {
                return Vec::new();
            };
            plan(&ids, &new)
        };
        let mut merged = Vec::with_capacity(plan.len());
        for step in plan {
            match step {
                Step::Keep(at) => merged.push(live[at].take()),
                Step::Merge(before, after) => {
                    let item = &applied[after];
                    let before = before.map(|at| live[at].take());
                    let element = || match Item::of(list, item) {
                        Ok(id) => id.to_element(),
                        Err(_) => PathElement::Index(0),
                    };
                    let out = self.at(element, |walk| walk.merge_at(before, item, list.element));
                    merged.extend(out.flatten());
                }
            }
        }
        merged
    }
}

/// One item of a merged list.
enum Step {
    /// The live item at this position, untouched.
    Keep(usize),
    /// An applied item, over the live one of the same identity if there is exactly one.
    Merge(Option<usize>, usize),
}

/// What the live list says about an applied item.
#[derive(Clone, Copy)]
enum Known {
    No,
    Once(usize),
    /// Duplicates are not merged with: the applied item replaces them all.
    Repeatedly,
}

/// Orders a merged list: shared items as applied, live-only items where they were relative to the
/// shared ones, new items where the configuration has them.
fn plan(live: &[Item<'_>], applied: &[Item<'_>]) -> Vec<Step> {
    let mut by_id: Vec<usize> = (0..applied.len()).collect();
    by_id.sort_by(|&a, &b| applied[a].cmp(&applied[b]));
    let find = |id: &Item<'_>| {
        by_id.binary_search_by(|&at| applied[at].cmp(id)).ok().map(|found| by_id[found])
    };
    let partner: Vec<Option<usize>> = live.iter().map(find).collect();
    let mut known = vec![Known::No; applied.len()];
    for (at, partner) in partner.iter().enumerate() {
        if let Some(partner) = *partner {
            known[partner] = match known[partner] {
                Known::No => Known::Once(at),
                _ => Known::Repeatedly,
            };
        }
    }
    let merge = |at: usize| match known[at] {
        Known::Once(live) => Step::Merge(Some(live), at),
        _ => Step::Merge(None, at),
    };

    let mut shared = (0..applied.len()).filter(|&at| !matches!(known[at], Known::No));
    let mut next_shared = shared.next();
    let mut done = vec![false; applied.len()];
    let mut steps = Vec::with_capacity(live.len().max(applied.len()));
    let (mut l, mut r) = (0, 0);
    while l < live.len() || r < applied.len() {
        if l < live.len() && r < applied.len() {
            if partner[l] == Some(r) {
                steps.push(merge(r));
                done[r] = true;
                l += 1;
                r += 1;
                next_shared = shared.next();
                continue;
            }
            if partner[l].is_some() && next_shared.is_some() && next_shared != partner[l] {
                // Shared, but its turn comes later.
                l += 1;
                continue;
            }
        }
        if l < live.len() {
            match partner[l] {
                None => {
                    steps.push(Step::Keep(l));
                    l += 1;
                    continue;
                }
                Some(at) if done[at] => l += 1,
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

fn as_array(value: Value) -> Vec<Value> {
    match value {
        Value::Array(items) => items,
        _ => Vec::new(),
    }
}

fn as_object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(entries) => entries,
        _ => Map::new(),
    }
}
