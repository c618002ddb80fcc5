//! JSON text as Go encodes structs: fields in declaration order, HTML characters escaped.
//!
//! Clients see the annotations of a conversion as text, so they must match byte for byte. A map
//! sorted by key would not.

use evenkeel_types::{go, json};
use serde_json::Value;

/// A JSON object being written.
pub(super) struct Object(String);

impl Object {
    pub(super) fn new() -> Self {
        Self("{".to_owned())
    }

    /// Adds a field with JSON text.
    pub(super) fn raw(mut self, key: &str, json: &str) -> Self {
        let comma = if self.0.len() > 1 { "," } else { "" };
        self.0.push_str(comma);
        json::string(&mut self.0, key);
        self.0.push(':');
        self.0.push_str(json);
        self
    }

    /// Adds a scalar or list.
    pub(super) fn value(self, key: &str, value: &Value) -> Self {
        self.raw(key, &go::json(value))
    }

    /// Adds a scalar unless it is absent, like a pointer with `omitempty`.
    pub(super) fn optional(self, key: &str, value: &Value) -> Self {
        if value.is_null() { self } else { self.value(key, value) }
    }

    /// Adds a string; empty if absent.
    pub(super) fn string(self, key: &str, value: &Value) -> Self {
        match value {
            Value::String(_) => self.value(key, value),
            _ => self.raw(key, "\"\""),
        }
    }

    /// Adds a string unless it is empty or absent.
    pub(super) fn filled_string(self, key: &str, value: &Value) -> Self {
        match value.as_str() {
            None | Some("") => self,
            Some(_) => self.value(key, value),
        }
    }

    /// Adds a quantity; zero if absent.
    pub(super) fn quantity(self, key: &str, value: &Value) -> Self {
        if value.is_null() { self.raw(key, "\"0\"") } else { self.value(key, value) }
    }

    pub(super) fn end(mut self) -> String {
        self.0.push('}');
        self.0
    }
}

/// Returns a JSON array of items that are JSON text.
pub(super) fn array(items: &[String]) -> String {
    format!("[{}]", items.join(","))
}

/// Prints a label selector with its fields in declaration order.
pub(super) fn selector(selector: &Value) -> String {
    let mut object = Object::new();
    if let Some(labels) = selector["matchLabels"].as_object().filter(|labels| !labels.is_empty()) {
        let mut labels: Vec<_> = labels.iter().collect();
        labels.sort_unstable_by_key(|&(key, _)| key);
        let mut map = Object::new();
        for (key, value) in labels {
            map = map.string(key, value);
        }
        object = object.raw("matchLabels", &map.end());
    }
    if let Some(expressions) = selector["matchExpressions"].as_array().filter(|all| !all.is_empty())
    {
        let expressions: Vec<_> = expressions
            .iter()
            .map(|expression| {
                let object = Object::new()
                    .string("key", &expression["key"])
                    .string("operator", &expression["operator"]);
                match &expression["values"] {
                    Value::Array(values) if !values.is_empty() => {
                        object.value("values", &expression["values"]).end()
                    }
                    _ => object.end(),
                }
            })
            .collect();
        object = object.raw("matchExpressions", &array(&expressions));
    }
    object.end()
}
