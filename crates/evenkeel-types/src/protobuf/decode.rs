//! Decodes messages to JSON, field by field, by their numbers in the table.
//!
//! Embedded structs are separate messages on the wire but share the object in JSON, so they are
//! read into the same map. Zero values that Go omits are not added; those that it always prints are
//! added when the message is complete.

use serde_json::map::Entry;
use serde_json::{Map, Value};

use super::wire::{Payload, Reader};
use super::{DEPTH_MAX, DecodeError, MAGIC, decode_at, lossy};
use crate::conform::{complete, omitted, print_double, print_time, zero};
use crate::table::{Member, schema_type};
use crate::time::{Precision, Timestamp, ZERO_SECONDS};
use crate::{Custom, Expr, Field, Shape, Type, base64, quantity};

/// Decodes a whole message.
pub(super) fn object(ty: &'static Type, bytes: &[u8], depth: usize) -> Result<Value, DecodeError> {
    if ty.members_by_number.is_empty() && !ty.fields.iter().all(|field| field.embed.is_some()) {
        return Err(DecodeError::NoProtobuf(ty.name));
    }
    let mut map = Map::new();
    read_object(ty, bytes, depth, &mut map)?;
    Ok(Value::Object(map))
}

/// Decodes a message into an existing object.
fn read_object(
    ty: &'static Type,
    bytes: &[u8],
    depth: usize,
    map: &mut Map<String, Value>,
) -> Result<(), DecodeError> {
    read_fields(ty, bytes, deeper(depth)?, map)?;
    complete(ty, map);
    Ok(())
}

fn deeper(depth: usize) -> Result<usize, DecodeError> {
    if depth < DEPTH_MAX { Ok(depth + 1) } else { Err(DecodeError::TooDeep) }
}

fn read_fields(
    ty: &'static Type,
    bytes: &[u8],
    depth: usize,
    map: &mut Map<String, Value>,
) -> Result<(), DecodeError> {
    let mut reader = Reader::new(bytes);
    while let Some((number, payload)) = reader.next()? {
        match ty.member(number) {
            None => {}
            Some(Member::Field(index)) => {
                read_field(&ty.fields[index as usize], payload, depth, map)?;
            }
            Some(Member::Embed(index)) => {
                let embed = &ty.embeds[index as usize];
                let Payload::Bytes(bytes) = payload else {
                    return Err(wrong(payload, embed.name));
                };
                read_fields(embed.ty.get(), bytes, depth, map)?;
            }
        }
    }
    Ok(())
}

fn wrong(payload: Payload<'_>, field: &'static str) -> DecodeError {
    DecodeError::WrongWireType { wire: payload.wire_type(), field }
}

fn read_field(
    field: &'static Field,
    payload: Payload<'_>,
    depth: usize,
    map: &mut Map<String, Value>,
) -> Result<(), DecodeError> {
    match (field.shape, payload) {
        (Shape::Struct(ty), Payload::Bytes(bytes)) => {
            let slot = map.entry(field.name).or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(inner) = slot {
                read_object(ty.get(), bytes, depth, inner)?;
            }
        }
        (Shape::List(element), _) if !field.expr.wrapped() => {
            let depth = deeper(depth)?;
            let slot = map.entry(field.name).or_insert_with(|| Value::Array(Vec::new()));
            if let Value::Array(items) = slot {
                read_elements(element, field.name, payload, depth, items)?;
            }
        }
        (Shape::Map { value, .. }, Payload::Bytes(bytes)) => {
            let depth = deeper(depth)?;
            let (key, item) = read_entry(value, field.name, bytes, depth)?;
            match map.entry(field.name) {
                Entry::Occupied(mut slot) => {
                    if let Value::Object(entries) = slot.get_mut() {
                        entries.insert(key, item);
                    }
                }
                Entry::Vacant(slot) => {
                    slot.insert(Value::Object(Map::from_iter([(key, item)])));
                }
            }
        }
        (shape, _) => {
            let value = read_value(field.expr, shape, field.name, payload, depth)?;
            if !omitted(field, &value) {
                map.insert(field.name.to_owned(), value);
            } else if !map.is_empty() {
                map.remove(field.name);
            }
        }
    }
    Ok(())
}

