//! What hostile expressions cannot do: exhaust the stack, memory or time.

#![expect(clippy::unwrap_used, reason = "tests may panic")]

use std::cell::Cell;

use evenkeel_cel::kubernetes::PER_CALL_LIMIT;
use evenkeel_cel::{Activation, Env, Error, ErrorKind, Limits, Type, Value};

fn env() -> Env {
    let env = Env::builder().standard_library().optional_types().bindings().extensions();
    env.variable("xs", Type::list(Type::Int)).build().unwrap()
}

fn first_issue(expression: &str) -> String {
    env().compile(expression).unwrap_err().iter().next().unwrap().message.clone()
}

#[test]
fn nesting_is_limited_before_the_stack_is() {
    let nested = |depth: usize| format!("{}1{}", "(".repeat(depth), ")".repeat(depth));
    assert!(env().compile(&nested(249)).is_ok());
    assert_eq!(first_issue(&nested(250)), "expression recursion limit exceeded: 250");
    assert_eq!(first_issue(&nested(40_000)), "expression recursion limit exceeded: 250");
    let lists = |depth: usize| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
    let program = env().program(&format!("{} == {0}", lists(124))).unwrap();
    assert_eq!(program.evaluate(&[]).unwrap(), Value::Bool(true));
}

#[test]
fn chains_of_operators_and_fields_are_limited() {
    let sum = |terms: usize| vec!["1"; terms].join(" + ");
    assert_eq!(env().program(&sum(251)).unwrap().evaluate(&[]).unwrap(), Value::Int(251));
    assert_eq!(first_issue(&sum(252)), "max recursion depth exceeded");
    assert_eq!(first_issue(&sum(20_000)), "max recursion depth exceeded");
    assert_eq!(first_issue(&vec!["xs"; 300].join(".")), "max recursion depth exceeded");
    // A chain of conjunctions is balanced and may be long.
    assert!(env().program(&vec!["true"; 5_000].join(" && ")).is_ok());
}

#[test]
fn long_expressions_are_rejected_by_their_size() {
    let text = format!("'{}'", "a".repeat(100_000));
    let limit = "expression code point size exceeds limit: size: 100002, limit 100000";
    assert_eq!(first_issue(&text), limit);
}

#[test]
fn macros_that_copy_their_target_cannot_double_it_forever() {
    let mut expression = "optional.of(1)".to_owned();
    for _ in 0..60 {
        expression.push_str(".optMap(x, x)");
    }
    assert_eq!(first_issue(&expression), "expression node limit exceeded: 200000");
}

#[test]
fn lists_of_any_length_are_concatenated_without_copies() {
    let mut expression = "size(x)".to_owned();
    for _ in 0..40 {
        expression = format!("cel.bind(x, x + x, {expression})");
    }
    let expression = format!("cel.bind(x, xs, {expression})");
    let program = env().program(&expression).unwrap();
    let xs = [Value::list([Value::Int(1)])];
    assert_eq!(program.evaluate(&xs).unwrap(), Value::Int(1 << 40));
}

#[test]
fn appending_in_a_loop_is_not_quadratic() {
    // Each step appends to a list of up to 20,000 elements, without a macro that builds lists.
    let expression = "xs.map(x, xs.map(y, y)).flatten().size() + xs.map(x, [x] + [x]).size()";
    let program = env().program(expression).unwrap();
    let xs = [Value::list((0..1_000).map(Value::Int).collect::<Vec<_>>())];
    assert_eq!(program.evaluate(&xs).unwrap(), Value::Int(1_001_000));
}

#[test]
fn ranges_beyond_any_limit_are_not_allocated() {
    let program = env().program("lists.range(9000000000000000000).size()").unwrap();
    assert_eq!(program.evaluate(&[]).unwrap_err().kind(), ErrorKind::CostLimit);
}

#[test]
fn an_evaluation_ends_as_soon_as_it_exceeds_its_limit() {
    let program = env().program("xs.all(a, xs.all(b, xs.all(c, a + b + c >= 0)))").unwrap();
    let xs = [Value::list((0..1_000).map(Value::Int).collect::<Vec<_>>())];
    let limits = Limits { cost: Some(10_000), interrupted: None };
    let evaluation = program.run(&xs, limits);
    let error = evaluation.result.unwrap_err();
    assert_eq!(error.to_string(), "operation cancelled: actual cost limit exceeded");
    assert_eq!(evaluation.cost, 10_001);
}

