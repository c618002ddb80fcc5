//! Compares two values, as smd's `TypedValue.Compare`.

use std::{cmp::Ordering, fmt};

use serde_json::{Map, Value};

use super::{Duplicates, Shape, Walker, item::ItemId};
use crate::{
    path::PathElement,
    schema::{ElementRelationship, ListType, MapType, TypeId},
    set::{Set, Tree},
    value::equal,
};

/// The fields in which two values differ. No field is in more than one of the sets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Fields that only the new value has.
    pub added: Set,
    /// Fields with different values.
    pub modified: Set,
    /// Fields that only the old value has.
    pub removed: Set,
}

impl Comparison {
    /// Returns whether the values are equal.
    pub fn is_same(&self) -> bool {
        self.added.is_empty() && self.modified.is_empty() && self.removed.is_empty()
    }

    pub(crate) fn map(self, each: impl Fn(Set) -> Set) -> Self {
        Self { added: each(self.added), modified: each(self.modified), removed: each(self.removed) }
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (title, set) in
            [("Modified", &self.modified), ("Added", &self.added), ("Removed", &self.removed)]
        {
            if !set.is_empty() {
                writeln!(f, "- {title} Fields:\n{set}")?;
            }
        }
        Ok(())
    }
}

/// The comparison of one position and everything below it.
#[derive(Default)]
struct Diff {
    added: Tree,
    modified: Tree,
    removed: Tree,
}

impl Diff {
    fn push(&mut self, element: impl Fn() -> PathElement, child: Self) {
        for (set, tree) in [
            (&mut self.added.children, child.added),
            (&mut self.modified.children, child.modified),
            (&mut self.removed.children, child.removed),
        ] {
            if !tree.is_empty() {
                set.push(element(), tree);
            }
        }
    }

    fn leaf(&mut self, old: Option<&Value>, new: Option<&Value>) {
        match (old, new) {
            (None, _) => self.added.member = true,
            (_, None) => self.removed.member = true,
            (Some(old), Some(new)) => self.modified.member |= !equal(old, new),
        }
    }
}

impl<'s> Walker<'s> {
    pub(super) fn compare(&mut self, old: &Value, new: &Value, ty: TypeId) -> Comparison {
        let diff = self.diff(Some(old), Some(new), ty);
        Comparison {
            added: diff.added.children,
            modified: diff.modified.children,
            removed: diff.removed.children,
        }
    }

    fn diff(&mut self, old: Option<&Value>, new: Option<&Value>, ty: TypeId) -> Diff {
        let mut diff = Diff::default();
        let by_old = old.map(|old| self.checked_shape(ty, old));
        let by_new = new.map(|new| self.checked_shape(ty, new));
        let (Some(first), second) = (match (by_old, by_new) {
            (Some(old), None) => (old, None),
            (None, Some(new)) => (new, None),
            // A value that changed its shape is removed with the old shape and added with the new
            // one.
            (Some(Some(old)), Some(Some(new))) if !old.same(new) => (Some(old), Some(new)),
            (_, Some(new)) => (new, None),
            (None, None) => (None, None),
        }) else {
            return diff;
        };
        let mut leaf = self.diff_as(first, old, new, ty, &mut diff);
        if let Some(second) = second {
            leaf = self.diff_as(second, old, new, ty, &mut diff);
        }
        if !leaf {
            diff.added.member |= old.is_none();
            diff.removed.member |= new.is_none();
        }
        diff
    }

    /// Compares with one shape. Returns whether the position is a leaf.
    fn diff_as(
        &mut self,
        shape: Shape<'_>,
        old: Option<&Value>,
        new: Option<&Value>,
        ty: TypeId,
        diff: &mut Diff,
    ) -> bool {
        let sides = [old, new];
        match shape {
            Shape::Scalar(_) => {
                diff.leaf(old, new);
                true
            }
            Shape::List(list) => {
                let [old_items, new_items] = sides.map(|side| side.and_then(Value::as_array));
                let [old_items, new_items] =
                    [old_items, new_items].map(|items| items.map_or(&[][..], Vec::as_slice));
                let atomic = matches!(list.relationship, ElementRelationship::Atomic);
                // Two empty lists are a leaf: null and empty differ.
                if atomic || (old_items.is_empty() && new_items.is_empty()) {
                    self.validate_whole(sides, ty);
                    diff.leaf(old, new);
                    return true;
                }
                self.diff_lists(old_items, new_items, list, diff);
                false
            }
            Shape::Map(map) => {
                let [old_map, new_map] = sides.map(|side| side.and_then(Value::as_object));
                let empty = |map: Option<&Map<String, Value>>| map.is_none_or(Map::is_empty);
                if map.atomic || (empty(old_map) && empty(new_map)) {
                    self.validate_whole(sides, ty);
                    diff.leaf(old, new);
                    return true;
                }
                self.diff_maps(old_map, new_map, map, diff);
                false
            }
        }
    }

