//! Generates random structural schemas and values that mostly match them.

use serde_json::{Map, Value, json};

use super::random::Random;

const NAMES: [&str; 8] = ["a", "b", "c", "d", "alpha", "beta", "gamma", "delta"];

/// Generates the schema of a field, at most `depth` levels deep.
pub(super) fn schema(random: &mut Random, depth: usize) -> Value {
    let shapes: &[usize] =
        if depth == 0 { &[4, 3, 2, 2, 1, 0, 0, 0] } else { &[3, 2, 1, 1, 1, 4, 3, 2] };
    let mut schema = match random.weighted(shapes) {
        0 => string(random),
        1 => integer(random),
        2 => json!({"type": "boolean"}),
        3 => json!({"type": "number"}),
        4 => json!({"x-kubernetes-int-or-string": true}),
        5 => object(random, depth - 1),
        6 => list(random, depth - 1),
        _ => match random.below(6) {
            0 | 1 => json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
            2 => embedded(random, depth - 1),
            3 => json!({
                "type": "object", "x-kubernetes-map-type": *random.pick(&["atomic", "granular"]),
                "additionalProperties": {"type": "string"}, "maxProperties": 2,
            }),
            _ => json!({"type": "object", "additionalProperties": schema(random, depth - 1)}),
        },
    };
    if random.percent(10) {
        schema["nullable"] = true.into();
    }
    if random.percent(15) && schema.get("type").is_some() {
        // Invalid defaults have to be rejected too.
        schema["default"] =
            if random.percent(94) { fitting(random, &schema) } else { value(random, &schema) };
    }
    schema
}

/// Generates the schema of an embedded resource.
fn embedded(random: &mut Random, depth: usize) -> Value {
    let mut embedded = object(random, depth);
    embedded["x-kubernetes-embedded-resource"] = true.into();
    if random.percent(40) {
        embedded["x-kubernetes-preserve-unknown-fields"] = true.into();
    }
    embedded
}

fn string(random: &mut Random) -> Value {
    match random.below(8) {
        6 => json!({"type": "string", "anyOf": [{"maxLength": 1}, {"pattern": "^ab"}]}),
        7 => json!({"type": "string", "not": {"enum": ["x"]}, "maxLength": 4}),
        0 => json!({"type": "string", "enum": ["x", "y", "z"]}),
        1 => json!({"type": "string", "maxLength": 3}),
        2 => json!({"type": "string", "pattern": "^[a-z]*$"}),
        3 => json!({"type": "string", "minLength": 1}),
        4 => {
            json!({"type": "string", "format": *random.pick(&["date-time", "ipv4", "uuid", "byte", "email", "odd"])})
        }
        _ => json!({"type": "string"}),
    }
}

fn integer(random: &mut Random) -> Value {
    match random.below(5) {
        4 => json!({
            "type": "integer", "minimum": 0, "exclusiveMinimum": true,
            "oneOf": [{"maximum": 2}, {"minimum": 5}],
        }),
        0 => json!({"type": "integer", "minimum": 1, "maximum": 5}),
        1 => json!({"type": "integer", "format": *random.pick(&["int32", "int64"])}),
        2 => json!({"type": "integer", "multipleOf": 2}),
        _ => json!({"type": "integer"}),
    }
}

/// Generates the schema of an object with a few properties.
pub(super) fn object(random: &mut Random, depth: usize) -> Value {
    let mut properties = Map::new();
    for _ in 0..=random.below(4) {
        let name = *random.pick(&NAMES);
        properties.insert(name.to_owned(), schema(random, depth));
    }
    let names: Vec<_> = properties.keys().cloned().collect();
    let mut object = json!({"type": "object", "properties": properties});
    if random.percent(25) {
        object["required"] = json!([random.pick(&names)]);
    }
    object
}

fn list(random: &mut Random, depth: usize) -> Value {
    match random.below(6) {
        4 => json!({
            "type": "array", "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["k", "n"],
            "items": {
                "type": "object", "required": ["k"], "properties": {
                    "k": {"type": "string"}, "n": {"type": "integer", "default": 1},
                    "v": schema(random, depth),
                },
            },
        }),
        5 => json!({
            "type": "array", "x-kubernetes-list-type": "set", "minItems": 1,
            "items": {"type": "integer"},
        }),
        0 => json!({
            "type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"},
        }),
        1 => json!({
            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
            "items": {
                "type": "object", "required": ["k"],
                "properties": {"k": {"type": "string"}, "v": schema(random, depth)},
            },
        }),
        2 => json!({
            "type": "array", "maxItems": 2, "x-kubernetes-list-type": "atomic",
            "items": schema(random, depth),
        }),
        _ => json!({"type": "array", "items": schema(random, depth)}),
    }
}

