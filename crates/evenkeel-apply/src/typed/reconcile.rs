//! Follows a schema that changed after a field set was written.
//!
//! What became atomic is owned as a whole by whoever owned a part of it. The other way round
//! nothing is done: the owner of a value that became granular owns its own path still.

use super::{Shape, shape};
use crate::{
    path::PathElement,
    schema::{ElementRelationship, Schema, TypeId},
    set::{Node, Set},
};

/// The adapted set, or `None` if nothing changes.
pub(super) fn reconcile(schema: &Schema, fields: &Set, ty: TypeId) -> Option<Set> {
    let (element_type, shape) = match shape(schema.get(ty), None)? {
        Shape::Scalar(_) => return None,
        Shape::List(list) => (Some(list.element), Shape::List(list)),
        Shape::Map(map) => {
            if map.fields.is_empty() && map.element.is_some_and(|ty| schema.is_untyped(ty)) {
                return None;
            }
            (map.element, Shape::Map(map))
        }
    };
    let type_of = |element: &PathElement| match (shape, element) {
        (Shape::Map(map), PathElement::Field(name)) => map.type_of(name),
        _ => element_type,
    };
    let mut nodes: Option<Vec<Node>> = None;
    for (i, node) in fields.nodes().iter().enumerate() {
        let Some(ty) = type_of(&node.element) else { continue };
        let children = if is_atomic(schema, ty) {
            // A member without children is owned as a whole already.
            if node.children.is_empty() {
                continue;
            }
            Set::new()
        } else {
            match reconcile(schema, &node.children, ty) {
                Some(children) => children,
                None => continue,
            }
        };
        let member = node.member || children.is_empty();
        let adapted = Node { element: node.element.clone(), member, children };
        nodes.get_or_insert_with(|| fields.nodes().to_vec())[i] = adapted;
    }
    nodes.map(Set::from_sorted)
}

fn is_atomic(schema: &Schema, ty: TypeId) -> bool {
    match shape(schema.get(ty), None) {
        Some(Shape::List(list)) => matches!(list.relationship, ElementRelationship::Atomic),
        Some(Shape::Map(map)) => {
            let untyped =
                map.fields.is_empty() && map.element.is_some_and(|ty| schema.is_untyped(ty));
            map.atomic && !untyped
        }
        _ => false,
    }
}