    fn checked_shape(&mut self, ty: TypeId, value: &Value) -> Option<Shape<'s>> {
        let shape = self.shape(ty, Some(value))?;
        match shape {
            Shape::Scalar(scalar) => self.validate_scalar(value, scalar),
            Shape::List(_) => self.expect_list(value),
            Shape::Map(_) => self.expect_map(value),
        }
        Some(shape)
    }

    /// Validates values that are compared as a whole and therefore not walked.
    fn validate_whole(&mut self, sides: [Option<&Value>; 2], ty: TypeId) {
        let filled = |value: &&Value| match value {
            Value::Array(items) => !items.is_empty(),
            Value::Object(entries) => !entries.is_empty(),
            _ => false,
        };
        for value in sides.into_iter().flatten().filter(filled) {
            self.validate(value, ty, Duplicates::Allow);
        }
    }

    fn diff_maps(
        &mut self,
        old: Option<&Map<String, Value>>,
        new: Option<&Map<String, Value>>,
        map: &MapType,
        diff: &mut Diff,
    ) {
        if old.is_none() {
            diff.added.children.reserve(new.map_or(0, Map::len));
        }
        let mut old = old.into_iter().flatten().peekable();
        let mut new = new.into_iter().flatten().peekable();
        loop {
            let (name, order) = match (old.peek(), new.peek()) {
                (Some((a, _)), Some((b, _))) => (*a.min(b), a.cmp(b)),
                (Some((a, _)), None) => (*a, Ordering::Less),
                (None, Some((b, _))) => (*b, Ordering::Greater),
                (None, None) => return,
            };
            let before = if order.is_le() { old.next() } else { None };
            let after = if order.is_ge() { new.next() } else { None };
            let Some((ty, field)) = self.entry(map, name) else { continue };
            let element = || PathElement::of_entry(name, field);
            let (before, after) = (before.map(|(_, value)| value), after.map(|(_, value)| value));
            if let Some(child) = self.at(element, |walker| walker.diff(before, after, ty)) {
                diff.push(element, child);
            }
        }
    }

    fn diff_lists(&mut self, old: &[Value], new: &[Value], list: &ListType, diff: &mut Diff) {
        let (Some(old), Some(new)) = (self.sorted(old, list), self.sorted(new, list)) else {
            return;
        };
        let mut old = old.chunk_by(|(a, _), (b, _)| a == b).peekable();
        let mut new = new.chunk_by(|(a, _), (b, _)| a == b).peekable();
        loop {
            let order = match (old.peek(), new.peek()) {
                (Some(a), Some(b)) => a[0].0.cmp(&b[0].0),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => return,
            };
            let before = if order.is_le() { old.next().unwrap_or_default() } else { &[] };
            let after = if order.is_ge() { new.next().unwrap_or_default() } else { &[] };
            let Some((id, _)) = before.first().or(after.first()) else { return };
            let element = || id.to_element();
            let child = self.at(element, |walker| walker.diff_items(before, after, list.element));
            if let Some(child) = child {
                diff.push(element, child);
            }
        }
    }

    /// Compares the items with one key.
    fn diff_items(
        &mut self,
        old: &[(ItemId<'_>, &Value)],
        new: &[(ItemId<'_>, &Value)],
        ty: TypeId,
    ) -> Diff {
        let duplicated = [old, new].map(|items| items.len() > 1);
        for items in [old, new].into_iter().filter(|items| items.len() > 1) {
            for (_, item) in items {
                self.validate(item, ty, Duplicates::Allow);
            }
        }
        let [first_old, first_new] = [old, new].map(|items| items.first().map(|(_, item)| *item));
        match duplicated {
            [false, false] => self.diff(first_old, first_new, ty),
            [true, true] => {
                let same = old.len() == new.len()
                    && old.iter().zip(new).all(|((_, old), (_, new))| equal(old, new));
                let mut diff = Diff::default();
                diff.modified.member = !same;
                diff
            }
            // From several items to one: the shared member is removed, the remaining item is added.
            [true, false] => {
                let mut diff =
                    first_new.map(|new| self.diff(None, Some(new), ty)).unwrap_or_default();
                diff.removed.member = true;
                diff
            }
            [false, true] => {
                let mut diff =
                    first_old.map(|old| self.diff(Some(old), None, ty)).unwrap_or_default();
                diff.added.member = true;
                diff
            }
        }
    }

    fn sorted<'a>(
        &mut self,
        items: &'a [Value],
        list: &'a ListType,
    ) -> Option<Vec<(ItemId<'a>, &'a Value)>> {
        let mut sorted: Vec<_> = self.identify(items, list)?.into_iter().zip(items).collect();
        sorted.sort_by(|(a, _), (b, _)| a.cmp(b));
        Some(sorted)
    }
}

impl Shape<'_> {
    fn same(self, other: Self) -> bool {
        std::mem::discriminant(&self) == std::mem::discriminant(&other)
    }
}