#[test]
fn a_hostile_rule_ends_at_the_limit_of_kubernetes() {
    let list = Value::list((0..1_000).map(Value::Int).collect::<Vec<_>>());
    let text = "a".repeat(10_000);
    for (expression, overshoot) in [
        // Loops in loops: the limit is exceeded by less than one iteration.
        ("xs.all(a, xs.all(b, xs.all(c, xs.all(d, xs.all(e, a + b + c + d + e >= 0)))))", 20),
        ("xs.map(a, xs.map(b, xs.map(c, a + b + c))).size() > 0", 20),
        ("xs.exists(a, xs.exists(b, xs.filter(c, c == a).size() + b < 0))", 20),
        // Calls that cost more if their arguments are longer: by less than one call.
        ("xs.all(a, xs.all(b, (text + text).contains('b' + text) == false))", 2_100_000),
        ("xs.all(a, xs.all(b, text.matches('(a+)+$')))", 10_000),
    ] {
        let env = env().extend().variable("text", Type::String).build().unwrap();
        let program = env.program(expression).unwrap();
        let iterations = Cell::new(0_u64);
        let count = || {
            iterations.set(iterations.get() + 100);
            false
        };
        let limits = Limits { cost: Some(PER_CALL_LIMIT), interrupted: Some(&count) };
        let values = [list.clone(), Value::from(text.as_str())];
        let evaluation = program.run(&values, limits);
        let kind = evaluation.result.map_err(|error| error.kind());
        assert_eq!(kind, Err(ErrorKind::CostLimit), "{expression}");
        let cost = evaluation.cost;
        let most = PER_CALL_LIMIT + overshoot;
        assert!((PER_CALL_LIMIT..=most).contains(&cost), "{expression} cost {cost}");
        // Every iteration costs at least 1.
        assert!(iterations.get() <= PER_CALL_LIMIT, "{expression}: {}", iterations.get());
    }
}

#[test]
fn a_limit_is_not_absorbed_by_logic() {
    let program = env().program("xs.exists(a, xs.all(b, a + b >= 0) && false) || true").unwrap();
    let xs = [Value::list((0..1_000).map(Value::Int).collect::<Vec<_>>())];
    let limits = Limits { cost: Some(10_000), interrupted: None };
    assert_eq!(program.run(&xs, limits).result.unwrap_err().kind(), ErrorKind::CostLimit);
}

#[test]
fn an_interrupt_ends_a_loop_within_100_iterations() {
    let program = env().program("xs.all(x, x >= 0)").unwrap();
    let xs = [Value::list((0..1_000).map(Value::Int).collect::<Vec<_>>())];
    let checks = Cell::new(0);
    let interrupted = || {
        checks.set(checks.get() + 1);
        checks.get() == 2
    };
    let limits = Limits { cost: None, interrupted: Some(&interrupted) };
    let evaluation = program.run(&xs, limits);
    assert_eq!(evaluation.result.unwrap_err().to_string(), "operation interrupted");
    // The variable costs 1 and each of the 200 iterations 5.
    assert_eq!(evaluation.cost, 1_001);
}

#[test]
fn variables_are_read_only_when_they_are_needed() {
    struct Lazy(Cell<usize>);
    impl<'a> Activation<'a> for Lazy {
        fn variable(&self, _: usize) -> Option<Result<Value<'a>, Error>> {
            self.0.set(self.0.get() + 1);
            Some(Err(Error::new("unavailable")))
        }
    }
    let program = env().program("true || size(xs) > 0").unwrap();
    let lazy = Lazy(Cell::new(0));
    assert_eq!(program.run(&lazy, Limits::default()).result.unwrap(), Value::Bool(true));
    assert_eq!(lazy.0.get(), 0);
    let program = env().program("size(xs) > 0 || true").unwrap();
    assert_eq!(program.run(&lazy, Limits::default()).result.unwrap(), Value::Bool(true));
    assert_eq!(lazy.0.get(), 1);
}

#[test]
fn values_are_small() {
    assert_eq!(size_of::<Value<'_>>(), 32);
    assert_eq!(size_of::<Result<Value<'_>, Error>>(), 32);
}
