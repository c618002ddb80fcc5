//! Encodes JSON as Go does: the fields of a struct in declaration order, the keys of a map sorted,
//! with the escapes of `encoding/json`.
//!
//! [`write()`] encodes an object with or without a type. [`any`] and [`string`] encode single
//! values into strings and byte buffers.

#[cfg(test)]
mod tests;

use std::cmp::Ordering;

use serde_json::{Map, Value};

use crate::go::{Num, scientific};
use crate::table::schema_type;
use crate::{Custom, Expr, Gvk, Shape, Type, lookup};

/// A target for encoded JSON.
pub trait Sink {
    /// Appends text.
    fn text(&mut self, text: &str);
}

impl Sink for String {
    fn text(&mut self, text: &str) {
        self.push_str(text);
    }
}

impl Sink for Vec<u8> {
    fn text(&mut self, text: &str) {
        self.extend_from_slice(text.as_bytes());
    }
}

/// The order of the path elements in `fieldsV1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldsOrder {
    /// As structured-merge-diff writes them: objects of built-in types keep them as raw JSON.
    PathElements,
    /// As the keys of a map: as custom resources and their metadata and tables have them.
    Keys,
}

/// Appends `value`, encoded with type `ty`; without a type, all keys are sorted.
///
/// Returns the position of the text of `metadata.resourceVersion`, if the object has one. Fields
/// that the type does not declare follow the declared ones.
pub fn write(out: &mut Vec<u8>, ty: Option<&'static Type>, value: &Value) -> Option<usize> {
    write_in_order(out, ty, value, FieldsOrder::PathElements)
}

/// Calls [`write()`] with the given order of `fieldsV1`.
pub fn write_in_order(
    out: &mut Vec<u8>,
    ty: Option<&'static Type>,
    value: &Value,
    fields_order: FieldsOrder,
) -> Option<usize> {
    let mut printer = Printer { out, entries: Vec::new(), version_at: None, fields_order };
    match (ty, value) {
        (Some(ty), Value::Object(map)) => printer.members(ty, map, Place::Root),
        (None, Value::Object(map)) => printer.entries(map, Place::Root),
        _ => any(printer.out, value),
    }
    printer.version_at
}

/// Appends a value without a type.
pub fn any(out: &mut impl Sink, value: &Value) {
    match value {
        Value::Null => out.text("null"),
        Value::Bool(true) => out.text("true"),
        Value::Bool(false) => out.text("false"),
        Value::Number(number) => match Num::of(number) {
            Num::Int(int) => integer(out, int),
            Num::Float(float) if float == 0.0 || (1e-6..1e21).contains(&float.abs()) => {
                out.text(&float.to_string());
            }
            Num::Float(float) => {
                let (mantissa, sign, exponent) = scientific(float);
                out.text(&format!("{mantissa}e{sign}{exponent}"));
            }
        },
        Value::String(text) => string(out, text),
        Value::Array(items) => {
            out.text("[");
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.text(",");
                }
                any(out, item);
            }
            out.text("]");
        }
        Value::Object(map) => {
            out.text("{");
            let mut first = true;
            for_each_sorted(map, |key, value| {
                if !std::mem::take(&mut first) {
                    out.text(",");
                }
                string(out, key);
                out.text(":");
                any(out, value);
            });
            out.text("}");
        }
    }
}

/// Appends an escaped string.
pub fn string(out: &mut impl Sink, text: &str) {
    out.text("\"");
    let mut rest = text;
    while let Some(at) = rest.bytes().position(|byte| ESCAPED[byte as usize]) {
        out.text(&rest[..at]);
        rest = &rest[at..];
        let Some(c) = rest.chars().next() else { break };
        match c {
            '"' => out.text("\\\""),
            '\\' => out.text("\\\\"),
            '\n' => out.text("\\n"),
            '\r' => out.text("\\r"),
            '\t' => out.text("\\t"),
            '\u{8}' => out.text("\\b"),
            '\u{c}' => out.text("\\f"),
            '\0'..='\u{1f}' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                out.text(&format!("\\u{:04x}", u32::from(c)));
            }
            c => out.text(c.encode_utf8(&mut [0; 4])),
        }
        rest = &rest[c.len_utf8()..];
    }
    out.text(rest);
    out.text("\"");
}

/// Bytes that are escaped, or start a character that may be.
static ESCAPED: [bool; 256] = {
    let mut escaped = [false; 256];
    let mut byte = 0;
    while byte < 0x20 {
        escaped[byte] = true;
        byte += 1;
    }
    escaped[b'"' as usize] = true;
    escaped[b'\\' as usize] = true;
    escaped[b'<' as usize] = true;
    escaped[b'>' as usize] = true;
    escaped[b'&' as usize] = true;
    escaped[0xe2] = true;
    escaped
};

