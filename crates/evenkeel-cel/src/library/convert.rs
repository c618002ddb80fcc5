//! Conversions between types, as Go's `strconv` and `fmt` make them.

use std::sync::Arc;

use crate::value::{Bytes, Str};
use crate::{Duration, Error, Function, Overload, Timestamp, Type, Value};

/// The name of a function, its result, and the ids and arguments of its overloads.
type Conversions<'c> = (&'static str, Type, &'c [(&'static str, Type)]);

/// `int`, `uint`, `double`, `bool`, `string`, `bytes`, `duration`, `timestamp`, `type` and `dyn`.
pub(super) fn functions() -> Vec<Function> {
    let table: [Conversions<'_>; 8] = [
        ("bool", Type::Bool, &[("bool_to_bool", Type::Bool), ("string_to_bool", Type::String)]),
        (
            "bytes",
            Type::Bytes,
            &[("bytes_to_bytes", Type::Bytes), ("string_to_bytes", Type::String)],
        ),
        (
            "double",
            Type::Double,
            &[
                ("double_to_double", Type::Double),
                ("int64_to_double", Type::Int),
                ("string_to_double", Type::String),
                ("uint64_to_double", Type::Uint),
            ],
        ),
        (
            "duration",
            Type::Duration,
            &[
                ("duration_to_duration", Type::Duration),
                ("int64_to_duration", Type::Int),
                ("string_to_duration", Type::String),
            ],
        ),
        (
            "int",
            Type::Int,
            &[
                ("int64_to_int64", Type::Int),
                ("double_to_int64", Type::Double),
                ("duration_to_int64", Type::Duration),
                ("string_to_int64", Type::String),
                ("timestamp_to_int64", Type::Timestamp),
                ("uint64_to_int64", Type::Uint),
            ],
        ),
        (
            "string",
            Type::String,
            &[
                ("string_to_string", Type::String),
                ("bool_to_string", Type::Bool),
                ("bytes_to_string", Type::Bytes),
                ("double_to_string", Type::Double),
                ("duration_to_string", Type::Duration),
                ("int64_to_string", Type::Int),
                ("timestamp_to_string", Type::Timestamp),
                ("uint64_to_string", Type::Uint),
            ],
        ),
        (
            "timestamp",
            Type::Timestamp,
            &[
                ("timestamp_to_timestamp", Type::Timestamp),
                ("int64_to_timestamp", Type::Int),
                ("string_to_timestamp", Type::String),
            ],
        ),
        (
            "uint",
            Type::Uint,
            &[
                ("uint64_to_uint64", Type::Uint),
                ("double_to_uint64", Type::Double),
                ("int64_to_uint64", Type::Int),
                ("string_to_uint64", Type::String),
            ],
        ),
    ];
    let mut functions = Vec::new();
    for (name, result, overloads) in table {
        let mut function = Function::new(name);
        for (id, argument) in overloads {
            let overload = match name {
                "bool" => Overload::global(id, [argument.clone()], result.clone(), to_bool),
                "bytes" => Overload::global(id, [argument.clone()], result.clone(), to_bytes),
                "double" => Overload::global(id, [argument.clone()], result.clone(), to_double),
                "duration" => Overload::global(id, [argument.clone()], result.clone(), to_duration),
                "int" => Overload::global(id, [argument.clone()], result.clone(), to_int),
                "string" => Overload::global(id, [argument.clone()], result.clone(), to_string),
                "timestamp" => {
                    Overload::global(id, [argument.clone()], result.clone(), to_timestamp)
                }
                _ => Overload::global(id, [argument.clone()], result.clone(), to_uint),
            };
            function = function.overload(overload);
        }
        functions.push(function);
    }
    let any = Type::param("A");
    functions.push(Function::new("type").overload(Overload::global(
        "type",
        [any.clone()],
        Type::type_of(any.clone()),
        |arguments| Ok(Value::from(argument(arguments)?.type_())),
    )));
    functions.push(Function::new("dyn").overload(Overload::global(
        "to_dyn",
        [any],
        Type::Dyn,
        |arguments| argument(arguments).cloned(),
    )));
    functions
}

fn argument<'v, 'a>(arguments: &'v [Value<'a>]) -> Result<&'v Value<'a>, Error> {
    arguments.first().ok_or_else(Error::no_such_overload)
}

fn failed(value: &Value<'_>, target: &Type) -> Error {
    let from = value.type_();
    Error::new(format!("type conversion error from '{}' to '{}'", from.name(), target.name()))
}

fn to_bool<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let value = argument(arguments)?;
    match value {
        Value::Bool(_) => Ok(value.clone()),
        Value::String(text) => match &**text {
            "1" | "t" | "T" | "TRUE" | "true" | "True" => Ok(Value::Bool(true)),
            "0" | "f" | "F" | "FALSE" | "false" | "False" => Ok(Value::Bool(false)),
            _ => Err(failed(value, &Type::Bool)),
        },
        _ => Err(failed(value, &Type::Bool)),
    }
}

fn to_bytes<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let value = argument(arguments)?;
    match value {
        Value::Bytes(_) => Ok(value.clone()),
        Value::String(Str::Borrowed(text)) => Ok(Value::Bytes(Bytes::Borrowed(text.as_bytes()))),
        Value::String(Str::Shared(text)) => {
            Ok(Value::Bytes(Bytes::Shared(Arc::<[u8]>::from(text.clone()))))
        }
        _ => Err(failed(value, &Type::Bytes)),
    }
}

