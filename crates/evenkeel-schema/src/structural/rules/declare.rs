//! The types of schema nodes in expressions, and bounds of the sizes of their values.
//!
//! Mirrors upstream's `SchemaDeclType`: what has no type cannot be used in expressions, and sizes without
//! a limit are bounded by the largest request.

use std::collections::BTreeMap;
use std::sync::Arc;

use evenkeel_cel::cost::{CostNode, SizeEstimate, SizeEstimator};
use evenkeel_cel::kubernetes::MAX_REQUEST_SIZE;
use evenkeel_cel::schema::{Field, ListKind, ListSchema, ObjectSchema, Schema};

use crate::structural::{Additional, Checks, JsonType, JsonTypes, ListType, Node};

/// The type of a node in expressions.
#[derive(Debug)]
pub(crate) struct Declared {
    /// The shape of values.
    pub(crate) schema: Schema,
    /// The largest number of characters, bytes, elements or entries.
    max: u64,
    /// The size of the smallest value in JSON.
    pub(crate) min_size: u64,
    parts: Parts,
}

#[derive(Debug)]
enum Parts {
    None,
    Elements(Box<Declared>),
    Values(Box<Declared>),
    Fields(BTreeMap<Box<str>, Declared>),
}

/// Two quotes.
const MIN_STRING: u64 = 2;
const MAX_STRING: u64 = MAX_REQUEST_SIZE - 2;
/// The type of `self`. Upstream adds a number, so that expressions cannot depend on it.
const SELF_TYPE: &str = "selfType1";

/// The type of a node; `None` if expressions cannot use it. Resources have a kind, a version and a name,
/// whatever their schema.
pub(crate) fn declare(node: &Node, resource_root: bool) -> Option<Declared> {
    declare_named(node, resource_root, SELF_TYPE)
}

/// The type of a node with this name.
pub(crate) fn declare_named(node: &Node, resource_root: bool, name: &str) -> Option<Declared> {
    let checks = node.checks.as_deref();
    let leaf = |schema, max, min_size| Declared { schema, max, min_size, parts: Parts::None };
    let max_length = checks.and_then(|checks| checks.max_length).map(not_negative);
    match node.types {
        JsonTypes::IntOrString => {
            Some(leaf(Schema::IntOrString, max_length.map_or(MAX_STRING, bytes_of), 1))
        }
        JsonTypes::Any => None,
        JsonTypes::One(json_type) => match json_type {
            JsonType::Array => declare_list(node, name),
            JsonType::Object => declare_object(node, resource_root, name),
            JsonType::String => {
                let format = checks.and_then(|checks| checks.format.as_ref());
                Some(match format.map_or("", |(format, _)| format) {
                    "byte" => leaf(Schema::Bytes, max_length.unwrap_or(MAX_STRING), MIN_STRING),
                    "duration" => leaf(Schema::Duration, 32, 3),
                    "date" => leaf(Schema::Timestamp, 12, 12),
                    "date-time" => leaf(Schema::Timestamp, 32, 21),
                    _ => leaf(Schema::String, longest(max_length, checks), MIN_STRING),
                })
            }
            JsonType::Boolean => Some(leaf(Schema::Bool, 0, 4)),
            JsonType::Number => Some(leaf(Schema::Double, 0, 1)),
            JsonType::Integer => Some(leaf(Schema::Int, 0, 1)),
            JsonType::Unknown => None,
        },
    }
}

/// A limit in characters is up to four times as many bytes.
fn bytes_of(characters: u64) -> u64 {
    characters.saturating_mul(4)
}

fn not_negative(limit: i64) -> u64 {
    u64::try_from(limit).unwrap_or(0)
}

fn longest(max_length: Option<u64>, checks: Option<&Checks>) -> u64 {
    let allowed = checks.map(|checks| checks.enum_values.all()).unwrap_or_default();
    match max_length {
        Some(limit) => bytes_of(limit),
        None if allowed.is_empty() => MAX_STRING,
        None => {
            let lengths = allowed.iter().filter_map(|value| Some(value.as_str()?.len() as u64));
            lengths.max().unwrap_or(0)
        }
    }
}

fn declare_list(node: &Node, name: &str) -> Option<Declared> {
    let items = node.items.as_deref()?;
    let declared = declare_named(items, items.embedded, &format!("{name}.@idx"))?;
    let limit = node.checks.as_deref().and_then(|checks| checks.max_items).map(not_negative);
    let kind = match &node.list {
        ListType::Atomic => ListKind::Atomic,
        ListType::Set => ListKind::Set,
        ListType::Map(keys) => ListKind::Map(keys.clone()),
    };
    Some(Declared {
        schema: Schema::List(Arc::new(ListSchema { items: declared.schema.clone(), kind })),
        max: limit.unwrap_or((MAX_REQUEST_SIZE - 2) / (declared.min_size + 1)),
        min_size: 2,
        parts: Parts::Elements(Box::new(declared)),
    })
}

