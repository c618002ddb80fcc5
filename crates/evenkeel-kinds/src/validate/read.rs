//! Field accessors that read JSON like a decoded Go struct: an absent field is its zero value.
//!
//! Objects are conformed, so a value of the wrong type cannot occur. If it does, it reads as
//! absent.

use serde_json::{Map, Value};

static NULL: Value = Value::Null;

/// Accessors for the fields of a JSON object.
pub(crate) trait Read {
    /// Returns the value of a field; `null` if absent.
    fn at(&self, key: &str) -> &Value;

    /// Returns whether the field is present and not `null`.
    fn has(&self, key: &str) -> bool {
        !self.at(key).is_null()
    }

    /// Returns a string; empty if absent.
    fn text(&self, key: &str) -> &str {
        self.at(key).as_str().unwrap_or_default()
    }

    /// Returns a string, if present.
    fn text_opt(&self, key: &str) -> Option<&str> {
        self.at(key).as_str()
    }

    /// Returns an integer, if present.
    fn int(&self, key: &str) -> Option<i64> {
        self.at(key).as_i64()
    }

    /// Returns an integer; zero if absent.
    fn num(&self, key: &str) -> i64 {
        self.int(key).unwrap_or_default()
    }

    /// Returns a boolean, if present.
    fn flag(&self, key: &str) -> Option<bool> {
        self.at(key).as_bool()
    }

    /// Returns a boolean; false if absent.
    fn is(&self, key: &str) -> bool {
        self.flag(key).unwrap_or_default()
    }

    /// Returns a list; empty if absent.
    fn list(&self, key: &str) -> &[Value] {
        self.at(key).as_array().map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns the strings of a list.
    fn texts<'a>(&'a self, key: &str) -> impl Iterator<Item = &'a str> {
        self.list(key).iter().map(|v| v.as_str().unwrap_or_default())
    }

    /// Returns a map, if present.
    fn map(&self, key: &str) -> Option<&Map<String, Value>> {
        self.at(key).as_object()
    }

    /// Returns the entries of a map, sorted by key.
    fn entries<'a>(&'a self, key: &str) -> impl Iterator<Item = (&'a str, &'a Value)> {
        self.map(key).into_iter().flatten().map(|(k, v)| (k.as_str(), v))
    }
}

impl Read for Value {
    fn at(&self, key: &str) -> &Value {
        self.as_object().and_then(|map| map.get(key)).unwrap_or(&NULL)
    }
}