fn integer(out: &mut impl Sink, int: i64) {
    let mut buffer = [0; 20];
    let mut at = buffer.len();
    let mut left = int.unsigned_abs();
    loop {
        at -= 1;
        buffer[at] = b'0' + (left % 10) as u8;
        left /= 10;
        if left == 0 {
            break;
        }
    }
    if int < 0 {
        out.text("-");
    }
    out.text(std::str::from_utf8(&buffer[at..]).unwrap_or_default());
}

/// Calls `each` for the entries of a map, sorted by key.
fn for_each_sorted<'v>(map: &'v Map<String, Value>, mut each: impl FnMut(&'v str, &'v Value)) {
    if map.keys().is_sorted() {
        map.iter().for_each(|(key, value)| each(key, value));
    } else {
        let mut entries: Vec<_> = map.iter().collect();
        entries.sort_unstable_by_key(|(key, _)| *key);
        entries.into_iter().for_each(|(key, value)| each(key, value));
    }
}

/// The part of the object that is being encoded.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Root,
    Metadata,
    Other,
}

struct Printer<'o, 'v> {
    out: &'o mut Vec<u8>,
    /// The members of the structs being encoded, innermost last.
    entries: Vec<Entry<'v>>,
    version_at: Option<usize>,
    fields_order: FieldsOrder,
}

#[derive(Clone, Copy)]
struct Entry<'v> {
    order: u16,
    key: &'v str,
    value: &'v Value,
    expr: Option<Expr>,
}

impl<'v> Printer<'_, 'v> {
    /// Encodes the members of a struct in declaration order.
    fn members(&mut self, ty: &'static Type, map: &'v Map<String, Value>, place: Place) {
        let start = self.entries.len();
        for (key, value) in map {
            let (order, expr) = match ty.field_index(key) {
                Some(index) => (ty.json_order[index], Some(ty.fields[index].expr)),
                None => (u16::MAX, None),
            };
            self.entries.push(Entry { order, key, value, expr });
        }
        self.entries[start..].sort_unstable_by_key(|entry| (entry.order, entry.key));
        self.out.push(b'{');
        for at in start..self.entries.len() {
            let Entry { key, value, expr, .. } = self.entries[at];
            self.begin(at > start, key, place);
            match expr {
                Some(expr) if place == Place::Root && key == "metadata" => {
                    match (expr.shape(), value) {
                        (Shape::Struct(ty), Value::Object(map)) => {
                            self.members(ty.get(), map, Place::Metadata);
                        }
                        _ => self.value(expr, value),
                    }
                }
                Some(expr) => self.value(expr, value),
                None => any(self.out, value),
            }
        }
        self.entries.truncate(start);
        self.out.push(b'}');
    }

    /// Encodes the entries of an object without a type, sorted by key.
    fn entries(&mut self, map: &'v Map<String, Value>, place: Place) {
        self.out.push(b'{');
        let mut more = false;
        for_each_sorted(map, |key, value| {
            self.begin(std::mem::replace(&mut more, true), key, place);
            match value {
                Value::Object(map) if place == Place::Root && key == "metadata" => {
                    self.entries(map, Place::Metadata);
                }
                value => any(self.out, value),
            }
        });
        self.out.push(b'}');
    }

    fn begin(&mut self, more: bool, key: &str, place: Place) {
        if more {
            self.out.push(b',');
        }
        string(self.out, key);
        self.out.push(b':');
        if place == Place::Metadata && key == "resourceVersion" {
            self.version_at = Some(self.out.len() + 1);
        }
    }

    fn list(&mut self, items: &'v [Value], mut write: impl FnMut(&mut Self, &'v Value)) {
        self.out.push(b'[');
        for (at, item) in items.iter().enumerate() {
            if at > 0 {
                self.out.push(b',');
            }
            write(self, item);
        }
        self.out.push(b']');
    }

    fn value(&mut self, expr: Expr, value: &'v Value) {
        match (expr.shape(), value) {
            (Shape::Struct(ty), Value::Object(map)) => {
                self.members(ty.get(), map, Place::Other);
            }
            (Shape::List(element), Value::Array(items)) => {
                self.list(items, |printer, item| printer.value(element, item));
            }
            (Shape::Map { value: element, .. }, Value::Object(map)) => {
                self.out.push(b'{');
                let mut more = false;
                for_each_sorted(map, |key, value| {
                    self.begin(std::mem::replace(&mut more, true), key, Place::Other);
                    self.value(element, value);
                });
                self.out.push(b'}');
            }
            (Shape::Custom(custom, _), _) => self.custom(custom, value),
            _ => any(self.out, value),
        }
    }

    fn custom(&mut self, custom: Custom, value: &'v Value) {
        match custom {
            Custom::FieldsV1 if self.fields_order == FieldsOrder::Keys => any(self.out, value),
            Custom::FieldsV1 => self.field_set(value),
            // An embedded object is encoded with its own type.
            Custom::RawExtension => match (value, type_of(value)) {
                (Value::Object(map), Some(ty)) => self.members(ty, map, Place::Other),
                _ => any(self.out, value),
            },
            Custom::JsonSchemaPropsOrArray
            | Custom::JsonSchemaPropsOrBool
            | Custom::JsonSchemaPropsOrStringArray => self.schema(value),
            _ => any(self.out, value),
        }
    }

    fn schema(&mut self, value: &'v Value) {
        match (value, schema_type()) {
            (Value::Object(map), Some(ty)) => self.members(ty, map, Place::Other),
            (Value::Array(items), _) => self.list(items, Self::schema),
            _ => any(self.out, value),
        }
    }

    /// Encodes a field set, sorted by path elements instead of text.
    fn field_set(&mut self, value: &'v Value) {
        let Value::Object(map) = value else { return any(self.out, value) };
        let mut elements: Vec<(&str, &Value)> =
            map.iter().map(|(key, value)| (key.as_str(), value)).collect();
        if !elements.is_sorted_by(|a, b| compare_elements(a.0, b.0).is_le()) {
            elements.sort_by(|a, b| compare_elements(a.0, b.0));
        }
        self.out.push(b'{');
        for (at, (key, value)) in elements.into_iter().enumerate() {
            self.begin(at > 0, key, Place::Other);
            self.field_set(value);
        }
        self.out.push(b'}');
    }
}

