//! Changes objects: sets any field of a built-in type to a possibly valid value, or any value to
//! one of the wrong type.
//!
//! The fields and their types are those of the table of built-in types, so that none is omitted.

use evenkeel_types::{Custom, Field, Shape, Type};
use serde_json::{Map, Value, json};

use super::random::Random;

/// Maximum depth of a generated value.
const DEPTH: usize = 2;

/// Sets a random field of an object of type `ty`.
pub(super) fn set_any_field(random: &mut Random, ty: &Type, object: &mut Value) {
    let Value::Object(fields) = object else { return };
    // Status and metadata are covered by other sequences.
    let own: Vec<_> =
        ty.fields.iter().filter(|field| !is_shared(field.name) && field.name != "status").collect();
    if own.is_empty() {
        return;
    }
    let field = *random.pick(&own);
    alter(random, field, fields.entry(field.name).or_insert(Value::Null));
}

/// Replaces an existing value by one of another type.
pub(super) fn corrupt(random: &mut Random, object: &mut Value) {
    match object {
        Value::Object(fields) if !fields.is_empty() && random.percent(88) => {
            let names: Vec<_> = fields.keys().filter(|name| !is_type(name)).cloned().collect();
            if !names.is_empty() {
                let name = random.pick(&names);
                if random.percent(8) {
                    fields.insert(format!("{name}X"), json!({"x": 1}));
                } else {
                    corrupt(random, &mut fields[name.as_str()]);
                }
            }
        }
        Value::Array(items) if !items.is_empty() && random.percent(88) => {
            let at = random.below(items.len());
            corrupt(random, &mut items[at]);
        }
        other => *other = unexpected_value(random),
    }
}

fn is_type(name: &str) -> bool {
    matches!(name, "apiVersion" | "kind")
}

fn is_shared(name: &str) -> bool {
    is_type(name) || name == "metadata"
}

fn unexpected_value(random: &mut Random) -> Value {
    let odd = [
        json!(null),
        json!("odd"),
        json!(""),
        json!(7),
        json!(-1),
        json!(1.5),
        json!(true),
        json!([]),
        json!([1]),
        json!(["a"]),
        json!({}),
        json!({"odd": 1}),
        json!([{}]),
    ];
    random.pick(&odd).clone()
}

/// Changes the value of a field at a random depth.
fn alter(random: &mut Random, field: &Field, value: &mut Value) {
    alter_shape(random, field, field.shape, value);
}

fn alter_shape(random: &mut Random, field: &Field, shape: Shape, value: &mut Value) {
    match shape {
        Shape::Struct(ty) if !ty.fields.is_empty() && random.percent(90) => {
            if !value.is_object() {
                *value = random_value(random, field, shape, DEPTH);
            }
            let Value::Object(fields) = value else { return };
            let field = random.pick(&ty.get().fields);
            alter(random, field, fields.entry(field.name).or_insert(Value::Null));
        }
        Shape::List(item) if random.percent(85) => {
            if value.as_array().is_none_or(Vec::is_empty) {
                *value = json!([random_value(random, field, item.shape(), DEPTH)]);
            }
            let Value::Array(items) = value else { return };
            match random.below(5) {
                0 => items.push(random_value(random, field, item.shape(), DEPTH)),
                _ => alter_shape(random, field, item.shape(), &mut items[0]),
            }
        }
        Shape::Custom(..) if random.percent(15) => *value = "?".into(),
        // One error at a time, and no empty values, which error messages print differently.
        _ if random.percent(7) => {
            *value =
                Some(unexpected_value(random)).filter(|odd| !is_empty(odd)).unwrap_or(true.into());
        }
        _ => *value = random_value(random, field, shape, DEPTH),
    }
}

/// Generates a value of a shape, which may be invalid.
fn random_value(random: &mut Random, field: &Field, shape: Shape, depth: usize) -> Value {
    match shape {
        Shape::String => {
            let allowed: Vec<_> = field.allowed().collect();
            if !allowed.is_empty() && random.percent(85) {
                return (*random.pick(&allowed)).into();
            }
            text(random, field.name).into()
        }
        Shape::Bool => random.percent(60).into(),
        Shape::Int32 | Shape::Int64 => (*random.pick(&[0_i64, 1, 1, 2, 30, 80, 70_000, -1])).into(),
        Shape::Double => random.pick(&[json!(0.5), json!(3)]).clone(),
        Shape::Bytes => "dGV4dA==".into(),
        Shape::Any => json!({"free": 1}),
        Shape::List(item) => {
            let count = if depth == 0 { 0 } else { 1 + random.below(2) };
            (0..count).map(|_| random_value(random, field, item.shape(), depth - 1)).collect()
        }
        Shape::Map { value, .. } => {
            let key = *random.pick(&["k", "app", "cpu", "example.com/k"]);
            json!({key: random_value(random, field, value.shape(), depth.saturating_sub(1))})
        }
        Shape::Struct(ty) => {
            let mut fields = Map::new();
            for field in &ty.get().fields {
                let percent = if field.required { 92 } else { 12 };
                // An empty list is different from an absent one.
                let min_depth = if matches!(field.shape, Shape::List(_)) { 1 } else { 0 };
                if depth > min_depth && random.percent(percent) {
                    fields.insert(
                        field.name.to_owned(),
                        random_value(random, field, field.shape, depth - 1),
                    );
                }
            }
            fields.into()
        }
        Shape::Custom(custom, _) => custom_value(random, custom),
    }
}

fn custom_value(random: &mut Random, custom: Custom) -> Value {
    match custom {
        Custom::Time => "2001-02-03T04:05:06Z".into(),
        Custom::MicroTime => "2001-02-03T04:05:06.000007Z".into(),
        Custom::Quantity => {
            random.pick(&[json!("1"), json!("500m"), json!("2Gi"), json!("-1"), json!(5)]).clone()
        }
        Custom::IntOrString => {
            random.pick(&[json!(80), json!("http"), json!("25%"), json!(0), json!("?")]).clone()
        }
        _ => json!({"free": 1}),
    }
}

fn is_empty(value: &Value) -> bool {
    value.as_object().is_some_and(Map::is_empty) || value.as_array().is_some_and(Vec::is_empty)
}

/// Generates a text for a field with this name.
fn text(random: &mut Random, name: &str) -> String {
    let fitting = match name {
        "image" => "image:1",
        "name" => "n1",
        "mountPath" | "path" => "/p",
        "operator" => "In",
        "schedule" => "*/5 * * * *",
        "hostIP" | "ip" | "podIP" => "192.0.2.1",
        _ => "x",
    };
    let other = ["x", "a-b", "", "Bad Value!", "a.b/c", "/x/../y", "example.com", "${ns}"];
    if random.percent(55) { fitting.to_owned() } else { (*random.pick(&other)).to_owned() }
}
