//! Operators: arithmetic, order, membership and access, with cel-go's errors.

use std::cmp::Ordering;

use crate::ast::operators;
use crate::value::compare::compare_numbers;
use crate::{Duration, Error, Value};

/// Operators of two operands that are not lazy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Binary {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    Less,
    LessEquals,
    Greater,
    GreaterEquals,
    Equals,
    NotEquals,
    In,
}

impl Binary {
    pub(crate) fn named(function: &str) -> Option<Self> {
        Some(match function {
            operators::ADD => Self::Add,
            operators::SUBTRACT => Self::Subtract,
            operators::MULTIPLY => Self::Multiply,
            operators::DIVIDE => Self::Divide,
            operators::MODULO => Self::Modulo,
            operators::LESS => Self::Less,
            operators::LESS_EQUALS => Self::LessEquals,
            operators::GREATER => Self::Greater,
            operators::GREATER_EQUALS => Self::GreaterEquals,
            operators::EQUALS => Self::Equals,
            operators::NOT_EQUALS => Self::NotEquals,
            operators::IN => Self::In,
            _ => return None,
        })
    }

    fn name(self) -> &'static str {
        match self {
            Self::Add => operators::ADD,
            Self::Subtract => operators::SUBTRACT,
            Self::Multiply => operators::MULTIPLY,
            Self::Divide => operators::DIVIDE,
            Self::Modulo => operators::MODULO,
            Self::Less => operators::LESS,
            Self::LessEquals => operators::LESS_EQUALS,
            Self::Greater => operators::GREATER,
            Self::GreaterEquals => operators::GREATER_EQUALS,
            Self::Equals => operators::EQUALS,
            Self::NotEquals => operators::NOT_EQUALS,
            Self::In => operators::IN,
        }
    }

    pub(crate) fn apply<'a>(self, a: &Value<'a>, b: &Value<'a>) -> Result<Value<'a>, Error> {
        match self {
            Self::Equals => Ok(Value::Bool(equals(a, b)?)),
            Self::NotEquals => Ok(Value::Bool(!equals(a, b)?)),
            Self::In => contains(a, b).map(Value::Bool),
            Self::Less => self.order(a, b, Ordering::is_lt),
            Self::LessEquals => self.order(a, b, Ordering::is_le),
            Self::Greater => self.order(a, b, Ordering::is_gt),
            Self::GreaterEquals => self.order(a, b, Ordering::is_ge),
            Self::Add => add(a, b),
            Self::Subtract => subtract(a, b),
            Self::Multiply => multiply(a, b),
            Self::Divide => divide(a, b),
            Self::Modulo => modulo(a, b),
        }
    }

    fn order<'a>(
        self,
        a: &Value<'_>,
        b: &Value<'_>,
        accept: fn(Ordering) -> bool,
    ) -> Result<Value<'a>, Error> {
        Ok(Value::Bool(accept(compare(a, b, self.name())?)))
    }
}

/// Equality as an operator: some values of libraries cannot be compared, and neither can undeclared
/// fields with a map.
fn equals(a: &Value<'_>, b: &Value<'_>) -> Result<bool, Error> {
    match (a, b) {
        (Value::Opaque(value), _) => value.equals(b).ok_or_else(Error::no_such_overload),
        (Value::Object(a), Value::Map(b))
            if a.size() == b.len() as u64 && a.has_undeclared_fields() =>
        {
            Err(Error::no_such_overload())
        }
        _ => Ok(a == b),
    }
}

/// The order of two values of types that have one.
pub(crate) fn compare(a: &Value<'_>, b: &Value<'_>, function: &str) -> Result<Ordering, Error> {
    match (a, b) {
        (Value::Bool(a), Value::Bool(b)) => Ok(a.cmp(b)),
        (Value::String(a), Value::String(b)) => Ok((**a).cmp(&**b)),
        (Value::Bytes(a), Value::Bytes(b)) => Ok((**a).cmp(&**b)),
        (Value::Duration(a), Value::Duration(b)) => Ok(a.cmp(b)),
        (Value::Timestamp(a), Value::Timestamp(b)) => Ok(a.cmp(b)),
        (
            Value::Int(_) | Value::Uint(_) | Value::Double(_),
            Value::Int(_) | Value::Uint(_) | Value::Double(_),
        ) => compare_numbers(a, b).ok_or_else(|| Error::new("NaN values cannot be ordered")),
        _ => {
            let comparable = matches!(
                a,
                Value::Bool(_)
                    | Value::Int(_)
                    | Value::Uint(_)
                    | Value::Double(_)
                    | Value::String(_)
                    | Value::Bytes(_)
                    | Value::Duration(_)
                    | Value::Timestamp(_)
            );
            Err(unsupported(a, comparable, function))
        }
    }
}

