//! Typed operations: one table per operation.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::schema::{MapDef, Scalar, SchemaBuilder};

/// A type with every shape: scalars, atomic and granular containers, keys with a default.
fn thing() -> ObjectType {
    let mut b = SchemaBuilder::new();
    let string = b.scalar(Scalar::String);
    let numeric = b.scalar(Scalar::Numeric);
    let boolean = b.scalar(Scalar::Boolean);
    let set = b.set(string);
    let numbers = b.set(numeric);
    let atomic = b.atomic_list(numeric);
    let labels = b.map_of(string);
    let frozen = b.map(MapDef::new().field("a", string).atomic());
    let item = b.declare("item");
    let items = b.map_list(item, ["name"]);
    let item = b.map(
        MapDef::new()
            .field("name", string)
            .field("value", numeric)
            .field("set", set)
            .field("items", items),
    );
    b.define("item", item);
    let port = b.map(
        MapDef::new()
            .field("port", numeric)
            .field_with_default("protocol", string, json!("TCP"))
            .field("name", string),
    );
    let ports = b.map_list(port, ["port", "protocol"]);
    let sub = b.map(MapDef::new().field("a", string).field("set", set));
    let deduced = b.deduced();
    let root = b.map(
        MapDef::new()
            .field("string", string)
            .field("number", numeric)
            .field("bool", boolean)
            .field("set", set)
            .field("numbers", numbers)
            .field("atomic", atomic)
            .field("labels", labels)
            .field("frozen", frozen)
            .field("items", items)
            .field("ports", ports)
            .field("sub", sub)
            .field("any", deduced),
    );
    b.finish(root).unwrap()
}