/// Decodes one element of a list, or a run of packed ones.
fn read_elements(
    element: Expr,
    field: &'static str,
    payload: Payload<'_>,
    depth: usize,
    items: &mut Vec<Value>,
) -> Result<(), DecodeError> {
    let shape = element.shape();
    match (shape, payload) {
        (Shape::Bool | Shape::Int32 | Shape::Int64, Payload::Bytes(packed)) => {
            let mut reader = Reader::new(packed);
            while let Some(number) = reader.packed()? {
                items.push(read_value(element, shape, field, Payload::Varint(number), depth)?);
            }
        }
        (Shape::Double, Payload::Bytes(packed)) => {
            let mut reader = Reader::new(packed);
            while let Some(bits) = reader.packed_fixed64()? {
                items.push(read_value(element, shape, field, Payload::Fixed64(bits), depth)?);
            }
        }
        _ => items.push(read_value(element, shape, field, payload, depth)?),
    }
    Ok(())
}

fn read_entry(
    element: Expr,
    field: &'static str,
    bytes: &[u8],
    depth: usize,
) -> Result<(String, Value), DecodeError> {
    let shape = element.shape();
    let (mut key, mut value) = (String::new(), None);
    let mut reader = Reader::new(bytes);
    while let Some((number, payload)) = reader.next()? {
        match (number, payload) {
            (1, Payload::Bytes(text)) => key = lossy(text),
            (2, _) => value = Some(read_value(element, shape, field, payload, depth)?),
            _ => {}
        }
    }
    let value = value.unwrap_or_else(|| match shape {
        Shape::Bytes => Value::String(String::new()),
        _ => zero(shape),
    });
    Ok((key, value))
}

/// Decodes a single value.
fn read_value(
    expr: Expr,
    shape: Shape,
    field: &'static str,
    payload: Payload<'_>,
    depth: usize,
) -> Result<Value, DecodeError> {
    Ok(match (shape, payload) {
        (Shape::String, Payload::Bytes(text)) => Value::String(lossy(text)),
        (Shape::Bytes, Payload::Bytes(bytes)) => Value::String(base64::encode(bytes)),
        (Shape::Bool, Payload::Varint(number)) => Value::Bool(number != 0),
        // Go keeps the low 32 bits, too.
        (Shape::Int32, Payload::Varint(number)) => Value::from(number as i32),
        (Shape::Int64, Payload::Varint(number)) => Value::from(number as i64),
        (Shape::Double, Payload::Fixed64(bits)) => {
            let float = f64::from_bits(bits);
            let number = print_double(float)
                .ok_or_else(|| DecodeError::Value(format!("json: unsupported value: {float}")))?;
            Value::Number(number)
        }
        (Shape::Struct(ty), Payload::Bytes(bytes)) => {
            let mut map = Map::new();
            read_object(ty.get(), bytes, depth, &mut map)?;
            Value::Object(map)
        }
        (Shape::Custom(custom, _), Payload::Bytes(bytes)) => read_custom(custom, bytes, depth)?,
        // Only wrapped lists occur as a single value.
        (Shape::List(element), Payload::Bytes(bytes)) if expr.wrapped() => {
            let depth = deeper(depth)?;
            let mut items = Vec::new();
            let mut reader = Reader::new(bytes);
            while let Some((number, payload)) = reader.next()? {
                if number == 1 {
                    read_elements(element, field, payload, depth, &mut items)?;
                }
            }
            if items.is_empty() { Value::Null } else { Value::Array(items) }
        }
        _ => return Err(wrong(payload, field)),
    })
}

fn read_custom(custom: Custom, bytes: &[u8], depth: usize) -> Result<Value, DecodeError> {
    match custom {
        Custom::Time | Custom::MicroTime => read_time(custom, bytes),
        Custom::Quantity => read_quantity(bytes),
        Custom::IntOrString => read_int_or_string(bytes),
        Custom::RawExtension | Custom::FieldsV1 | Custom::Json => read_raw(bytes, depth),
        Custom::JsonSchemaPropsOrArray
        | Custom::JsonSchemaPropsOrBool
        | Custom::JsonSchemaPropsOrStringArray => read_schema(custom, bytes, depth),
    }
}

fn read_time(custom: Custom, bytes: &[u8]) -> Result<Value, DecodeError> {
    // An empty message is the zero time, not the epoch.
    let mut seconds = if bytes.is_empty() { ZERO_SECONDS } else { 0 };
    let mut nanos = 0;
    let mut reader = Reader::new(bytes);
    while let Some((number, payload)) = reader.next()? {
        match (number, payload) {
            (1, Payload::Varint(value)) => seconds = value as i64,
            (2, Payload::Varint(value)) => nanos = i64::from(value as i32),
            _ => {}
        }
    }
    let precision = match custom {
        Custom::MicroTime => Precision::Micros,
        _ => Precision::Seconds,
    };
    let timestamp = match precision {
        Precision::Seconds => Timestamp { seconds, nanos: 0 },
        Precision::Micros => {
            let nanos = nanos / 1000 * 1000;
            Timestamp {
                seconds: seconds.saturating_add(nanos.div_euclid(1_000_000_000)),
                nanos: nanos.rem_euclid(1_000_000_000) as u32,
            }
        }
    };
    Ok(print_time(timestamp, precision))
}