fn to_double<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let value = argument(arguments)?;
    match value {
        Value::Double(_) => Ok(value.clone()),
        Value::Int(number) => Ok(Value::Double(*number as f64)),
        Value::Uint(number) => Ok(Value::Double(*number as f64)),
        Value::String(text) => {
            parse_double(text).map(Value::Double).ok_or_else(|| failed(value, &Type::Double))
        }
        _ => Err(failed(value, &Type::Double)),
    }
}

/// Go's `strconv.ParseFloat`: decimal and hexadecimal numbers, infinities and `NaN`; overflows fail.
pub(crate) fn parse_double(text: &str) -> Option<f64> {
    let digits = text.bytes().any(|byte| byte.is_ascii_digit());
    let plain;
    let text = match digits && text.contains('_') {
        true if text.contains("__") || text.starts_with('_') || text.ends_with('_') => return None,
        true => {
            plain = text.replace('_', "");
            plain.as_str()
        }
        false => text,
    };
    let (sign, magnitude) = match text.as_bytes().first()? {
        b'-' => (-1.0, &text[1..]),
        b'+' => (1.0, &text[1..]),
        _ => (1.0, text),
    };
    if let Some(hex) = magnitude.strip_prefix("0x").or_else(|| magnitude.strip_prefix("0X")) {
        return parse_hex(hex).map(|value| sign * value).filter(|value| value.is_finite());
    }
    let value: f64 = text.parse().ok()?;
    (value.is_finite() || !digits).then_some(value)
}

/// `1.8p3`: hexadecimal digits and a power of two.
fn parse_hex(text: &str) -> Option<f64> {
    let (mantissa, exponent) = text.split_once(['p', 'P'])?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let exponent: i32 = exponent.parse().ok()?;
    let mut value = 0.0;
    for digit in whole.chars().chain(fraction.chars()) {
        value = value * 16.0 + f64::from(digit.to_digit(16)?);
    }
    let shift = i32::try_from(fraction.len()).ok()?.checked_mul(4)?;
    let valid = !whole.is_empty() || !fraction.is_empty();
    valid.then(|| value * 2f64.powi(exponent.saturating_sub(shift)))
}

fn to_duration<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let value = argument(arguments)?;
    match value {
        Value::Duration(_) => Ok(value.clone()),
        Value::String(text) => {
            Duration::parse(text).map(Value::Duration).ok_or_else(|| failed(value, &Type::Duration))
        }
        _ => Err(failed(value, &Type::Duration)),
    }
}

fn to_int<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let value = argument(arguments)?;
    let overflow = || Error::new("integer overflow");
    match value {
        Value::Int(_) => Ok(value.clone()),
        Value::Uint(number) => i64::try_from(*number).map(Value::Int).map_err(|_| overflow()),
        // The limits themselves are excluded, as doubles near them are not exact.
        Value::Double(number) if *number > i64::MIN as f64 && *number < i64::MAX as f64 => {
            Ok(Value::Int(*number as i64))
        }
        Value::Double(_) => Err(overflow()),
        Value::Duration(duration) => Ok(Value::Int(duration.0)),
        Value::Timestamp(time) => Ok(Value::Int(time.seconds())),
        Value::String(text) => text.parse().map(Value::Int).map_err(|_| failed(value, &Type::Int)),
        _ => Err(failed(value, &Type::Int)),
    }
}

fn to_uint<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let value = argument(arguments)?;
    let overflow = || Error::new("unsigned integer overflow");
    match value {
        Value::Uint(_) => Ok(value.clone()),
        Value::Int(number) => u64::try_from(*number).map(Value::Uint).map_err(|_| overflow()),
        Value::Double(number) if *number >= 0.0 && *number < u64::MAX as f64 => {
            Ok(Value::Uint(*number as u64))
        }
        Value::Double(_) => Err(overflow()),
        Value::String(text) if !text.starts_with('+') => {
            text.parse().map(Value::Uint).map_err(|_| failed(value, &Type::Uint))
        }
        _ => Err(failed(value, &Type::Uint)),
    }
}

fn to_timestamp<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let value = argument(arguments)?;
    match value {
        Value::Timestamp(_) => Ok(value.clone()),
        Value::Int(seconds) => Timestamp::new(*seconds, 0)
            .map(Value::Timestamp)
            .ok_or_else(|| Error::new("timestamp overflow")),
        Value::String(text) => Timestamp::parse(text)
            .map(Value::Timestamp)
            .ok_or_else(|| failed(value, &Type::Timestamp)),
        _ => Err(failed(value, &Type::Timestamp)),
    }
}

pub(crate) fn to_string<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>, Error> {
    let value = argument(arguments)?;
    Ok(Value::from(match value {
        Value::String(_) => return Ok(value.clone()),
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Uint(value) => value.to_string(),
        Value::Double(value) => double_text(*value),
        Value::Duration(value) => value.to_string(),
        Value::Timestamp(value) => value.to_string(),
        Value::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => text.to_owned(),
            Err(_) => return Err(Error::new("invalid UTF-8 in bytes, cannot convert to string")),
        },
        other => return Err(failed(other, &Type::String)),
    }))
}

/// A double as Go's `%g` prints it.
pub(crate) fn double_text(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    // Rust's exponential format has the shortest digits, as Go's.
    let text = format!("{value:e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if !(-4..6).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{digits}e{sign}{:02}", exponent.unsigned_abs());
    }
    format!("{value}")
}
