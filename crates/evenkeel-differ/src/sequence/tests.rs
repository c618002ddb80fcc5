//! Sequences of requests: variables, saved values and their text form.

use serde_json::json;

use super::*;

#[test]
fn rendered_sequence_parses_to_the_same_sequence() {
    let mut sequence = Sequence {
        name: "x".to_owned(),
        about: "a: \"quoted\" # thing".to_owned(),
        steps: vec![
            Step::call("POST", "/api/v1/namespaces/${ns}/configmaps")
                .with_body(json!({"a": "yes", "b": [1, 1.5, null, "1", "~", "on"]}))
                .saving("o"),
            Step::call("POST", "/api/v1/nodes").with_body(json!(null)),
            Step { read: Some("w".to_owned()), end: true, ..Step::default() },
        ],
        ..Sequence::default()
    };
    sequence.steps[0].raw = Some("{\"truncated\": ".to_owned());
    let back = Sequence::parse("x", &sequence.render()).unwrap();
    assert_eq!(back, sequence);
}

#[test]
fn unknown_fields_in_a_step_are_rejected() {
    assert!(Sequence::parse("x", "steps: [{do: GET /, sav: {}}]").is_err());
}

#[test]
fn lone_variable_keeps_its_type() {
    let variables = Variables::from([("n".to_owned(), json!(3)), ("s".to_owned(), json!("t"))]);
    let body = json!({"a": "${n}", "b": "${n}-${s}", "c": "${other}"});
    assert_eq!(expand(&body, &variables), json!({"a": 3, "b": "3-t", "c": "${other}"}));
}

#[test]
fn set_at_creates_missing_parents() {
    let mut value = json!({"a": [1]});
    set_at(&mut value, "/b/c~1d", json!(2));
    set_at(&mut value, "/a/0", json!(5));
    set_at(&mut value, "/a/-", json!(6));
    unset_at(&mut value, "/nothing/there");
    assert_eq!(value, json!({"a": [5, 6], "b": {"c/d": 2}}));
    unset_at(&mut value, "/b/c~1d");
    assert_eq!(value, json!({"a": [5, 6], "b": {}}));
}
