//! Typed accessors for `JSONSchemaProps` in JSON form.

use serde_json::{Map, Value};

/// A schema. Keywords of the wrong type read as absent because decoding has already rejected them.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct Schema<'a> {
    map: Option<&'a Map<String, Value>>,
}

pub(super) enum Items<'a> {
    One(Schema<'a>),
    Many(Vec<Schema<'a>>),
}

pub(super) enum Additional<'a> {
    Allowed(bool),
    Schema(Schema<'a>),
}

impl<'a> Schema<'a> {
    pub(super) fn new(value: &'a Value) -> Self {
        Self { map: value.as_object() }
    }

    /// Returns the value of the keyword, unless it is null.
    pub(super) fn get(self, key: &str) -> Option<&'a Value> {
        self.map?.get(key).filter(|value| !value.is_null())
    }

    pub(super) fn text(self, key: &str) -> &'a str {
        self.get(key).and_then(Value::as_str).unwrap_or("")
    }

    pub(super) fn flag(self, key: &str) -> bool {
        self.get(key).and_then(Value::as_bool).unwrap_or(false)
    }

    pub(super) fn type_name(self) -> &'a str {
        self.text("type")
    }

    pub(super) fn texts(self, key: &str) -> Vec<&'a str> {
        let list = self.get(key).and_then(Value::as_array);
        list.into_iter().flatten().filter_map(Value::as_str).collect()
    }

    pub(super) fn is_embedded(self) -> bool {
        self.flag("x-kubernetes-embedded-resource")
    }

    pub(super) fn is_int_or_string(self) -> bool {
        self.flag("x-kubernetes-int-or-string")
    }

    pub(super) fn preserves_unknown(self) -> Option<bool> {
        self.get("x-kubernetes-preserve-unknown-fields").and_then(Value::as_bool)
    }

    pub(super) fn list_type(self) -> Option<&'a str> {
        self.get("x-kubernetes-list-type").and_then(Value::as_str)
    }

    pub(super) fn map_type(self) -> Option<&'a str> {
        self.get("x-kubernetes-map-type").and_then(Value::as_str)
    }

    pub(super) fn not(self) -> Option<Self> {
        self.get("not").map(Self::new)
    }

    /// Returns the schemas of `allOf`, `anyOf` or `oneOf`.
    pub(super) fn list(self, key: &str) -> Vec<Self> {
        let list = self.get(key).and_then(Value::as_array);
        list.into_iter().flatten().map(Self::new).collect()
    }

    /// Returns the schemas of `properties`, `definitions` and similar keywords, by name.
    pub(super) fn named(self, key: &str) -> Vec<(&'a str, Self)> {
        let map = self.get(key).and_then(Value::as_object);
        let mut named: Vec<_> =
            map.into_iter().flatten().map(|(k, v)| (k.as_str(), Self::new(v))).collect();
        named.sort_unstable_by_key(|(name, _)| *name);
        named
    }

    pub(super) fn properties(self) -> Vec<(&'a str, Self)> {
        self.named("properties")
    }

    pub(super) fn property(self, name: &str) -> Option<Self> {
        self.get("properties")?.get(name).map(Self::new)
    }

    pub(super) fn items(self) -> Option<Items<'a>> {
        Some(match self.get("items")? {
            Value::Array(list) => Items::Many(list.iter().map(Self::new).collect()),
            one => Items::One(Self::new(one)),
        })
    }

    pub(super) fn item(self) -> Option<Self> {
        match self.items()? {
            Items::One(schema) => Some(schema),
            Items::Many(_) => None,
        }
    }

    pub(super) fn additional(self) -> Option<Additional<'a>> {
        Some(match self.get("additionalProperties")? {
            Value::Bool(allowed) => Additional::Allowed(*allowed),
            schema => Additional::Schema(Self::new(schema)),
        })
    }

    pub(super) fn additional_schema(self) -> Option<Self> {
        match self.additional()? {
            Additional::Schema(schema) => Some(schema),
            Additional::Allowed(_) => None,
        }
    }

    /// Returns the names of keywords with a non-zero value: not false, empty or null.
    pub(super) fn keywords(self) -> impl Iterator<Item = &'a str> {
        let is_non_zero = |value: &Value| match value {
            Value::Null => false,
            Value::Bool(flag) => *flag,
            Value::String(text) => !text.is_empty(),
            Value::Array(list) => !list.is_empty(),
            Value::Number(_) | Value::Object(_) => true,
        };
        let map = self.map.into_iter().flatten();
        map.filter(move |(_, value)| is_non_zero(value)).map(|(key, _)| key.as_str())
    }

    /// Returns whether the predicate holds for this schema or one nested in it.
    pub(super) fn has(self, predicate: &dyn Fn(Self) -> bool) -> bool {
        if predicate(self) {
            return true;
        }
        let mut children: Vec<Self> = Vec::new();
        match self.items() {
            Some(Items::One(schema)) => children.push(schema),
            Some(Items::Many(list)) => children.extend(list),
            None => {}
        }
        for key in ["allOf", "anyOf", "oneOf"] {
            children.extend(self.list(key));
        }
        children.extend(self.not());
        for key in ["properties", "patternProperties", "definitions", "dependencies"] {
            children.extend(self.named(key).into_iter().map(|(_, schema)| schema));
        }
        children.extend(self.additional_schema());
        children.extend(self.get("additionalItems").map(Self::new));
        children.into_iter().any(|child| child.has(predicate))
    }

    pub(super) fn as_map(self) -> Option<&'a Map<String, Value>> {
        self.map
    }
}
