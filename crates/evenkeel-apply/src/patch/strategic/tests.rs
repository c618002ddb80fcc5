//! Strategic merge patches: one row per behaviour.

use serde_json::json;

use super::*;

/// A schema from a document: `{"f": {"strategy": "merge", "key": "name", "of": <schema>}}`. Other
/// fields exist without patch metadata; a schema of `null` is a map.
struct Doc {
    fields: Vec<(&'static str, Doc, PatchStrategy, Option<&'static str>)>,
    plain: Option<Box<Doc>>,
    is_struct: bool,
}

impl PatchSchema for Doc {
    fn field(&self, name: &str) -> Option<PatchField<'_>> {
        if name == "unknown" {
            return None;
        }
        let declared = self.fields.iter().find(|(field, ..)| *field == name);
        let declared = declared.map(|(_, schema, strategy, merge_key)| PatchField {
            schema,
            strategy: *strategy,
            merge_key: *merge_key,
        });
        declared.or_else(|| {
            let schema: &dyn PatchSchema = self.plain.as_deref()?;
            Some(PatchField { schema, strategy: PatchStrategy::Default, merge_key: None })
        })
    }

    fn name(&self) -> &str {
        if self.is_struct { "Thing" } else { "map" }
    }

    fn is_struct(&self) -> bool {
        self.is_struct
    }
}

fn map() -> Doc {
    Doc { fields: Vec::new(), plain: None, is_struct: false }
}

fn thing(depth: usize) -> Doc {
    let nested = || if depth == 0 { map() } else { thing(depth - 1) };
    Doc {
        fields: vec![
            ("merging", nested(), PatchStrategy::Merge, Some("name")),
            ("ints", map(), PatchStrategy::Merge, None),
            ("keyless", nested(), PatchStrategy::Merge, None),
            ("replaced", nested(), PatchStrategy::Replace, None),
            ("plain", nested(), PatchStrategy::Default, None),
            ("labels", map(), PatchStrategy::Default, None),
        ],
        plain: Some(Box::new(map())),
        is_struct: true,
    }
}

fn apply(object: Value, patch: Value) -> Result<Value, String> {
    let (Value::Object(object), Value::Object(patch)) = (object, patch) else { unreachable!() };
    strategic_merge_patch(object, patch, &thing(2)).map(Value::Object).map_err(|e| e.to_string())
}

#[test]
fn patches_merge_according_to_the_schema() {
    for (object, patch, want) in [
        // Fields, nulls and types.
        (json!({"a": 1}), json!({"b": 2}), json!({"a": 1, "b": 2})),
        (json!({"a": 1}), json!({"a": null, "b": null}), json!({})),
        (json!({}), json!({"a": {"b": null, "c": 1}}), json!({"a": {"c": 1}})),
        (json!({"a": 1}), json!({"a": [{"b": null}]}), json!({"a": [{}]})),
        (
            json!({"labels": {"x": "1"}}),
            json!({"labels": {"y": "2"}}),
            json!({"labels": {"x": "1", "y": "2"}}),
        ),
        (
            json!({"replaced": {"x": 1}}),
            json!({"replaced": {"y": 2}}),
            json!({"replaced": {"y": 2}}),
        ),
        (json!({"plain": [1, 2]}), json!({"plain": [3]}), json!({"plain": [3]})),
        // $patch on maps.
        (
            json!({"plain": {"x": 1}}),
            json!({"plain": {"$patch": "replace", "y": 2}}),
            json!({"plain": {"y": 2}}),
        ),
        (
            json!({"plain": {"x": 1}}),
            json!({"plain": {"$patch": "delete", "y": 2}}),
            json!({"plain": {}}),
        ),
        (json!({}), json!({"plain": {"$patch": "delete"}}), json!({})),
        (json!({"a": 1}), json!({"$patch": "replace", "b": 2}), json!({"b": 2})),
        // Lists of scalars.
        (json!({"ints": [1, 2]}), json!({"ints": [2, 3]}), json!({"ints": [1, 2, 3]})),
        (json!({"ints": [1, 2]}), json!({"ints": [3, 1]}), json!({"ints": [3, 1, 2]})),
        (
            json!({"ints": [1, 2, 1]}),
            json!({"$deleteFromPrimitiveList/ints": [1, 9]}),
            json!({"ints": [2]}),
        ),
        (json!({}), json!({"$deleteFromPrimitiveList/ints": [1]}), json!({})),
        (
            json!({"ints": [1, 2, 3]}),
            json!({"$setElementOrder/ints": [3, 1], "ints": [3]}),
            json!({"ints": [2, 3, 1]}),
        ),
        // Lists of maps.
        (
            json!({"merging": [{"name": "a", "v": 1}, {"name": "b"}]}),
            json!({"merging": [{"name": "a", "w": 2}, {"name": "c"}]}),
            json!({"merging": [{"name": "a", "v": 1, "w": 2}, {"name": "c"}, {"name": "b"}]}),
        ),
        (
            json!({"merging": [{"name": "a"}, {"name": "b"}, {"name": "a", "x": 1}]}),
            json!({"merging": [{"name": "a", "$patch": "delete"}]}),
            json!({"merging": [{"name": "b"}]}),
        ),
        (
            json!({"merging": [{"name": "a"}, {"name": "b"}]}),
            json!({"merging": [{"name": "c"}, {"$patch": "replace"}]}),
            json!({"merging": [{"name": "c"}]}),
        ),
        (
            json!({"merging": [{"name": "a", "merging": [{"name": "x", "v": 1}]}]}),
            json!({"merging": [{"name": "a", "merging": [{"name": "x", "v": 2}, {"name": "y"}]}]}),
            json!({"merging": [{"name": "a", "merging": [{"name": "x", "v": 2}, {"name": "y"}]}]}),
        ),
        (
            json!({"merging": []}),
            json!({"merging": [{"name": "a"}, {"name": "a", "v": 1}]}),
            json!({"merging": [{"name": "a", "v": 1}]}),
        ),
        // $setElementOrder: listed items in its order, the others at their position.
        (
            json!({"merging": [{"name": "1"}, {"name": "2"}, {"name": "3"}]}),
            json!({"$setElementOrder/merging": [{"name": "3"}, {"name": "1"}]}),
            json!({"merging": [{"name": "2"}, {"name": "3"}, {"name": "1"}]}),
        ),
        (
            json!({"merging": [{"name": "1"}, {"name": "2"}, {"name": "3"}]}),
            json!({
                "$setElementOrder/merging": [{"name": "4"}, {"name": "2"}, {"name": "1"}],
                "merging": [{"name": "4", "v": 1}, {"name": "1", "v": 1}, {"name": "3", "$patch": "delete"}]
            }),
            json!({"merging": [{"name": "4", "v": 1}, {"name": "2"}, {"name": "1", "v": 1}]}),
        ),
        // A new item is at the position of a deleted one, before the item it is ordered against.
        (
            json!({"merging": [{"name": "kept"}, {"name": "gone"}]}),
            json!({
                "$setElementOrder/merging": [{"name": "new"}],
                "merging": [{"name": "new"}, {"name": "gone", "$patch": "delete"}]
            }),
            json!({"merging": [{"name": "kept"}, {"name": "new"}]}),
        ),
        (
            json!({}),
            json!({
                "$setElementOrder/merging": [{"name": "b"}, {"name": "a"}],
                "merging": [{"name": "b"}, {"name": "x", "$patch": "delete"}, {"name": "a"}]
            }),
            json!({"merging": [{"name": "b"}, {"name": "a"}]}),
        ),
        (json!({}), json!({"$setElementOrder/merging": [{"name": "a"}]}), json!({})),
        // $retainKeys.
        (
            json!({"plain": {"x": 1, "y": 2}}),
            json!({"plain": {"$retainKeys": ["x", "z"], "z": 3, "y": null}}),
            json!({"plain": {"x": 1, "z": 3}}),
        ),
    ] {
        let row = format!("{object} patched with {patch}");
        assert_eq!(apply(object, patch), Ok(want), "{row}");
    }
}

