//! Entry points of the fuzz targets: arbitrary bytes in, a panic on a violated invariant.

use std::sync::LazyLock;

use evenkeel_cel::cost::UnknownSizes;
use evenkeel_cel::{Activation, Env, Error, ErrorKind, Limits, Program, Type, Value};
use serde_json::{Value as Json, json};

/// The cost that an evaluation may have here.
const LIMIT: u64 = 20_000;

static ENV: LazyLock<Env> = LazyLock::new(|| {
    let env = Env::builder()
        .standard_library()
        .optional_types()
        .two_variable_comprehensions()
        .bindings()
        .extensions()
        .escaped_identifiers()
        .homogeneous_literals(true)
        .variable("self", Type::Dyn)
        .variable("xs", Type::list(Type::Int))
        .variable("s", Type::String)
        .variable("m", Type::map(Type::String, Type::Int));
    env.build().expect("the declarations do not contradict each other")
});

static OBJECT: LazyLock<Json> = LazyLock::new(
    || json!({"spec": {"replicas": 3, "ports": [{"name": "a", "port": 80}], "labels": {"a": "b"}, "n": null}}),
);

/// The parser and the checker: an error has a position in the text and prints.
pub fn cel_compile(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Err(issues) = ENV.compile(&text) {
        let lines = i32::try_from(text.split('\n').count()).unwrap_or(i32::MAX);
        assert!(issues.iter().next().is_some(), "no issue for {text:?}");
        for issue in issues.iter() {
            assert!(issue.location.line <= lines, "{issue:?} is not in {text:?}");
        }
        assert!(issues.to_string().starts_with("ERROR: <input>:"));
    }
}

/// The static cost: the lower bound is not above the upper one.
pub fn cel_estimate(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Ok(ast) = ENV.compile(&text) {
        let estimate = ENV.estimate_cost(&ast, &UnknownSizes);
        assert!(estimate.min <= estimate.max, "{estimate:?} for {text:?}");
    }
}

/// Evaluation: it ends at its limit, and a second one is the same.
pub fn cel_evaluate(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let Ok(ast) = ENV.compile(&text) else { return };
    let Ok(program) = Program::new(&ENV, &ast) else { return };
    let limits = Limits { cost: Some(LIMIT), interrupted: None };
    let first = program.run(&Variables, limits);
    match &first.result {
        Err(error) if error.kind() == ErrorKind::CostLimit => {}
        _ => assert!(first.cost <= LIMIT, "{} for {text:?}", first.cost),
    }
    let second = program.run(&Variables, limits);
    assert_eq!(first.cost, second.cost, "{text:?}");
    let print = |result: &Result<Value<'_>, Error>| format!("{result:?}");
    assert_eq!(print(&first.result), print(&second.result), "{text:?}");
}

struct Variables;

impl<'a> Activation<'a> for Variables {
    fn variable(&self, index: usize) -> Option<Result<Value<'a>, Error>> {
        let value = match index {
            0 => Value::from_json(&OBJECT),
            1 => Value::list([1, 2, 3].map(Value::Int)),
            2 => Value::from("text"),
            _ => return None,
        };
        Some(Ok(value))
    }
}
