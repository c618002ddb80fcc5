//! Models a round trip through protobuf, which does not distinguish empty lists and maps from
//! absent ones.

use serde_json::{Map, Value};

use crate::{Expr, Shape, Type};

/// Replaces empty lists and maps by `null`, where Go prints them.
pub fn empty_to_null(ty: &'static Type, object: &mut Value) {
    if let Value::Object(map) = object {
        fields(ty, map);
    }
}

fn fields(ty: &'static Type, map: &mut Map<String, Value>) {
    for (key, item) in map.iter_mut() {
        if let Some(field) = ty.field(key) {
            value(field.shape, item);
        }
    }
}

fn value(shape: Shape, item: &mut Value) {
    match (shape, &mut *item) {
        (Shape::List(_), Value::Array(items)) if items.is_empty() => *item = Value::Null,
        (Shape::Map { .. }, Value::Object(map)) if map.is_empty() => *item = Value::Null,
        (Shape::Struct(ty), Value::Object(map)) => fields(ty.get(), map),
        (Shape::List(element), Value::Array(items)) => each(element, items.iter_mut()),
        (Shape::Map { value: element, .. }, Value::Object(map)) => each(element, map.values_mut()),
        _ => {}
    }
}

fn each<'a>(element: Expr, items: impl Iterator<Item = &'a mut Value>) {
    let shape = element.shape();
    if matches!(shape, Shape::Struct(_) | Shape::List(_) | Shape::Map { .. }) {
        items.for_each(|item| value(shape, item));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{Gvk, lookup};

    #[test]
    fn empty_lists_become_null_and_structs_do_not() {
        let ty = lookup(Gvk::new("", "v1", "Pod")).unwrap();
        let mut pod = json!({"spec": {"containers": [], "securityContext": {}}});
        empty_to_null(ty, &mut pod);
        assert_eq!(pod, json!({"spec": {"containers": null, "securityContext": {}}}));
    }

    #[test]
    fn free_form_values_are_unchanged() {
        let ty = lookup(Gvk::new("apps", "v1", "ControllerRevision")).unwrap();
        let mut revision = json!({"data": {"items": []}, "revision": 1});
        let before = revision.clone();
        empty_to_null(ty, &mut revision);
        assert_eq!(revision, before);
    }
}
