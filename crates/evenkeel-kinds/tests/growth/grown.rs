//! Objects of built-in kinds with one list or map of any length.

use std::fmt;

use evenkeel_types::{Custom, Expr, Field, Gvk, Shape, Type};
use serde_json::{Map, Value, json};

/// The elements of a grown list or map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Elements {
    /// All elements have different values.
    Distinct,
    /// All elements are equal, where a list allows it.
    Equal,
}

/// A list or map in a kind: the path of fields to it.
pub(crate) struct Grown(Vec<(&'static Type, &'static Field)>);

impl Grown {
    /// Returns every list and map of a type, recursive types once.
    pub(crate) fn all(ty: &'static Type) -> Vec<Self> {
        let mut found = Vec::new();
        collect(ty, &mut Vec::new(), &mut found);
        found
    }

    pub(crate) fn owner(&self) -> &'static str {
        self.0.last().map_or("", |(ty, _)| ty.name)
    }

    pub(crate) fn field(&self) -> &'static str {
        self.0.last().map_or("", |(_, field)| field.name)
    }

    /// Returns an object in which this list or map has `n` elements and all others at most one.
    pub(crate) fn object(&self, gvk: Gvk<'_>, n: usize, elements: Elements) -> Value {
        let Some(((_, last), above)) = self.0.split_last() else { return Value::Null };
        let mut value = grow(last, last.shape, n, elements);
        let mut name = last.name;
        for (_, field) in above.iter().rev() {
            value = wrap(field.shape, json!({name: value}));
            name = field.name;
        }
        typed(gvk, Map::from_iter([(name.to_owned(), value)]))
    }
}

impl fmt::Display for Grown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (_, field)) in self.0.iter().enumerate() {
            write!(f, "{}{}", if i == 0 { "" } else { "." }, field.name)?;
        }
        Ok(())
    }
}

/// Merges two objects. Lists and maps in both are merged element by element.
pub(crate) fn merged(a: Value, b: Value) -> Value {
    match (a, b) {
        (Value::Object(mut a), Value::Object(b)) => {
            for (key, value) in b {
                let value = match a.remove(&key) {
                    Some(before) => merged(before, value),
                    None => value,
                };
                a.insert(key, value);
            }
            Value::Object(a)
        }
        (Value::Array(mut a), Value::Array(b)) => {
            let extra = b.len().saturating_sub(a.len());
            let mut b = b.into_iter();
            for (a, b) in a.iter_mut().zip(&mut b) {
                *a = merged(a.take(), b);
            }
            a.extend(b.take(extra));
            Value::Array(a)
        }
        (a, _) => a,
    }
}

/// Returns the object with its lists reordered and the values of its maps changed.
pub(crate) fn altered(value: &Value) -> Value {
    match value {
        Value::Array(items) => {
            let mut items: Vec<Value> = items.iter().map(altered).collect();
            if !items.is_empty() {
                items.rotate_left(1);
            }
            Value::Array(items)
        }
        Value::Object(map) => {
            let entries = map.iter().map(|(key, value)| {
                let fixed = matches!(key.as_str(), "apiVersion" | "kind" | "name" | "uid" | "type");
                (key.clone(), if fixed { value.clone() } else { altered(value) })
            });
            Value::Object(entries.collect())
        }
        other => other.clone(),
    }
}

fn collect(
    ty: &'static Type,
    above: &mut Vec<(&'static Type, &'static Field)>,
    found: &mut Vec<Grown>,
) {
    if above.iter().any(|(other, _)| other.name == ty.name) {
        return;
    }
    for field in &ty.fields {
        above.push((ty, field));
        if matches!(field.shape, Shape::List(_) | Shape::Map { .. }) {
            found.push(Grown(above.clone()));
        }
        if let Some(inner) = structure(field.shape) {
            collect(inner, above, found);
        }
        above.pop();
    }
}

/// Returns the struct type of a field, of its list items or of its map values.
fn structure(shape: Shape) -> Option<&'static Type> {
    match shape {
        Shape::Struct(ty) => Some(ty.get()),
        Shape::List(element) => structure(element.shape()),
        Shape::Map { value, .. } => structure(value.shape()),
        _ => None,
    }
}

