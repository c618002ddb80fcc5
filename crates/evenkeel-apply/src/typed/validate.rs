//! Validates a value against its type.
//!
//! The same checks run inside the comparison, so that an update walks each object only once.

use evenkeel_types::go;
use serde_json::{Map, Value};

use super::{Duplicates, Shape, Walker, item::ItemId};
use crate::{
    path::PathElement,
    schema::{ElementRelationship, ListType, MapType, Scalar, SchemaBuilder, TypeId},
};

impl Walker<'_> {
    pub(super) fn validate(&mut self, value: &Value, ty: TypeId, duplicates: Duplicates) {
        if SchemaBuilder::accepts_any_value(ty) {
            return;
        }
        match self.shape(ty, Some(value)) {
            Some(Shape::Scalar(scalar)) => self.validate_scalar(value, scalar),
            Some(Shape::List(list)) => match value {
                Value::Array(items) => self.validate_list(items, list, duplicates),
                other => self.expect_list(other),
            },
            Some(Shape::Map(map)) => match value {
                Value::Object(entries) => self.validate_entries(entries, map, duplicates),
                other => self.expect_map(other),
            },
            None => {}
        }
    }

    /// Validates the entries of a map. smd leaves a map at its first undeclared entry, in random
    /// order. This reports the longest of its possible results: all other errors, then one
    /// undeclared entry.
    fn validate_entries(
        &mut self,
        entries: &Map<String, Value>,
        map: &MapType,
        duplicates: Duplicates,
    ) {
        let mut undeclared = None;
        for (name, value) in entries {
            let Some(ty) = map.type_of(name) else {
                undeclared = undeclared.or(Some(name));
                continue;
            };
            let element = || PathElement::field(name);
            self.at(element, |walker| walker.validate(value, ty, duplicates));
        }
        if let Some(name) = undeclared {
            self.undeclared(name);
        }
    }

    fn validate_list(&mut self, items: &[Value], list: &ListType, duplicates: Duplicates) {
        if let ElementRelationship::Atomic = list.relationship {
            for (i, item) in items.iter().enumerate() {
                let element = || PathElement::Index(i64::try_from(i).unwrap_or(i64::MAX));
                self.at(element, |walker| walker.validate(item, list.element, duplicates));
            }
            return;
        }
        let (ids, error) = identities(items, list);
        let repeated = match duplicates {
            Duplicates::Reject => repeated(&ids),
            Duplicates::Allow => Vec::new(),
        };
        for (i, (item, id)) in items.iter().zip(&ids).enumerate() {
            if repeated.get(i) == Some(&true) {
                self.error(format!("duplicate entries for key {}", id.to_element()));
            }
            self.at(|| id.to_element(), |walker| walker.validate(item, list.element, duplicates));
        }
        if let Some(error) = error {
            self.error(error);
        }
    }

    /// Returns the keys of a list's items. Reports the first item without a key.
    pub(super) fn identify<'a>(
        &mut self,
        items: &'a [Value],
        list: &'a ListType,
    ) -> Option<Vec<ItemId<'a>>> {
        match identities(items, list) {
            (ids, None) => Some(ids),
            (_, Some(error)) => {
                self.error(error);
                None
            }
        }
    }

    pub(super) fn validate_scalar(&mut self, value: &Value, scalar: Scalar) {
        let fits = match scalar {
            Scalar::Numeric => value.is_number(),
            Scalar::String => value.is_string(),
            Scalar::Boolean => value.is_boolean(),
            Scalar::Untyped => !value.is_array() && !value.is_object(),
        };
        if fits || value.is_null() {
            return;
        }
        let message = match scalar {
            Scalar::Numeric => {
                format!("expected numeric (int or float), got {}", go::type_name(value))
            }
            Scalar::String => {
                format!(
                    "expected string, got &value.valueUnstructured{{Value:{}}}",
                    go::format_sharp_v(value)
                )
            }
            Scalar::Boolean => format!("expected boolean, got &{{{}}}", go::format_v(value)),
            Scalar::Untyped => format!("expected any scalar, got &{{{}}}", go::format_v(value)),
        };
        self.error(message);
    }

    /// Reports a value that is neither a list nor null.
    pub(super) fn expect_list(&mut self, value: &Value) {
        if !value.is_null() && !value.is_array() {
            self.error(format!("expected list, got &{{{}}}", go::format_v(value)));
        }
    }

    /// Reports a value that is neither a map nor null.
    pub(super) fn expect_map(&mut self, value: &Value) {
        if !value.is_null() && !value.is_object() {
            self.error(format!("expected map, got &{{{}}}", go::format_v(value)));
        }
    }
}

/// Returns the keys of a list's items up to the first without one, and the error of that one.
fn identities<'a>(items: &'a [Value], list: &'a ListType) -> (Vec<ItemId<'a>>, Option<String>) {
    let mut ids = Vec::with_capacity(items.len());
    for (i, item) in items.iter().enumerate() {
        match ItemId::of(list, item) {
            Ok(id) => ids.push(id),
            Err(message) => return (ids, Some(format!("element {i}: {message}"))),
        }
    }
    (ids, None)
}

/// Returns which items have the key of an earlier one; empty if none has.
fn repeated(ids: &[ItemId<'_>]) -> Vec<bool> {
    if ids.is_sorted_by(|a, b| a < b) {
        return Vec::new();
    }
    let mut sorted: Vec<usize> = (0..ids.len()).collect();
    sorted.sort_by(|&a, &b| ids[a].cmp(&ids[b]));
    let mut repeated = vec![false; ids.len()];
    for pair in sorted.windows(2) {
        // The sort is stable: the later of two equal items is second.
        repeated[pair[1]] = ids[pair[0]] == ids[pair[1]];
    }
    repeated
}
