//! Field sets: algebra, order and FieldsV1.

#![expect(clippy::needless_pass_by_value, reason = "tables read better with json! arguments")]

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::path::fields;

/// Builds a path from JSON: strings are fields, objects keys, `[v]` a value, numbers indexes.
fn path(elements: &Value) -> Path {
    let element = |value: &Value| match value {
        Value::String(name) => PathElement::field(name),
        Value::Object(pairs) => PathElement::key(pairs.clone()),
        Value::Array(items) => PathElement::Value(items[0].clone()),
        number => PathElement::Index(number.as_i64().unwrap()),
    };
    elements.as_array().unwrap().iter().map(element).collect()
}

fn set(paths: Value) -> Set {
    Set::from_paths(paths.as_array().unwrap().iter().map(path))
}

#[test]
fn members_do_not_imply_parents_or_children() {
    let set =
        set(json!([["a", "b"], ["c"], ["l", {"name": "x", "port": 80}], ["v", ["i"]], ["n", 1]]));
    assert_eq!(set.len(), 5);
    for (member, has) in [
        (json!(["a", "b"]), true),
        (json!(["a"]), false),
        (json!(["a", "b", "c"]), false),
        (json!(["c"]), true),
        (json!(["l", {"port": 80.0, "name": "x"}]), true),
        (json!(["l", {"name": "x"}]), false),
        (json!(["v", ["i"]]), true),
        (json!(["n", 1]), true),
        (json!([]), false),
    ] {
        assert_eq!(set.has(&path(&member)), has, "{member}");
    }
    assert!(Set::from_paths([Path::new()]).is_empty());
}

#[test]
fn difference_is_by_path_and_recursive_difference_by_subtree() {
    let all = set(json!([["a"], ["a", "b"], ["a", "b", "c"], ["d", "e"], ["f"]]));
    let some = set(json!([["a"], ["a", "b"], ["d"], ["g"]]));
    assert_eq!(all.clone().difference(&some), set(json!([["a", "b", "c"], ["d", "e"], ["f"]])));
    assert_eq!(all.clone().recursive_difference(&some), set(json!([["f"]])));
    assert_eq!(all.intersection(&some), set(json!([["a"], ["a", "b"]])));
    assert_eq!(
        all.clone().union(some),
        set(json!([["a"], ["a", "b"], ["a", "b", "c"], ["d"], ["d", "e"], ["f"], ["g"]]))
    );
    assert_eq!(all.leaves(), set(json!([["a", "b", "c"], ["d", "e"], ["f"]])));
}

#[test]
fn iteration_visits_the_members_of_a_level_before_nested_members() {
    let set = set(json!([["b", "x"], ["c"], ["a", "y"], ["a"]]));
    assert_eq!(set.to_string(), ".a\n.c\n.a.y\n.b.x");
}

