//! Equality and order of values, across numeric types.

use std::cmp::Ordering;

use crate::Value;

/// Equality of the language: numbers of different types compare by value, `NaN` equals nothing, other
/// values of different types differ.
impl<'b> PartialEq<Value<'b>> for Value<'_> {
    fn eq(&self, other: &Value<'b>) -> bool {
        match (self, other) {
            (Value::Null, Value::Null) => true,
            (Value::Bool(a), Value::Bool(b)) => a == b,
            (Value::Int(a), Value::Int(b)) => a == b,
            (Value::Uint(a), Value::Uint(b)) => a == b,
            (Value::Double(a), Value::Double(b)) => a == b,
            (
                Value::Int(_) | Value::Uint(_) | Value::Double(_),
                Value::Int(_) | Value::Uint(_) | Value::Double(_),
            ) => compare_numbers(self, other) == Some(Ordering::Equal),
            (Value::String(a), Value::String(b)) => **a == **b,
            (Value::Bytes(a), Value::Bytes(b)) => **a == **b,
            (Value::Duration(a), Value::Duration(b)) => a == b,
            (Value::Timestamp(a), Value::Timestamp(b)) => a == b,
            (Value::List(a), Value::List(b)) => a.equals(b),
            (Value::Map(a), Value::Map(b)) => {
                a.len() == b.len()
                    && a.iter().all(|(key, value)| b.get(&key).is_some_and(|other| other == value))
            }
            (Value::Object(a), Value::Object(b)) => a.equals(b),
            (Value::Object(a), Value::Map(b)) => a.equals_map(b, |a, b| a == b),
            (Value::Map(a), Value::Object(b)) => b.equals_map(a, |b, a| a == b),
            (Value::Type(a), Value::Type(b)) => a.name() == b.name(),
            (Value::Optional(a), Value::Optional(b)) => a == b,
            (Value::Opaque(a), other) => a.equals(other) == Some(true),
            _ => false,
        }
    }
}

/// The order of two numbers; `None` if one is not a number.
///
/// Integers are compared with doubles as doubles, as cel-go does: 2^63 - 1 equals 2^63 as a double.
pub(crate) fn compare_numbers(a: &Value<'_>, b: &Value<'_>) -> Option<Ordering> {
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => Some(a.cmp(b)),
        (Value::Uint(a), Value::Uint(b)) => Some(a.cmp(b)),
        (Value::Double(a), Value::Double(b)) => a.partial_cmp(b),
        (Value::Int(a), Value::Uint(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
        (Value::Uint(a), Value::Int(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
        (Value::Double(a), Value::Int(b)) => a.partial_cmp(&(*b as f64)),
        (Value::Double(a), Value::Uint(b)) => a.partial_cmp(&(*b as f64)),
        (Value::Int(a), Value::Double(b)) => (*a as f64).partial_cmp(b),
        (Value::Uint(a), Value::Double(b)) => (*a as f64).partial_cmp(b),
        _ => None,
    }
}