/// The left operand has the operator but not with this right operand; or it does not have it.
fn unsupported(left: &Value<'_>, left_has_it: bool, function: &str) -> Error {
    // Strings and times have a way of their own to look up operators.
    let receiver = matches!(left, Value::String(_) | Value::Duration(_) | Value::Timestamp(_));
    if left_has_it || receiver {
        Error::no_such_overload()
    } else {
        Error::new(format!("no such overload: {function}"))
    }
}

fn int(value: Option<i64>) -> Result<Value<'static>, Error> {
    value.map(Value::Int).ok_or_else(|| Error::new("integer overflow"))
}

fn uint(value: Option<u64>) -> Result<Value<'static>, Error> {
    value.map(Value::Uint).ok_or_else(|| Error::new("unsigned integer overflow"))
}

fn duration(value: Option<i64>) -> Result<Value<'static>, Error> {
    value
        .map(|nanos| Value::Duration(Duration(nanos)))
        .ok_or_else(|| Error::new("integer overflow"))
}

fn timestamp_overflow() -> Error {
    Error::new("timestamp overflow")
}

pub(crate) fn add<'a>(a: &Value<'a>, b: &Value<'a>) -> Result<Value<'a>, Error> {
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => int(a.checked_add(*b)),
        (Value::Uint(a), Value::Uint(b)) => uint(a.checked_add(*b)),
        (Value::Double(a), Value::Double(b)) => Ok(Value::Double(a + b)),
        (Value::String(a), Value::String(b)) => Ok(Value::from(format!("{}{}", &**a, &**b))),
        (Value::Bytes(a), Value::Bytes(b)) => Ok(Value::from([&**a, &**b].concat())),
        (Value::List(a), Value::List(b)) => Ok(Value::List(a.plus(b))),
        (Value::Duration(a), Value::Duration(b)) => duration(a.0.checked_add(b.0)),
        (Value::Timestamp(time), Value::Duration(duration))
        | (Value::Duration(duration), Value::Timestamp(time)) => {
            time.plus(*duration).map(Value::Timestamp).ok_or_else(timestamp_overflow)
        }
        _ => {
            let has = matches!(
                a,
                Value::Int(_)
                    | Value::Uint(_)
                    | Value::Double(_)
                    | Value::String(_)
                    | Value::Bytes(_)
                    | Value::List(_)
                    | Value::Duration(_)
                    | Value::Timestamp(_)
            );
            Err(unsupported(a, has, operators::ADD))
        }
    }
}

fn subtract<'a>(a: &Value<'a>, b: &Value<'a>) -> Result<Value<'a>, Error> {
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => int(a.checked_sub(*b)),
        (Value::Uint(a), Value::Uint(b)) => uint(a.checked_sub(*b)),
        (Value::Double(a), Value::Double(b)) => Ok(Value::Double(a - b)),
        (Value::Duration(a), Value::Duration(b)) => duration(a.0.checked_sub(b.0)),
        (Value::Timestamp(a), Value::Timestamp(b)) => duration(a.since(*b).map(|d| d.0)),
        (Value::Timestamp(time), Value::Duration(d)) => {
            d.0.checked_neg()
                .and_then(|nanos| time.plus(Duration(nanos)))
                .map(Value::Timestamp)
                .ok_or_else(timestamp_overflow)
        }
        _ => {
            let has = matches!(
                a,
                Value::Int(_)
                    | Value::Uint(_)
                    | Value::Double(_)
                    | Value::Duration(_)
                    | Value::Timestamp(_)
            );
            Err(unsupported(a, has, operators::SUBTRACT))
        }
    }
}

fn multiply<'a>(a: &Value<'a>, b: &Value<'a>) -> Result<Value<'a>, Error> {
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => int(a.checked_mul(*b)),
        (Value::Uint(a), Value::Uint(b)) => uint(a.checked_mul(*b)),
        (Value::Double(a), Value::Double(b)) => Ok(Value::Double(a * b)),
        _ => Err(unsupported(a, is_number(a), operators::MULTIPLY)),
    }
}

