//! JSON as values, and values as JSON.

use std::any::Any;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value as Json;

use super::{List, Map, Object, Opaque};
use crate::schema::Schema;
use crate::{Duration, Error, Timestamp, Type, Value};

impl Value<'_> {
    /// The value as JSON: bytes are base64, durations and timestamps strings, and whole doubles
    /// integers. Fails for types that JSON does not have and for maps whose keys are not strings.
    pub fn to_json(&self) -> Result<Json, Error> {
        Ok(match self {
            Value::Null | Value::Optional(None) => Json::Null,
            Value::Bool(value) => Json::Bool(*value),
            Value::Int(value) => Json::from(*value),
            Value::Uint(value) => Json::from(*value),
            Value::Double(value) => number(*value)?,
            Value::String(text) => Json::from(&**text),
            Value::Bytes(bytes) => Json::from(STANDARD.encode(&**bytes)),
            Value::Duration(value) => Json::from(value.to_string()),
            Value::Timestamp(value) => Json::from(value.to_string()),
            Value::List(list) => {
                Json::Array(list.iter().map(|item| item.to_json()).collect::<Result<_, _>>()?)
            }
            Value::Map(map) => {
                let entries = map.iter().map(|(key, value)| match &key {
                    Value::String(key) => Ok((key.to_string(), value.to_json()?)),
                    other => Err(Error::new(format!(
                        "map key {other:?} is of type {}, not string",
                        other.type_().name()
                    ))),
                });
                Json::Object(entries.collect::<Result<_, _>>()?)
            }
            Value::Object(object) => {
                let fields = object.fields().into_iter();
                let fields = fields.map(|(name, value)| Ok((name.to_string(), value.to_json()?)));
                Json::Object(fields.collect::<Result<_, Error>>()?)
            }
            Value::Optional(Some(value)) => value.to_json()?,
            Value::Type(_) | Value::Opaque(_) => {
                let type_ = self.type_();
                let name = type_.name().rsplit('.').next().unwrap_or_default();
                return Err(Error::new(format!(
                    "type conversion error from '{name}' to '*structpb.Value'"
                )));
            }
        })
    }
}

/// A number without a fraction that an integer holds exactly is one.
fn number(value: f64) -> Result<Json, Error> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if value.fract() == 0.0 && value.abs() <= EXACT {
        return Ok(Json::from(value as i64));
    }
    let number = serde_json::Number::from_f64(value);
    number.map(Json::Number).ok_or_else(|| Error::new("JSON has no infinity and no NaN"))
}

impl<'a> Value<'a> {
    /// Reads JSON of a declared shape. Nothing is copied but base64 strings.
    ///
    /// Reading what does not match the shape is an error of the expression; `1.0` is no integer. Strings
    /// that are no timestamp, duration or base64 stay strings.
    pub fn with_schema(json: &'a Json, schema: &'a Schema) -> Self {
        match (json, schema) {
            (Json::Null, _) => Value::Null,
            (Json::Bool(value), Schema::Dyn | Schema::Bool) => Value::Bool(*value),
            (Json::Number(number), Schema::Double) => {
                Value::Double(number.as_f64().unwrap_or_default())
            }
            (Json::Number(number), Schema::Dyn) => match (number.as_i64(), number.as_u64()) {
                (Some(value), _) => Value::Int(value),
                (None, Some(value)) => Value::Uint(value),
                (None, None) => Value::Double(number.as_f64().unwrap_or_default()),
            },
            (Json::Number(number), Schema::Int | Schema::IntOrString) if number.is_i64() => {
                Value::Int(number.as_i64().unwrap_or_default())
            }
            (Json::String(text), Schema::Bytes) => {
                STANDARD.decode(text).map_or(Value::from(text.as_str()), Value::from)
            }
            (Json::String(text), Schema::Timestamp) => {
                let date = || Timestamp::parse(&format!("{text}T00:00:00Z"));
                let parsed = Timestamp::parse(text).or_else(date);
                parsed.map_or(Value::from(text.as_str()), Value::Timestamp)
            }
            (Json::String(text), Schema::Duration) => {
                Duration::parse(text).map_or(Value::from(text.as_str()), Value::Duration)
            }
            (Json::String(text), Schema::Dyn | Schema::IntOrString | Schema::String) => {
                Value::from(text.as_str())
            }
            (Json::Array(items), Schema::List(list)) => Value::List(List::json(items, Some(list))),
            (Json::Array(items), Schema::Dyn) => Value::List(List::json(items, None)),
            (Json::Object(map), Schema::Object(object)) => Value::Object(Object::json(map, object)),
            (Json::Object(map), Schema::Map(values)) => Value::Map(Map::json(map, values)),
            (Json::Object(map), Schema::Dyn) => Value::Map(Map::json(map, schema)),
            _ => Value::Opaque(Arc::new(Mismatch::new(json, schema))),
        }
    }
}

/// JSON that does not match its declared shape: an error when an expression reads it.
#[derive(Debug)]
struct Mismatch(String);

impl Mismatch {
    /// The error as Kubernetes' `UnstructuredToVal` returns it.
    fn new(json: &Json, schema: &Schema) -> Self {
        let invalid = |why: &str| Self(format!("invalid data, expected {why}"));
        let expected = match schema {
            Schema::Object(_) | Schema::Map(_) => {
                return invalid("a map for the provided schema with type=object");
            }
            Schema::List(_) => {
                return invalid("an array for the provided schema with type=array");
            }
            Schema::IntOrString => {
                return invalid("XIntOrString value to be either a string or integer");
            }
            Schema::Bool => "bool",
            Schema::Int => "int",
            Schema::Double => "float",
            _ => "string",
        };
        let got = match json {
            Json::Null => "<nil>",
            Json::Bool(_) => "bool",
            Json::Number(number) if number.is_i64() => "int64",
            Json::Number(_) => "float64",
            Json::String(_) => "string",
            Json::Array(_) => "[]interface {}",
            Json::Object(_) => "map[string]interface {}",
        };
        invalid(&format!("{expected}, got {got}"))
    }
}

impl Opaque for Mismatch {
    fn type_(&self) -> Type {
        Type::Error
    }

    fn equals(&self, _: &Value<'_>) -> Option<bool> {
        None
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Value<'_> {
    /// The value, or the error if it does not match its declared shape.
    pub(crate) fn checked(self) -> Result<Self, Error> {
        match &self {
            Value::Opaque(value) => match value.as_any().downcast_ref::<Mismatch>() {
                Some(Mismatch(message)) => Err(Error::new(message.clone())),
                None => Ok(self),
            },
            _ => Ok(self),
        }
    }
}
