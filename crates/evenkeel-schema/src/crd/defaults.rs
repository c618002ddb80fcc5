//! Validates `default` values: they must match their schema and its rules, contain no unknown fields,
//! and produce valid metadata inside `metadata`.

use serde_json::{Map, Value, json};

use super::schema::Schema;
use super::shape;
use crate::field::{Error, aggregate};
use crate::metadata::Malformed;
use crate::structural::{
    Node, Purpose, check_against, check_rules, coerce_embedded, compile, is_pruned,
    validate_embedded,
};

/// Validates every default of a structural schema.
pub(super) fn check(schema: Schema<'_>, path: &str, require_pruned: bool) -> Vec<Error> {
    let Some(root) = compiled(schema, Purpose::Default) else { return Vec::new() };
    let Some(ruled) = compiled(schema, Purpose::Resource) else { return Vec::new() };
    let mut errors = Vec::new();
    let walk = Walk { resource: &root, steps: &Steps::Root, in_metadata: false, require_pruned };
    walk.check(Checked { node: &root, ruled: &ruled }, path, &mut errors);
    errors
}

/// Returns whether a structural schema has a default with unknown fields.
pub(super) fn has_unpruned(schema: Schema<'_>) -> bool {
    fn unpruned(node: &Node) -> bool {
        let own = node.default.as_ref().is_some_and(|default| !is_pruned(default, node));
        own || node.properties.iter().any(|(_, child)| unpruned(child))
            || node.items.as_deref().is_some_and(unpruned)
    }
    !shape::is_not_structural(schema)
        && compiled(schema, Purpose::Default).is_some_and(|root| unpruned(&root))
}

/// Drops the unknown metadata fields of embedded resources from the defaults of a valid schema.
///
/// Upstream's validation coerces the defaults in place, so that they are stored without these fields.
pub(super) fn coerce(schema: &mut Value) {
    let is_embedded = |schema: Schema<'_>| schema.flag("x-kubernetes-embedded-resource");
    let given = Schema::new(schema);
    if given.get("default").is_none() && !given.has(&is_embedded) {
        return;
    }
    if let (Some(root), Value::Object(schema)) = (compiled(given, Purpose::Default), schema) {
        coerce_node(&root, schema, false);
    }
}

fn coerce_node(node: &Node, schema: &mut Map<String, Value>, in_metadata: bool) {
    let in_metadata = in_metadata && !node.embedded;
    if let (false, Some(default)) = (in_metadata, schema.get_mut("default")) {
        // A malformed default was refused.
        let _ = coerce_embedded(node, default, "", Malformed::Reject, &mut Vec::new());
    }
    let items = schema.get_mut("items").and_then(Value::as_object_mut);
    if let (Some(node), Some(items)) = (node.items.as_deref(), items) {
        coerce_node(node, items, in_metadata);
    }
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
    for (name, property) in properties.into_iter().flatten() {
        if let (Some(child), Some(property)) = (node.property(name), property.as_object_mut()) {
            coerce_node(child, property, in_metadata || (node.embedded && is_type_or_meta(name)));
        }
    }
}

fn is_type_or_meta(name: &str) -> bool {
    matches!(name, "metadata" | "apiVersion" | "kind")
}

/// Compiles the schema for checking defaults. The root is treated as an embedded resource.
fn compiled(schema: Schema<'_>, purpose: Purpose) -> Option<Node> {
    let schema = Value::Object(schema.as_map()?.clone());
    let mut root = compile(&schema, purpose).ok()?;
    root.embedded = true;
    root.subtree.embedded = true;
    Some(root)
}

/// Path of a value inside its enclosing resource.
enum Steps<'a> {
    Root,
    Field(&'a Steps<'a>, &'a str),
    Item(&'a Steps<'a>),
}