#[test]
fn malformed_patches_are_rejected_with_upstream_messages() {
    for (object, patch, want) in [
        (
            json!({}),
            json!({"$patch": "bogus", "a": 1}),
            "unknown patch type: bogus in map: map[$patch:bogus a:1]",
        ),
        (
            json!({}),
            json!({"$deleteFromPrimitiveList": [1]}),
            "invalid patch format of primitive list",
        ),
        (json!({}), json!({"$retainKeys": "x"}), "invalid patch format of retainKeys"),
        (json!({}), json!({"$retainKeys": ["a"], "b": 1}), "invalid patch format of retainKeys"),
        (
            json!({}),
            json!({"$setElementOrder": []}),
            "invalid patch format of setElementOrder list",
        ),
        (
            json!({}),
            json!({"$setElementOrder/merging": 1}),
            "expected a []interface {}, but received a int64",
        ),
        (
            json!({"merging": {}}),
            json!({"$setElementOrder/merging": []}),
            "expected a []interface {}, but received a map[string]interface {}",
        ),
        (
            json!({}),
            json!({"$setElementOrder/merging": [{"name": "b"}], "merging": [{"name": "a"}]}),
            "The order in patch list:\n[map[name:a]]\n doesn't match $setElementOrder list:\n[map[name:b]]\n",
        ),
        (json!({"merging": [[1]]}), json!({"merging": [[2]]}), "lists of lists are not supported"),
        (
            json!({"merging": [{"name": "a"}]}),
            json!({"merging": [1]}),
            "list element types are not identical: [[map[name:a]] [1]]",
        ),
        (
            json!({"merging": [{"name": "a"}]}),
            json!({"merging": [{"x": 1}]}),
            "map: map[x:1] does not contain declared merge key: name",
        ),
        (
            json!({"keyless": [{"a": 1}]}),
            json!({"keyless": [{"a": 2}]}),
            "cannot merge lists without merge key for struct",
        ),
        (
            json!({"merging": [{"name": "a"}]}),
            json!({"merging": [{"name": "a", "$patch": "merge"}]}),
            "merging lists cannot yet be specified in the patch",
        ),
        (
            json!({"unknown": {}}),
            json!({"unknown": {}}),
            "unable to find api field in struct Thing for the json field \"unknown\"",
        ),
        (
            json!({"labels": {"x": {}}}),
            json!({"labels": {"x": {}}}),
            "merging an object in json but data type is not struct, instead is: map",
        ),
    ] {
        assert_eq!(apply(object, patch), Err(want.to_owned()));
    }
}
