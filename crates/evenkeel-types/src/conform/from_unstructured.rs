//! Validates the conversion of untyped values to a Go struct, as `DefaultUnstructuredConverter`
//! does for strategic merge patches. It accepts the same values as decoding JSON, with different
//! error messages.

use serde_json::Value;

use super::mismatch::{Place, TypeMismatch};
use super::scalar;
use crate::{Custom, Expr, Shape, Type, go};

/// Validates that `object` can be converted to the Go type.
///
/// # Errors
///
/// If it cannot be converted; with the API server's message.
pub fn check_unstructured(ty: &'static Type, object: &Value) -> Result<(), TypeMismatch> {
    let Value::Object(map) = object else {
        return mismatch(format!("cannot restore struct from: {}", kind(object)));
    };
    for field in &ty.fields {
        match map.get(field.name) {
            None | Some(Value::Null) => {}
            Some(value) => check_value(field.expr, field.shape, value)?,
        }
    }
    Ok(())
}

fn check_value(expr: Expr, shape: Shape, value: &Value) -> Result<(), TypeMismatch> {
    let items = |element: Expr| {
        let shape = element.shape();
        move |item: &Value| match item {
            Value::Null => Ok(()),
            item => check_value(element, shape, item),
        }
    };
    match (shape, value) {
        (Shape::String, Value::String(_)) | (Shape::Bool, Value::Bool(_)) | (Shape::Any, _) => {
            Ok(())
        }
        (Shape::Int32 | Shape::Int64 | Shape::Double, Value::Number(number)) => {
            let whole = number.as_f64().is_some_and(|float| float.fract() == 0.0);
            if whole || shape == Shape::Double { Ok(()) } else { cannot_convert(value, expr) }
        }
        // Go can convert an integer to a string, as a code point.
        (Shape::String, Value::Number(number)) if number.is_i64() => cannot_convert(value, expr),
        (Shape::String, _) => unrecognized("string"),
        (Shape::Bool, _) => unrecognized("bool"),
        (Shape::Int32, _) => unrecognized("int32"),
        (Shape::Int64, _) => unrecognized("int64"),
        (Shape::Double, _) => unrecognized("float64"),
        (Shape::Bytes, Value::String(_)) => scalar::bytes(&mut value.clone(), &Place::Root)
            .map_err(|why| TypeMismatch::new(format!("error decoding from json: {why}"))),
        (Shape::Bytes, Value::Array(_)) => scalar::bytes(&mut value.clone(), &Place::Root),
        (Shape::List(element), Value::Array(list)) => list.iter().try_for_each(items(element)),
        (Shape::Bytes | Shape::List(_), _) => {
            mismatch(format!("cannot restore slice from {}", kind(value)))
        }
        (Shape::Map { value: element, .. }, Value::Object(map)) => {
            map.values().try_for_each(items(element))
        }
        (Shape::Map { .. }, _) => mismatch(format!("cannot restore map from {}", kind(value))),
        (Shape::Struct(ty), _) => check_unstructured(ty.get(), value),
        (Shape::Custom(custom, _), _) => check_custom(custom, value),
    }
}

/// Types that decode their own JSON are decoded from JSON.
fn check_custom(custom: Custom, value: &Value) -> Result<(), TypeMismatch> {
    let (mut value, at) = (value.clone(), Place::Root);
    match custom {
        Custom::Time | Custom::MicroTime => scalar::time(custom, &mut value, &at),
        Custom::Quantity => scalar::quantity(&mut value),
        Custom::IntOrString => scalar::int_or_string(&mut value, &at),
        Custom::RawExtension
        | Custom::FieldsV1
        | Custom::Json
        | Custom::JsonSchemaPropsOrArray
        | Custom::JsonSchemaPropsOrBool
        | Custom::JsonSchemaPropsOrStringArray => Ok(()),
    }
}

fn cannot_convert(value: &Value, expr: Expr) -> Result<(), TypeMismatch> {
    mismatch(format!("cannot convert {} to {}", go::type_name(value), expr.go_type()))
}

fn unrecognized(kind: &str) -> Result<(), TypeMismatch> {
    mismatch(format!("unrecognized type: {kind}"))
}

fn mismatch(why: String) -> Result<(), TypeMismatch> {
    Err(TypeMismatch::new(why))
}

/// Returns the `reflect.Kind` of a decoded JSON value.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Array(_) => "slice",
        Value::Object(_) => "map",
        other => go::type_name(other),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{Gvk, lookup};

    #[test]
    fn values_of_the_wrong_type_have_messages_of_the_converter() {
        let config_map = lookup(Gvk::new("", "v1", "ConfigMap")).unwrap();
        for (object, why) in [
            (json!({"data": {"a": 5}}), "cannot convert int64 to string"),
            (json!({"data": {"a": true}}), "unrecognized type: string"),
            (json!({"data": {"a": 1.5}}), "unrecognized type: string"),
            (json!({"data": [1]}), "cannot restore map from slice"),
            (json!({"immutable": "x"}), "unrecognized type: bool"),
            (json!({"metadata": "x"}), "cannot restore struct from: string"),
            (json!({"metadata": {"finalizers": {}}}), "cannot restore slice from map"),
            (json!({"binaryData": {"q": 5}}), "cannot restore slice from int64"),
            (
                json!({"binaryData": {"q": "not base64!"}}),
                "error decoding from json: illegal base64 data at input byte 3",
            ),
            (
                json!({"metadata": {"creationTimestamp": 5}}),
                "json: cannot unmarshal number into Go value of type string",
            ),
        ] {
            assert_eq!(
                check_unstructured(config_map, &object).unwrap_err().to_string(),
                why,
                "{object}"
            );
        }
        let fine = json!({"data": {"a": "b", "c": null}, "immutable": null, "unknown": [5]});
        assert_eq!(check_unstructured(config_map, &fine), Ok(()));
    }
}
