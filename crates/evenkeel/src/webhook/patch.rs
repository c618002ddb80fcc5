//! JSON patches of what a defaulter changed.
//!
//! A defaulter changes a typed object, which lacks the fields that its type does not know. The
//! patch is therefore not the difference between the request and the typed object: the change from
//! the typed object before the defaulter to the one after it is applied to the object of the
//! request. Fields that the type does not know, or prints differently, stay as they are.

use serde_json::{Map, Value, json};

/// One operation of a JSON patch (RFC 6902).
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Operation {
    /// Sets a member, or inserts an item.
    Add { path: String, value: Value },
    /// Replaces a value.
    Replace { path: String, value: Value },
    /// Removes a member.
    Remove { path: String },
}

/// Returns the JSON of a patch.
pub(crate) fn encode(patch: Vec<Operation>) -> Value {
    let operation = |operation| match operation {
        Operation::Add { path, value } => json!({"op": "add", "path": path, "value": value}),
        Operation::Replace { path, value } => {
            json!({"op": "replace", "path": path, "value": value})
        }
        Operation::Remove { path } => json!({"op": "remove", "path": path}),
    };
    patch.into_iter().map(operation).collect()
}

/// Returns the patch that makes `before` equal to `after`.
pub(crate) fn difference(before: &Value, after: &Value) -> Vec<Operation> {
    changes(before, before, after)
}

/// Returns the patch of `raw` that has the effect of the change from `before` to `after`.
pub(crate) fn changes(raw: &Value, before: &Value, after: &Value) -> Vec<Operation> {
    let mut patch = Vec::new();
    change(&mut String::new(), raw, before, after, &mut patch);
    patch
}

fn change(
    path: &mut String,
    raw: &Value,
    before: &Value,
    after: &Value,
    patch: &mut Vec<Operation>,
) {
    if before == after {
        return;
    }
    match (raw, before, after) {
        (Value::Object(raw), Value::Object(before), Value::Object(after)) => {
            members(path, raw, before, after, patch);
        }
        (Value::Array(own), Value::Array(before), Value::Array(after))
            if own.len() == before.len() && extends(before, after) =>
        {
            // A list that was appended to, or whose items changed.
            for (index, item) in after.iter().enumerate() {
                at(path, &index.to_string(), |path| match (own.get(index), before.get(index)) {
                    (Some(own), Some(before)) => change(path, own, before, item, patch),
                    _ => {
                        patch.push(Operation::Add { path: path.clone(), value: item.clone() });
                    }
                });
            }
        }
        (Value::Array(own), Value::Array(before), Value::Array(after))
            if own.len() == before.len() =>
        {
            let value = Value::Array(after.iter().map(|item| known(own, before, item)).collect());
            patch.push(Operation::Replace { path: path.clone(), value });
        }
        (raw, ..) if raw == after => {}
        _ => patch.push(Operation::Replace { path: path.clone(), value: after.clone() }),
    }
}

fn members(
    path: &mut String,
    raw: &Map<String, Value>,
    before: &Map<String, Value>,
    after: &Map<String, Value>,
    patch: &mut Vec<Operation>,
) {
    for name in before.keys().filter(|name| !after.contains_key(*name)) {
        if raw.contains_key(name) {
            at(path, name, |path| patch.push(Operation::Remove { path: path.clone() }));
        }
    }
    for (name, value) in after {
        at(path, name, |path| match (raw.get(name), before.get(name)) {
            (_, Some(before)) if before == value => {}
            (Some(raw), Some(before)) => change(path, raw, before, value, patch),
            _ => patch.push(Operation::Add { path: path.clone(), value: value.clone() }),
        });
    }
}

/// Returns whether the items of `before` are the first ones of `after`, possibly changed.
fn extends(before: &[Value], after: &[Value]) -> bool {
    let name = |item: &Value| item.get("name").cloned();
    let same = |(before, after): (&Value, &Value)| before == after || name(before) == name(after);
    before.len() <= after.len() && before.iter().zip(after).all(same)
}