/// Returns the built-in type of an object. Some discovery documents have no version, and the
/// metadata and table types have two versions that differ only in name.
pub fn type_of(object: &Value) -> Option<&'static Type> {
    let api_version = match object.get("apiVersion").and_then(Value::as_str) {
        Some("meta.k8s.io/v1beta1") => "meta.k8s.io/v1",
        Some(api_version) => api_version,
        None => "v1",
    };
    let kind = object.get("kind").and_then(Value::as_str)?;
    lookup(Gvk::from_api_version(api_version, kind))
}

/// Compares path elements as structured-merge-diff: the set itself, fields by name, list items by
/// their keys, values, then indices.
fn compare_elements(a: &str, b: &str) -> Ordering {
    let kind = |element: &str| match element.as_bytes() {
        [b'f', b':', ..] => 1,
        [b'k', b':', ..] => 2,
        [b'v', b':', ..] => 3,
        [b'i', b':', ..] => 4,
        _ => 0,
    };
    let (kind_a, kind_b) = (kind(a), kind(b));
    if kind_a != kind_b || kind_a < 2 {
        return kind_a.cmp(&kind_b).then_with(|| a.cmp(b));
    }
    let parse = |element: &str| serde_json::from_str::<Value>(&element[2..]).unwrap_or_default();
    compare_values(&parse(a), &parse(b)).then_with(|| a.cmp(b))
}

fn compare_values(a: &Value, b: &Value) -> Ordering {
    let kind = |value: &Value| match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    };
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => match (Num::of(a), Num::of(b)) {
            (Num::Int(a), Num::Int(b)) => a.cmp(&b),
            (a, b) => a.as_f64().total_cmp(&b.as_f64()),
        },
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Array(a), Value::Array(b)) => compare_all(a, b, compare_values),
        (Value::Object(a), Value::Object(b)) => {
            let sorted = |map: &Map<String, Value>| {
                let mut entries: Vec<(String, Value)> =
                    map.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
                entries.sort_unstable_by(|a, b| a.0.cmp(&b.0));
                entries
            };
            compare_all(&sorted(a), &sorted(b), |a, b| {
                a.0.cmp(&b.0).then_with(|| compare_values(&a.1, &b.1))
            })
        }
        _ => kind(a).cmp(&kind(b)),
    }
}

fn compare_all<T>(a: &[T], b: &[T], compare: impl Fn(&T, &T) -> Ordering) -> Ordering {
    let first = a.iter().zip(b).map(|(a, b)| compare(a, b)).find(|order| order.is_ne());
    first.unwrap_or_else(|| a.len().cmp(&b.len()))
}
