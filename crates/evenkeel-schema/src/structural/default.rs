//! Defaulting: sets absent fields, and nulls of non-nullable fields, to the schema's default.

use serde_json::Value;

use super::{Additional, Node, Structural};

impl Structural {
    /// Sets defaults, including those inside list items, map values and other defaults.
    pub fn default(&self, object: &mut Value) {
        fill(object, self.root());
    }
}

fn fill(value: &mut Value, node: &Node) {
    if !node.subtree.defaults {
        return;
    }
    match value {
        Value::Object(map) => {
            for (name, property) in &node.properties {
                let Some(default) = &property.default else { continue };
                match map.get_mut(&**name) {
                    None => {
                        map.insert(String::from(&**name), default.clone());
                    }
                    Some(null @ Value::Null) if !property.nullable => *null = default.clone(),
                    Some(_) => {}
                }
            }
            for (name, child) in map.iter_mut() {
                if let Some(property) = node.property(name) {
                    fill(child, property);
                } else if let Additional::Schema(schema) = &node.additional {
                    fill_element(child, schema);
                }
            }
        }
        Value::Array(items) => {
            let Some(schema) = node.items.as_deref() else { return };
            for item in items {
                fill_element(item, schema);
            }
        }
        _ => {}
    }
}

fn fill_element(value: &mut Value, schema: &Node) {
    if let (Value::Null, false, Some(default)) = (&*value, schema.nullable, &schema.default) {
        *value = default.clone();
    }
    fill(value, schema);
}
