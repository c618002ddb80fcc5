//! Declared shapes of JSON, which give the parts of a JSON document their types.
//!
//! A [`Schema`] does what Kubernetes' `DeclType` and `UnstructuredToVal` do together: its
//! [`type_`](Schema::type_) is what the checker infers, and [`Value::with_schema`](crate::Value::with_schema)
//! reads a JSON value through it without copying. Field names are those of expressions (escaped, such as
//! `__namespace__`), mapped to those of the document.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::Type;

/// A declared shape of JSON.
#[derive(Clone, Debug)]
pub enum Schema {
    /// Anything; values have the type of their JSON.
    Dyn,
    /// Integers and strings (`x-kubernetes-int-or-string`).
    IntOrString,
    /// Booleans.
    Bool,
    /// Integers.
    Int,
    /// Numbers; integers in the document are doubles as well.
    Double,
    /// Strings.
    String,
    /// Base64 strings (format `byte`).
    Bytes,
    /// RFC 3339 strings (formats `date-time` and `date`).
    Timestamp,
    /// Strings such as `1h30m` (format `duration`).
    Duration,
    /// Lists.
    List(Arc<ListSchema>),
    /// Objects with arbitrary keys (`additionalProperties`).
    Map(Arc<Schema>),
    /// Objects with declared fields (`properties`).
    Object(Arc<ObjectSchema>),
}

/// The shape of lists.
#[derive(Clone, Debug)]
pub struct ListSchema {
    /// The shape of elements.
    pub items: Schema,
    /// How lists are compared and added.
    pub kind: ListKind,
}

/// How lists are compared and added (`x-kubernetes-list-type`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListKind {
    /// Element by element; `+` appends.
    Atomic,
    /// Order does not matter; `+` adds what is not there.
    Set,
    /// Elements are identified by these fields of the document; order does not matter, `+` replaces
    /// elements with equal keys.
    Map(Vec<Box<str>>),
}

/// The shape of objects with declared fields.
#[derive(Clone, Debug)]
pub struct ObjectSchema {
    /// The name of the type, unique in its environment.
    pub name: Arc<str>,
    /// Fields by their name in expressions.
    pub fields: BTreeMap<Box<str>, Field>,
}

/// A field of an object.
#[derive(Clone, Debug)]
pub struct Field {
    /// The name in the document.
    pub json: Box<str>,
    /// The shape of its value.
    pub schema: Schema,
}

impl Schema {
    /// The type of values of this shape.
    pub fn type_(&self) -> Type {
        match self {
            Schema::Dyn | Schema::IntOrString => Type::Dyn,
            Schema::Bool => Type::Bool,
            Schema::Int => Type::Int,
            Schema::Double => Type::Double,
            Schema::String => Type::String,
            Schema::Bytes => Type::Bytes,
            Schema::Timestamp => Type::Timestamp,
            Schema::Duration => Type::Duration,
            Schema::List(list) => Type::list(list.items.type_()),
            Schema::Map(values) => Type::map(Type::String, values.type_()),
            Schema::Object(object) => Type::Struct(object.name.clone()),
        }
    }
}

impl Schema {
    /// The object type of this name, here or in a part of the schema.
    pub(crate) fn object(&self, name: &str) -> Option<&ObjectSchema> {
        match self {
            Schema::List(list) => list.items.object(name),
            Schema::Map(values) => values.object(name),
            Schema::Object(object) if &*object.name == name => Some(object),
            Schema::Object(object) => {
                object.fields.values().find_map(|field| field.schema.object(name))
            }
            _ => None,
        }
    }
}
