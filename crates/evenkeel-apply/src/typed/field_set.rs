//! The field set of a value, as smd's `TypedValue.ToFieldSet`.

use serde_json::{Map, Value};

use super::{Shape, Walker};
use crate::{
    path::PathElement,
    schema::{ElementRelationship, ListType, MapType, TypeId},
    set::{Set, Tree},
};

impl Walker<'_> {
    pub(super) fn field_set(&mut self, value: &Value, ty: TypeId) -> Tree {
        let leaf = Tree { member: true, children: Set::new() };
        match self.shape(ty, Some(value)) {
            Some(Shape::Scalar(_)) => leaf,
            Some(Shape::List(ListType { relationship: ElementRelationship::Atomic, .. })) => leaf,
            Some(Shape::Map(MapType { atomic: true, .. })) => leaf,
            Some(Shape::List(list)) => match value {
                Value::Array(items) => {
                    Tree { member: false, children: self.list_field_set(items, list) }
                }
                _ => Tree::default(),
            },
            Some(Shape::Map(map)) => {
                let mut children = Set::new();
                children.reserve(value.as_object().map_or(0, Map::len));
                for (name, value) in value.as_object().into_iter().flatten() {
                    let Some((ty, field)) = self.entry(map, name) else { continue };
                    let element = || PathElement::field(name);
                    let Some(mut tree) = self.at(element, |walker| walker.field_set(value, ty))
                    else {
                        continue;
                    };
                    let empty = match value {
                        Value::Null => true,
                        Value::Object(entries) => entries.is_empty(),
                        _ => false,
                    };
                    tree.member |= empty || field.is_none();
                    children.push(PathElement::of_entry(name, field), tree);
                }
                Tree { member: false, children }
            }
            None => Tree::default(),
        }
    }

    fn list_field_set(&mut self, items: &[Value], list: &ListType) -> Set {
        let Some(ids) = self.identify(items, list) else { return Set::new() };
        let mut sorted: Vec<_> = ids.iter().zip(items).collect();
        sorted.sort_by_key(|(id, _)| *id);
        let mut set = Set::new();
        set.reserve(items.len());
        for same in sorted.chunk_by(|(a, _), (b, _)| a == b) {
            let id = same[0].0;
            let mut tree = Tree { member: true, children: Set::new() };
            // Items with the same key are owned together, without the fields below them.
            if let [(id, item)] = same {
                let below =
                    self.at(|| id.to_element(), |walker| walker.field_set(item, list.element));
                tree.children = below.unwrap_or_default().children;
            }
            set.push(id.to_element(), tree);
        }
        set
    }
}