fn divide<'a>(a: &Value<'a>, b: &Value<'a>) -> Result<Value<'a>, Error> {
    match (a, b) {
        (Value::Int(_), Value::Int(0)) | (Value::Uint(_), Value::Uint(0)) => {
            Err(Error::new("division by zero"))
        }
        (Value::Int(a), Value::Int(b)) => int(a.checked_div(*b)),
        (Value::Uint(a), Value::Uint(b)) => uint(a.checked_div(*b)),
        (Value::Double(a), Value::Double(b)) => Ok(Value::Double(a / b)),
        _ => Err(unsupported(a, is_number(a), operators::DIVIDE)),
    }
}

fn modulo<'a>(a: &Value<'a>, b: &Value<'a>) -> Result<Value<'a>, Error> {
    match (a, b) {
        (Value::Int(_), Value::Int(0)) | (Value::Uint(_), Value::Uint(0)) => {
            Err(Error::new("modulus by zero"))
        }
        (Value::Int(a), Value::Int(b)) => int(a.checked_rem(*b)),
        (Value::Uint(a), Value::Uint(b)) => uint(a.checked_rem(*b)),
        _ => {
            let has = matches!(a, Value::Int(_) | Value::Uint(_));
            Err(unsupported(a, has, operators::MODULO))
        }
    }
}

fn is_number(value: &Value<'_>) -> bool {
    matches!(value, Value::Int(_) | Value::Uint(_) | Value::Double(_))
}

/// `-x`
pub(crate) fn negate<'a>(value: &Value<'_>) -> Result<Value<'a>, Error> {
    match value {
        Value::Int(value) => int(value.checked_neg()),
        Value::Double(value) => Ok(Value::Double(-value)),
        Value::Duration(value) => duration(value.0.checked_neg()),
        _ => Err(unsupported(value, false, operators::NEGATE)),
    }
}

/// `!x`
pub(crate) fn not<'a>(value: &Value<'_>) -> Result<Value<'a>, Error> {
    match value {
        Value::Bool(value) => Ok(Value::Bool(!value)),
        _ => Err(Error::no_such_overload()),
    }
}

/// `element in list`, `key in map`
fn contains(value: &Value<'_>, container: &Value<'_>) -> Result<bool, Error> {
    match container {
        Value::List(list) => Ok(list.iter().any(|element| element == *value)),
        Value::Map(map) => Ok(map.get(value).is_some()),
        Value::Object(object) => {
            Ok(value.as_str().is_some_and(|field| object.get(field).is_some()))
        }
        _ => Err(Error::no_such_overload()),
    }
}

/// The element of a list, the value of a map or the field of an object; `None` if there is none.
pub(crate) fn index<'a>(
    container: &Value<'a>,
    key: &Value<'_>,
) -> Result<Option<Value<'a>>, Error> {
    match (container, key) {
        (Value::Map(map), Value::String(key)) => Ok(map.get_str(key)),
        (Value::Map(map), _) => Ok(map.get(key)),
        (Value::Object(object), Value::String(field)) => Ok(object.get(field)),
        (Value::List(list), _) => list_index(key).map(|at| at.and_then(|at| list.get(at))),
        (Value::Opaque(value), Value::String(field)) => value.field(field).transpose(),
        _ => Ok(None),
    }
}

/// A position in a list; `None` if it is negative.
fn list_index(key: &Value<'_>) -> Result<Option<usize>, Error> {
    let unsupported = || Error::new(format!("unsupported index value {} in list", text(key)));
    match key {
        Value::Int(at) => Ok(usize::try_from(*at).ok()),
        Value::Uint(at) => match i64::try_from(*at) {
            Ok(at) => Ok(usize::try_from(at).ok()),
            Err(_) => Err(unsupported()),
        },
        Value::Double(at) if at.fract() == 0.0 && at.abs() < 9.3e18 => {
            Ok(usize::try_from(*at as i64).ok())
        }
        Value::Double(_) => Err(unsupported()),
        other => {
            let type_ = other.type_();
            Err(Error::new(format!("unsupported index type '{}' in list", type_.name())))
        }
    }
}

/// There is no such element, key or field.
pub(crate) fn missing(container: &Value<'_>, key: &Value<'_>) -> Error {
    match container {
        Value::List(_) => Error::new(format!("index out of bounds: {}", text(key))),
        _ => Error::new(format!("no such key: {}", text(key))),
    }
}

/// A value as Go's `%v` prints it in messages.
pub(crate) fn text(value: &Value<'_>) -> String {
    match value {
        Value::String(text) => text.to_string(),
        Value::Uint(value) => value.to_string(),
        Value::Double(value) => crate::library::convert::double_text(*value),
        other => format!("{other:?}"),
    }
}
