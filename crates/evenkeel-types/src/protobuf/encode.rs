//! JSON to messages, in the order and with the zero values that Go writes.
//!
//! A field that is no pointer is written even when it is zero; so are structs, empty as they may
//! be. That makes the bytes those of Go for the same object.

use serde_json::{Map, Value};

use super::wire::Writer;
use super::{DEPTH_MAX, EncodeError};
use crate::table::{Slot, schema_type};
use crate::time::{Moment, Precision};
use crate::{Custom, Expr, Field, Shape, Type, base64};

type Done = Result<(), EncodeError>;

/// Writes a whole object.
pub(super) fn object(out: &mut Writer, ty: &'static Type, value: &Value) -> Done {
    if ty.slots.is_empty() && !ty.fields.iter().all(|field| field.embed.is_some()) {
        return Err(EncodeError::NoProtobuf(ty.name));
    }
    let map = value.as_object().ok_or(EncodeError::Mismatch(ty.name))?;
    write_object(out, ty, Some(map), 0)
}

/// Writes the fields of a struct; without an object, of one nobody filled.
fn write_object(
    out: &mut Writer,
    ty: &'static Type,
    map: Option<&Map<String, Value>>,
    depth: usize,
) -> Done {
    if depth >= DEPTH_MAX {
        return Err(EncodeError::TooDeep);
    }
    for &(number, slot) in &ty.slots {
        match slot {
            Slot::Embed(index) => {
                let inner = ty.embeds[index as usize].ty.get();
                out.nested(number, |out| write_object(out, inner, map, depth + 1))?;
            }
            Slot::Field(index) => {
                let field = &ty.fields[index as usize];
                let value =
                    map.and_then(|map| map.get(field.name)).filter(|value| !value.is_null());
                write_field(out, field, value, depth + 1)?;
            }
        }
    }
    Ok(())
}

fn write_field(
    out: &mut Writer,
    field: &'static Field,
    value: Option<&Value>,
    depth: usize,
) -> Done {
    let Some(value) = value else {
        return if field.pointer { Ok(()) } else { write_zero(out, field, depth) };
    };
    let mismatch = || EncodeError::Mismatch(field.name);
    match field.shape {
        Shape::List(element) if !field.expr.wrapped() => {
            for item in value.as_array().ok_or_else(mismatch)? {
                write_value(out, field.number, element, field.name, item, depth)?;
            }
            Ok(())
        }
        Shape::Map { value: element, .. } => {
            for (key, item) in value.as_object().ok_or_else(mismatch)? {
                out.nested(field.number, |out| {
                    out.bytes(1, key.as_bytes());
                    write_value(out, 2, element, field.name, item, depth)
                })?;
            }
            Ok(())
        }
        _ => write_value(out, field.number, field.expr, field.name, value, depth),
    }
}

fn write_zero(out: &mut Writer, field: &'static Field, depth: usize) -> Done {
    match field.shape {
        Shape::List(_) | Shape::Map { .. } | Shape::Bytes | Shape::Any => Ok(()),
        _ => write_value(out, field.number, field.expr, field.name, &Value::Null, depth),
    }
}

