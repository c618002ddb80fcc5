//! JSON documents read through schemas.

#![expect(clippy::unwrap_used, reason = "tests may panic")]

use std::sync::Arc;

use evenkeel_cel::schema::{Field, ListKind, ListSchema, ObjectSchema, Schema};
use evenkeel_cel::{Env, Value};
use serde_json::{Value as Json, json};

fn object(name: &str, fields: &[(&str, &str, Schema)]) -> Schema {
    let field = |(name, json, schema): &(&str, &str, Schema)| {
        let field = Field { json: (*json).into(), schema: schema.clone() };
        ((*name).into(), field)
    };
    let fields = fields.iter().map(field).collect();
    Schema::Object(Arc::new(ObjectSchema { name: name.into(), fields }))
}

fn list(items: Schema, kind: ListKind) -> Schema {
    Schema::List(Arc::new(ListSchema { items, kind }))
}

fn schema() -> Schema {
    let entry = object("Entry", &[("key", "key", Schema::String), ("value", "value", Schema::Int)]);
    object(
        "Self",
        &[
            ("__namespace__", "namespace", Schema::String),
            ("number", "number", Schema::Double),
            ("data", "data", Schema::Bytes),
            ("since", "since", Schema::Timestamp),
            ("every", "every", Schema::Duration),
            ("any", "any", Schema::Dyn),
            ("text", "text", Schema::String),
            ("count", "count", Schema::Int),
            ("port", "port", Schema::IntOrString),
            ("wrong", "wrong", list(Schema::String, ListKind::Atomic)),
            ("labels", "labels", Schema::Map(Arc::new(Schema::String))),
            ("set", "set", list(Schema::String, ListKind::Set)),
            ("other", "other", list(Schema::String, ListKind::Set)),
            ("atomic", "atomic", list(Schema::String, ListKind::Atomic)),
            ("entries", "entries", list(entry, ListKind::Map(vec!["key".into()]))),
        ],
    )
}

fn document() -> Json {
    json!({
        "namespace": "n", "number": 1, "data": "aGk=", "since": "2024-01-01T00:00:00Z",
        "every": "1h30m", "any": {"a": [1, 2.5, null]}, "labels": {"a": "b"},
        "text": ["x"], "count": 1.0, "port": 1.5, "wrong": ["a", []],
        "set": ["a", "b"], "other": ["b", "a"], "atomic": ["b", "a"],
        "entries": [{"key": "a", "value": 1}, {"key": "b", "value": 2}],
    })
}

fn evaluate(expression: &str) -> Result<bool, String> {
    let schema = schema();
    let env = Env::builder()
        .standard_library()
        .optional_types()
        .type_provider(Arc::new(schema.clone()))
        .variable("self", schema.type_())
        .build()
        .unwrap();
    let program = env.program(expression).map_err(|issues| issues.to_string())?;
    let document = document();
    match program.evaluate(&[Value::with_schema(&document, &schema)]) {
        Ok(value) => Ok(value == Value::Bool(true)),
        Err(error) => Err(error.to_string()),
    }
}

#[test]
fn fields_have_the_types_of_the_schema() {
    for expression in [
        "self.__namespace__ == 'n'",
        "self.number / 2.0 == 0.5",
        "self.data == b'hi'",
        "self.since.getFullYear() == 2024",
        "self.every == duration('90m')",
        "self.any.a[1] == 2.5 && self.any.a[2] == null",
        "self.labels.a == 'b' && self.labels['a'] == 'b' && 'a' in self.labels",
        "self.entries[1].value == 2",
        "has(self.labels.a) && !has(self.labels.b)",
        "self.labels.?b.orValue('none') == 'none'",
        "type(self.entries[0]) == Entry",
    ] {
        assert_eq!(evaluate(expression), Ok(true), "{expression}");
    }
}

#[test]
fn sets_and_map_lists_are_compared_and_added_without_order() {
    for expression in [
        "self.set == self.other",
        "self.atomic != ['a', 'b']",
        "(self.set + ['b', 'c']).size() == 3",
        "(self.atomic + ['b']).size() == 3",
        "(self.entries + self.entries).size() == 2",
        "self.entries == self.entries",
    ] {
        assert_eq!(evaluate(expression), Ok(true), "{expression}");
    }
}

#[test]
fn undeclared_fields_do_not_compile_and_absent_ones_fail() {
    let error = evaluate("self.unknown").unwrap_err();
    assert!(error.starts_with("ERROR: <input>:1:5: undefined field 'unknown'"), "{error}");
    assert_eq!(evaluate("self.labels.zzz == ''").unwrap_err(), "no such key: zzz");
    assert_eq!(evaluate("self.set[5] == ''").unwrap_err(), "index out of bounds: 5");
}

#[test]
fn reading_what_does_not_match_the_schema_fails() {
    let got = |what: &str| Err(format!("invalid data, expected {what}"));
    assert_eq!(evaluate("self.text == 'x'"), got("string, got []interface {}"));
    assert_eq!(evaluate("has(self.text)"), got("string, got []interface {}"));
    assert_eq!(evaluate("self.count == 1"), got("int, got float64"));
    let either = "XIntOrString value to be either a string or integer";
    assert_eq!(evaluate("self.port == 1"), got(either));
    assert_eq!(evaluate("self.wrong.all(x, x == 'a')"), got("string, got []interface {}"));
    // Only what is read matters, and an error is absorbed by a decisive operand.
    assert_eq!(evaluate("self.wrong[0] == 'a' || self.text == 'x'"), Ok(true));
}

#[test]
fn errors_locate_the_sub_expression_that_failed() {
    let env = Env::builder().standard_library().build().unwrap();
    let ast = env.compile("1 == 1 &&\n  1 / 0 == 1").unwrap();
    let program = evenkeel_cel::Program::new(&env, &ast).unwrap();
    let error = program.evaluate(&[]).unwrap_err();
    let location = ast.location(error.expression().unwrap());
    assert_eq!((location.line, location.column), (2, 4));
}
