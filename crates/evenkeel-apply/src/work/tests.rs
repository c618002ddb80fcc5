//! The number of steps is linear in the input: twice the input, about twice the steps.

#![expect(clippy::needless_pass_by_value, reason = "json! arguments read better without a &")]

use serde_json::{Map, Value, json};

use super::steps_of;
use crate::{
    ObjectType, Schema, Set,
    managed::{ManagedFields, Request, SingleVersion, apply, update},
    patch::{
        JsonPatch, PatchField, PatchSchema, PatchStrategy, merge_patch, strategic_merge_patch,
    },
    path::PathElement,
    typed::Duplicates,
};

/// Runs a call of size n and of size 2n. Sorting may add a little to twice the steps.
fn assert_linear<T>(what: &str, n: usize, mut run: impl FnMut(usize) -> T) {
    let [once, twice] = [n, 2 * n].map(|n| steps_of(|| run(n)));
    assert!(once > n as u64 / 4, "{what}: {once} steps for {n}, too few to be counted");
    assert!(twice <= once * 5 / 2, "{what}: {once} steps for {n}, but {twice} for twice the size");
}

const WIDE: usize = 400;
const DEEP: usize = 50;

fn name(i: usize) -> String {
    format!("n{i:05}")
}

fn nested(depth: usize) -> Value {
    (0..depth).fold(json!("x"), |inner, _| json!({"a": inner}))
}

fn entries(n: usize, entry: impl Fn(usize) -> (String, Value)) -> Value {
    (0..n).map(entry).collect::<Map<_, _>>().into()
}

fn ty() -> ObjectType {
    let string = json!({"type": "string"});
    let item = json!({"type": "object", "properties": {"name": string, "v": string}});
    let spec = json!({
        "items": {"type": "array", "items": item, "x-kubernetes-list-type": "map",
                  "x-kubernetes-list-map-keys": ["name"]},
        "set": {"type": "array", "items": string, "x-kubernetes-list-type": "set"},
        "map": {"type": "object", "additionalProperties": string},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}
    });
    let spec = json!({"type": "object", "properties": spec});
    let schema = json!({"type": "object", "properties": {"spec": spec}});
    Schema::from_structural(&schema, false).unwrap()
}

fn object(spec: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "K", "metadata": {"name": "n"}, "spec": spec})
}

/// Lists, sets and maps of n entries; another salt has another order and other values.
fn wide(n: usize, salt: usize) -> Value {
    let order = |i: usize| name((i * 7 + salt * 3) % n);
    let items: Vec<_> = (0..n).map(|i| json!({"name": order(i), "v": salt.to_string()})).collect();
    let set: Vec<_> = (0..n).map(order).collect();
    let map = entries(n, |i| (order(i), json!(salt.to_string())));
    object(json!({"items": items, "set": set, "map": map, "free": map}))
}

fn deep(n: usize) -> Value {
    object(json!({"free": nested(n)}))
}

#[test]
fn field_sets_are_decoded_and_combined_in_linear_time() {
    let flat = |prefix: &str, n| entries(n, |i| (format!("{prefix}{}", name(i)), json!({})));
    let keyed = |n| entries(n, |i| (format!("k:{{\"name\":\"{}\"}}", name(n - i)), json!({})));
    let numbers = |n| entries(n, |i| (format!("v:{i}"), json!({})));
    assert_linear("wide fields", WIDE, |n| Set::from_fields_v1(&flat("f:", n)));
    assert_linear("wide keys", WIDE, |n| Set::from_fields_v1(&keyed(n)));
    assert_linear("numbers", WIDE, |n| Set::from_fields_v1(&numbers(n)));
    let deep = |n| (0..n).fold(json!({}), |inner, _| json!({".": {}, "f:a": inner}));
    assert_linear("deep fields", DEEP, |n| Set::from_fields_v1(&deep(n)));

    let set =
        |n, from: usize| Set::from_paths((from..from + n).map(|i| [PathElement::field(name(i))]));
    assert_linear("building", WIDE, |n| set(n, 0));
    assert_linear("union", WIDE, |n| set(n, 0).union(set(n, n / 2)));
    assert_linear("difference", WIDE, |n| set(n, 0).difference(&set(n, n / 2)));
    assert_linear("intersection", WIDE, |n| set(n, 0).intersection(&set(n, n / 2)));
    assert_linear("subset", WIDE, |n| set(n, 0).is_subset(&set(n, 0)));
    let singles = |n| (0..n).map(|i| set(1, i)).collect::<Vec<_>>();
    assert_linear("many small sets", WIDE, |n| Set::union_all(singles(n)));
    assert_linear("many small sets subtracted from a large one", WIDE, |n| {
        let all = set(n, 0);
        singles(n).into_iter().map(|one| one.difference(&all)).collect::<Vec<_>>()
    });
}

