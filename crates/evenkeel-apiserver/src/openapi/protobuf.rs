//! OpenAPI documents as protobuf, the only encoding in which kubectl requests version 2.
//!
//! The messages are gnostic's: objects with fixed keys are messages, objects with arbitrary keys
//! are lists of named values, and arbitrary JSON is kept as text.

#[cfg(test)]
mod tests;

use evenkeel_types::protobuf::{EncodeError, Encoder};
use serde_json::{Map, Value};

use super::messages::{Kind, Message, V2, V3};

/// Encodes a v2 document.
pub(crate) fn v2(document: &Value) -> Vec<u8> {
    encode(&V2, document)
}

/// Encodes a v3 document.
pub(crate) fn v3(document: &Value) -> Vec<u8> {
    encode(&V3, document)
}

fn encode(message: &'static Message, document: &Value) -> Vec<u8> {
    let mut out = Encoder::default();
    // Only objects have fields.
    if let Value::Object(map) = document
        && let Err(why) = fields(&mut out, message, map)
    {
        tracing::error!(%why, "cannot encode an OpenAPI document");
    }
    out.take()
}

type Done = Result<(), EncodeError>;

fn fields(out: &mut Encoder, message: &'static Message, map: &Map<String, Value>) -> Done {
    for (key, number, kind) in message.fields {
        if let Some(value) = map.get(*key) {
            field(out, *number, *kind, value, false)?;
        }
    }
    for (keys, number, kind) in message.named {
        let listed = |key: &str| message.fields.iter().any(|(listed, ..)| *listed == key);
        for (key, value) in map.iter().filter(|(key, _)| keys.contains(key) && !listed(key)) {
            out.nested(*number, |out| {
                out.bytes(1, key.as_bytes());
                field(out, 2, *kind, value, false)
            })?;
        }
    }
    Ok(())
}

/// Appends a field. Zero values are omitted unless `explicit`, as in lists and choices.
fn field(out: &mut Encoder, number: u32, kind: Kind, value: &Value, explicit: bool) -> Done {
    match (kind, value) {
        (Kind::Text, Value::String(text)) if explicit || !text.is_empty() => {
            out.bytes(number, text.as_bytes());
        }
        (Kind::Bool, Value::Bool(flag)) if explicit || *flag => {
            out.varint(number, u64::from(*flag));
        }
        (Kind::Integer, Value::Number(integer)) => {
            // Documents may contain integers as floats.
            let integer = integer.as_i64().or(integer.as_f64().map(|float| float as i64));
            if let Some(integer) = integer.filter(|integer| explicit || *integer != 0) {
                out.varint(number, integer as u64);
            }
        }
        (Kind::Double, Value::Number(double)) => {
            if let Some(double) = double.as_f64().filter(|double| explicit || *double != 0.0) {
                out.double(number, double);
            }
        }
        // The text is YAML, of which JSON is a subset.
        (Kind::Any, value) => out.nested(number, |out| {
            out.bytes(2, format!("{value}\n").as_bytes());
            Ok(())
        })?,
        (Kind::One(message), Value::Object(map)) => {
            out.nested(number, |out| fields(out, message, map))?;
        }
        (Kind::Many(kind), Value::Array(items)) => {
            items.iter().try_for_each(|item| field(out, number, *kind, item, true))?;
        }
        (Kind::Wrapped(kind), value) => out.nested(number, |out| match value {
            Value::Array(items) => {
                items.iter().try_for_each(|item| field(out, 1, *kind, item, true))
            }
            one => field(out, 1, *kind, one, true),
        })?,
        (Kind::Choice(choice), value) => out.nested(number, |out| {
            match (choice.choose)(value).and_then(|index| choice.fields.get(index)) {
                Some((number, kind)) => field(out, *number, *kind, value, true),
                None => Ok(()),
            }
        })?,
        _ => {}
    }
    Ok(())
}
