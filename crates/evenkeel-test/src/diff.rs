//! Compares an expected object with an actual one.

use std::fmt::Write as _;

use serde::Serialize;
use serde_json::Value;

/// Returns a line for each field of `expected` that differs in `actual`; empty if none does. Fields
/// that `expected` lacks are ignored, so a test lists only the fields it checks.
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
            // Writing to a String cannot fail.
            let _ = writeln!(lines, "{path}: {expected} expected, {actual} found");
        }
    }
}
