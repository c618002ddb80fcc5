//! FieldsV1: the JSON encoding of a field set in `managedFields`.
//!
//! Each node is an object. `f:` is a field, `k:` the keys of an associative list item, `v:` a set
//! item, `i:` an index; `{}` is a member, and `".": {}` marks a member that has children. Unknown
//! prefixes are skipped, so that newer writers do not break older readers.

use std::borrow::Cow;

use evenkeel_types::go::Quoted;
use serde_json::{Map, Value};
use thiserror::Error;

use super::{Node, Set, Tree};
use crate::{
    MAX_DEPTH,
    path::{FIELD_PREFIX, PathElement},
    text, work,
};

/// Why a FieldsV1 document is not a field set.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum FieldsError {
    /// The document is not JSON.
    #[error("{0}")]
    Json(String),
    /// A node that is neither an object nor null.
    #[error("ReadMapCB: expect {{ or n, but found {0}")]
    NotAnObject(String),
    /// A key without a prefix such as `f:`.
    #[error("parsing key as path element: {0}")]
    Element(String),
    /// The document is nested too deeply.
    #[error("exceeded max depth")]
    TooDeep,
}

impl Set {
    /// Decodes the `fieldsV1` of a managedFields entry.
    pub fn from_fields_v1(fields: &Value) -> Result<Self, FieldsError> {
        read(fields, 0).map(|tree| tree.children)
    }

    /// Decodes FieldsV1 from text.
    pub fn from_json(text: &str) -> Result<Self, FieldsError> {
        let value =
            serde_json::from_str(text).map_err(|error| FieldsError::Json(error.to_string()))?;
        Self::from_fields_v1(&value)
    }

    /// Encodes the `fieldsV1` of a managedFields entry.
    pub fn to_fields_v1(&self) -> Value {
        self.clone().into_fields_v1()
    }

    /// Encodes the `fieldsV1` of a managedFields entry.
    pub fn into_fields_v1(self) -> Value {
        Value::Object(encode(self, false))
    }

    /// Returns whether [`Set::to_fields_v1`] returns this value, without copying.
    pub(crate) fn encodes_to(&self, fields: &Value) -> bool {
        encodes_to(self, false, fields, &mut String::new())
    }

    /// Encodes FieldsV1 as text, byte for byte as structured-merge-diff.
    pub fn to_json(&self) -> String {
        let mut out = String::new();
        write_set(&mut out, self, false);
        out
    }
}

fn read(value: &Value, depth: usize) -> Result<Tree, FieldsError> {
    work::step();
    if depth > MAX_DEPTH {
        return Err(FieldsError::TooDeep);
    }
    let map = match value {
        Value::Object(map) => map,
        Value::Null => return Ok(Tree { member: true, children: Set::new() }),
        other => {
            let first = other.to_string().chars().next();
            return Err(FieldsError::NotAnObject(first.into_iter().collect()));
        }
    };
    let mut nodes = Vec::with_capacity(map.len());
    let mut member = false;
    for (key, value) in map {
        if key == "." {
            member = true;
        } else if let Some(element) = parse_element(key)? {
            nodes.push(read(value, depth + 1)?.at(element));
        }
    }
    // The text order of keys is nearly the order of elements, so sorting is cheap.
    nodes.sort_by(|a, b| a.element.cmp(&b.element));
    nodes.dedup_by(|later, earlier| {
        let same = later.element == earlier.element;
        if same {
            // Two spellings of one element (`1` and `1.0`): the children of the later one replace
            // the others.
            earlier.member |= later.member;
            if !later.children.is_empty() {
                earlier.children = std::mem::take(&mut later.children);
            }
        }
        same
    });
    Ok(Tree { member: member || nodes.is_empty(), children: Set::from_sorted(nodes) })
}

