//! Pruning: removes fields that the schema does not specify and reports them.
//!
//! Roots of resources keep `apiVersion`, `kind` and `metadata`. Under
//! `x-kubernetes-preserve-unknown-fields` nothing is removed until a property or additional
//! property enables pruning again.

use std::fmt::Write;

use serde_json::Value;

use super::{Additional, Node, Structural};

impl Structural {
    /// Removes unspecified fields and returns their paths (`spec.list[0].x`), sorted.
    ///
    /// Keeps metadata unchanged; [`normalize`](Self::normalize) decodes it.
    pub(super) fn prune(&self, object: &mut Value) -> Vec<String> {
        let mut walk = Walk { path: String::new(), unknown: Vec::new() };
        walk.prune(object, Some(self.root()), true);
        walk.unknown.sort_unstable();
        walk.unknown
    }

    /// Removes nulls from fields that are neither nullable nor defaulted.
    ///
    /// Part of decoding, because typed clients do not distinguish null from absent.
    pub(super) fn drop_nulls(&self, object: &mut Value) {
        drop_nulls(object, Some(self.root()));
    }
}

pub(super) fn is_meta(field: &str) -> bool {
    matches!(field, "apiVersion" | "kind" | "metadata")
}

/// Prunes every default by its own schema. Defaults inside metadata are kept.
pub(super) fn prune_defaults(node: &mut Node, root: bool) {
    if let Some(mut value) = node.default.take() {
        Walk { path: String::new(), unknown: Vec::new() }.prune(
            &mut value,
            Some(node),
            node.embedded,
        );
        node.default = Some(value);
    }
    let resource = root || node.embedded;
    for (name, child) in &mut node.properties {
        if !(resource && is_meta(name)) {
            prune_defaults(child, false);
        }
    }
    if let Some(items) = &mut node.items {
        prune_defaults(items, false);
    }
    if let Additional::Schema(child) = &mut node.additional {
        prune_defaults(child, false);
    }
}

/// Returns whether `value` has no fields that pruning by `node` would remove.
pub(crate) fn is_pruned(value: &Value, node: &Node) -> bool {
    let mut copy = value.clone();
    let mut walk = Walk { path: String::new(), unknown: Vec::new() };
    walk.prune(&mut copy, Some(node), node.embedded);
    copy == *value
}

struct Walk {
    path: String,
    unknown: Vec<String>,
}

impl Walk {
    fn prune(&mut self, value: &mut Value, node: Option<&Node>, resource: bool) {
        let Some(node) = node else { return self.prune_all(value) };
        if node.preserve_unknown {
            return self.descend_preserved(value, node, resource);
        }
        let resource = resource || node.embedded;
        match value {
            Value::Object(map) => map.retain(|key, child| {
                if resource && is_meta(key) {
                    return true;
                }
                if let Some(property) = node.property(key) {
                    self.in_key(key, |walk| walk.prune(child, Some(property), false));
                    return true;
                }
                match &node.additional {
                    Additional::Schema(schema) => {
                        self.in_key(key, |walk| walk.prune(child, Some(schema), false));
                        true
                    }
                    // A field rejected by `additionalProperties: false` is kept; validation reports
                    // it.
                    Additional::Allowed(_) => {
                        self.in_key(key, |walk| walk.prune(child, None, false));
                        true
                    }
                    Additional::Unset => {
                        self.record(key);
                        false
                    }
                }
            }),
            Value::Array(items) => {
                for (i, item) in items.iter_mut().enumerate() {
                    self.in_index(i, |walk| walk.prune(item, node.items.as_deref(), false));
                }
            }
            _ => {}
        }
    }

    /// Prunes a value without a schema: removes all fields of maps, keeps scalars.
    fn prune_all(&mut self, value: &mut Value) {
        match value {
            Value::Object(map) => {
                for key in map.keys() {
                    self.record(key);
                }
                map.clear();
            }
            Value::Array(items) => {
                for (i, item) in items.iter_mut().enumerate() {
                    self.in_index(i, |walk| walk.prune_all(item));
                }
            }
            _ => {}
        }
    }

    fn descend_preserved(&mut self, value: &mut Value, node: &Node, resource: bool) {
        let resource = resource || node.embedded;
        match value {
            Value::Object(map) => {
                for (key, child) in map.iter_mut() {
                    if resource && is_meta(key) {
                        continue;
                    }
                    let schema = match (node.property(key), &node.additional) {
                        (Some(property), _) => Some(property),
                        (None, Additional::Schema(schema)) => Some(&**schema),
                        (None, Additional::Allowed(_)) => None,
                        (None, Additional::Unset) => continue,
                    };
                    self.in_key(key, |walk| walk.prune(child, schema, false));
                }
            }
            Value::Array(items) => {
                let Some(schema) = node.items.as_deref() else { return };
                for (i, item) in items.iter_mut().enumerate() {
                    self.in_index(i, |walk| walk.descend_preserved(item, schema, false));
                }
            }
            _ => {}
        }
    }

    fn record(&mut self, key: &str) {
        let dot = if self.path.is_empty() { "" } else { "." };
        self.unknown.push(format!("{}{dot}{key}", self.path));
    }

    fn in_key(&mut self, key: &str, f: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        if length > 0 {
            self.path.push('.');
        }
        self.path.push_str(key);
        f(self);
        self.path.truncate(length);
    }

    fn in_index(&mut self, index: usize, f: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        // Writing to a String cannot fail.
        let _ = write!(self.path, "[{index}]");
        f(self);
        self.path.truncate(length);
    }
}

fn drop_nulls(value: &mut Value, node: Option<&Node>) {
    // Without a schema, nullability is unknown.
    let Some(node) = node else { return };
    match value {
        Value::Object(map) => map.retain(|key, child| match node.field(key) {
            Some(schema) if child.is_null() => schema.nullable || schema.default.is_some(),
            schema => {
                drop_nulls(child, schema);
                true
            }
        }),
        Value::Array(items) => {
            for item in items {
                drop_nulls(item, node.items.as_deref());
            }
        }
        _ => {}
    }
}