fn lines(set: &Set) -> Vec<String> {
    let text = set.to_string();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn field_sets_contain_leaves_items_and_entries() {
    for (value, want) in [
        (json!({}), vec![]),
        (json!({"string": "a", "number": 1}), vec![".number", ".string"]),
        (json!({"string": null}), vec![".string"]),
        (json!({"set": ["b", "a"]}), vec![r#".set[="a"]"#, r#".set[="b"]"#]),
        (json!({"set": []}), vec![]),
        (json!({"set": null}), vec![".set"]),
        (json!({"atomic": [1]}), vec![".atomic"]),
        (json!({"labels": {"x": "1"}}), vec![".labels.x"]),
        (json!({"labels": {}}), vec![".labels"]),
        (json!({"frozen": {"a": "1"}}), vec![".frozen"]),
        (json!({"sub": {"a": "1"}}), vec![".sub.a"]),
        (json!({"sub": {}}), vec![".sub"]),
        (
            json!({"items": [{"name": "a", "items": [{"name": "b"}]}]}),
            vec![
                r#".items[name="a"]"#,
                r#".items[name="a"].name"#,
                r#".items[name="a"].items[name="b"]"#,
                r#".items[name="a"].items[name="b"].name"#,
            ],
        ),
        (
            json!({"ports": [{"port": 80}]}),
            vec![r#".ports[port=80,protocol="TCP"]"#, r#".ports[port=80,protocol="TCP"].port"#],
        ),
        // Duplicates are owned together, regardless of the fields below them.
        (
            json!({"items": [{"name": "a", "value": 1}, {"name": "b"}, {"name": "a"}]}),
            vec![r#".items[name="a"]"#, r#".items[name="b"]"#, r#".items[name="b"].name"#],
        ),
        (
            json!({"any": {"m": {"l": [1], "e": {}}, "s": 1}}),
            vec![".any.m", ".any.s", ".any.m.e", ".any.m.l"],
        ),
    ] {
        assert_eq!(lines(&thing().to_field_set(&value).unwrap()), want, "{value}");
    }
}

#[test]
fn comparisons_report_added_modified_and_removed_fields() {
    for (old, new, added, modified, removed) in [
        (json!({}), json!({}), vec![], vec![], vec![]),
        (json!({"number": 1}), json!({"number": 1.0}), vec![], vec![], vec![]),
        (json!({"number": 1}), json!({"number": 2}), vec![], vec![".number"], vec![]),
        (json!({}), json!({"number": 1}), vec![".number"], vec![], vec![]),
        (json!({"number": 1}), json!({}), vec![], vec![], vec![".number"]),
        (json!({"number": null}), json!({"number": 1}), vec![], vec![".number"], vec![]),
        // The path of an added container is a member.
        (json!({}), json!({"sub": {"a": "1"}}), vec![".sub", ".sub.a"], vec![], vec![]),
        (json!({"sub": {}}), json!({"sub": {"a": "1"}}), vec![".sub.a"], vec![], vec![]),
        (json!({"labels": {"x": "1"}}), json!({}), vec![], vec![], vec![".labels", ".labels.x"]),
        // Two empty values are leaves: null is not empty.
        (json!({"labels": null}), json!({"labels": {}}), vec![], vec![".labels"], vec![]),
        (json!({"set": null}), json!({"set": []}), vec![], vec![".set"], vec![]),
        (json!({}), json!({"set": []}), vec![".set"], vec![], vec![]),
        // Atomic containers differ as a whole.
        (json!({"atomic": [1, 2]}), json!({"atomic": [2, 1]}), vec![], vec![".atomic"], vec![]),
        (
            json!({"frozen": {"a": "1"}}),
            json!({"frozen": {"a": "2"}}),
            vec![],
            vec![".frozen"],
            vec![],
        ),
        // The order of associative lists is not compared.
        (json!({"set": ["a", "b"]}), json!({"set": ["b", "a"]}), vec![], vec![], vec![]),
        (
            json!({"set": ["a"]}),
            json!({"set": ["b"]}),
            vec![r#".set[="b"]"#],
            vec![],
            vec![r#".set[="a"]"#],
        ),
        (
            json!({"items": [{"name": "a", "value": 1}, {"name": "b"}]}),
            json!({"items": [{"name": "c"}, {"name": "a", "value": 2}]}),
            vec![r#".items[name="c"]"#, r#".items[name="c"].name"#],
            vec![r#".items[name="a"].value"#],
            vec![r#".items[name="b"]"#, r#".items[name="b"].name"#],
        ),
        (
            json!({"ports": [{"port": 80}]}),
            json!({"ports": [{"port": 80, "protocol": "TCP"}]}),
            vec![r#".ports[port=80,protocol="TCP"].protocol"#],
            vec![],
            vec![],
        ),
        // From one item to several with the same key and back.
        (
            json!({"set": ["a", "a"]}),
            json!({"set": ["a"]}),
            vec![r#".set[="a"]"#],
            vec![],
            vec![r#".set[="a"]"#],
        ),
        (
            json!({"items": [{"name": "a", "value": 1}]}),
            json!({"items": [{"name": "a"}, {"name": "a"}]}),
            vec![r#".items[name="a"]"#],
            vec![],
            vec![r#".items[name="a"]"#, r#".items[name="a"].name"#, r#".items[name="a"].value"#],
        ),
        (
            json!({"items": [{"name": "a", "value": 1}, {"name": "a"}]}),
            json!({"items": [{"name": "a", "value": 2}, {"name": "a"}]}),
            vec![],
            vec![r#".items[name="a"]"#],
            vec![],
        ),
        // A value that changes its shape is modified, and the fields in it are added or removed.
        (json!({"any": 1}), json!({"any": {"m": 1}}), vec![".any.m"], vec![".any"], vec![]),
        (json!({"any": {"m": 1}}), json!({"any": [1]}), vec![], vec![".any"], vec![".any.m"]),
    ] {
        let row = format!("{old} to {new}");
        let changes = thing().compare(&old, &new).unwrap();
        assert_eq!(lines(&changes.added), added, "added, {row}");
        assert_eq!(lines(&changes.modified), modified, "modified, {row}");
        assert_eq!(lines(&changes.removed), removed, "removed, {row}");
        assert_eq!(
            changes.is_same(),
            added.is_empty() && modified.is_empty() && removed.is_empty()
        );
    }
}

#[test]
fn merges_keep_other_fields_and_use_the_applied_order() {
    let names = |names: &str| -> Value {
        names.split_whitespace().map(|name| json!({ "name": name })).collect()
    };
    for (live, applied, want) in [
        (json!({"number": 1}), json!({"string": "a"}), json!({"number": 1, "string": "a"})),
        (json!({"number": 1}), json!({"number": 2}), json!({"number": 2})),
        (json!({"number": 1}), json!({"number": null}), json!({"number": null})),
        // Null does not change the entries of a map or list.
        (json!({"labels": {"x": "1"}}), json!({"labels": null}), json!({"labels": {"x": "1"}})),
        (json!({"set": ["a"]}), json!({"set": null}), json!({"set": ["a"]})),
        (
            json!({"labels": {"x": "1"}}),
            json!({"labels": {"y": "2"}}),
            json!({"labels": {"x": "1", "y": "2"}}),
        ),
        (json!({"atomic": [1, 2]}), json!({"atomic": [3]}), json!({"atomic": [3]})),
        (json!({"frozen": {"a": "1"}}), json!({"frozen": {}}), json!({"frozen": {}})),
        (
            json!({"items": [{"name": "a", "value": 1}, {"name": "b"}]}),
            json!({"items": [{"name": "a", "set": ["x"]}]}),
            json!({"items": [{"name": "a", "value": 1, "set": ["x"]}, {"name": "b"}]}),
        ),
        (
            json!({"items": names("a b c")}),
            json!({"items": names("c a")}),
            json!({"items": names("b c a")}),
        ),
        (
            json!({"items": names("a b c d")}),
            json!({"items": names("d b")}),
            json!({"items": names("a c d b")}),
        ),
        (
            json!({"items": names("1 2 3")}),
            json!({"items": names("x 1 y 3 z")}),
            json!({"items": names("x 1 2 y 3 z")}),
        ),
        (
            json!({"set": ["a", "b", "c"]}),
            json!({"set": ["d", "b"]}),
            json!({"set": ["a", "d", "b", "c"]}),
        ),
        // An applied item replaces its live duplicates; other duplicates stay.
        (json!({"set": ["a", "a", "b"]}), json!({"set": ["a"]}), json!({"set": ["a", "b"]})),
        (json!({"set": ["a", "a", "b"]}), json!({"set": ["b"]}), json!({"set": ["a", "a", "b"]})),
        (json!({"any": 1}), json!({"any": {"m": 1}}), json!({"any": {"m": 1}})),
        (json!({"any": {"m": 1}}), json!({"any": {"n": 2}}), json!({"any": {"m": 1, "n": 2}})),
        (json!({"any": {"m": 1}}), json!({"any": "s"}), json!({"any": "s"})),
    ] {
        let row = format!("{live} merged with {applied}");
        assert_eq!(thing().merge(live, &applied).unwrap(), want, "{row}");
    }
}

#[test]
fn removal_drops_the_fields_and_enclosing_atomic_values() {
    for (value, removed, want) in [
        (json!({"number": 1, "string": "a"}), json!({"f:number": {}}), json!({"string": "a"})),
        (json!({"number": 1}), json!({"f:number": {}}), json!(null)),
        (
            json!({"labels": {"x": "1", "y": "2"}}),
            json!({"f:labels": {"f:x": {}}}),
            json!({"labels": {"y": "2"}}),
        ),
        (json!({"labels": {"x": "1"}}), json!({"f:labels": {"f:x": {}}}), json!({"labels": null})),
        (json!({"set": ["a", "b", "a"]}), json!({"f:set": {"v:\"a\"": {}}}), json!({"set": ["b"]})),
        (
            json!({"items": [{"name": "a", "value": 1}, {"name": "b"}]}),
            json!({"f:items": {"k:{\"name\":\"a\"}": {"f:value": {}}, "k:{\"name\":\"b\"}": {}}}),
            json!({"items": [{"name": "a"}]}),
        ),
        (
            json!({"ports": [{"port": 80}, {"port": 81}]}),
            json!({"f:ports": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {}}}),
            json!({"ports": [{"port": 81}]}),
        ),
        (json!({"frozen": {"a": "1"}}), json!({"f:frozen": {"f:a": {}}}), json!({"frozen": null})),
        (json!({"number": 1}), json!({"f:string": {}}), json!({"number": 1})),
    ] {
        let set = Set::from_fields_v1(&removed).unwrap();
        assert_eq!(thing().remove(value, &set), want, "without {removed}");
    }
}

#[test]
fn extraction_keeps_only_the_fields_of_the_set() {
    let value = json!({
        "number": 1, "string": "a", "set": ["a", "b"], "frozen": {"a": "1"}, "labels": {"x": "1", "y": "2"},
        "items": [{"name": "a", "value": 1, "set": ["x"]}, {"name": "b"}]
    });
    for (fields, want, want_with_keys) in [
        (json!({}), json!(null), json!(null)),
        (json!({"f:number": {}}), json!({"number": 1}), json!({"number": 1})),
        (json!({"f:frozen": {}}), json!({"frozen": {"a": "1"}}), json!({"frozen": {"a": "1"}})),
        (json!({"f:set": {"v:\"b\"": {}}}), json!({"set": ["b"]}), json!({"set": ["b"]})),
        (
            json!({"f:labels": {"f:y": {}}}),
            json!({"labels": {"y": "2"}}),
            json!({"labels": {"y": "2"}}),
        ),
        (
            json!({"f:items": {"k:{\"name\":\"a\"}": {"f:value": {}}}}),
            json!({"items": [{"value": 1}]}),
            json!({"items": [{"name": "a", "value": 1}]}),
        ),
        (
            json!({"f:items": {"k:{\"name\":\"b\"}": {}}}),
            json!({"items": [{"name": "b"}]}),
            json!({"items": [{"name": "b"}]}),
        ),
    ] {
        let set = Set::from_fields_v1(&fields).unwrap();
        assert_eq!(thing().extract(value.clone(), &set), want, "{fields}");
        assert_eq!(thing().extract_with_keys(value.clone(), &set), want_with_keys, "{fields}");
    }
}

#[test]
fn undeclared_entry_does_not_hide_other_violations() {
    let value = json!({
        "bogus": 1, "dta": 1, "number": "1", "items": [{"name": "a", "x": 1}],
    });
    let error = thing().validate(&value, Duplicates::Reject).unwrap_err();
    assert_eq!(
        error.to_string(),
        "errors:\n  .items[name=\"a\"].x: field not declared in schema\n  \
         .number: expected numeric (int or float), got string\n  \
         .bogus: field not declared in schema"
    );
}

#[test]
fn violations_have_the_messages_of_structured_merge_diff() {
    for (value, want) in [
        (json!({"dta": 1}), ".dta: field not declared in schema"),
        (
            json!({"items": [{"name": "a", "x": 1}]}),
            r#".items[name="a"].x: field not declared in schema"#,
        ),
        (
            json!({"string": 8080}),
            ".string: expected string, got &value.valueUnstructured{Value:8080}",
        ),
        (
            json!({"string": {"a": [null, "x", true]}}),
            r#".string: expected string, got &value.valueUnstructured{Value:map[string]interface {}{"a":[]interface {}{interface {}(nil), "x", true}}}"#,
        ),
        (json!({"number": "1"}), ".number: expected numeric (int or float), got string"),
        (json!({"bool": 1.5}), ".bool: expected boolean, got &{1.5}"),
        (json!({"labels": ["x"]}), ".labels: expected map, got &{[x]}"),
        (json!({"set": {"a": 1, "b": "c"}}), ".set: expected list, got &{map[a:1 b:c]}"),
        (json!({"atomic": [1, "a"]}), ".atomic[1]: expected numeric (int or float), got string"),
        (json!({"set": ["a", "b", "a"]}), r#".set: duplicate entries for key [="a"]"#),
        (
            json!({"ports": [{"port": 80}, {"port": 80.0, "protocol": "TCP"}]}),
            r#".ports: duplicate entries for key [port=80,protocol="TCP"]"#,
        ),
        (
            json!({"set": [null]}),
            ".set: element 0: associative list without keys has an element that's an explicit null",
        ),
        (
            json!({"set": [[]]}),
            ".set: element 0: not supported: associative list with lists as elements",
        ),
        (
            json!({"set": [{}]}),
            ".set: element 0: associative list without keys has an element that's a map type",
        ),
        (
            json!({"items": [null]}),
            ".items: element 0: associative list with keys may not have a null element",
        ),
        (
            json!({"items": [1]}),
            ".items: element 0: associative list with keys may not have non-map elements",
        ),
        (
            json!({"items": [{"name": "a"}, {"value": 1}]}),
            r#".items: element 1: associative list with keys has an element that omits all key fields ["name"] (and doesn't have default values for any key fields)"#,
        ),
        (
            json!({"number": "1", "bool": "x"}),
            "errors:\n  .bool: expected boolean, got &{x}\n  .number: expected numeric (int or float), got string",
        ),
        (json!("x"), "expected map, got &{x}"),
    ] {
        let error = thing().validate(&value, Duplicates::Reject).unwrap_err();
        assert_eq!(error.to_string(), want, "{value}");
    }
}

#[test]
fn live_objects_may_have_duplicates_but_no_other_violations() {
    let duplicated = json!({"set": ["a", "a"], "items": [{"name": "a"}, {"name": "a"}]});
    assert!(thing().validate(&duplicated, Duplicates::Allow).is_ok());
    for wrong in [json!({"dta": 1}), json!({"frozen": {"x": 1}}), json!({"atomic": ["a"]})] {
        assert!(thing().validate(&wrong, Duplicates::Allow).is_err(), "{wrong}");
        assert!(thing().compare(&wrong, &json!({})).is_err(), "{wrong}");
        assert!(thing().compare(&json!({}), &wrong).is_err(), "{wrong}");
    }
}

#[test]
fn values_nested_too_deeply_are_rejected() {
    let mut deep = json!(1);
    for _ in 0..MAX_DEPTH + 1 {
        deep = json!({ "a": deep });
    }
    let value = json!({ "any": deep });
    assert!(thing().to_field_set(&value).is_err());
    assert!(thing().compare(&json!({}), &value).is_err());
}

#[test]
fn reconcile_owns_values_that_became_atomic_as_a_whole() {
    let schema = |atomic: bool| {
        let mut b = SchemaBuilder::new();
        let string = b.scalar(Scalar::String);
        let def = MapDef::new().field("a", string).field("b", string);
        let structure = b.map(if atomic { def.atomic() } else { def });
        let map = MapDef::new().element_type(string);
        let map = b.map(if atomic { map.atomic() } else { map });
        let item = b.map(MapDef::new().field("name", string).field("s", structure));
        let list = if atomic { b.atomic_list(item) } else { b.map_list(item, ["name"]) };
        let always = b.map_list(item, ["name"]);
        let free = b.deduced();
        let root = MapDef::new().field("s", structure).field("m", map).field("l", list);
        let root = b.map(root.field("always", always).field("free", free));
        b.finish(root).unwrap()
    };
    for (fields, want) in [
        (json!({"f:s": {"f:a": {}}}), Some(json!({"f:s": {}}))),
        (json!({"f:m": {"f:x": {}, "f:y": {}}}), Some(json!({"f:m": {}}))),
        (json!({"f:l": {"k:{\"name\":\"a\"}": {".": {}, "f:name": {}}}}), Some(json!({"f:l": {}}))),
        (
            json!({"f:always": {"k:{\"name\":\"a\"}": {".": {}, "f:s": {"f:a": {}}}}}),
            Some(json!({"f:always": {"k:{\"name\":\"a\"}": {".": {}, "f:s": {}}}})),
        ),
        (json!({"f:s": {}, "f:m": {}, "f:l": {}}), None),
        (json!({"f:free": {"f:x": {"f:y": {}}}, "f:gone": {"f:x": {}}}), None),
    ] {
        let set = Set::from_fields_v1(&fields).unwrap();
        let reconciled = schema(true).reconcile(&set).map(|set| set.to_fields_v1());
        assert_eq!(reconciled, want, "{fields}");
        assert_eq!(schema(false).reconcile(&set), None, "{fields}");
    }
}

// === properties ===

pub(crate) fn values(duplicates: bool) -> impl Strategy<Value = Value> {
    let text = || "[a-c]".prop_map(Value::from);
    let set = prop::collection::vec("[a-d]", 0..4).prop_map(move |mut items| {
        if !duplicates {
            items.sort();
            items.dedup();
        }
        json!(items)
    });
    let items = prop::collection::btree_map("[a-d]", prop::option::of(0..3i64), 0..4);
    let items = items.prop_map(|items| {
        let item = |(name, value): (String, Option<i64>)| match value {
            Some(value) => json!({"name": name, "value": value}),
            None => json!({"name": name}),
        };
        items.into_iter().map(item).collect::<Value>()
    });
    let labels = prop::collection::btree_map("[x-z]", "[a-b]", 1..3).prop_map(|map| json!(map));
    let field = |name: &'static str, value: BoxedStrategy<Value>| {
        prop::option::weighted(0.6, value).prop_map(move |value| value.map(|value| (name, value)))
    };
    let free = prop::collection::btree_map("[m-n]", prop_oneof![text(), Just(json!([1]))], 1..3);
    let sub = text().prop_map(|a| json!({ "a": a }));
    (
        field("string", text().boxed()),
        field("number", (0..3i64).prop_map(Value::from).boxed()),
        field("set", set.boxed()),
        field("items", items.boxed()),
        field("labels", labels.boxed()),
        field("frozen", text().prop_map(|a| json!({ "a": a })).boxed()),
        field("any", free.prop_map(|map| json!(map)).boxed()),
        field("sub", sub.boxed()),
    )
        .prop_map(|(a, b, c, d, e, f, g, h)| {
            let fields = [a, b, c, d, e, f, g, h].into_iter().flatten();
            Value::Object(fields.map(|(name, value)| (name.to_owned(), value)).collect())
        })
}

proptest! {
    #[test]
    fn comparing_a_value_with_itself_finds_nothing(value in values(true)) {
        prop_assert!(thing().compare(&value, &value).unwrap().is_same());
    }

    #[test]
    fn comparisons_are_symmetric(old in values(true), new in values(true)) {
        let forward = thing().compare(&old, &new).unwrap();
        let back = thing().compare(&new, &old).unwrap();
        prop_assert_eq!(&forward.added, &back.removed);
        prop_assert_eq!(&forward.removed, &back.added);
        prop_assert_eq!(&forward.modified, &back.modified);
    }

    #[test]
    fn merge_is_idempotent(live in values(true), applied in values(false)) {
        let once = thing().merge(live, &applied).unwrap();
        let twice = thing().merge(once.clone(), &applied).unwrap();
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn edit_is_none_exactly_if_merging_changes_nothing(
        live in values(true), applied in values(false),
    ) {
        let merged = thing().merge(live.clone(), &applied).unwrap();
        prop_assert_eq!(thing().edit(&live, &applied).unwrap().is_none(), merged == live);
        prop_assert!(thing().edit(&merged, &applied).unwrap().is_none());
    }

    #[test]
    fn applied_fields_can_be_extracted(live in values(false), applied in values(false)) {
        let merged = thing().merge(live, &applied).unwrap();
        let fields = thing().to_field_set(&applied).unwrap();
        let extracted = thing().extract(merged, &fields.leaves());
        let back = if extracted.is_null() { json!({}) } else { extracted };
        // Empty sets have no members, and only the applied part of a list is extracted.
        let changes = thing().compare(&applied, &back).unwrap();
        prop_assert!(changes.added.is_empty() && changes.modified.is_empty(), "{}", changes);
        let owned = fields.intersection(&changes.removed);
        prop_assert!(owned.is_empty(), "{}", owned);
    }

    #[test]
    fn removal_removes_exactly_the_fields_of_the_set(value in values(false), other in values(false)) {
        let fields = thing().to_field_set(&other).unwrap();
        let remaining = thing().remove(value.clone(), &fields);
        if !remaining.is_null() {
            let remaining_fields = thing().to_field_set(&remaining).unwrap();
            prop_assert!(remaining_fields.intersection(&fields).is_empty());
        }
        let changes = thing().compare(&value, if remaining.is_null() { &Value::Null } else { &remaining });
        prop_assert!(changes.unwrap().added.is_empty());
    }
}
