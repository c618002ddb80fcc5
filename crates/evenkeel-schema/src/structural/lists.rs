//! Validates lists of type set and map: values and keys must be unique.

use std::collections::HashMap;

use evenkeel_types::go;
use serde_json::{Map, Value};

use super::{Additional, ListType, Node, Structural};
use crate::field;

impl Structural {
    /// Returns duplicates in sets and maps.
    pub(super) fn validate_lists(&self, object: &Value) -> Vec<field::Error> {
        let mut errors = Vec::new();
        check(self.root(), object, "", &mut errors);
        errors
    }

    /// Returns duplicates in sets and maps, unless the old object has any.
    pub(super) fn validate_lists_update(&self, old: &Value, new: &Value) -> Vec<field::Error> {
        let errors = self.validate_lists(new);
        if errors.is_empty() || !self.validate_lists(old).is_empty() { Vec::new() } else { errors }
    }
}

fn check(node: &Node, value: &Value, path: &str, errors: &mut Vec<field::Error>) {
    if !node.subtree.lists {
        return;
    }
    match value {
        Value::Object(map) => {
            if let Additional::Schema(schema) = &node.additional {
                for (key, child) in map {
                    check(schema, child, &format!("{path}[{key}]"), errors);
                }
            }
            for (key, child) in map {
                let Some(property) = node.property(key).filter(|p| p.subtree.lists) else {
                    continue;
                };
                check(property, child, &join(path, key), errors);
            }
        }
        Value::Array(items) => {
            match &node.list {
                ListType::Atomic => {}
                ListType::Set => {
                    let values: Vec<Option<&Value>> = items.iter().map(Some).collect();
                    for i in repeated(&values) {
                        let path = format!("{path}[{i}]");
                        errors.push(field::Error::duplicate(path, items[i].clone()));
                    }
                }
                ListType::Map(keys) => check_map(keys, items, path, errors),
            }
            if let Some(schema) = node.items.as_deref().filter(|schema| schema.subtree.lists) {
                for (i, item) in items.iter().enumerate() {
                    check(schema, item, &format!("{path}[{i}]"), errors);
                }
            }
        }
        _ => {}
    }
}

fn check_map(keys: &[Box<str>], items: &[Value], path: &str, errors: &mut Vec<field::Error>) {
    let non_object = items.iter().position(|item| !(item.is_null() || item.is_object()));
    if let Some(i) = non_object {
        errors.push(field::Error::invalid(
            format!("{path}[{i}]"),
            items[i].clone(),
            "must be an object for an array of list-type map",
        ));
        return;
    }
    let duplicates = if let [key] = keys {
        let values: Vec<Option<&Value>> = items.iter().map(|item| item.get(&**key)).collect();
        repeated(&values)
    } else {
        let composite: Vec<Value> = items.iter().map(|item| key_fields(keys, item)).collect();
        repeated(&composite.iter().map(Some).collect::<Vec<_>>())
    };
    for i in duplicates {
        errors.push(field::Error::duplicate(format!("{path}[{i}]"), key_fields(keys, &items[i])));
    }
}

fn key_fields(keys: &[Box<str>], item: &Value) -> Value {
    let fields: Map<String, Value> = keys
        .iter()
        .filter_map(|key| Some((String::from(&**key), item.get(&**key)?.clone())))
        .collect();
    Value::Object(fields)
}

/// Returns the indices at which a value occurs for the second time. Further repetitions are not
/// reported.
fn repeated(values: &[Option<&Value>]) -> Vec<usize> {
    if values.len() < 2 {
        return Vec::new();
    }
    let mut times: HashMap<String, usize> = HashMap::with_capacity(values.len());
    let mut repeated = Vec::new();
    for (i, value) in values.iter().enumerate() {
        let seen = times.entry(identity(*value)).or_insert(0);
        *seen += 1;
        if *seen == 2 {
            repeated.push(i);
        }
    }
    repeated
}

/// Returns a text that is unique to the value. Go distinguishes 1 from 1.0 among scalars.
fn identity(value: Option<&Value>) -> String {
    match value {
        None => String::new(),
        Some(Value::Number(n)) if matches!(go::Num::of(n), go::Num::Float(_)) => {
            format!("{:?}", go::Num::of(n))
        }
        Some(value) => go::json(value),
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}
