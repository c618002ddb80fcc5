//! Prints values in error messages as kube-apiserver does.
//!
//! kube-apiserver validates its *internal* types and prints a struct with all its fields under
//! their Go names, including absent ones: `{"Type":"X","RollingUpdate":null}`. The tables in
//! [`table`] have the names of the fields and how absent differs from zero. [`Printed`] formats an
//! object in wire form that way. The same tables define the equality by which a field counts as
//! changed: [`same`].

use std::fmt::{self, Write as _};

use evenkeel_types::json;
use evenkeel_types::quantity::Quantity;
use serde_json::{Map, Value};

use super::read::Read;

pub(crate) mod diff;
mod table;

pub(crate) use table::*;

/// A field of an internal type.
pub(crate) struct Field {
    /// Name in the wire format.
    key: &'static str,
    /// Name when printed.
    name: &'static str,
    ty: Ty,
    /// Whether it is omitted when empty.
    omit: bool,
}

/// The type of a field, as far as printing depends on it.
#[derive(Clone, Copy)]
pub(crate) enum Ty {
    Str,
    Int,
    Bool,
    Quantity,
    IntOrString,
    Time,
    Any,
    /// A pointer: prints `null` when absent.
    Opt(&'static Ty),
    List(&'static Ty),
    Map(&'static Ty),
    Struct(&'static [Field]),
    /// An embedded struct, whose fields print as those of the outer struct.
    Inline(&'static [Field]),
}

const fn f(key: &'static str, name: &'static str, ty: Ty) -> Field {
    Field { key, name, ty, omit: false }
}

const fn o(key: &'static str, name: &'static str, ty: Ty) -> Field {
    Field { key, name, ty, omit: true }
}

/// A value of an internal type, printed as JSON in one line.
pub(crate) struct Printed<'a>(pub(crate) Ty, pub(crate) &'a Value);

impl fmt::Display for Printed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = String::new();
        print(&mut out, self.0, self.1, None);
        f.write_str(&out)
    }
}

/// Prints a value indented by one space per level, as in diffs.
pub(crate) fn pretty(ty: Ty, value: &Value) -> String {
    let mut out = String::new();
    print(&mut out, ty, value, Some(0));
    out
}

/// Returns whether two values of an internal type are equal. Quantities are compared by amount, and
/// an empty list or map equals an absent one.
pub(crate) fn same(ty: Ty, a: &Value, b: &Value) -> bool {
    match ty {
        Ty::Str => a.as_str().unwrap_or_default() == b.as_str().unwrap_or_default(),
        Ty::Int => a.as_i64().unwrap_or_default() == b.as_i64().unwrap_or_default(),
        Ty::Bool => a.as_bool().unwrap_or_default() == b.as_bool().unwrap_or_default(),
        Ty::Quantity => {
            Quantity::from_json(a).unwrap_or(Quantity::ZERO)
                == Quantity::from_json(b).unwrap_or(Quantity::ZERO)
        }
        Ty::IntOrString => {
            let zero = Value::from(0);
            (if a.is_null() { &zero } else { a }) == (if b.is_null() { &zero } else { b })
        }
        Ty::Time | Ty::Any => a == b,
        Ty::Opt(inner) => a.is_null() == b.is_null() && (a.is_null() || same(*inner, a, b)),
        Ty::List(inner) => {
            let items = |v: &Value| v.as_array().map(Vec::len).unwrap_or_default();
            let empty = Vec::new();
            items(a) == items(b)
                && a.as_array()
                    .unwrap_or(&empty)
                    .iter()
                    .zip(b.as_array().unwrap_or(&empty))
                    .all(|(a, b)| same(*inner, a, b))
        }
        Ty::Map(inner) => {
            let empty = Map::new();
            let (a, b) = (a.as_object().unwrap_or(&empty), b.as_object().unwrap_or(&empty));
            a.len() == b.len()
                && a.iter().all(|(k, v)| b.get(k).is_some_and(|other| same(*inner, v, other)))
        }
        Ty::Struct(fields) | Ty::Inline(fields) => {
            fields.iter().all(|field| same(field.ty, a.at(field.key), b.at(field.key)))
        }
    }
}

/// Converts a pod spec to the internal type, which has the host fields in the security context.
pub(crate) fn internal_pod_spec(spec: &Value) -> Value {
    const HOST: [&str; 5] =
        ["hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace", "hostUsers"];
    let mut spec = spec.clone();
    let Some(map) = spec.as_object_mut() else { return spec };
    let moved: Vec<(&str, Value)> =
        HOST.iter().filter_map(|key| map.remove(*key).map(|value| (*key, value))).collect();
    if !moved.is_empty() {
        let context = map.entry("securityContext").or_insert(Value::Null);
        if context.is_null() {
            *context = Value::Object(Map::new());
        }
        if let Some(context) = context.as_object_mut() {
            context.extend(moved.into_iter().map(|(key, value)| (key.to_owned(), value)));
        }
    }
    spec
}

/// Converts the spec of a pod template with [`internal_pod_spec`].
pub(crate) fn internal_pod_template(template: &Value) -> Value {
    let mut template = template.clone();
    if let Some(map) = template.as_object_mut()
        && let Some(spec) = map.get("spec").map(internal_pod_spec)
    {
        map.insert("spec".to_owned(), spec);
    }
    template
}

pub(crate) fn label_selector(selector: &Value) -> Printed<'_> {
    Printed(Ty::Opt(&Ty::Struct(LABEL_SELECTOR)), selector)
}

fn print(out: &mut String, ty: Ty, value: &Value, indent: Option<usize>) {
    match ty {
        Ty::Str => json::string(out, value.as_str().unwrap_or_default()),
        Ty::Int => {
            let _ = write!(out, "{}", value.as_i64().unwrap_or_default());
        }
        Ty::Bool => out.push_str(if value == &Value::Bool(true) { "true" } else { "false" }),
        Ty::Quantity => {
            let quantity = Quantity::from_json(value).unwrap_or(Quantity::ZERO);
            let _ = write!(out, "\"{quantity}\"");
        }
        Ty::IntOrString => match value {
            Value::String(string) => json::string(out, string),
            other => {
                let _ = write!(out, "{}", other.as_i64().unwrap_or_default());
            }
        },
        Ty::Time | Ty::Any => any(out, value, indent),
        Ty::Opt(_) | Ty::List(_) | Ty::Map(_) if value.is_null() => out.push_str("null"),
        Ty::Opt(inner) => print(out, *inner, value, indent),
        Ty::List(inner) => {
            let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
            sequence(out, ['[', ']'], indent, items, |out, item, indent| {
                print(out, *inner, item, indent);
            });
        }
        Ty::Map(inner) => {
            let entries: Vec<_> = value.as_object().into_iter().flatten().collect();
            sequence(out, ['{', '}'], indent, &entries, |out, (key, value), indent| {
                json::string(out, key);
                out.push_str(if indent.is_some() { ": " } else { ":" });
                print(out, *inner, value, indent);
            });
        }
        Ty::Struct(fields) | Ty::Inline(fields) => {
            let mut shown = Vec::new();
            collect(&mut shown, fields, value);
            sequence(out, ['{', '}'], indent, &shown, |out, (name, ty, value), indent| {
                json::string(out, name);
                out.push_str(if indent.is_some() { ": " } else { ":" });
                print(out, *ty, value, indent);
            });
        }
    }
}

/// Collects the fields of a struct that are printed, including those of embedded structs.
fn collect<'a>(
    shown: &mut Vec<(&'static str, Ty, &'a Value)>,
    fields: &'static [Field],
    value: &'a Value,
) {
    for field in fields {
        let inner = value.at(field.key);
        match field.ty {
            Ty::Inline(fields) => collect(shown, fields, inner),
            Ty::Opt(_) if field.omit && !inner.is_null() => {
                shown.push((field.name, field.ty, inner));
            }
            _ if field.omit && is_zero(inner) => {}
            ty => shown.push((field.name, ty, inner)),
        }
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}

fn sequence<T>(
    out: &mut String,
    [open, close]: [char; 2],
    indent: Option<usize>,
    items: &[T],
    mut print_item: impl FnMut(&mut String, &T, Option<usize>),
) {
    out.push(open);
    let inner = indent.map(|depth| depth + 1);
    for (i, item) in items.iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        line(out, inner);
        print_item(out, item, inner);
    }
    if !items.is_empty() {
        line(out, indent);
    }
    out.push(close);
}

fn line(out: &mut String, indent: Option<usize>) {
    if let Some(depth) = indent {
        out.push('\n');
        out.extend(std::iter::repeat_n(' ', depth));
    }
}

fn any(out: &mut String, value: &Value, indent: Option<usize>) {
    match value {
        Value::String(string) => json::string(out, string),
        Value::Array(items) => {
            sequence(out, ['[', ']'], indent, items, any);
        }
        Value::Object(map) => {
            let entries: Vec<_> = map.iter().collect();
            sequence(out, ['{', '}'], indent, &entries, |out, (key, value), indent| {
                json::string(out, key);
                out.push_str(if indent.is_some() { ": " } else { ":" });
                any(out, value, indent);
            });
        }
        plain => {
            let _ = write!(out, "{plain}");
        }
    }
}

/// A volume claim template of a StatefulSet, with the fields that are compared.
pub(crate) const CLAIM_TEMPLATE: &[Field] = &[
    f("metadata", "ObjectMeta", Ty::Inline(OBJECT_META)),
    f("spec", "Spec", Ty::Struct(PERSISTENT_VOLUME_CLAIM_SPEC)),
    f("status", "Status", Ty::Any),
];
