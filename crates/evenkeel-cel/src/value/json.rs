//! JSON as values, and values as JSON.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value as Json;

use super::{List, Map, Object};
use crate::schema::Schema;
use crate::{Duration, Timestamp, Value};

impl<'a> Value<'a> {
    /// Reads JSON of a declared shape. Nothing is copied but base64 strings.
    ///
    /// What does not match the shape keeps the type of its JSON.
    pub fn with_schema(json: &'a Json, schema: &'a Schema) -> Self {
        match (json, schema) {
            (Json::Null, _) => Value::Null,
            (Json::Bool(value), _) => Value::Bool(*value),
            (Json::Number(number), Schema::Double) => {
                Value::Double(number.as_f64().unwrap_or_default())
            }
            (Json::Number(number), _) => match (number.as_i64(), number.as_u64()) {
                (Some(value), _) => Value::Int(value),
                (None, Some(value)) => Value::Uint(value),
                (None, None) => Value::Double(number.as_f64().unwrap_or_default()),
            },
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
            (Json::String(text), _) => Value::from(text.as_str()),
            (Json::Array(items), Schema::List(list)) => Value::List(List::json(items, Some(list))),
            (Json::Array(items), _) => Value::List(List::json(items, None)),
            (Json::Object(map), Schema::Object(object)) => Value::Object(Object::json(map, object)),
            (Json::Object(map), Schema::Map(values)) => Value::Map(Map::json(map, values)),
            (Json::Object(map), _) => Value::Map(Map::json(map, &Schema::Dyn)),
        }
    }
}