/// Parses one element; `None` for unknown prefixes.
fn parse_element(key: &str) -> Result<Option<PathElement>, FieldsError> {
    let error = |reason: String| Err(FieldsError::Element(reason));
    let bytes = key.as_bytes();
    if bytes.len() < 2 {
        return error("key must be 2 characters long:".into());
    }
    if bytes[1] != b':' {
        return error(format!("missing colon: {key}"));
    }
    let content = &key[2..];
    let element = match bytes[0] {
        b'f' => PathElement::field(content),
        b'v' => PathElement::Value(parse_json(content)?),
        b'k' => match parse_json(content)? {
            Value::Object(map) => PathElement::Key(map.into_iter().collect()),
            Value::Null => PathElement::Key(Vec::new()),
            _ => return error(format!("ReadObjectCB: expect {{ or n, but found {content}")),
        },
        b'i' => match content.parse() {
            Ok(index) => PathElement::Index(index),
            Err(_) => {
                let content = Quoted(content);
                return error(format!("strconv.Atoi: parsing {content}: invalid syntax"));
            }
        },
        _ => return Ok(None),
    };
    Ok(Some(element))
}

fn parse_json(text: &str) -> Result<Value, FieldsError> {
    let mut value =
        serde_json::from_str(text).map_err(|error| FieldsError::Element(error.to_string()))?;
    numbers_to_floats(&mut value);
    Ok(value)
}

/// Converts numbers to floats, as smd decodes them; large ones are formatted differently.
fn numbers_to_floats(value: &mut Value) {
    match value {
        Value::Number(number) => {
            if let Some(float) = number.as_f64().and_then(serde_json::Number::from_f64) {
                *number = float;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(numbers_to_floats),
        Value::Object(map) => map.values_mut().for_each(numbers_to_floats),
        _ => {}
    }
}

fn encode(set: Set, member: bool) -> Map<String, Value> {
    if set.is_empty() {
        return Map::new();
    }
    let this = member.then(|| (".".to_owned(), Value::Object(Map::new())));
    let nodes = set.into_nodes().into_iter().map(|node| {
        let key = match node.element {
            PathElement::Field(Cow::Owned(mut name)) => {
                name.insert_str(0, FIELD_PREFIX);
                name
            }
            PathElement::Field(Cow::Borrowed(name)) => [FIELD_PREFIX, name].concat(),
            element => {
                let mut key = String::new();
                write_element(&mut key, &element);
                key
            }
        };
        (key, Value::Object(encode(node.children, node.member)))
    });
    this.into_iter().chain(nodes).collect()
}

fn encodes_to(set: &Set, member: bool, fields: &Value, key: &mut String) -> bool {
    let Value::Object(map) = fields else { return false };
    let member = member && !set.is_empty();
    if map.len() != set.nodes().len() + usize::from(member) {
        return false;
    }
    // Field names are in the same order on both sides; other elements may not be.
    let mut entries = map.iter();
    if member {
        let self_entry = entries.next();
        if !self_entry.is_some_and(|(key, value)| key == "." && is_empty_object(value)) {
            return false;
        }
    }
    set.nodes().iter().all(|Node { element, member, children }| {
        let found = match element {
            PathElement::Field(name) => entries
                .next()
                .filter(|(key, _)| key.strip_prefix(FIELD_PREFIX) == Some(&**name))
                .map(|(_, value)| value),
            other => {
                key.clear();
                write_element(key, other);
                map.get(key)
            }
        };
        found.is_some_and(|found| encodes_to(children, *member, found, key))
    })
}

fn is_empty_object(value: &Value) -> bool {
    value.as_object().is_some_and(Map::is_empty)
}

fn write_set(out: &mut String, set: &Set, member: bool) {
    out.push('{');
    if member && !set.is_empty() {
        out.push_str(r#"".":{},"#);
    }
    let mut key = String::new();
    for (i, Node { element, member, children }) in set.nodes().iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        key.clear();
        write_element(&mut key, element);
        text::json_string(out, &key, false);
        out.push(':');
        write_set(out, children, *member);
    }
    out.push('}');
}

fn write_element(out: &mut String, element: &PathElement) {
    match element {
        PathElement::Field(name) => {
            out.push_str(FIELD_PREFIX);
            out.push_str(name);
        }
        PathElement::Key(pairs) => {
            out.push_str("k:{");
            for (i, (name, value)) in pairs.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                text::json_string(out, name, false);
                out.push(':');
                text::json(out, value);
            }
            out.push('}');
        }
        PathElement::Value(value) => {
            out.push_str("v:");
            text::json(out, value);
        }
        PathElement::Index(index) => {
            out.push_str("i:");
            out.push_str(&index.to_string());
        }
    }
}