#[test]
fn fields_v1_is_encoded_byte_for_byte() {
    for (paths, want) in [
        (json!([]), "{}"),
        (json!([["a"]]), r#"{"f:a":{}}"#),
        (json!([["a"], ["a", "b"]]), r#"{"f:a":{".":{},"f:b":{}}}"#),
        (
            json!([["l", {"port": 443, "p": "TCP"}], ["l", {"port": 80, "p": "TCP"}, "x"]]),
            r#"{"f:l":{"k:{\"p\":\"TCP\",\"port\":80}":{"f:x":{}},"k:{\"p\":\"TCP\",\"port\":443}":{}}}"#,
        ),
        (
            json!([["s", ["<&>"]], ["s", [1.5]], ["s", [true]], ["s", [1e6]], ["s", [2]]]),
            r#"{"f:s":{"v:1.5":{},"v:2":{},"v:1000000":{},"v:\"\\u003c\\u0026\\u003e\"":{},"v:true":{}}}"#,
        ),
        (json!([["<&>\u{2028}\n\"\\\u{1}"]]), "{\"f:<&>\u{2028}\\n\\\"\\\\\\u0001\":{}}"),
        (json!([["i", 2], ["i", 10]]), r#"{"f:i":{"i:2":{},"i:10":{}}}"#),
    ] {
        let set = set(paths);
        assert_eq!(set.to_json(), want);
        assert_eq!(Set::from_json(want).as_ref(), Ok(&set));
        assert_eq!(set.to_fields_v1(), serde_json::from_str::<Value>(want).unwrap());
    }
}

#[test]
fn decoding_skips_unknown_prefixes_and_accepts_any_order() {
    for (text, want) in [
        (r#"{"f:b":{},"f:a":{".":{},"f:x":{}}}"#, json!([["a"], ["a", "x"], ["b"]])),
        (r#"{"f:a":{"z:new":{"f:b":{}}}}"#, json!([["a"]])),
        (r#"{"f:a":null}"#, json!([["a"]])),
        (r#"{".":{}}"#, json!([])),
        (r#"{"k:{\"b\":1,\"a\":2}":{}}"#, json!([[{"a": 2, "b": 1}]])),
        (r#"{"v:1":{"f:a":{}},"v:1.0":{"f:b":{}}}"#, json!([[[1], "b"]])),
        ("null", json!([])),
    ] {
        assert_eq!(Set::from_json(text).as_ref(), Ok(&set(want)), "{text}");
    }
}

#[test]
fn invalid_fields_v1_are_errors() {
    let deep = "{\"f:a\":".repeat(200) + &"}".repeat(200);
    let mut nested = json!({});
    for _ in 0..crate::MAX_DEPTH + 2 {
        nested = json!({ "f:a": nested });
    }
    assert_eq!(Set::from_fields_v1(&nested), Err(FieldsError::TooDeep));
    for text in [
        deep.as_str(),
        "",
        "[]",
        "1",
        r#"{"f:a":1}"#,
        r#"{"f:a":[]}"#,
        r#"{"a":{}}"#,
        r#"{"":{}}"#,
        r#"{"fa":{}}"#,
        r#"{"v:":{}}"#,
        r#"{"v:{":{}}"#,
        r#"{"k:1":{}}"#,
        r#"{"k:[1]":{}}"#,
        r#"{"i:x":{}}"#,
        r#"{"é:":{}}"#,
    ] {
        assert!(Set::from_json(text).is_err(), "{text}");
    }
}

#[test]
fn many_keys_in_reverse_order_are_decoded_in_linear_time() {
    // Text order and element order are reversed here; an insertion per key would be quadratic.
    let object: serde_json::Map<_, _> =
        (0..200_000_i64).map(|i| (format!("v:{}", 1_000_000 - i), json!({}))).collect();
    let set = Set::from_fields_v1(&Value::Object(object)).unwrap();
    assert_eq!(set.len(), 200_000);
}

// === properties ===

fn element() -> impl Strategy<Value = PathElement> {
    prop_oneof![
        "[a-c<\"\n]{0,2}".prop_map(PathElement::field),
        ("[a-b]", 0..3i64).prop_map(|(name, port)| {
            PathElement::key([("name", json!(name)), ("port", json!(port))])
        }),
        prop_oneof![
            (-2..2i64).prop_map(|i| json!(i)),
            (-2..2i32).prop_map(|f| json!(f64::from(f) / 2.0)),
            "[a-b&]".prop_map(|s| json!(s)),
            any::<bool>().prop_map(|b| json!(b)),
        ]
        .prop_map(PathElement::Value),
        (0..3i64).prop_map(PathElement::Index),
    ]
}

fn sets() -> impl Strategy<Value = Set> {
    let path = prop::collection::vec(element(), 1..4);
    prop::collection::vec(path, 0..12).prop_map(Set::from_paths)
}

proptest! {
    #[test]
    fn fields_v1_round_trips(set in sets()) {
        prop_assert_eq!(&Set::from_json(&set.to_json()).unwrap(), &set);
        prop_assert_eq!(&Set::from_fields_v1(&set.to_fields_v1()).unwrap(), &set);
        prop_assert_eq!(set.to_json(), Set::from_json(&set.to_json()).unwrap().to_json());
    }

    #[test]
    fn encodes_to_matches_the_encoding(set in sets(), other in sets()) {
        prop_assert!(set.encodes_to(&set.to_fields_v1()));
        prop_assert_eq!(set.encodes_to(&other.to_fields_v1()), set == other);
    }

    #[test]
    fn union_all_equals_sequential_unions(many in prop::collection::vec(sets(), 0..6)) {
        let one_by_one = many.iter().cloned().fold(Set::new(), Set::union);
        prop_assert_eq!(Set::union_all(many), one_by_one);
    }

    #[test]
    fn set_operations_match_those_of_member_sets(a in sets(), b in sets()) {
        let members = |set: &Set| {
            let paths = set.paths();
            prop_assert_eq!(paths.len(), set.len());
            Ok(paths)
        };
        let (in_a, in_b) = (members(&a)?, members(&b)?);
        let both: Vec<_> = in_a.iter().filter(|path| in_b.contains(path)).cloned().collect();
        let only_a: Vec<_> = in_a.iter().filter(|path| !in_b.contains(path)).cloned().collect();
        prop_assert_eq!(&Set::from_paths(&both), &a.intersection(&b));
        prop_assert_eq!(&Set::from_paths(&only_a), &a.clone().difference(&b));
        prop_assert_eq!(&Set::from_paths(in_a.iter().chain(&in_b)), &a.clone().union(b.clone()));
        prop_assert_eq!(a.is_subset(&b), only_a.is_empty());
        let below_none: Vec<_> = in_a
            .iter()
            .filter(|path| (1..=path.len()).all(|n| !b.has(&path[..n])))
            .cloned()
            .collect();
        prop_assert_eq!(&Set::from_paths(&below_none), &a.recursive_difference(&b));
    }
}

#[test]
fn fields_builds_paths_of_field_names() {
    assert_eq!(crate::path::print(&fields(["a", "b"])), ".a.b");
}
