//! Reconciles field sets with a schema that changed since (smd's `ReconcileFieldSetWithSchema`).
//!
//! Managers of a part of a value that became atomic own it as a whole. Nothing changes for values
//! that became granular: their managers still own the path itself.

use super::{Shape, shape};
use crate::{
    path::PathElement,
    schema::{ElementRelationship, Schema, TypeId},
    set::{Node, Set},
};

/// Returns the reconciled set, or `None` if it is unchanged.
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
            // A member without children is already owned as a whole.
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
