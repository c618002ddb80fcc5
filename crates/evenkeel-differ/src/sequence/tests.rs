//! Sequences of requests: variables, saved values and their text form.

use serde_json::json;

use super::*;

#[test]
fn what_is_rendered_is_read_back_the_same() {
    let mut sequence = Sequence {
        name: "x".to_owned(),
        about: "a: \"quoted\" # thing".to_owned(),
        steps: vec![
            Step::call("POST", "/api/v1/namespaces/${ns}/configmaps")
                .with_body(json!({"a": "yes", "b": [1, 1.5, null, "1", "~", "on"]}))
                .saving("o"),
            Step { read: Some("w".to_owned()), end: true, ..Step::default() },
        ],
        ..Sequence::default()
    };
    sequence.steps[0].raw = Some("{\"truncated\": ".to_owned());
    let back = Sequence::parse("x", &sequence.render()).unwrap();
    assert_eq!(back, sequence);
}

#[test]
fn unknown_words_in_a_step_are_refused() {
    assert!(Sequence::parse("x", "steps: [{do: GET /, sav: {}}]").is_err());
}

#[test]
fn a_lone_variable_keeps_its_type() {
    let variables = Variables::from([("n".to_owned(), json!(3)), ("s".to_owned(), json!("t"))]);
    let body = json!({"a": "${n}", "b": "${n}-${s}", "c": "${other}"});
    assert_eq!(expand(&body, &variables), json!({"a": 3, "b": "3-t", "c": "${other}"}));
}

#[test]
fn pointers_make_what_is_missing_on_the_way() {
    let mut value = json!({"a": [1]});
    set_at(&mut value, "/b/c~1d", json!(2));
    set_at(&mut value, "/a/0", json!(5));
    set_at(&mut value, "/a/-", json!(6));
    unset_at(&mut value, "/nothing/there");
    assert_eq!(value, json!({"a": [5, 6], "b": {"c/d": 2}}));
    unset_at(&mut value, "/b/c~1d");
    assert_eq!(value, json!({"a": [5, 6], "b": {}}));
}
