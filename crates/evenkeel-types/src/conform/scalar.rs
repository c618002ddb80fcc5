//! Scalars: range checks and canonical forms.

use serde_json::{Number, Value};

use super::mismatch::{Place, TypeMismatch};
use crate::quantity::{self, ParseError};
use crate::time::{self, Precision, Timestamp};
use crate::{Custom, base64};

/// Go does not decode numbers with a fraction or an exponent as integers, not even `1.0`.
pub(super) fn integer(number: &mut Number, narrow: bool) -> Result<(), String> {
    match number.as_i64() {
        Some(integer) if !narrow || i32::try_from(integer).is_ok() => Ok(()),
        // `-0` is the only integer that JSON decoders represent as a float.
        None if number.as_f64() == Some(0.0) => {
            *number = Number::from(0);
            Ok(())
        }
        _ => Err(number_text(number)),
    }
}

/// Formats a number as it was written: JSON decoders represent large integers as floats.
fn number_text(number: &Number) -> String {
    match number.as_f64() {
        Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() >= 1e16 => {
            float.to_string()
        }
        _ => number.to_string(),
    }
}

/// Go prints a whole float without a fraction, and an integer with the precision of a float.
pub(super) fn double(number: &mut Number) {
    let Some(float) = number.as_f64() else { return };
    if let Some(printed) = print_double(float)
        && printed != *number
    {
        *number = printed;
    }
}

/// Numbers in free-form JSON are decoded and printed again, too.
pub(super) fn free_form(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => double(number),
        Value::Array(items) => items.iter_mut().for_each(free_form),
        Value::Object(map) => map.values_mut().for_each(free_form),
        _ => {}
    }
}

pub(crate) fn print_double(float: f64) -> Option<Number> {
    const EXACT: f64 = 9_223_372_036_854_775_808.0;
    if float.fract() == 0.0 && (-EXACT..EXACT).contains(&float) {
        return Some(Number::from(float as i64));
    }
    Number::from_f64(float)
}

pub(super) fn bytes(value: &mut Value, at: &Place<'_>) -> Result<(), TypeMismatch> {
    let plain = match value {
        Value::String(text) => match base64::is_canonical(text) {
            Ok(true) => return Ok(()),
            Ok(false) => base64::decode(text),
            Err(error) => Err(error),
        }
        .map_err(|error| TypeMismatch::new(error.to_string()))?,
        // Go also decodes a list of numbers as bytes.
        Value::Array(items) => items
            .iter()
            .map(|item| match item {
                Value::Null => Ok(0),
                Value::Number(number) => number
                    .as_u64()
                    .and_then(|number| u8::try_from(number).ok())
                    .ok_or_else(|| at.cannot_unmarshal(&format!("number {number}"), "uint8")),
                _ => Err(at.mismatch(item, "uint8")),
            })
            .collect::<Result<_, _>>()?,
        _ => return Err(at.mismatch(value, "[]uint8")),
    };
    *value = Value::String(base64::encode(&plain));
    Ok(())
}

pub(super) fn time(custom: Custom, value: &mut Value, at: &Place<'_>) -> Result<(), TypeMismatch> {
    let Value::String(text) = value else {
        return Err(at.mismatch(value, "string"));
    };
    let precision = match custom {
        Custom::MicroTime => Precision::Micros,
        _ if time::is_canonical(text) => return Ok(()),
        _ => Precision::Seconds,
    };
    let timestamp =
        Timestamp::parse(text, precision).map_err(|error| TypeMismatch::new(error.to_string()))?;
    *value = print_time(timestamp, precision);
    Ok(())
}

/// Go prints its zero time as null, even if the field is not omitted.
pub(crate) fn print_time(timestamp: Timestamp, precision: Precision) -> Value {
    if timestamp.is_zero() {
        return Value::Null;
    }
    Value::String(timestamp.display(precision).to_string())
}

pub(super) fn quantity(value: &mut Value) -> Result<(), TypeMismatch> {
    let mismatch = |error: ParseError| TypeMismatch::new(error.to_string());
    let printed = match value {
        Value::String(text) => {
            let canonical = quantity::canonicalize(text.trim()).map_err(mismatch)?;
            if canonical == *text {
                return Ok(());
            }
            canonical.into_owned()
        }
        Value::Number(number) => {
            quantity::canonicalize(&number_text(number)).map_err(mismatch)?.into_owned()
        }
        _ => return Err(mismatch(ParseError::Format)),
    };
    *value = Value::String(printed);
    Ok(())
}

pub(super) fn int_or_string(value: &mut Value, at: &Place<'_>) -> Result<(), TypeMismatch> {
    match value {
        Value::String(_) => Ok(()),
        Value::Number(number) => integer(number, true)
            .map_err(|text| at.cannot_unmarshal(&format!("number {text}"), "int32")),
        _ => Err(at.mismatch(value, "int32")),
    }
}
