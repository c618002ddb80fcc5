//! Decodes JSON into a [`Value`] in one pass, finds duplicate keys, and reports errors with Go's
//! messages.

mod duplicates;

mod scan;

pub(crate) use duplicates::duplicate_keys;

use std::fmt;

use evenkeel_types::json as go_json;
use evenkeel_types::json::FieldsOrder;
use serde::de::{self, DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// The maximum nesting of input. Stored objects are decoded again, with a limit of 128, and field
/// names nest four levels deeper in `managedFields` than the fields do.
const MAX_NESTING: usize = 120;

/// Decodes `text`; also returns the paths of duplicate keys (`data.x`), in order.
///
/// The last of two equal keys wins, as in Go.
pub(crate) fn decode(text: &[u8]) -> Result<(Value, Vec<String>), String> {
    let mut seen = Duplicates { found: false, depth: 0, trace: None };
    let value = run(text, &mut seen)?;
    if !seen.found {
        return Ok((value, Vec::new()));
    }
    // Recording paths is expensive, so it is done only if there is a duplicate.
    let keys = keys(text).into_iter().filter(|key| key.duplicate);
    Ok((value, keys.map(|key| key.path).collect()))
}

/// Encodes the object as Go does: by its built-in type, or with sorted keys.
pub(crate) fn to_bytes(object: &Value) -> Vec<u8> {
    to_bytes_in_order(object, FieldsOrder::PathElements)
}

/// As [`to_bytes`], with `fieldsV1` in the given order.
pub(crate) fn to_bytes_in_order(object: &Value, order: FieldsOrder) -> Vec<u8> {
    let mut out = Vec::with_capacity(2048);
    go_json::write_in_order(&mut out, go_json::type_of(object), object, order);
    out
}

/// A key of an object in the input.
pub(crate) struct Key {
    /// Its path, such as `spec.containers[0].name`.
    pub(crate) path: String,
    /// Whether the object has an earlier key with this name.
    pub(crate) duplicate: bool,
}

/// Returns the keys of all objects in `text`, in source order.
pub(crate) fn keys(text: &[u8]) -> Vec<Key> {
    let mut seen = Duplicates { found: false, depth: 0, trace: Some(Trace::default()) };
    // On an error, the keys before it are returned.
    let _ = run(text, &mut seen);
    seen.trace.unwrap_or_default().keys
}

/// Decodes the first value in `text` and ignores the rest.
pub(crate) fn decode_first(text: &[u8]) -> Option<Value> {
    let mut seen = Duplicates { found: false, depth: 0, trace: None };
    Node(&mut seen).deserialize(&mut serde_json::Deserializer::from_slice(text)).ok()
}

fn run(text: &[u8], seen: &mut Duplicates) -> Result<Value, String> {
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let value = Node(seen)
        .deserialize(&mut deserializer)
        .and_then(|value| deserializer.end().map(|()| value));
    value.map_err(|error| go_message(text, &error))
}

struct Duplicates {
    found: bool,
    depth: usize,
    trace: Option<Trace>,
}

#[derive(Default)]
struct Trace {
    here: Vec<Step>,
    keys: Vec<Key>,
}

enum Step {
    Key(String),
    Index(usize),
}

impl Trace {
    fn path(&self, last: &str) -> String {
        let mut path = String::new();
        for step in &self.here {
            match step {
                Step::Key(key) if path.is_empty() => path.push_str(key),
                Step::Key(key) => {
                    path.push('.');
                    path.push_str(key);
                }
                Step::Index(index) => path.push_str(&format!("[{index}]")),
            }
        }
        if !path.is_empty() {
            path.push('.');
        }
        path + last
    }
}

struct Node<'a>(&'a mut Duplicates);

impl Node<'_> {
    fn inside<T>(&mut self, step: impl FnOnce() -> Step, f: impl FnOnce(Node<'_>) -> T) -> T {
        if let Some(trace) = &mut self.0.trace {
            trace.here.push(step());
        }
        let result = f(Node(self.0));
        if let Some(trace) = &mut self.0.trace {
            trace.here.pop();
        }
        result
    }

    fn enter<E: de::Error>(&mut self) -> Result<(), E> {
        self.0.depth += 1;
        if self.0.depth > MAX_NESTING {
            return Err(E::custom("recursion limit exceeded"));
        }
        Ok(())
    }

    fn leave(self) {
        self.0.depth -= 1;
    }
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = Value;

    fn deserialize<D: de::Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        // Go decodes integers that do not fit into an `int64` as floats.
        Ok(i64::try_from(value).map_or_else(|_| Value::from(value as f64), Value::from))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<Value, A::Error> {
        self.enter()?;
        let mut list = Vec::new();
        loop {
            let index = list.len();
            match self.inside(|| Step::Index(index), |node| items.next_element_seed(node))? {
                Some(item) => list.push(item),
                None => break,
            }
        }
        self.leave();
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut entries: A) -> Result<Value, A::Error> {
        self.enter()?;
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            let duplicate = map.contains_key(&key);
            self.0.found |= duplicate;
            if let Some(trace) = &mut self.0.trace {
                let path = trace.path(&key);
                trace.keys.push(Key { path, duplicate });
            }
            let value =
                self.inside(|| Step::Key(key.clone()), |node| entries.next_value_seed(node))?;
            map.insert(key, value);
        }
        self.leave();
        Ok(Value::Object(map))
    }
}

