//! JSON paths of printer columns and selectable fields.

#![expect(clippy::needless_pass_by_value, reason = "literals read better without borrows")]

use super::*;
use serde_json::json;

fn object() -> Value {
    json!({
        "metadata": {"creationTimestamp": "2024-01-01T00:00:00Z", "labels": {"a.b/c": "x"}},
        "spec": {"replicas": 3, "list": [0, 1, 2, 3, 4], "name": "n"},
        "status": {
            "conditions": [
                {"type": "Ready", "status": "True", "n": 1},
                {"type": "Synced", "status": "False", "n": 2, "extra": null},
            ],
        },
    })
}

#[track_caller]
fn check(path: &str, want: Value) {
    let object = object();
    let path = Path::parse(path).unwrap();
    let found = path.eval(&object);
    assert_eq!(json!(found), want);
    assert_eq!(path.first(&object), want.get(0), "first value");
}

#[test]
fn missing_fields_yield_nothing() {
    check(".spec.replicas", json!([3]));
}

#[test]
fn keywords_and_unknown_operators_parse_but_yield_nothing() {
    check("spec.replicas", json!([]));
    check(".status.conditions[?(@.type=\"Ready\")].type", json!([]));
}

#[test]
fn paths_may_start_with_the_root_symbol() {
    check("$.spec.name", json!(["n"]));
    check(".metadata.creationTimestamp", json!(["2024-01-01T00:00:00Z"]));
    check(".metadata.labels.a\\.b/c", json!(["x"]));
    check(".metadata.labels['a\\.b/c']", json!(["x"]));
    check(".spec['replicas']", json!([3]));
    check(".spec.nothing.at.all", json!([]));
    check(".spec.name.sub", json!([]));
    check(".", json!([]));
}

#[test]
fn lists_are_indexed_and_sliced() {
    check(".spec.list[1]", json!([1]));
    check(".spec.list[-1]", json!([4]));
    check(".spec.list[1:3]", json!([1, 2]));
    check(".spec.list[:2]", json!([0, 1]));
    check(".spec.list[3:]", json!([3, 4]));
    check(".spec.list[::2]", json!([0, 2, 4]));
    check(".spec.list[*]", json!([0, 1, 2, 3, 4]));
    check(".spec.list[0,2]", json!([0, 2]));
    check(".spec.list[-2:]", json!([3, 4]));
    check(".spec.list[:-1]", json!([0, 1, 2, 3]));
    check(".spec.list[]", json!([0]));
    check(".spec.list[2:2]", json!([]));
    check(".spec.list[3:1]", json!([]));
    check(".spec.list[::0]", json!([]));
    check(".status.conditions[0]['type','status']", json!(["Ready", "True"]));
    check(".spec.list[9]", json!([]));
    check(".spec.name[0]", json!([]));
}

#[test]
fn wildcards_and_recursive_descent_select_all_values() {
    check(".status.conditions[*].type", json!(["Ready", "Synced"]));
    check(".status.conditions[*].*", json!([1, "True", "Ready", null, 2, "False", "Synced"]));
    check("..type", json!(["Ready", "Synced"]));
    check("..replicas", json!([3]));
    check(".spec.name..", json!(["n"]));
}

#[test]
fn filters_compare_and_test_presence() {
    check(".status.conditions[?(@.type==\"Ready\")].status", json!(["True"]));
    check(".status.conditions[?(@.type=='Synced')].status", json!(["False"]));
    check(".status.conditions[?(@.type!=\"Ready\")].type", json!(["Synced"]));
    check(".status.conditions[?(@.n>1)].type", json!(["Synced"]));
    check(".status.conditions[?(@.n<=1)].type", json!(["Ready"]));
    check(".status.conditions[?(@.extra)].type", json!(["Synced"]));
    check(".status.conditions[?(@.nothing==1)].type", json!([]));
    // A comparison of different types makes the whole path yield no results.
    check(".status.conditions[?(@.n==\"1\")].type", json!([]));
    check(".status.conditions[?(@.n==1.0)].type", json!([]));
    check(".status.conditions[?(@.type==\"a)b\")].type", json!([]));
}

#[test]
fn syntax_errors_have_upstream_messages() {
    for (path, want) in [
        (".a[", "unterminated array"),
        (".a[x]", "invalid array index x"),
        (".a[?(@.b", "unterminated filter"),
        (".a[?(@.b)", "unclosed array expect ]"),
        (".a[?(@.b=~\"x\")]", "unrecognized character in action: U+007E '~'"),
        (".a....b", "invalid multiple recursive descent"),
        ("#", "unrecognized character in action: U+0023 '#'"),
        (".a['b", "unterminated array"),
        ("'a", "unterminated quoted string"),
    ] {
        assert_eq!(Path::parse(path).unwrap_err().to_string(), want, "{path}");
    }
}