/// A single value, wherever it stands; null is its zero.
fn write_value(
    out: &mut Writer,
    number: u32,
    expr: Expr,
    field: &'static str,
    value: &Value,
    depth: usize,
) -> Done {
    let mismatch = || EncodeError::Mismatch(field);
    match (expr.shape(), value) {
        (Shape::String, Value::String(text)) => out.bytes(number, text.as_bytes()),
        (Shape::String | Shape::Bytes, Value::Null) => out.bytes(number, b""),
        (Shape::Bytes, Value::String(text)) => {
            out.bytes(number, &base64::decode(text).map_err(|_| mismatch())?);
        }
        (Shape::Bool, Value::Bool(flag)) => out.varint(number, u64::from(*flag)),
        (Shape::Bool | Shape::Int32 | Shape::Int64, Value::Null) => out.varint(number, 0),
        (Shape::Int32 | Shape::Int64, Value::Number(integer)) => {
            // Negative numbers take all 64 bits, whatever their type.
            out.varint(number, integer.as_i64().ok_or_else(mismatch)? as u64);
        }
        (Shape::Double, Value::Null) => out.double(number, 0.0),
        (Shape::Double, Value::Number(float)) => {
            out.double(number, float.as_f64().ok_or_else(mismatch)?);
        }
        (Shape::Struct(ty), Value::Null) => {
            out.nested(number, |out| write_object(out, ty.get(), None, depth))?;
        }
        (Shape::Struct(ty), Value::Object(map)) => {
            out.nested(number, |out| write_object(out, ty.get(), Some(map), depth))?;
        }
        (Shape::Custom(custom, _), _) => {
            out.nested(number, |out| write_custom(out, custom, field, value, depth))?;
        }
        (Shape::List(element), _) => {
            let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
            out.nested(number, |out| {
                items.iter().try_for_each(|item| write_value(out, 1, element, field, item, depth))
            })?;
        }
        _ => return Err(mismatch()),
    }
    Ok(())
}

fn write_custom(
    out: &mut Writer,
    custom: Custom,
    field: &'static str,
    value: &Value,
    depth: usize,
) -> Done {
    let mismatch = || EncodeError::Mismatch(field);
    match (custom, value) {
        (Custom::Quantity, Value::String(text)) => out.bytes(1, text.as_bytes()),
        (Custom::Quantity, Value::Null) => out.bytes(1, b"0"),
        (Custom::IntOrString, _) => {
            let (kind, int, text) = match value {
                Value::Null => (0, 0, ""),
                Value::String(text) => (1, 0, text.as_str()),
                Value::Number(number) => (0, number.as_i64().ok_or_else(mismatch)?, ""),
                _ => return Err(mismatch()),
            };
            out.varint(1, kind);
            out.varint(2, int as u64);
            out.bytes(3, text.as_bytes());
        }
        // The zero of all that follows is an empty message, save one.
        (Custom::JsonSchemaPropsOrBool, Value::Null) => out.varint(1, 0),
        (_, Value::Null) => {}
        (Custom::Time | Custom::MicroTime, Value::String(text)) => {
            let precision = match custom {
                Custom::MicroTime => Precision::Micros,
                _ => Precision::Seconds,
            };
            let moment = Moment::parse(text, precision).map_err(|_| mismatch())?;
            if !moment.is_zero() {
                let nanos = if precision == Precision::Micros { moment.nanos } else { 0 };
                out.varint(1, moment.seconds as u64);
                out.varint(2, u64::from(nanos));
            }
        }
        (Custom::RawExtension | Custom::FieldsV1 | Custom::Json, _) => {
            out.bytes(1, value.to_string().as_bytes());
        }
        (Custom::JsonSchemaPropsOrBool, Value::Bool(allows)) => out.varint(1, u64::from(*allows)),
        (Custom::JsonSchemaPropsOrBool, Value::Object(_)) => {
            out.varint(1, 1);
            write_schema(out, 2, field, value, depth)?;
        }
        (
            Custom::JsonSchemaPropsOrArray | Custom::JsonSchemaPropsOrStringArray,
            Value::Object(_),
        ) => write_schema(out, 1, field, value, depth)?,
        (Custom::JsonSchemaPropsOrArray, Value::Array(items)) => {
            items.iter().try_for_each(|item| write_schema(out, 2, field, item, depth))?;
        }
        (Custom::JsonSchemaPropsOrStringArray, Value::Array(items)) => {
            for item in items {
                out.bytes(2, item.as_str().ok_or_else(mismatch)?.as_bytes());
            }
        }
        _ => return Err(mismatch()),
    }
    Ok(())
}

fn write_schema(
    out: &mut Writer,
    number: u32,
    field: &'static str,
    value: &Value,
    depth: usize,
) -> Done {
    let (Some(ty), Value::Object(map)) = (schema_type(), value) else {
        return Err(EncodeError::Mismatch(field));
    };
    out.nested(number, |out| write_object(out, ty, Some(map), depth))
}
