//! Decodes JSON into a Go struct and encodes it again, as one walk in place: unknown fields are
//! removed, zero values are removed or added as Go omits or prints them, and quantities, times and
//! bytes become canonical.
//!
//! A valid field costs a lookup and no allocation. The depth of the recursion is that of the value,
//! which the JSON decoder limits.

mod empty;
mod from_unstructured;
mod mismatch;
mod scalar;
#[cfg(test)]
mod tests;
mod zero;

use std::fmt;

use serde_json::{Map, Value};

use crate::go::Quoted;
use crate::{Custom, Expr, Shape, Type};
pub use empty::empty_to_null;
pub use from_unstructured::check_unstructured;
use mismatch::Place;
pub use mismatch::TypeMismatch;
pub(crate) use scalar::{print_double, print_time};
use zero::zero_field;
pub(crate) use zero::{complete, omitted, zero};

/// Maximum number of errors that the strict decoder collects.
const STRICT_ERRORS_MAX: usize = 100;

/// An error of the strict decoder; the lenient decoder ignores it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StrictDecodingError {
    /// The type has no such field; contains its path, such as `spec.containers[0].imag`.
    UnknownField(String),
}

impl fmt::Display for StrictDecodingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownField(path) => write!(f, "unknown field {}", Quoted(path)),
        }
    }
}

/// Conforms `object` to the Go type. Returns the errors that a strict decoder would report.
///
/// # Errors
///
/// If a value cannot be decoded; `object` is then partially converted.
pub fn conform(
    ty: &'static Type,
    object: &mut Value,
) -> Result<Vec<StrictDecodingError>, TypeMismatch> {
    let mut walk = Walk { strict_errors: Vec::new(), lenient: 0 };
    walk.object(ty, object, &Place::Root)?;
    Ok(walk.strict_errors)
}

struct Walk {
    strict_errors: Vec<StrictDecodingError>,
    /// Nesting depth in types that decode their own JSON, which is never strict.
    lenient: u32,
}

impl Walk {
    fn object(
        &mut self,
        ty: &'static Type,
        value: &mut Value,
        at: &Place<'_>,
    ) -> Result<(), TypeMismatch> {
        match value {
            Value::Object(map) => self.fields(ty, map, at),
            // Go ignores null for a struct.
            Value::Null => {
                *value = zero::object(ty);
                Ok(())
            }
            _ => Err(at.mismatch(value, &ty.go_type())),
        }
    }

    fn fields(
        &mut self,
        ty: &'static Type,
        map: &mut Map<String, Value>,
        at: &Place<'_>,
    ) -> Result<(), TypeMismatch> {
        let (mut seen, mut dropped, mut unknown) = (0_u128, 0_u128, false);
        for (key, value) in map.iter_mut() {
            let Some(index) = ty.field_index(key) else {
                unknown = true;
                self.unknown(key, at);
                continue;
            };
            let field = &ty.fields[index];
            seen |= 1 << index;
            if value.is_null() {
                if field.is_always_printed() {
                    *value = zero_field(field);
                } else {
                    dropped |= 1 << index;
                }
                continue;
            }
            self.value(
                field.expr,
                field.shape,
                value,
                &Place::Field { of: ty, field, parent: at },
            )?;
            if omitted(field, value) {
                dropped |= 1 << index;
            }
        }
        if unknown || dropped != 0 {
            map.retain(|key, _| ty.field_index(key).is_some_and(|index| dropped >> index & 1 == 0));
        }
        for &index in &ty.always_printed {
            if seen >> index & 1 == 0 {
                let field = &ty.fields[index as usize];
                map.insert(field.name.to_owned(), zero_field(field));
            }
        }
        Ok(())
    }