impl Steps<'_> {
    /// Returns the smallest resource that contains the value at this path, as upstream's
    /// `SurroundingObjectFunc` does.
    fn surrounding_object(&self, value: Value) -> Value {
        match self {
            Self::Root => {
                let mut resource = match value {
                    Value::Object(map) => map,
                    _ => Map::new(),
                };
                for (key, text) in [("kind", "Validation"), ("apiVersion", "validation/v1")] {
                    resource.entry(key).or_insert_with(|| text.into());
                }
                Value::Object(resource)
            }
            Self::Field(parent, name) => parent.surrounding_object(json!({*name: value})),
            Self::Item(parent) => parent.surrounding_object(json!([value])),
        }
    }
}

#[derive(Clone, Copy)]
struct Walk<'a> {
    /// The innermost resource that contains the node.
    resource: &'a Node,
    steps: &'a Steps<'a>,
    in_metadata: bool,
    require_pruned: bool,
}

/// A part of the schema, as defaults and as rules see it.
#[derive(Clone, Copy)]
struct Checked<'a> {
    node: &'a Node,
    ruled: &'a Node,
}

impl Walk<'_> {
    fn check(self, checked: Checked<'_>, path: &str, errors: &mut Vec<Error>) {
        let Checked { node, ruled } = checked;
        let walk = if node.embedded {
            Walk { resource: node, steps: &Steps::Root, in_metadata: false, ..self }
        } else {
            self
        };
        if let Some(default) = &node.default {
            let path = format!("{path}.default");
            if walk.in_metadata {
                walk.check_in_metadata(checked, default, &path, errors);
            } else {
                check_value(checked, default, &path, walk.require_pruned, errors);
            }
        }
        if let (Some(node), Some(ruled)) = (node.items.as_deref(), ruled.items.as_deref()) {
            let next = Walk { steps: &Steps::Item(walk.steps), ..walk };
            next.check(Checked { node, ruled }, &format!("{path}.items"), errors);
        }
        for (name, property) in &node.properties {
            let Some(ruled) = ruled.property(name) else { continue };
            let next = Walk {
                steps: &Steps::Field(walk.steps, name),
                in_metadata: walk.in_metadata || (node.embedded && is_type_or_meta(name)),
                ..walk
            };
            let checked = Checked { node: property, ruled };
            next.check(checked, &format!("{path}.properties[{name}]"), errors);
        }
    }

    fn check_in_metadata(
        self,
        checked: Checked<'_>,
        default: &Value,
        path: &str,
        errors: &mut Vec<Error>,
    ) {
        let mut resource = self.steps.surrounding_object(default.clone());
        let mut wrong = Vec::new();
        match coerce_embedded(self.resource, &mut resource, "", Malformed::Reject, &mut Vec::new())
        {
            Err(error) => wrong.push(error),
            Ok(()) => validate_embedded(self.resource, &resource, "", &mut wrong),
        }
        if wrong.is_empty() {
            errors.extend(checked.check(default, path));
            return;
        }
        let detail = format!("must result in valid metadata: {}", aggregate(&wrong));
        errors.push(Error::invalid(path, default.clone(), detail));
    }
}

fn check_value(
    checked: Checked<'_>,
    default: &Value,
    path: &str,
    require_pruned: bool,
    errors: &mut Vec<Error>,
) {
    let node = checked.node;
    if require_pruned && !is_pruned(default, node) {
        errors.push(Error::invalid(path, default.clone(), "must not have unknown fields"));
    }
    let mut value = default.clone();
    let coerced = coerce_embedded(node, &mut value, path, Malformed::Reject, &mut Vec::new());
    if let Err(error) = coerced {
        errors.push(error);
        return;
    }
    let mut wrong = Vec::new();
    validate_embedded(node, &value, path, &mut wrong);
    if wrong.is_empty() {
        wrong = checked.check(&value, path);
    }
    errors.extend(wrong);
}

impl Checked<'_> {
    /// Checks a default against the schema, and then against its rules.
    fn check(self, default: &Value, path: &str) -> Vec<Error> {
        let errors = check_against(self.node, default, path);
        if errors.is_empty() { check_rules(self.ruled, default, path) } else { errors }
    }
}
