//! A serde deserializer over parsed JSON that decodes `null` as the zero value of each type.

use std::collections::BTreeSet;

use serde::de::value::{
    BorrowedStrDeserializer, MapDeserializer, SeqDeserializer, UnitDeserializer,
};
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error as _, MapAccess, SeqAccess, VariantAccess,
    Visitor,
};
use serde_json::{Map, Value};

use super::Problem;

/// Go's zero time.
const ZERO_TIME: &str = "0001-01-01T00:00:00Z";

/// The newtype name that serde_json uses for unparsed JSON.
const RAW: &str = "$serde_json::private::RawValue";

/// A value to deserialize.
#[derive(Clone, Copy)]
pub(super) struct Node<'a> {
    pub(super) value: &'a Value,
    /// Required fields, whose `null` becomes the zero value instead of being skipped.
    pub(super) zeroed: &'a BTreeSet<&'static str>,
}

impl<'a> Node<'a> {
    fn with(self, value: &'a Value) -> Self {
        Self { value, ..self }
    }

    /// Visits a map, or a struct, whose nulls are left out.
    fn visit_fields<V: Visitor<'a>>(
        self,
        fields: &'a Map<String, Value>,
        of_struct: bool,
        visitor: V,
    ) -> Result<V::Value, Problem> {
        visitor.visit_map(Fields { node: self, fields: fields.iter(), of_struct, next: None })
    }
}

macro_rules! zero {
    ($($method:ident => $visit:ident($zero:expr)),* $(,)?) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
            match self.value {
                Value::Null => visitor.$visit($zero),
                _ => self.deserialize_any(visitor),
            }
        }
    )*};
}

impl<'de> Deserializer<'de> for Node<'de> {
    type Error = Problem;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        match self.value {
            Value::Null => visitor.visit_unit(),
            Value::String(text) => visitor.visit_borrowed_str(text),
            Value::Array(items) => visitor.visit_seq(Items { node: self, items: items.iter() }),
            Value::Object(fields) => self.visit_fields(fields, false, visitor),
            Value::Bool(_) | Value::Number(_) => {
                self.value.deserialize_any(visitor).map_err(Problem::custom)
            }
        }
    }

    zero! {
        deserialize_bool => visit_bool(false),
        deserialize_i8 => visit_i8(0),
        deserialize_i16 => visit_i16(0),
        deserialize_i32 => visit_i32(0),
        deserialize_i64 => visit_i64(0),
        deserialize_i128 => visit_i128(0),
        deserialize_u8 => visit_u8(0),
        deserialize_u16 => visit_u16(0),
        deserialize_u32 => visit_u32(0),
        deserialize_u64 => visit_u64(0),
        deserialize_u128 => visit_u128(0),
        deserialize_f32 => visit_f32(0.0),
        deserialize_f64 => visit_f64(0.0),
        deserialize_char => visit_borrowed_str(""),
        deserialize_str => visit_borrowed_str(""),
        deserialize_string => visit_borrowed_str(""),
        deserialize_identifier => visit_borrowed_str(""),
        deserialize_bytes => visit_borrowed_bytes(b""),
        deserialize_byte_buf => visit_borrowed_bytes(b""),
        deserialize_seq => visit_seq(SeqDeserializer::new(std::iter::empty::<()>())),
        deserialize_map => visit_map(MapDeserializer::new(std::iter::empty::<((), ())>())),
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        match self.value {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    serde::forward_to_deserialize_any! { unit unit_struct }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Problem> {
        match (name, self.value) {
            (RAW, value) => {
                value.deserialize_newtype_struct(name, visitor).map_err(Problem::custom)
            }
            ("Time" | "MicroTime", Value::Null) => {
                visitor.visit_newtype_struct(BorrowedStrDeserializer::new(ZERO_TIME))
            }
            ("Quantity", Value::Null) => visitor.visit_i64(0),
            _ => visitor.visit_newtype_struct(self),
        }
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Problem> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, Problem> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Problem> {
        match self.value {
            Value::Object(fields) => self.visit_fields(fields, true, visitor),
            _ => self.deserialize_map(visitor),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Problem> {
        match self.value {
            Value::Null => visitor.visit_enum(Variant { name: "", content: None }),
            Value::String(name) => visitor.visit_enum(Variant { name, content: None }),
            Value::Object(fields) if fields.len() == 1 => {
                let mut fields = fields.iter();
                match fields.next() {
                    Some((name, value)) => {
                        visitor.visit_enum(Variant { name, content: Some(self.with(value)) })
                    }
                    None => Err(Problem::custom("an enum without a variant")),
                }
            }
            _ => Err(Problem::custom("neither a variant nor an object with one")),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        visitor.visit_unit()
    }
}

/// The items of a list.
struct Items<'a> {
    node: Node<'a>,
    items: std::slice::Iter<'a, Value>,
}

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = Problem;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Problem> {
        let Some(value) = self.items.next() else { return Ok(None) };
        seed.deserialize(self.node.with(value)).map(Some)
    }
}

/// The fields of a struct, or the pairs of a map.
struct Fields<'a> {
    node: Node<'a>,
    fields: serde_json::map::Iter<'a>,
    /// Whether nulls are skipped.
    of_struct: bool,
    next: Option<&'a Value>,
}

impl<'de> MapAccess<'de> for Fields<'de> {
    type Error = Problem;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Problem> {
        for (name, value) in self.fields.by_ref() {
            if self.of_struct && value.is_null() && !self.node.zeroed.contains(name.as_str()) {
                continue;
            }
            self.next = Some(value);
            return seed.deserialize(BorrowedStrDeserializer::new(name)).map(Some);
        }
        Ok(None)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Problem> {
        let value = self.next.take().ok_or_else(|| Problem::custom("a value without a key"))?;
        seed.deserialize(self.node.with(value))
    }
}

/// A variant of an enum with its content.
struct Variant<'a> {
    name: &'a str,
    content: Option<Node<'a>>,
}

impl<'de> EnumAccess<'de> for Variant<'de> {
    type Error = Problem;
    type Variant = Content<'de>;

    fn variant_seed<V: DeserializeSeed<'de>>(
        self,
        seed: V,
    ) -> Result<(V::Value, Content<'de>), Problem> {
        let name = seed.deserialize(BorrowedStrDeserializer::new(self.name))?;
        Ok((name, Content(self.content)))
    }
}

struct Content<'a>(Option<Node<'a>>);

impl<'a> Content<'a> {
    fn node(self) -> Result<Node<'a>, Problem> {
        self.0.ok_or_else(|| Problem::custom("a variant without content"))
    }
}

impl<'de> VariantAccess<'de> for Content<'de> {
    type Error = Problem;

    fn unit_variant(self) -> Result<(), Problem> {
        match self.0 {
            Some(node) => serde::Deserialize::deserialize(node),
            None => Ok(()),
        }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Problem> {
        match self.0 {
            Some(node) => seed.deserialize(node),
            None => seed.deserialize(UnitDeserializer::new()),
        }
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Problem> {
        self.node()?.deserialize_seq(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Problem> {
        self.node()?.deserialize_struct("", fields, visitor)
    }
}
