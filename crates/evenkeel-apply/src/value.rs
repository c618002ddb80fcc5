//! Equality and order of JSON values in field sets.
//!
//! The order is total across types, and an integer equals the float of the same value: a list key
//! decoded from `fieldsV1` must match its item.

use std::cmp::Ordering;

use evenkeel_types::go::Num;
use serde_json::Value;

use crate::work;

/// Returns whether two values are equal, regardless of the order of map keys.
pub(crate) fn equal(a: &Value, b: &Value) -> bool {
    work::step();
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => match (Num::of(a), Num::of(b)) {
            (Num::Int(a), Num::Int(b)) => a == b,
            (a, b) => a.as_f64() == b.as_f64(),
        },
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(k, a)| b.get(k).is_some_and(|b| equal(a, b)))
        }
        (a, b) => a == b,
    }
}

/// Compares two values in a total order: numbers, strings, booleans, lists, maps, null.
pub(crate) fn compare(a: &Value, b: &Value) -> Ordering {
    work::step();
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => match (Num::of(a), Num::of(b)) {
            (Num::Int(a), Num::Int(b)) => a.cmp(&b),
            (a, b) => a.as_f64().total_cmp(&b.as_f64()),
        },
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Array(a), Value::Array(b)) => {
            let shared = a.iter().zip(b).map(|(a, b)| compare(a, b));
            first_difference(shared).then(a.len().cmp(&b.len()))
        }
        (Value::Object(a), Value::Object(b)) => {
            let shared =
                a.iter().zip(b).map(|((ka, a), (kb, b))| ka.cmp(kb).then_with(|| compare(a, b)));
            first_difference(shared).then(a.len().cmp(&b.len()))
        }
        (a, b) => rank(a).cmp(&rank(b)),
    }
}

fn first_difference(mut orders: impl Iterator<Item = Ordering>) -> Ordering {
    orders.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn order_is_total_across_types() {
        let ascending = [
            json!(-1),
            json!(0.5),
            json!(1),
            json!(1.5),
            json!(u64::MAX),
            json!(""),
            json!("a"),
            json!("ab"),
            json!(false),
            json!(true),
            json!([]),
            json!([1]),
            json!([1, 2]),
            json!([2]),
            json!({}),
            json!({"a": 1}),
            json!({"a": 1, "b": 1}),
            json!({"a": 2}),
            json!({"b": 0}),
            json!(null),
        ];
        for (i, a) in ascending.iter().enumerate() {
            for (j, b) in ascending.iter().enumerate() {
                assert_eq!(compare(a, b), i.cmp(&j), "{a} against {b}");
                assert_eq!(equal(a, b), i == j, "{a} against {b}");
            }
        }
    }

    #[test]
    fn integers_equal_floats_of_the_same_value() {
        assert!(equal(&json!([80]), &json!([80.0])));
        assert_eq!(compare(&json!(80), &json!(80.0)), Ordering::Equal);
        assert!(!equal(&json!(80), &json!("80")));
    }
}
