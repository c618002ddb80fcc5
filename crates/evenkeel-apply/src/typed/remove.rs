//! Removes fields from a value, as smd's `removingWalker`.

use serde_json::Value;

use super::{Shape, item::ItemId, shape};
use crate::{
    path::PathElement,
    schema::{ElementRelationship, ListType, MapType, Schema, TypeId},
    set::{Node, Set},
};

/// Returns the remaining value; null if nothing remains.
///
/// `ty` is `None` below an undeclared field, where nothing is kept because no type is known.
pub(super) fn remove(schema: &Schema, value: Value, fields: &Set, ty: Option<TypeId>) -> Value {
    let shape = ty.and_then(|ty| shape(schema.get(ty), Some(&value)));
    match (shape, value) {
        (Some(Shape::Scalar(_)), value) => value,
        (Some(Shape::List(ListType { relationship: ElementRelationship::Atomic, .. })), _) => {
            Value::Null
        }
        (Some(Shape::Map(MapType { atomic: true, .. })), _) => Value::Null,
        (Some(Shape::List(list)), Value::Array(items)) => {
            let keep = |item: Value| {
                let node = ItemId::of(list, &item).ok().and_then(|id| id.find(fields));
                match node {
                    Some(Node { member: true, .. }) => None,
                    Some(node) => Some(remove(schema, item, &node.children, Some(list.element))),
                    None => Some(item),
                }
            };
            let remaining: Vec<_> = items.into_iter().filter_map(keep).collect();
            if remaining.is_empty() { Value::Null } else { Value::Array(remaining) }
        }
        (Some(Shape::Map(map)), Value::Object(mut entries)) => {
            entries.retain(|name, value| match fields.field(name) {
                Some(Node { member: true, .. }) => false,
                Some(node) => {
                    let ty = map.type_of(name);
                    *value = remove(schema, value.take(), &node.children, ty);
                    true
                }
                None => true,
            });
            if entries.is_empty() { Value::Null } else { Value::Object(entries) }
        }
        _ => Value::Null,
    }
}

/// Adds the declared struct fields on the path to each member (smd's
/// `EnsureNamedFieldsAreMembers`).
///
/// A struct with fields is not a member of a field set, but has to be removed with its last field.
pub(super) fn with_named_fields(schema: &Schema, fields: &Set, ty: Option<TypeId>) -> Set {
    let def = ty.map(|ty| schema.get(ty));
    let map = def.and_then(|def| def.map.as_ref());
    let list = def.and_then(|def| def.list.as_ref());
    let nodes = fields.nodes().iter().map(|node| {
        let name = node.element.as_field();
        let declared = map.zip(name).is_some_and(|(map, name)| map.field(name).is_some());
        let below = match (&node.element, map, list) {
            (PathElement::Field(name), Some(map), _) => map.type_of(name),
            (PathElement::Key(_), _, Some(list)) => Some(list.element),
            _ => None,
        };
        Node {
            element: node.element.clone(),
            member: node.member || (declared && !node.children.is_empty()),
            children: with_named_fields(schema, &node.children, below),
        }
    });
    Set::from_sorted(nodes.collect())
}
