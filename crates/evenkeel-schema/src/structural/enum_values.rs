//! The `enum` keyword, with lookup by hash instead of linear comparison.

use std::collections::HashSet;

use evenkeel_types::go;
use serde_json::Value;

/// The values of an `enum`. If empty, every value is allowed.
#[derive(Clone, Debug, Default)]
pub(crate) struct EnumValues {
    all: Vec<Value>,
    /// Values that are not numbers.
    others: HashSet<Value>,
    integers: HashSet<i64>,
    floats: HashSet<u64>,
}

impl EnumValues {
    pub(crate) fn new(values: Option<&Vec<Value>>) -> Self {
        let mut result = Self { all: values.cloned().unwrap_or_default(), ..Self::default() };
        for value in &result.all {
            match value {
                // In Go, null is not equal to any value, including null.
                Value::Null => {}
                Value::Number(number) => match go::Num::of(number) {
                    go::Num::Int(int) => _ = result.integers.insert(int),
                    go::Num::Float(float) => _ = result.floats.insert(bits(float)),
                },
                other => _ = result.others.insert(other.clone()),
            }
        }
        result
    }

    pub(crate) fn all(&self) -> &[Value] {
        &self.all
    }

    pub(crate) fn allow(&self, value: &Value) -> bool {
        self.all.is_empty()
            || match value {
                Value::Null => false,
                // Go converts the value to the type of the enum value before it compares them.
                Value::Number(number) => {
                    let number = go::Num::of(number);
                    let int = match number {
                        go::Num::Int(int) => int,
                        go::Num::Float(float) => go::truncate(float),
                    };
                    let float = number.as_f64();
                    self.integers.contains(&int)
                        || (!float.is_nan() && self.floats.contains(&bits(float)))
                }
                other => self.others.contains(other),
            }
    }
}

/// Returns the bits of a number as a hash key. Both zeros have the same key.
fn bits(float: f64) -> u64 {
    if float == 0.0 { 0 } else { float.to_bits() }
}
