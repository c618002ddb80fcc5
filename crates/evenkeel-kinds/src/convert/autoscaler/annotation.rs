//! Reading annotations that anyone may have written, by the rules of Go's JSON decoder.
//!
//! Field names match in any case, unknown fields are skipped, and one field of the wrong type
//! spoils the whole text. `None` always means spoiled; an absent field is null or empty.

use serde_json::{Map, Value, json};

/// A JSON object of an annotation.
#[derive(Clone, Copy)]
pub(super) struct Fields<'a>(&'a Map<String, Value>);

/// The items of a list of objects; null is an empty list.
pub(super) fn items(json: &str, item: fn(Fields<'_>) -> Option<Value>) -> Option<Vec<Value>> {
    each(&serde_json::from_str(json).ok()?, item)
}

/// A single object; null has no fields.
pub(super) fn object(json: &str, read: fn(Fields<'_>) -> Option<Value>) -> Option<Value> {
    match serde_json::from_str(json).ok()? {
        Value::Object(fields) => read(Fields(&fields)),
        _ => None,
    }
}

/// Conditions look the same in both versions.
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

/// An object of the fields that are not null.
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

    /// A string that may be absent.
    pub(super) fn optional_string(&self, key: &str) -> Option<Value> {
        match self.get(key) {
            text @ (Value::Null | Value::String(_)) => Some(text.clone()),
            _ => None,
        }
    }

    /// A 32-bit integer, or null.
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

    /// A quantity as text, or null.
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

    /// What `read` makes of an object; null stays null.
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

    /// What `read` makes of an object; null reads like one without fields.
    pub(super) fn nested(&self, key: &str, read: fn(Fields<'_>) -> Option<Value>) -> Option<Value> {
        match self.optional(key, read)? {
            Value::Null => read(Fields(&Map::new())),
            value => Some(value),
        }
    }

    /// A list of objects, or null if it is absent or empty.
    pub(super) fn list(&self, key: &str, item: fn(Fields<'_>) -> Option<Value>) -> Option<Value> {
        match each(self.get(key), item)? {
            none if none.is_empty() => Some(Value::Null),
            items => Some(items.into()),
        }
    }

    /// A selector, which looks the same in both versions, or null.
    pub(super) fn selector(&self, key: &str) -> Option<Value> {
        self.optional(key, |selector| Some(selector.0.clone().into()))
    }
}

/// Sign, digits with at most one point, and a suffix of scale.
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

/// Whether a quantity is zero in whatever scale.
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
