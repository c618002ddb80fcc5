//! Semantic equality: an absent list equals an empty one, and `1Gi` equals `1024Mi`.

use evenkeel_types::quantity::Quantity;
use serde_json::Value;

/// Returns whether two fields are semantically equal.
pub(super) fn equal(a: Option<&Value>, b: Option<&Value>) -> bool {
    same(a, b, false)
}

fn same(a: Option<&Value>, b: Option<&Value>, quantities: bool) -> bool {
    // Fast path: most fields are unchanged.
    if a == b {
        return true;
    }
    match (a, b) {
        (None | Some(Value::Null), other) | (other, None | Some(Value::Null)) => match other {
            None | Some(Value::Null) => true,
            Some(Value::Array(list)) => list.is_empty(),
            _ => false,
        },
        (Some(Value::Array(a)), Some(Value::Array(b))) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(Some(a), Some(b), false))
        }
        (Some(Value::Object(a)), Some(Value::Object(b))) => {
            let known = a.iter().all(|(key, value)| {
                same(Some(value), b.get(key), quantities || holds_quantities(key))
            });
            known
                && b.iter()
                    .filter(|(key, _)| !a.contains_key(*key))
                    .all(|(_, value)| same(None, Some(value), false))
        }
        (Some(Value::String(a)), Some(Value::String(b))) if quantities => {
            matches!((Quantity::parse(a), Quantity::parse(b)), (Ok(a), Ok(b)) if a == b)
        }
        _ => false,
    }
}

/// Returns whether the field is a quantity or a map of quantities.
fn holds_quantities(key: &str) -> bool {
    matches!(
        key,
        "limits"
            | "requests"
            | "capacity"
            | "hard"
            | "overhead"
            | "sizeLimit"
            | "divisor"
            | "averageValue"
            | "maximumVolumeSize"
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::equal;

    #[test]
    fn quantities_are_compared_by_value() {
        let a = json!({ "resources": { "limits": { "memory": "1Gi", "cpu": "1" } } });
        let b = json!({ "resources": { "limits": { "memory": "1073741824", "cpu": "1000m" } } });
        assert!(equal(Some(&a), Some(&b)));
        let c = json!({ "resources": { "limits": { "memory": "1Gi", "cpu": "2" } } });
        assert!(!equal(Some(&a), Some(&c)));
    }

    #[test]
    fn other_strings_are_compared_exactly() {
        let env = |value: &str| json!({ "env": [{ "name": "A", "value": value }] });
        assert!(!equal(Some(&env("1")), Some(&env("1000m"))));
    }

    #[test]
    fn empty_lists_equal_absent_ones_but_empty_objects_do_not() {
        assert!(equal(Some(&json!({ "a": [] })), Some(&json!({}))));
        assert!(equal(Some(&json!({ "a": null })), Some(&json!({ "a": [] }))));
        assert!(!equal(Some(&json!({ "a": {} })), Some(&json!({}))));
    }
}