    /// Conforms a present value that is not null.
    fn value(
        &mut self,
        expr: Expr,
        shape: Shape,
        value: &mut Value,
        at: &Place<'_>,
    ) -> Result<(), TypeMismatch> {
        match (shape, &mut *value) {
            (Shape::String, Value::String(_)) | (Shape::Bool, Value::Bool(_)) | (Shape::Any, _) => {
                Ok(())
            }
            (Shape::Int32 | Shape::Int64, Value::Number(number)) => {
                scalar::integer(number, shape == Shape::Int32)
                    .map_err(|text| at.number(&text, expr))
            }
            (Shape::Double, Value::Number(number)) => {
                scalar::double(number);
                Ok(())
            }
            (Shape::Bytes, Value::String(_) | Value::Array(_)) => scalar::bytes(value, at),
            (Shape::Struct(ty), _) => self.object(ty.get(), value, at),
            (Shape::Custom(custom, _), _) => self.custom(custom, value, at),
            (Shape::List(element), Value::Array(items)) => {
                let shape = element.shape();
                for (index, item) in items.iter_mut().enumerate() {
                    self.element(element, shape, item, &Place::Index { index, parent: at })?;
                }
                Ok(())
            }
            (Shape::Map { value: element, .. }, Value::Object(map)) => {
                let shape = element.shape();
                for (key, item) in map.iter_mut() {
                    self.element(element, shape, item, &Place::Key { key, parent: at })?;
                }
                Ok(())
            }
            _ => Err(at.mismatch(value, &expr.go_type())),
        }
    }

    fn element(
        &mut self,
        expr: Expr,
        shape: Shape,
        value: &mut Value,
        at: &Place<'_>,
    ) -> Result<(), TypeMismatch> {
        if value.is_null() {
            *value = zero(shape);
            return Ok(());
        }
        self.value(expr, shape, value, at)
    }

    fn custom(
        &mut self,
        custom: Custom,
        value: &mut Value,
        at: &Place<'_>,
    ) -> Result<(), TypeMismatch> {
        match custom {
            Custom::Time | Custom::MicroTime => scalar::time(custom, value, at),
            Custom::Quantity => scalar::quantity(value),
            Custom::IntOrString => scalar::int_or_string(value, at),
            Custom::RawExtension | Custom::FieldsV1 => Ok(()),
            Custom::Json => {
                scalar::free_form(value);
                Ok(())
            }
            Custom::JsonSchemaPropsOrArray
            | Custom::JsonSchemaPropsOrBool
            | Custom::JsonSchemaPropsOrStringArray => {
                self.lenient += 1;
                let done = self.schema(custom, value, at);
                self.lenient -= 1;
                done
            }
        }
    }

    fn schema(
        &mut self,
        custom: Custom,
        value: &mut Value,
        at: &Place<'_>,
    ) -> Result<(), TypeMismatch> {
        let Some(schema) = crate::table::schema_type() else { return Ok(()) };
        match (custom, &mut *value) {
            (_, Value::Object(map)) => return self.fields(schema, map, at),
            (Custom::JsonSchemaPropsOrBool, Value::Bool(_)) => return Ok(()),
            (Custom::JsonSchemaPropsOrBool, _) => {
                return Err(TypeMismatch::new("boolean or JSON schema expected"));
            }
            (_, Value::Array(items)) if !items.is_empty() => {
                for (index, item) in items.iter_mut().enumerate() {
                    let at = Place::Index { index, parent: at };
                    match (custom, &*item) {
                        (Custom::JsonSchemaPropsOrArray, _) => self.object(schema, item, &at)?,
                        (_, Value::String(_)) => {}
                        (_, Value::Null) => *item = zero(Shape::String),
                        _ => return Err(at.mismatch(item, "string")),
                    }
                }
                return Ok(());
            }
            _ => {}
        }
        // Other values decode to nothing.
        *value = Value::Null;
        Ok(())
    }

    fn unknown(&mut self, key: &str, at: &Place<'_>) {
        if self.lenient > 0 || self.strict_errors.len() >= STRICT_ERRORS_MAX {
            return;
        }
        self.strict_errors.push(StrictDecodingError::UnknownField(at.child_path(key)));
    }
}
