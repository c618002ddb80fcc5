//! Reading fields the way a decoded Go struct reads: absent is zero.
//!
//! Objects arrive conformed, so a value of the wrong type cannot occur; if it does, it reads as
//! absent, and nothing panics.

use serde_json::{Map, Value};

static NULL: Value = Value::Null;

/// Fields of a JSON object.
pub(crate) trait Read {
    /// The value of a field, `null` when absent.
    fn at(&self, key: &str) -> &Value;

    /// Whether the field is there and not `null`.
    fn has(&self, key: &str) -> bool {
        !self.at(key).is_null()
    }

    /// A string, empty when absent.
    fn text(&self, key: &str) -> &str {
        self.at(key).as_str().unwrap_or_default()
    }

    /// A string, if there is one.
    fn text_opt(&self, key: &str) -> Option<&str> {
        self.at(key).as_str()
    }

    /// An integer, if there is one.
    fn int(&self, key: &str) -> Option<i64> {
        self.at(key).as_i64()
    }

    /// An integer, zero when absent.
    fn num(&self, key: &str) -> i64 {
        self.int(key).unwrap_or_default()
    }

    /// A boolean, if there is one.
    fn flag(&self, key: &str) -> Option<bool> {
        self.at(key).as_bool()
    }

    /// A boolean, false when absent.
    fn is(&self, key: &str) -> bool {
        self.flag(key).unwrap_or_default()
    }

    /// A list, empty when absent.
    fn list(&self, key: &str) -> &[Value] {
        self.at(key).as_array().map(Vec::as_slice).unwrap_or_default()
    }

    /// The strings of a list.
    fn texts<'a>(&'a self, key: &str) -> impl Iterator<Item = &'a str> {
        self.list(key).iter().map(|v| v.as_str().unwrap_or_default())
    }

    /// A map, if there is one.
    fn map(&self, key: &str) -> Option<&Map<String, Value>> {
        self.at(key).as_object()
    }

    /// The entries of a map, sorted by key.
    fn entries<'a>(&'a self, key: &str) -> impl Iterator<Item = (&'a str, &'a Value)> {
        self.map(key).into_iter().flatten().map(|(k, v)| (k.as_str(), v))
    }
}

impl Read for Value {
    fn at(&self, key: &str) -> &Value {
        self.as_object().and_then(|map| map.get(key)).unwrap_or(&NULL)
    }
}