fn declare_object(node: &Node, resource_root: bool, name: &str) -> Option<Declared> {
    if let Additional::Schema(values) = &node.additional {
        let declared = declare_named(values, values.embedded, &format!("{name}.@elem"))?;
        let limit = node.checks.as_deref().and_then(|checks| checks.max_properties);
        // Two bytes of a key, its quotes, a colon and a comma.
        let fallback = (MAX_REQUEST_SIZE - 2) / (declared.min_size + 6);
        return Some(Declared {
            schema: Schema::Map(Arc::new(declared.schema.clone())),
            max: limit.map_or(fallback, not_negative),
            min_size: 2,
            parts: Parts::Values(Box::new(declared)),
        });
    }
    let mut object = ObjectBuilder { name, min_size: 2, ..ObjectBuilder::default() };
    let replaced = resource_root && !has_type_and_metadata(node);
    let required = node.checks.as_deref().map(|checks| &checks.required[..]).unwrap_or_default();
    for (property, child) in &node.properties {
        if replaced && matches!(&**property, "kind" | "apiVersion" | "metadata") {
            continue;
        }
        let path = format!("{name}.{}", escape(property).as_deref().unwrap_or(property));
        if let Some(declared) = declare_named(child, child.embedded, &path) {
            if required.contains(property) && child.default.is_none() {
                object.min_size += property.len() as u64 + declared.min_size + 4;
            }
            object.add(property, declared);
        }
    }
    if replaced {
        let text = |name| (name, leaf_string());
        let path = format!("{name}.metadata");
        let mut metadata = ObjectBuilder { name: &path, min_size: 2, ..ObjectBuilder::default() };
        for (name, declared) in ["name", "generateName"].map(text) {
            metadata.add(name, declared);
        }
        object.add("metadata", metadata.build());
        for (name, declared) in ["kind", "apiVersion"].map(text) {
            object.add(name, declared);
        }
    }
    Some(object.build())
}

fn leaf_string() -> Declared {
    Declared { schema: Schema::String, max: MAX_STRING, min_size: MIN_STRING, parts: Parts::None }
}

/// Whether the schema itself specifies all fields that resources always have.
fn has_type_and_metadata(node: &Node) -> bool {
    let is = |node: Option<&Node>, json_type| {
        node.is_some_and(|node| node.types == JsonTypes::One(json_type))
    };
    let metadata = node.property("metadata");
    let part = |name| metadata.and_then(|metadata| metadata.property(name));
    is(node.property("kind"), JsonType::String)
        && is(node.property("apiVersion"), JsonType::String)
        && is(metadata, JsonType::Object)
        && is(part("name"), JsonType::String)
        && is(part("generateName"), JsonType::String)
}

#[derive(Default)]
struct ObjectBuilder<'n> {
    name: &'n str,
    min_size: u64,
    fields: BTreeMap<Box<str>, Field>,
    parts: BTreeMap<Box<str>, Declared>,
}

impl ObjectBuilder<'_> {
    fn add(&mut self, property: &str, declared: Declared) {
        let Some(escaped) = escape(property) else { return };
        let field = Field { json: property.into(), schema: declared.schema.clone() };
        if evenkeel_cel::is_reserved(property) {
            // Reserved words can also be used as they are, but then their size is not known.
            self.fields.insert(property.into(), field.clone());
        }
        self.fields.insert(escaped.as_str().into(), field);
        self.parts.insert(escaped.into(), declared);
    }

    fn build(self) -> Declared {
        let object = ObjectSchema { name: self.name.into(), fields: self.fields };
        Declared {
            schema: Schema::Object(Arc::new(object)),
            max: 0,
            min_size: self.min_size,
            parts: Parts::Fields(self.parts),
        }
    }
}

impl SizeEstimator for Declared {
    fn size(&self, node: &CostNode<'_>) -> Option<SizeEstimate> {
        // The first step is the variable, `self` or `oldSelf`.
        let (_, steps) = node.path.split_first()?;
        let mut current = self;
        for step in steps {
            current = match (&**step, &current.parts) {
                ("@items" | "@values", Parts::Elements(part) | Parts::Values(part)) => part,
                ("@keys", Parts::Values(_)) => return Some(SizeEstimate { min: 0, max: 0 }),
                (name, Parts::Fields(fields)) => fields.get(name)?,
                _ => return None,
            };
        }
        Some(SizeEstimate { min: 0, max: current.max })
    }
}

/// The name of a field in expressions; `None` if it cannot be written.
fn escape(name: &str) -> Option<String> {
    if name.is_empty() || name.as_bytes()[0].is_ascii_digit() {
        return None;
    }
    if evenkeel_cel::is_reserved(name) {
        return Some(format!("__{name}__"));
    }
    let mut escaped = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(c) = rest.chars().next() {
        let (length, text) = match c {
            '_' if rest.starts_with("__") => (2, "__underscores__"),
            '.' => (1, "__dot__"),
            '-' => (1, "__dash__"),
            '/' => (1, "__slash__"),
            c if c.is_ascii_alphanumeric() || c == '_' => (1, &rest[..1]),
            _ => return None,
        };
        escaped.push_str(text);
        rest = &rest[length..];
    }
    Some(escaped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn field_names_are_escaped_as_upstream_does() {
        for (name, escaped) in [
            ("spec", Some("spec")),
            ("a_b", Some("a_b")),
            ("a__b", Some("a__underscores__b")),
            ("a.b-c/d", Some("a__dot__b__dash__c__slash__d")),
            ("namespace", Some("__namespace__")),
            ("1a", None),
            ("a b", None),
            ("", None),
        ] {
            assert_eq!(escape(name).as_deref(), escaped, "{name}");
        }
    }
}
