//! Prints the joined facts as the table. `table/parse.rs` of `evenkeel-types` parses it.

use std::fmt::Write as _;

use serde_json::Value;

use super::join::{self, Field, Item, Package, Struct};

const HEADER: &str = "\
# The built-in types of Kubernetes 1.36. Made by `cargo run -p xtask -- types`; do not edit.
#
# Sources: the published OpenAPI v2 document and protobuf definitions of the release (required
# fields, list and map types, patch rules, field numbers), and xtask/gofacts/facts.txt, which a Go
# program reads from the Go structs (pointers, omitempty, embedding, named types, defaults, enums).
#
# @package <alias> <name>        what follows is declared there; other packages go by their alias
# @custom <name>                 a type with a JSON form of its own
# @alias <name> <type> [wrapped] a named type; wrapped: in protobuf a message with the list as field 1
# @type <name> [atomic] [unions=<json>]
# @kind <kind> <apiVersion>...   what that type is served as
# @embed <Go name> <number> <type>
# <field> <number> <flags> <type> [list=<type>[:<key>,...]] [map=<type>]
#         [patch=<strategy>[:<merge key>]] [default=<json>] [enum=<value>,...]
#   flags: p pointer, e omitempty, z omitzero, r required, d zero as OpenAPI default, - none
#   fields and embeds stand in the order of the Go struct, which is that of its JSON
";

pub(super) fn print(packages: &[Package]) -> String {
    let mut out = HEADER.to_owned();
    for package in packages {
        line(&mut out, &["@package", &package.alias, &package.name]);
        for (name, item) in &package.items {
            match item {
                Item::Custom => line(&mut out, &["@custom", name]),
                Item::Alias { expression, wrapped } => {
                    let wrapped = if *wrapped { "wrapped" } else { "" };
                    line(&mut out, &["@alias", name, &shorten(expression), wrapped]);
                }
                Item::Struct(ty) => print_struct(&mut out, name, ty),
            }
        }
    }
    out
}

fn print_struct(out: &mut String, name: &str, ty: &Struct) {
    let atomic = if ty.atomic { "atomic" } else { "" };
    line(out, &["@type", name, atomic, &attribute("unions", &ty.unions)]);
    for (kind, api_versions) in &ty.kinds {
        let mut cells = vec!["@kind", kind];
        cells.extend(api_versions.iter().map(String::as_str));
        line(out, &cells);
    }
    for field in &ty.fields {
        let fact = &field.fact;
        if fact.embedded {
            let number = fact.number.to_string();
            line(out, &["@embed", &fact.name, &number, &shorten(&fact.expression)]);
        } else {
            print_field(out, field);
        }
    }
}

fn print_field(out: &mut String, field: &Field) {
    let fact = &field.fact;
    let (pointer, expression) = match fact.expression.strip_prefix('*') {
        Some(rest) => (true, rest),
        None => (false, fact.expression.as_str()),
    };
    let zero = matches!(fact.default.as_str(), "{}" | "0" | "\"\"" | "false");
    let mut flags = String::new();
    for (set, flag) in [
        (pointer, 'p'),
        (fact.omitempty, 'e'),
        (fact.omitzero, 'z'),
        (field.required, 'r'),
        (zero, 'd'),
    ] {
        if set {
            flags.push(flag);
        }
    }
    if flags.is_empty() {
        flags.push('-');
    }
    line(
        out,
        &[
            &fact.name,
            &fact.number.to_string(),
            &flags,
            &shorten(expression),
            &attribute("list", &with_tail(&field.list_type, &field.list_keys.join(","))),
            &attribute("map", &field.map_type),
            &attribute("patch", &with_tail(&fact.patch_strategy, &fact.merge_key)),
            &attribute("default", if zero { "" } else { &fact.default }),
            &attribute("enum", &values(&fact.allowed)),
        ],
    );
}

/// Replaces package names by their aliases, `.Name` by `Name` and `[]uint8` by `bytes`.
fn shorten(expression: &str) -> String {
    if expression == "[]uint8" {
        return "bytes".to_owned();
    }
    let split = expression.rfind(']').map_or(0, |end| end + 1);
    let (outer, element) = expression.split_at(split);
    if let Some((key, rest)) = outer.strip_prefix("map[").and_then(|rest| rest.split_once(']')) {
        return format!("map[{}]{}", shorten(key), shorten(&format!("{rest}{element}")));
    }
    if let Some(rest) = outer.strip_prefix("[]") {
        return format!("[]{}", shorten(&format!("{rest}{element}")));
    }
    match element.rsplit_once('.') {
        Some(("", name)) => name.to_owned(),
        Some((package, name)) => format!("{}.{name}", join::alias(package)),
        None => element.to_owned(),
    }
}

fn values(json: &str) -> String {
    match serde_json::from_str(json) {
        Ok(Value::Array(values)) => {
            values.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(",")
        }
        _ => String::new(),
    }
}

fn with_tail(head: &str, tail: &str) -> String {
    if tail.is_empty() { head.to_owned() } else { format!("{head}:{tail}") }
}

fn attribute(name: &str, value: &str) -> String {
    if value.is_empty() { String::new() } else { format!("{name}={value}") }
}

fn line(out: &mut String, cells: &[&str]) {
    for (index, cell) in cells.iter().filter(|cell| !cell.is_empty()).enumerate() {
        let space = if index == 0 { "" } else { " " };
        let _ = write!(out, "{space}{cell}");
    }
    out.push('\n');
}