#[test]
fn typed_operations_take_linear_time() {
    let ty = ty();
    assert_linear("validation", WIDE, |n| ty.validate(&wide(n, 1), Duplicates::Reject));
    assert_linear("field set", WIDE, |n| ty.to_field_set(&wide(n, 1)));
    assert_linear("comparison", WIDE, |n| ty.compare(&wide(n, 1), &wide(n, 2)));
    assert_linear("merge", WIDE, |n| ty.merge(wide(n, 1), &wide(n, 2)));
    assert_linear("merge of different items", WIDE, |n| ty.merge(wide(n, 1), &wide(n + n / 2, 2)));
    let fields = |n| ty.to_field_set(&wide(n, 1)).unwrap();
    assert_linear("removal", WIDE, |n| ty.remove(wide(n, 2), &fields(n)));
    assert_linear("extraction", WIDE, |n| ty.extract_with_keys(wide(n, 2), &fields(n)));
    assert_linear("deep comparison", DEEP, |n| ty.compare(&deep(n), &deep(n)));
    assert_linear("deep merge", DEEP, |n| ty.merge(deep(n), &deep(n)));
    assert_linear("deep field set", DEEP, |n| ty.to_field_set(&deep(n)));
    let same = |n| object(json!({"items": vec![json!({"name": "a"}); n], "set": vec!["a"; n]}));
    assert_linear("duplicates", WIDE, |n| ty.validate(&same(n), Duplicates::Reject));
    assert_linear("merge with duplicates", WIDE, |n| ty.merge(same(n), &wide(n, 1)));
    assert_linear("comparison of duplicates", WIDE, |n| ty.compare(&same(n), &same(n + 1)));
    let wrong = |n| object(json!({"items": vec![json!({"name": "a", "v": 1}); n]}));
    assert_linear("errors", WIDE, |n| ty.validate(&wrong(n), Duplicates::Allow));
}

#[test]
fn updates_and_applies_take_linear_time() {
    let versions = SingleVersion { api_version: "v1".into(), object_type: ty() };
    let empty_object = json!({});
    let request = |manager: &'static str| Request {
        versions: &versions,
        api_version: "v1",
        kind: "K",
        subresource: "",
        reset_fields: &[],
        empty_object: &empty_object,
        manager,
        now: "2024-01-01T00:00:00Z",
    };
    let one = request("one");
    // Many managers, each with one entry of a map.
    let many_managers = |n: usize, operation: &str| {
        let entry = |i: usize| {
            let fields = json!({"f:spec": {"f:map": {format!("f:{}", name(i)): {}}}});
            json!({"manager": name(i), "operation": operation, "apiVersion": "v1",
                   "fieldsType": "FieldsV1", "fieldsV1": fields})
        };
        let mut object = wide(n, 1);
        object["metadata"]["managedFields"] = (0..n).map(entry).collect();
        object
    };
    let managed = |object: &Value| object["metadata"]["managedFields"].clone();
    assert_linear("decoding", WIDE, |n| {
        ManagedFields::decode(Some(&managed(&many_managers(n, "Update"))))
    });
    for operation in ["Apply", "Update"] {
        assert_linear("update with many managers", WIDE, |n| {
            update(&one, Some(&many_managers(n, operation)), &mut wide(n, 2))
        });
        assert_linear("conflicts with many managers", WIDE, |n| {
            apply(&one, Some(&many_managers(n, operation)), &wide(n, 2), false)
        });
        assert_linear("force with many managers", WIDE, |n| {
            apply(&one, Some(&many_managers(n, operation)), &wide(n, 2), true)
        });
        assert_linear("prune with many managers", WIDE, |n| {
            let live =
                apply(&one, Some(&many_managers(n, operation)), &wide(n, 1), true).unwrap().object;
            apply(&one, Some(&live), &object(json!({})), false)
        });
    }
    let applied = |object: Value| apply(&one, None, &object, false).unwrap().object;
    assert_linear("no change", WIDE, |n| {
        apply(&one, Some(&applied(wide(n, 1))), &wide(n, 1), false)
    });
    assert_linear("another order", WIDE, |n| {
        apply(&one, Some(&applied(wide(n, 1))), &wide(n, 2), false)
    });
    assert_linear("depth", DEEP, |n| apply(&one, Some(&applied(deep(n))), &deep(n / 2), false));
}

#[test]
fn patches_take_linear_time() {
    let operation = |i: usize| json!({"op": "add", "path": format!("/l/{i}"), "value": i});
    assert_linear("JSON patch", WIDE, |n| {
        let patch = JsonPatch::decode((0..n).map(operation).collect()).unwrap();
        patch.apply(json!({"l": []}))
    });
    let moves = |n: usize| {
        let there = json!({"op": "move", "from": "/a/b", "path": "/a/c/b"});
        let back = json!({"op": "move", "from": "/a/c/b", "path": "/a/b"});
        JsonPatch::decode([there, back].into_iter().cycle().take(n).collect()).unwrap()
    };
    let filled = |n| json!({"a": {"b": vec![json!([]); n], "c": {}}});
    assert_linear("moves of a large value", WIDE, |n| moves(100).apply(filled(20 * n)));
    assert_linear("many moves", 10 * WIDE, |n| moves(n).apply(filled(20)));
    let map = |n, salt: usize| entries(n, |i| (name(i), json!({"v": salt})));
    assert_linear("merge patch", WIDE, |n| merge_patch(map(n, 1), map(n, 2)));
    assert_linear("deep merge patch", DEEP, |n| merge_patch(nested(n), nested(n)));

    let spec = |n, salt| match wide(n, salt)["spec"].take() {
        Value::Object(spec) => spec,
        _ => Map::new(),
    };
    assert_linear("strategic merge", WIDE, |n| {
        strategic_merge_patch(spec(n, 1), spec(n, 2), &ByName).unwrap()
    });
    assert_linear("strategic deletion and order", WIDE, |n| {
        let item = |i| json!({"name": name(i), "$patch": "delete"});
        let mut patch = Map::new();
        patch.insert("items".into(), (0..n / 2).map(item).collect());
        let order = (n / 2..n).rev().map(|i| json!({"name": name(i)}));
        patch.insert("$setElementOrder/items".into(), order.collect());
        strategic_merge_patch(spec(n, 1), patch, &ByName).unwrap()
    });
}

struct ByName;

impl PatchSchema for ByName {
    fn field(&self, name: &str) -> Option<PatchField<'_>> {
        let merge_key = (name != "set").then_some("name");
        Some(PatchField { schema: &Self, strategy: PatchStrategy::Merge, merge_key })
    }

    fn name(&self) -> &str {
        "ByName"
    }
}
