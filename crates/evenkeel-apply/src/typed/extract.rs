//! Extracts fields of a value: the configuration that an applier would send to own only those.

use serde_json::Value;

use super::{Shape, item::ItemId, shape};
use crate::{
    path::{Path, PathElement},
    schema::{ElementRelationship, ListType, MapType, Schema, TypeId},
    set::{Node, Set},
};

pub(super) fn extract(schema: &Schema, value: Value, fields: &Set, ty: Option<TypeId>) -> Value {
    let shape = ty.and_then(|ty| shape(schema.get(ty), Some(&value)));
    match (shape, value) {
        (Some(Shape::Scalar(_)), value) => value,
        (Some(Shape::List(list)), Value::Array(items)) => {
            if matches!(list, ListType { relationship: ElementRelationship::Atomic, .. })
                || items.is_empty()
            {
                return Value::Array(items);
            }
            let keep = |item: Value| {
                let node = ItemId::of(list, &item).ok().and_then(|id| id.find(fields))?;
                if node.children.is_empty() {
                    return Some(item);
                }
                Some(extract(schema, item, &node.children, Some(list.element)))
            };
            let kept: Vec<_> = items.into_iter().filter_map(keep).collect();
            if kept.is_empty() { Value::Null } else { Value::Array(kept) }
        }
        (Some(Shape::Map(map)), Value::Object(mut entries)) => {
            if matches!(map, MapType { atomic: true, .. }) || entries.is_empty() {
                return Value::Object(entries);
            }
            entries.retain(|name, value| {
                let Some(node) = fields.field(name) else { return false };
                // Members are walked with the set that contains them, as upstream does: the set has
                // only leaves, so a member has no children.
                let Node { member, children, .. } = node;
                let inner = if *member { fields } else { children };
                *value = extract(schema, value.take(), inner, map.type_of(name));
                true
            });
            if entries.is_empty() { Value::Null } else { Value::Object(entries) }
        }
        _ => Value::Null,
    }
}

/// Adds the key fields of every list item on the path to a member that the value has.
pub(super) fn with_key_fields(fields: &Set, present: &Set) -> Set {
    let mut keys = Set::new();
    fields.for_each(|path| {
        if !present.has(path) {
            return;
        }
        for (i, element) in path.iter().enumerate() {
            let PathElement::Key(pairs) = element else { continue };
            for (name, _) in pairs {
                let mut key: Path = path[..=i].to_vec();
                key.push(PathElement::field(name));
                keys.insert(&key);
            }
        }
    });
    fields.clone().union(keys)
}
