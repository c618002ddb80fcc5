//! Parses annotations, which may be set by any client, with the rules of Go's JSON decoder.
//!
//! Field names match in any letter case, unknown fields are skipped, and a single field of the
//! wrong type makes the whole text invalid. `None` always means invalid; an absent field is null or
//! empty.

use serde_json::{Map, Value, json};

/// A JSON object in an annotation.
#[derive(Clone, Copy)]
pub(super) struct Fields<'a>(&'a Map<String, Value>);

/// Parses a list of objects. Null is an empty list.
pub(super) fn items(json: &str, item: fn(Fields<'_>) -> Option<Value>) -> Option<Vec<Value>> {
    each(&serde_json::from_str(json).ok()?, item)
}

/// Parses a single object. Null has no fields.
pub(super) fn object(json: &str, read: fn(Fields<'_>) -> Option<Value>) -> Option<Value> {
    match serde_json::from_str(json).ok()? {
        Value::Object(fields) => read(Fields(&fields)),
        _ => None,
    }
}

/// Parses conditions, which are equal in both versions.
pub(super) fn conditions(json: &str) -> Option<Vec<Value>> {
    items(json, |condition| {
        let mut object = Map::new();
        object.insert("type".to_owned(), condition.string("type")?);
        object.insert("status".to_owned(), condition.string("status")?);
        let time = match condition.get("lastTransitionTime") {
            time @ (Value::Null | Value::String(_)) => time.clone(),
            _ => return None,
        };
        object.insert("lastTransitionTime".to_owned(), time);
        for field in ["reason", "message"] {
            let text = condition.string(field)?;
            if text != "" {
                object.insert(field.to_owned(), text);
            }
        }
        Some(object.into())
    })
}

/// Returns an object of the fields that are not null.
pub(super) fn compact<const N: usize>(fields: [(&str, Value); N]) -> Value {
    let present = fields.into_iter().filter(|(_, value)| !value.is_null());
    present.map(|(key, value)| (key.to_owned(), value)).collect::<Map<_, _>>().into()
}

impl Fields<'_> {
    pub(super) fn get(&self, key: &str) -> &Value {
        let exact = self.0.get(key);
        let field = exact.or_else(|| {
            self.0.iter().find(|(name, _)| name.eq_ignore_ascii_case(key)).map(|(_, value)| value)
        });
        field.unwrap_or(&Value::Null)
    }

    pub(super) fn string(&self, key: &str) -> Option<Value> {
        match self.get(key) {
            Value::Null => Some(json!("")),
            text @ Value::String(_) => Some(text.clone()),
            _ => None,
        }
    }

    /// Returns a string or null.
    pub(super) fn optional_string(&self, key: &str) -> Option<Value> {
        match self.get(key) {
            text @ (Value::Null | Value::String(_)) => Some(text.clone()),
            _ => None,
        }
    }

    /// Returns a 32-bit integer or null.
    pub(super) fn optional_int(&self, key: &str) -> Option<Value> {
        match self.get(key) {
            Value::Null => Some(Value::Null),
            number => i32::try_from(number.as_i64()?).ok().map(Value::from),
        }
    }

    pub(super) fn int(&self, key: &str) -> Option<Value> {
        match self.optional_int(key)? {
            Value::Null => Some(json!(0)),
            number => Some(number),
        }
    }

    /// Returns a quantity as text or null.
    pub(super) fn optional_quantity(&self, key: &str) -> Option<Value> {
        match self.get(key) {
            Value::Null => Some(Value::Null),
            Value::Number(number) => Some(number.to_string().into()),
            Value::String(text) => is_quantity(text).then(|| json!(text)),
            _ => None,
        }
    }

    pub(super) fn quantity(&self, key: &str) -> Option<Value> {
        match self.optional_quantity(key)? {
            Value::Null => Some(json!("0")),
            quantity => Some(quantity),
        }
    }

    /// Parses a nested object with `read`. Null stays null.
    pub(super) fn optional(
        &self,
        key: &str,
        read: fn(Fields<'_>) -> Option<Value>,
    ) -> Option<Value> {
        match self.get(key) {
            Value::Null => Some(Value::Null),
            Value::Object(fields) => read(Fields(fields)),
            _ => None,
        }
    }

    /// Parses a nested object with `read`. Null reads like an object without fields.
    pub(super) fn nested(&self, key: &str, read: fn(Fields<'_>) -> Option<Value>) -> Option<Value> {
        match self.optional(key, read)? {
            Value::Null => read(Fields(&Map::new())),
            value => Some(value),
        }
    }

    /// Parses a list of objects. Returns null if it is absent or empty.
    pub(super) fn list(&self, key: &str, item: fn(Fields<'_>) -> Option<Value>) -> Option<Value> {
        match each(self.get(key), item)? {
            none if none.is_empty() => Some(Value::Null),
            items => Some(items.into()),
        }
    }

    /// Returns a selector, which is equal in both versions, or null.
    pub(super) fn selector(&self, key: &str) -> Option<Value> {
        self.optional(key, |selector| Some(selector.0.clone().into()))
    }
}

/// Returns whether the text is a sign, digits with at most one point, and a scale suffix.
pub(super) fn is_quantity(text: &str) -> bool {
    let number = mantissa(text);
    let digits = number.trim_start_matches(['+', '-']);
    let suffix = &text[number.len()..];
    let exponent = suffix.strip_prefix(['e', 'E']).and_then(|power| power.parse::<i16>().ok());
    let scale =
        ["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    digits.contains(|char: char| char.is_ascii_digit())
        && number.len() - digits.len() <= 1
        && digits.matches('.').count() <= 1
        && (exponent.is_some() || scale.contains(&suffix))
}

/// Returns whether a quantity is zero in any scale.
pub(super) fn is_zero(quantity: &str) -> bool {
    !mantissa(quantity).contains(|char: char| ('1'..='9').contains(&char))
}

fn mantissa(text: &str) -> &str {
    let scale = text.trim_start_matches(|char: char| "+-.0123456789".contains(char));
    &text[..text.len() - scale.len()]
}

fn each(list: &Value, item: fn(Fields<'_>) -> Option<Value>) -> Option<Vec<Value>> {
    match list {
        Value::Null => Some(Vec::new()),
        Value::Array(items) => items
            .iter()
            .map(|value| match value {
                Value::Object(fields) => item(Fields(fields)),
                Value::Null => item(Fields(&Map::new())),
                _ => None,
            })
            .collect(),
        _ => None,
    }
}