fn typed(gvk: Gvk<'_>, mut object: Map<String, Value>) -> Value {
    object.insert("apiVersion".to_owned(), gvk.api_version().into());
    object.insert("kind".to_owned(), gvk.kind.into());
    let metadata = object.entry("metadata").or_insert_with(|| json!({}));
    metadata["name"] = "it".into();
    metadata["namespace"] = "default".into();
    metadata["uid"] = "8f5a6c5e-7f0a-4a86-9b0f-5d5d1c0b2a11".into();
    metadata["resourceVersion"] = "7".into();
    Value::Object(object)
}

/// Wraps `value` in the shape of a field.
fn wrap(shape: Shape, value: Value) -> Value {
    match shape {
        Shape::List(element) => Value::Array(vec![wrap(element.shape(), value)]),
        Shape::Map { value: inner, .. } => json!({"k0": wrap(inner.shape(), value)}),
        _ => {
            let mut value = value;
            // Most structs have a name, and many lists are searched by name.
            if let Value::Object(map) = &mut value {
                map.entry("name").or_insert_with(|| "n0".into());
            }
            value
        }
    }
}

fn grow(field: &Field, shape: Shape, n: usize, elements: Elements) -> Value {
    let seed = |i| if elements == Elements::Equal { 0 } else { i };
    match shape {
        Shape::List(element) => (0..n).map(|i| scalar(field, element, seed(i), 1)).collect(),
        Shape::Map { value, .. } => Value::Object(
            (0..n).map(|i| (format!("k{i}"), scalar(field, value, seed(i), 1))).collect(),
        ),
        _ => Value::Null,
    }
}

/// Returns a plausible value for a field, different for each seed.
fn scalar(field: &Field, expr: Expr, seed: usize, depth: usize) -> Value {
    match expr.shape() {
        Shape::String => text(field, seed).into(),
        Shape::Bool => false.into(),
        // A weight above 100 is an error: the larger object would have errors, the smaller none.
        Shape::Int32 | Shape::Int64 if field.name == "weight" => (seed % 100 + 1).into(),
        Shape::Int32 | Shape::Int64 => (seed % 60_000 + 1).into(),
        Shape::Double => 1.into(),
        Shape::Bytes => "YQ==".into(),
        Shape::Any => json!({}),
        Shape::List(_) | Shape::Map { .. } if depth == 0 => Value::Null,
        Shape::List(element) => vec![scalar(field, element, seed, depth - 1)].into(),
        Shape::Map { value, .. } => {
            json!({format!("k{seed}"): scalar(field, value, seed, depth - 1)})
        }
        Shape::Struct(_) if depth == 0 => Value::Null,
        Shape::Struct(ty) => {
            let fields = ty.get().fields.iter();
            let fields =
                fields.map(|field| (field.name, scalar(field, field.expr, seed, depth - 1)));
            let fields = fields.filter(|(_, value)| !value.is_null());
            Value::Object(fields.map(|(name, value)| (name.to_owned(), value)).collect())
        }
        Shape::Custom(custom, _) => match custom {
            Custom::Time => "2026-01-02T03:04:05Z".into(),
            Custom::MicroTime => "2026-01-02T03:04:05.000000Z".into(),
            Custom::Quantity => (seed + 1).to_string().into(),
            Custom::IntOrString => (seed % 60_000 + 1).into(),
            _ => json!({}),
        },
    }
}

fn text(field: &Field, seed: usize) -> String {
    let allowed: Vec<&str> = field.allowed().collect();
    if !allowed.is_empty() {
        return allowed[seed % allowed.len()].to_owned();
    }
    let name = field.name.to_ascii_lowercase();
    if name.contains("cidr") || name.contains("ranges") {
        return format!("10.{}.{}.0/24", seed / 256 % 256, seed % 256);
    }
    if name.contains("path") {
        return format!("/p/{seed}");
    }
    if name.ends_with("ip") || name.ends_with("ips") || name == "addresses" {
        return format!("10.1.{}.{}", seed / 256 % 256, seed % 256);
    }
    match field.name {
        "protocol" => "TCP".to_owned(),
        "apiVersion" => "v1".to_owned(),
        "image" => format!("registry.example.com/image-{seed}:v1"),
        _ => format!("n{seed}"),
    }
}
