//! Zero values: what Go prints for unset fields, and which fields it omits.

use serde_json::{Map, Value};

use crate::{Custom, Field, Shape, Type};

/// Returns what Go prints for an unset field.
pub(crate) fn zero_field(field: &Field) -> Value {
    if field.pointer { Value::Null } else { zero(field.shape) }
}

/// Returns what Go prints for an unset value.
pub(crate) fn zero(shape: Shape) -> Value {
    match shape {
        Shape::String => Value::String(String::new()),
        Shape::Bool => Value::Bool(false),
        Shape::Int32 | Shape::Int64 | Shape::Double => Value::from(0),
        Shape::Bytes | Shape::List(_) | Shape::Map { .. } | Shape::Any => Value::Null,
        Shape::Struct(ty) => object(ty.get()),
        Shape::Custom(custom, _) => match custom {
            Custom::Quantity => Value::String("0".to_owned()),
            Custom::IntOrString => Value::from(0),
            Custom::JsonSchemaPropsOrBool => Value::Bool(false),
            Custom::Time
            | Custom::MicroTime
            | Custom::RawExtension
            | Custom::FieldsV1
            | Custom::Json
            | Custom::JsonSchemaPropsOrArray
            | Custom::JsonSchemaPropsOrStringArray => Value::Null,
        },
    }
}

/// Returns an empty struct.
pub(super) fn object(ty: &'static Type) -> Value {
    let mut map = Map::new();
    complete(ty, &mut map);
    Value::Object(map)
}

/// Adds the fields of a struct that Go always prints.
pub(crate) fn complete(ty: &'static Type, map: &mut Map<String, Value>) {
    for &index in &ty.always_printed {
        let field = &ty.fields[index as usize];
        if !map.contains_key(field.name) {
            map.insert(field.name.to_owned(), zero_field(field));
        }
    }
}

/// Returns whether Go omits this value of this field.
pub(crate) fn omitted(field: &Field, value: &Value) -> bool {
    if field.pointer {
        return false;
    }
    if field.omitzero && value.is_null() {
        return true;
    }
    field.omitempty
        && match (field.shape, value) {
            (Shape::Struct(_) | Shape::Custom(..), _) => false,
            (_, Value::Null | Value::Bool(false)) => true,
            (_, Value::Bool(true)) => false,
            (_, Value::Number(number)) => number.as_f64() == Some(0.0),
            (_, Value::String(text)) => text.is_empty(),
            (_, Value::Array(items)) => items.is_empty(),
            (_, Value::Object(map)) => map.is_empty(),
        }
}