/// Returns whether a value exceeds the maximum nesting.
pub(crate) fn is_too_deep(value: &Value) -> bool {
    fn exceeds(value: &Value, left: usize) -> bool {
        match (value, left.checked_sub(1)) {
            (Value::Array(_) | Value::Object(_), None) => true,
            (Value::Array(items), Some(left)) => items.iter().any(|item| exceeds(item, left)),
            (Value::Object(map), Some(left)) => map.values().any(|value| exceeds(value, left)),
            _ => false,
        }
    }
    exceeds(value, MAX_NESTING)
}

/// Returns the result of [`normalize_floats`] for a number that it changes.
fn integral(number: &Number) -> Option<Value> {
    let float = number.as_f64().filter(|float| !number.is_i64() && float.fract() == 0.0)?;
    // The shortest representation, like Go's.
    let digits = float.to_string();
    let normalized = match (digits.parse::<i64>(), digits.parse::<u64>()) {
        (Ok(integer), _) => integer.into(),
        (_, Ok(integer)) => integer.into(),
        _ => Number::from_f64(float)?,
    };
    (normalized != *number).then_some(Value::Number(normalized))
}

/// Turns floats without a fraction into integers, as Go encodes untyped objects. Integers that do
/// not fit into an `int64` count as floats.
///
/// Not for typed objects, where `1.0` is not an integer and is rejected, nor for custom objects
/// before they are stored, where `1.0` differs from `1`.
pub(crate) fn normalize_floats(value: &mut Value) {
    match value {
        Value::Number(number) => {
            if let Some(normalized) = integral(number) {
                *value = normalized;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(normalize_floats),
        Value::Object(map) => map.values_mut().for_each(normalize_floats),
        _ => {}
    }
}

/// Names the bracket that exceeds the nesting limit: Go's limit, or the limit of this server if it
/// is exceeded first.
fn too_deep(text: &[u8]) -> String {
    const LEVELS: [usize; 2] = [MAX_NESTING + 1, 10_001];
    let (mut depth, mut inside, mut escaped, mut opener) = (0_usize, false, false, b'{');
    for byte in text {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if inside => escaped = true,
            b'"' => inside = !inside,
            b'{' | b'[' if !inside => {
                depth += 1;
                if LEVELS.contains(&depth) {
                    opener = *byte;
                }
                if depth == LEVELS[1] {
                    break;
                }
            }
            b'}' | b']' if !inside => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    format!("invalid character '{}' exceeded max depth", char::from(opener))
}

/// Returns the error message of Go's decoder for the same input.
fn go_message(text: &[u8], error: &serde_json::Error) -> String {
    if error.to_string().contains("recursion limit") {
        return too_deep(text);
    }
    // Input that Go accepts, such as half a surrogate, gets the error of serde_json.
    scan::syntax_error(text).unwrap_or_else(|| error.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn duplicates_are_named_by_path_and_the_last_wins() {
        let (value, duplicates) = decode(br#"{"a":1,"b":{"c":[{"d":1,"d":2}]},"a":3}"#).unwrap();
        assert_eq!(value, json!({"a": 3, "b": {"c": [{"d": 2}]}}));
        assert_eq!(duplicates, ["b.c[0].d", "a"]);
    }

    #[test]
    fn floats_without_fraction_become_integers() {
        let mut value = decode(b"{\"a\": [1.0, 2.5, 1e3, 9223372036854775808, -0]}").unwrap().0;
        assert_eq!(value, json!({"a": [1.0, 2.5, 1000.0, 9_223_372_036_854_775_808.0, -0.0]}));
        normalize_floats(&mut value);
        assert_eq!(value, json!({"a": [1, 2.5, 1000, 9_223_372_036_854_776_000_u64, 0]}));
    }

    #[test]
    fn floats_round_trip_exactly() {
        for text in ["0.30000000000000004", "9.999999999999999e55", "1.7976931348623157e308"] {
            let (value, _) = decode(text.as_bytes()).unwrap();
            assert_eq!(Some(value.as_f64()), Some(text.parse().ok()), "{text}");
            assert_eq!(serde_json::from_str::<Value>(&value.to_string()).unwrap(), value);
        }
    }

    #[test]
    fn nesting_beyond_the_limit_is_an_error() {
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        let (deepest, _) = decode(nested(MAX_NESTING).as_bytes()).unwrap();
        assert!(!is_too_deep(&deepest));
        assert!(is_too_deep(&Value::Array(vec![deepest])));
        for depth in [MAX_NESTING + 1, 100_000] {
            let why = "invalid character '[' exceeded max depth";
            assert_eq!(decode(nested(depth).as_bytes()).unwrap_err(), why);
        }
    }
}
