//! The status of an object as JSON, without encoding the rest of the object.
//!
//! The types of `k8s_openapi` have no common trait for the status. All of them implement
//! `Serialize`, so a serializer extracts that one field.

use serde::Serialize;
use serde::ser::{Error as _, Impossible, SerializeMap, SerializeStruct, Serializer};
use serde_json::{Error, Value};

/// Returns the `status` of an object; `None` if it has none, or cannot be serialized.
pub(super) fn status(object: &impl Serialize) -> Option<Value> {
    object.serialize(Whole).ok().flatten()
}

/// Serializer of the object.
struct Whole;

/// Serializer of its fields.
#[derive(Default)]
struct Fields {
    status: Option<Value>,
    /// Whether the next value of a map is the status.
    next: bool,
}

const NAME: &str = "status";

macro_rules! not_an_object {
    ($($method:ident($($argument:ty),*);)*) => {
        $(fn $method(self, $(_: $argument),*) -> Result<Self::Ok, Error> {
            Ok(None)
        })*
    };
}

impl Serializer for Whole {
    type Ok = Option<Value>;
    type Error = Error;
    type SerializeSeq = Impossible<Self::Ok, Error>;
    type SerializeTuple = Impossible<Self::Ok, Error>;
    type SerializeTupleStruct = Impossible<Self::Ok, Error>;
    type SerializeTupleVariant = Impossible<Self::Ok, Error>;
    type SerializeMap = Fields;
    type SerializeStruct = Fields;
    type SerializeStructVariant = Impossible<Self::Ok, Error>;

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Fields, Error> {
        Ok(Fields::default())
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Fields, Error> {
        Ok(Fields::default())
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<Self::Ok, Error> {
        value.serialize(self)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<Self::Ok, Error> {
        value.serialize(self)
    }

    not_an_object! {
        serialize_bool(bool);
        serialize_i8(i8);
        serialize_i16(i16);
        serialize_i32(i32);
        serialize_i64(i64);
        serialize_u8(u8);
        serialize_u16(u16);
        serialize_u32(u32);
        serialize_u64(u64);
        serialize_f32(f32);
        serialize_f64(f64);
        serialize_char(char);
        serialize_str(&str);
        serialize_bytes(&[u8]);
        serialize_none();
        serialize_unit();
        serialize_unit_struct(&'static str);
        serialize_unit_variant(&'static str, u32, &'static str);
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: &T,
    ) -> Result<Self::Ok, Error> {
        Ok(None)
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Self::SerializeSeq, Error> {
        Err(Error::custom("a list"))
    }

    fn serialize_tuple(self, _: usize) -> Result<Self::SerializeTuple, Error> {
        Err(Error::custom("a list"))
    }

    fn serialize_tuple_struct(
        self,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleStruct, Error> {
        Err(Error::custom("a list"))
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleVariant, Error> {
        Err(Error::custom("a list"))
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeStructVariant, Error> {
        Err(Error::custom("a variant"))
    }
}

impl SerializeStruct for Fields {
    type Ok = Option<Value>;
    type Error = Error;

    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        name: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        if name == NAME {
            self.status = Some(serde_json::to_value(value)?);
        }
        Ok(())
    }

    fn end(self) -> Result<Self::Ok, Error> {
        Ok(self.status)
    }
}

impl SerializeMap for Fields {
    type Ok = Option<Value>;
    type Error = Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, name: &T) -> Result<(), Error> {
        self.next = serde_json::to_value(name)? == NAME;
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        if std::mem::take(&mut self.next) {
            self.status = Some(serde_json::to_value(value)?);
        }
        Ok(())
    }

    fn end(self) -> Result<Self::Ok, Error> {
        Ok(self.status)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use k8s_openapi::api::apps::v1::Deployment;
    use kube::core::DynamicObject;
    use serde_json::json;

    use super::*;

    #[test]
    fn the_status_of_structs_and_maps_is_found() {
        let object = json!({
            "metadata": { "name": "a" },
            "spec": { "selector": {}, "template": {}, "status": 1 },
            "status": { "replicas": 3 },
        });
        let encoded = json!({ "replicas": 3 });
        let typed: Deployment = serde_json::from_value(object.clone()).unwrap();
        assert_eq!(status(&typed), Some(encoded.clone()));
        // Its flattened fields are serialized as a map.
        let dynamic: DynamicObject = serde_json::from_value(object.clone()).unwrap();
        assert_eq!(status(&dynamic), Some(encoded.clone()));
        assert_eq!(status(&object), Some(encoded));
        assert_eq!(status(&Some(&BTreeMap::from([("status", 1)]))), Some(json!(1)));
        for without in [json!({}), json!([{ "status": 1 }]), json!("status"), json!(null)] {
            assert_eq!(status(&without), None);
        }
    }
}
