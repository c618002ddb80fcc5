//! Atomic parts of a value: lists, maps and structs that are replaced as a whole.

use serde_json::Value;

use crate::path::{self, Path, PathElement};
use crate::schema::{ElementRelationship, ObjectType, Schema, TypeId};

impl ObjectType {
    /// Returns the paths of all atomic lists, maps and structs in a value of this type, such as
    /// `.spec.containers[0].command`. Entries of maps without declared fields are not looked into.
    pub fn atomics(&self, value: &Value) -> Vec<String> {
        let (schema, root) = self.parts();
        let mut found = Vec::new();
        walk(schema, value, root, &mut Path::new(), &mut found);
        found
    }
}

fn walk(schema: &Schema, value: &Value, ty: TypeId, path: &mut Path, found: &mut Vec<String>) {
    let ty = schema.get(ty);
    match (value, &ty.map, &ty.list) {
        (Value::Object(entries), Some(map), _) => {
            if map.atomic {
                found.push(path::print(path));
            }
            for (name, value) in entries {
                if let Some(field) = map.field(name) {
                    path.push(PathElement::field(name));
                    walk(schema, value, field.ty, path, found);
                    path.pop();
                }
            }
        }
        (Value::Array(items), _, Some(list)) => {
            if matches!(list.relationship, ElementRelationship::Atomic) {
                found.push(path::print(path));
            }
            for (at, item) in items.iter().enumerate() {
                path.push(PathElement::Index(at as i64));
                walk(schema, item, list.element, path, found);
                path.pop();
            }
        }
        _ => {}
    }
}