/// Returns an item of a list that became shorter or was reordered: that of the request if it was not
/// changed.
fn known(own: &[Value], before: &[Value], item: &Value) -> Value {
    let found = before.iter().position(|before| before == item);
    found.and_then(|index| own.get(index)).unwrap_or(item).clone()
}

/// Calls `with` with `path` extended by one segment.
fn at(path: &mut String, segment: &str, with: impl FnOnce(&mut String)) {
    let length = path.len();
    path.push('/');
    for letter in segment.chars() {
        match letter {
            '~' => path.push_str("~0"),
            '/' => path.push_str("~1"),
            letter => path.push(letter),
        }
    }
    with(path);
    path.truncate(length);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patch(raw: Value, before: Value, after: Value) -> Value {
        let [raw, before, after] = &[raw, before, after];
        encode(changes(raw, before, after))
    }

    #[test]
    fn unknown_fields_survive() {
        let raw = json!({"spec": {"image": "a", "future": {"x": 1}}, "other": 1});
        let before = json!({"spec": {"image": "a"}});
        let after = json!({"spec": {"image": "a", "replicas": 2}});
        let expected = json!([{"op": "add", "path": "/spec/replicas", "value": 2}]);
        assert_eq!(patch(raw, before, after), expected);
    }

    #[test]
    fn fields_that_the_type_prints_without_being_set_are_not_added() {
        let raw = json!({"spec": {"image": "a"}});
        let before = json!({"spec": {"image": "a", "replicas": 0}, "status": null});
        assert_eq!(patch(raw.clone(), before.clone(), before.clone()), json!([]));
        let after = json!({"spec": {"image": "a", "replicas": 2}, "status": null});
        let expected = json!([{"op": "add", "path": "/spec/replicas", "value": 2}]);
        assert_eq!(patch(raw, before, after), expected);
    }

    #[test]
    fn a_removed_field_is_removed_only_if_it_was_sent() {
        let before = json!({"a": 1, "b": 1});
        let expected = json!([{"op": "remove", "path": "/a"}]);
        assert_eq!(patch(json!({"a": 1, "c": 1}), before, json!({})), expected);
    }

    #[test]
    fn a_null_is_replaced() {
        let raw = json!({"metadata": {"labels": null}});
        let after = json!({"metadata": {"labels": {"a": "b"}}});
        let expected = json!([{"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}]);
        assert_eq!(patch(raw, json!({"metadata": {}}), after), expected);
    }

    #[test]
    fn items_of_lists_keep_their_unknown_fields() {
        let raw = json!([{"name": "a", "x": 1}, {"name": "b", "x": 2}]);
        let before = json!([{"name": "a"}, {"name": "b"}]);
        let appended = json!([{"name": "a", "image": "i"}, {"name": "b"}, {"name": "c"}]);
        let expected = json!([
            {"op": "add", "path": "/0/image", "value": "i"},
            {"op": "add", "path": "/2", "value": {"name": "c"}},
        ]);
        assert_eq!(patch(raw.clone(), before.clone(), appended), expected);
        let shorter = json!([{"name": "b"}]);
        let expected = json!([
            {"op": "replace", "path": "", "value": [{"name": "b", "x": 2}]},
        ]);
        assert_eq!(patch(raw.clone(), before.clone(), shorter), expected);
        let inserted = json!([{"name": "c"}, {"name": "a"}, {"name": "b"}]);
        let value = json!([{"name": "c"}, {"name": "a", "x": 1}, {"name": "b", "x": 2}]);
        let expected = json!([{"op": "replace", "path": "", "value": value}]);
        assert_eq!(patch(raw, before, inserted), expected);
    }

    #[test]
    fn paths_are_escaped() {
        let expected = json!([{"op": "add", "path": "/a~1b~0c", "value": 1}]);
        assert_eq!(patch(json!({}), json!({}), json!({"a/b~c": 1})), expected);
    }
}
