//! Correlates new values with old ones to detect changes, for validation ratcheting.
//!
//! Fields are correlated by name, items of `x-kubernetes-list-type: map` by their keys, other items
//! not at all. A value without an old counterpart, or outside the schema, counts as changed.
//! Mirrors upstream's `common.CorrelatedObject`.

use std::collections::HashMap;

use evenkeel_types::{go, json};
use serde_json::{Map, Value};

use super::{ListType, Node};

/// The old counterpart of a value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Correlation<'a> {
    pub(super) value: &'a Value,
}

impl<'a> Correlation<'a> {
    pub(super) fn new(value: &'a Value) -> Self {
        Self { value }
    }

    pub(super) fn field(self, name: &str) -> Option<Self> {
        self.value.as_object()?.get(name).map(Self::new)
    }
}

/// The items of an old list of type map, by key.
pub(super) struct OldItems<'a> {
    keys: &'a [Box<str>],
    by_key: HashMap<String, &'a Value>,
}

impl<'a> OldItems<'a> {
    pub(super) fn new(keys: &'a [Box<str>], old: &'a Value) -> Self {
        let mut by_key = HashMap::new();
        if !keys.is_empty() {
            for item in old.as_array().into_iter().flatten() {
                if let Some(key) = item.as_object().and_then(|item| key_of(keys, item)) {
                    by_key.entry(key).or_insert(item);
                }
            }
        }
        Self { keys, by_key }
    }

    pub(super) fn counterpart(&self, item: &Value) -> Option<Correlation<'a>> {
        let key = key_of(self.keys, item.as_object()?)?;
        self.by_key.get(&key).copied().map(Correlation::new)
    }
}

/// Returns the item's key as text if all parts are present and scalar.
fn key_of(keys: &[Box<str>], item: &Map<String, Value>) -> Option<String> {
    let mut composite = String::new();
    for key in keys {
        composite.push('\0');
        match item.get(&**key)? {
            Value::String(text) => json::string(&mut composite, text),
            Value::Bool(flag) => composite.push_str(if *flag { "true" } else { "false" }),
            Value::Number(number) => match go::Num::of(number) {
                go::Num::Int(i) => composite.push_str(&i.to_string()),
                // An integral float is a different key than the integer.
                go::Num::Float(f) => composite.push_str(&format!("{f:?}")),
            },
            _ => return None,
        }
    }
    Some(composite)
}

/// Returns whether the new value equals its old counterpart, as far as the schema covers it.
pub(super) fn is_unchanged(node: &Node, new: &Value, old: &Value) -> bool {
    match (new, old) {
        (Value::Array(new_items), Value::Array(old_items)) => {
            if new_items.len() != old_items.len() {
                return false;
            }
            let ListType::Map(keys) = &node.list else { return new_items == old_items };
            let old_items = OldItems::new(keys, old);
            new_items.iter().all(|item| match (&node.items, old_items.counterpart(item)) {
                (Some(schema), Some(old)) => is_unchanged(schema, item, old.value),
                _ => false,
            })
        }
        (Value::Object(new_map), Value::Object(old_map)) => {
            new_map.len() == old_map.len()
                && new_map.iter().all(|(key, child)| match (node.field(key), old_map.get(key)) {
                    (Some(schema), Some(old)) => is_unchanged(schema, child, old),
                    _ => false,
                })
        }
        _ => new == old,
    }
}