fn read_quantity(bytes: &[u8]) -> Result<Value, DecodeError> {
    let mut text = "0".to_owned();
    let mut reader = Reader::new(bytes);
    while let Some((number, payload)) = reader.next()? {
        if let (1, Payload::Bytes(bytes)) = (number, payload) {
            let written = lossy(bytes);
            text = quantity::canonicalize(&written)
                .map_err(|error| DecodeError::Value(error.to_string()))?
                .into_owned();
        }
    }
    Ok(Value::String(text))
}

fn read_int_or_string(bytes: &[u8]) -> Result<Value, DecodeError> {
    let (mut kind, mut int, mut string) = (0, 0, String::new());
    let mut reader = Reader::new(bytes);
    while let Some((number, payload)) = reader.next()? {
        match (number, payload) {
            (1, Payload::Varint(value)) => kind = value,
            (2, Payload::Varint(value)) => int = value as i32,
            (3, Payload::Bytes(text)) => string = lossy(text),
            _ => {}
        }
    }
    match kind {
        0 => Ok(Value::from(int)),
        1 => Ok(Value::String(string)),
        _ => Err(DecodeError::Value("impossible IntOrString.Type".to_owned())),
    }
}

/// Decodes JSON within protobuf; in a watch event, protobuf within protobuf.
fn read_raw(bytes: &[u8], depth: usize) -> Result<Value, DecodeError> {
    let mut raw = &[][..];
    let mut reader = Reader::new(bytes);
    while let Some((number, payload)) = reader.next()? {
        if let (1, Payload::Bytes(bytes)) = (number, payload) {
            raw = bytes;
        }
    }
    if raw.is_empty() {
        return Ok(Value::Null);
    }
    if raw.starts_with(&MAGIC) {
        return Ok(decode_at(raw, deeper(depth)?)?.object);
    }
    let value = serde_json::from_slice(raw)
        .map_err(|error| DecodeError::Value(format!("raw value is no JSON: {error}")))?;
    if !fits_depth(&value, DEPTH_MAX - depth) {
        return Err(DecodeError::TooDeep);
    }
    Ok(value)
}

fn fits_depth(value: &Value, remaining: usize) -> bool {
    let Some(inner) = remaining.checked_sub(1) else {
        return !matches!(value, Value::Array(_) | Value::Object(_));
    };
    match value {
        Value::Array(items) => items.iter().all(|item| fits_depth(item, inner)),
        Value::Object(map) => map.values().all(|item| fits_depth(item, inner)),
        _ => true,
    }
}

fn read_schema(custom: Custom, bytes: &[u8], depth: usize) -> Result<Value, DecodeError> {
    let depth = deeper(depth)?;
    let (mut schema, mut allows, mut items) = (None::<Map<_, _>>, false, Vec::new());
    let mut reader = Reader::new(bytes);
    while let Some((number, payload)) = reader.next()? {
        let nested = |bytes, map: &mut Map<String, Value>| match schema_type() {
            Some(ty) => read_object(ty, bytes, depth, map),
            None => Ok(()),
        };
        match (custom, number, payload) {
            (Custom::JsonSchemaPropsOrBool, 1, Payload::Varint(value)) => allows = value != 0,
            (Custom::JsonSchemaPropsOrBool, 2, Payload::Bytes(bytes))
            | (_, 1, Payload::Bytes(bytes)) => nested(bytes, schema.get_or_insert_default())?,
            (Custom::JsonSchemaPropsOrArray, 2, Payload::Bytes(bytes)) => {
                let mut map = Map::new();
                nested(bytes, &mut map)?;
                items.push(Value::Object(map));
            }
            (_, 2, Payload::Bytes(text)) => items.push(Value::String(lossy(text))),
            _ => {}
        }
    }
    Ok(match (schema, custom) {
        _ if !items.is_empty() => Value::Array(items),
        (Some(schema), _) => Value::Object(schema),
        (None, Custom::JsonSchemaPropsOrBool) => Value::Bool(allows),
        (None, _) => Value::Null,
    })
}