/// Generates a value that most likely matches a schema.
fn fitting(random: &mut Random, schema: &Value) -> Value {
    if schema["x-kubernetes-int-or-string"] == true {
        return random.pick(&[json!(80), json!("http")]).clone();
    }
    match schema["type"].as_str() {
        Some("string") => match (schema["enum"].as_array(), schema["format"].as_str()) {
            (Some(allowed), _) => random.pick(allowed).clone(),
            (_, Some("date-time")) => "2001-02-03T04:05:06Z".into(),
            (_, Some("ipv4")) => "192.0.2.1".into(),
            (_, Some("uuid")) => "00000000-0000-4000-8000-00000000000a".into(),
            (_, Some("byte")) => "dGV4dA==".into(),
            (_, Some("email")) => "a@example.com".into(),
            _ => (*random.pick(&["a", "b"])).into(),
        },
        Some("integer") => 2.into(),
        Some("number") => random.pick(&[json!(0.5), json!(3)]).clone(),
        Some("boolean") => random.percent(50).into(),
        Some("array") => json!([fitting(random, &schema["items"])]),
        _ => {
            let mut fields = Map::new();
            for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
                fields.insert(name.clone(), fitting(random, schema));
            }
            if schema["additionalProperties"].is_object() {
                fields.insert("free".to_owned(), fitting(random, &schema["additionalProperties"]));
            }
            if schema["x-kubernetes-embedded-resource"] == true {
                fields.insert("apiVersion".to_owned(), "v1".into());
                fields.insert("kind".to_owned(), "Inner".into());
            }
            fields.into()
        }
    }
}

/// Generates a value for a schema; a few do not match.
pub(super) fn value(random: &mut Random, schema: &Value) -> Value {
    if random.percent(4) {
        let odd = [json!(null), json!("odd"), json!(7), json!([1]), json!({"odd": 1}), json!(1.5)];
        return random.pick(&odd).clone();
    }
    if schema["x-kubernetes-int-or-string"] == true {
        return random.pick(&[json!(80), json!("http"), json!("25%")]).clone();
    }
    match schema["type"].as_str() {
        Some("string") => match schema["enum"].as_array() {
            Some(allowed) => random.pick(allowed).clone(),
            None => {
                let texts = ["", "x", "abc", "abcd", "A1", "2001-02-03T04:05:06Z", "192.0.2.1"];
                (*random.pick(&texts)).into()
            }
        },
        Some("integer") => (*random.pick(&[0_i64, 1, 2, 5, 6, -1, 1 << 40])).into(),
        Some("number") => random.pick(&[json!(0.5), json!(3), json!(1e3)]).clone(),
        Some("boolean") => random.percent(50).into(),
        Some("array") => {
            let count = random.below(4);
            (0..count).map(|_| value(random, &schema["items"])).collect()
        }
        _ => fields(random, schema),
    }
}

fn fields(random: &mut Random, schema: &Value) -> Value {
    let mut fields = Map::new();
    if let Some(properties) = schema["properties"].as_object() {
        for (name, schema) in properties {
            if random.percent(65) {
                fields.insert(name.clone(), value(random, schema));
            }
        }
    }
    if schema["additionalProperties"].is_object() {
        fields.insert("free".to_owned(), value(random, &schema["additionalProperties"]));
    }
    if schema["x-kubernetes-embedded-resource"] == true && random.percent(90) {
        fields.insert("apiVersion".to_owned(), "v1".into());
        fields.insert("kind".to_owned(), "Inner".into());
        let metadata = [
            json!({"name": "inner"}),
            json!({"labels": {"a": "b"}, "unknown": 1}),
            json!({"labels": {"a": 5}}),
            json!({"name": "Bad Name"}),
        ];
        if random.percent(60) {
            fields.insert("metadata".to_owned(), random.pick(&metadata).clone());
        }
    }
    if random.percent(10) {
        fields.insert("unknown".to_owned(), json!({"x": 1}));
    }
    fields.into()
}
