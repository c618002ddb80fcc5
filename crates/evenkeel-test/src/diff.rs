//! What differs between what should be and what is.

use std::fmt::Write as _;

use serde::Serialize;
use serde_json::Value;

/// Lines that say where `actual` is not as `expected`; empty when it is. Fields that `expected` does
/// not have do not matter, so a test names only what it cares about.
///
/// ```
/// use serde_json::json;
///
/// let actual = json!({"spec": {"replicas": 3, "paused": false}});
/// assert_eq!(evenkeel_test::diff(&json!({"spec": {"replicas": 3}}), &actual), "");
/// assert_eq!(
///     evenkeel_test::diff(&json!({"spec": {"replicas": 2}}), &actual),
///     "spec.replicas: 2 expected, 3 found\n"
/// );
/// ```
#[must_use]
pub fn diff(expected: &impl Serialize, actual: &impl Serialize) -> String {
    let mut lines = String::new();
    match (serde_json::to_value(expected), serde_json::to_value(actual)) {
        (Ok(expected), Ok(actual)) => compare("", &expected, &actual, &mut lines),
        (Err(error), _) | (_, Err(error)) => lines = format!("cannot compare: {error}\n"),
    }
    lines
}

fn compare(path: &str, expected: &Value, actual: &Value, lines: &mut String) {
    match (expected, actual) {
        (Value::Object(expected), Value::Object(actual)) => {
            for (name, expected) in expected {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                compare(&path, expected, actual.get(name).unwrap_or(&Value::Null), lines);
            }
        }
        (Value::Array(expected), Value::Array(actual)) if expected.len() == actual.len() => {
            for (index, (expected, actual)) in expected.iter().zip(actual).enumerate() {
                compare(&format!("{path}[{index}]"), expected, actual, lines);
            }
        }
        _ if expected == actual => {}
        _ => {
            // Writing to a string does not fail.
            let _ = writeln!(lines, "{path}: {expected} expected, {actual} found");
        }
    }
}
