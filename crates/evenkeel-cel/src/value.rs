//! Values of expressions.
//!
//! A [`Value`] is four words and cheap to clone: strings, bytes, lists, maps and objects are either
//! borrowed from the caller's JSON or from the program (`'a`), or shared through an [`Arc`]. Reading
//! `self.spec.replicas` of a borrowed document allocates nothing: [`Value::from_json`] and
//! [`Value::with_schema`] wrap a node of a [`serde_json::Value`] tree, and reading a field wraps the next
//! one.
//!
//! Types of other libraries are [`Opaque`]:
//!
//! ```
//! use std::any::Any;
//! use evenkeel_cel::{Opaque, Type, Value};
//!
//! #[derive(Debug)]
//! struct Quantity(i64);
//!
//! impl Opaque for Quantity {
//!     fn type_(&self) -> Type {
//!         Type::opaque("kubernetes.Quantity")
//!     }
//!     fn equals(&self, other: &Value<'_>) -> Option<bool> {
//!         other.downcast::<Self>().map(|other| other.0 == self.0)
//!     }
//!     fn as_any(&self) -> &dyn Any {
//!         self
//!     }
//! }
//!
//! let value = Value::opaque(Quantity(1));
//! assert_eq!(value.downcast::<Quantity>().unwrap().0, 1);
//! assert_eq!(value, Value::opaque(Quantity(1)));
//! ```

use std::any::Any;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use serde_json::Value as Json;

use crate::schema::Schema;
use crate::{Error, Type};

pub(crate) mod compare;
mod json;
pub(crate) mod list;
mod map;
pub(crate) mod time;

pub use list::List;
pub use map::{Map, Object};
pub use time::{Duration, Timestamp};

/// The value of an expression.
#[derive(Clone)]
pub enum Value<'a> {
    /// `null`
    Null,
    /// `true`, `false`
    Bool(bool),
    /// `1`
    Int(i64),
    /// `1u`
    Uint(u64),
    /// `1.0`
    Double(f64),
    /// `'text'`
    String(Str<'a>),
    /// `b'bytes'`
    Bytes(Bytes<'a>),
    /// `duration('1h')`
    Duration(Duration),
    /// `timestamp('2024-01-01T00:00:00Z')`
    Timestamp(Timestamp),
    /// `[1, 2]`
    List(List<'a>),
    /// `{'a': 1}`
    Map(Map<'a>),
    /// An object with declared fields: `Object{spec: …}`.
    Object(Object<'a>),
    /// `int`, `type(1)`
    Type(Arc<Type>),
    /// `optional.of(1)`, `optional.none()`
    Optional(Option<Arc<Value<'a>>>),
    /// A value of a type that a library defines.
    Opaque(Arc<dyn Opaque>),
}

/// A string that is borrowed or shared.
#[derive(Clone)]
pub enum Str<'a> {
    /// Borrowed from a document or a program.
    Borrowed(&'a str),
    /// Computed.
    Shared(Arc<str>),
}

/// Bytes that are borrowed or shared.
#[derive(Clone)]
pub enum Bytes<'a> {
    /// Borrowed from a document or a program.
    Borrowed(&'a [u8]),
    /// Computed.
    Shared(Arc<[u8]>),
}

/// A value of a type that a library defines.
pub trait Opaque: fmt::Debug + Send + Sync + 'static {
    /// The type, which is [`Type::Opaque`] or [`Type::Struct`].
    fn type_(&self) -> Type;

    /// Whether two values are equal; `None` if they cannot be compared, which is an error of `==`.
    fn equals(&self, other: &Value<'_>) -> Option<bool>;

    /// The value itself, for [`Value::downcast`].
    fn as_any(&self) -> &dyn Any;

    /// The value as text, for messages.
    fn text(&self) -> String {
        format!("{self:?}")
    }

    /// The size, if values have one (cel-go's `Sizer`), which counts in costs.
    fn size(&self) -> Option<u64> {
        None
    }

    /// The value of a field, if the type has fields; for objects whose fields are computed when read.
    fn field(&self, name: &str) -> Option<Result<Value<'static>, Error>> {
        let _ = name;
        None
    }
}

impl<'a> Value<'a> {
    /// Reads JSON: integers are `int`, other numbers `double`, objects maps.
    pub fn from_json(json: &'a Json) -> Self {
        Self::with_schema(json, &Schema::Dyn)
    }

    /// A value of a library's type.
    pub fn opaque(value: impl Opaque) -> Self {
        Value::Opaque(Arc::new(value))
    }

    /// A list of these elements.
    pub fn list(elements: impl Into<Vec<Value<'a>>>) -> Self {
        Value::List(List::from(elements.into()))
    }

    /// An optional value.
    pub fn optional(value: Option<Value<'a>>) -> Self {
        Value::Optional(value.map(Arc::new))
    }

    /// The library's value, if it is of type `T`.
    pub fn downcast<T: Opaque>(&self) -> Option<&T> {
        match self {
            Value::Opaque(value) => value.as_any().downcast_ref(),
            _ => None,
        }
    }

    /// The text of a string.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    /// The type of the value at run time; that of lists and maps has `dyn` parameters.
    pub fn type_(&self) -> Type {
        match self {
            Value::Null => Type::Null,
            Value::Bool(_) => Type::Bool,
            Value::Int(_) => Type::Int,
            Value::Uint(_) => Type::Uint,
            Value::Double(_) => Type::Double,
            Value::String(_) => Type::String,
            Value::Bytes(_) => Type::Bytes,
            Value::Duration(_) => Type::Duration,
            Value::Timestamp(_) => Type::Timestamp,
            Value::List(_) => Type::list(Type::Dyn),
            Value::Map(_) => Type::map(Type::Dyn, Type::Dyn),
            Value::Object(object) => Type::Struct(object.type_name().clone()),
            Value::Type(_) => Type::Type(None),
            Value::Optional(_) => Type::optional(Type::Dyn),
            Value::Opaque(value) => value.type_(),
        }
    }

    /// The size that costs are computed from: characters, bytes, elements or entries; 1 for the rest.
    pub fn size(&self) -> u64 {
        match self {
            Value::String(text) => text.chars().count() as u64,
            Value::Bytes(bytes) => bytes.len() as u64,
            Value::List(list) => list.len() as u64,
            Value::Map(map) => map.len() as u64,
            Value::Object(object) => object.size(),
            Value::Optional(Some(value)) => value.size(),
            Value::Opaque(value) => value.size().unwrap_or(1),
            _ => 1,
        }
    }

    /// The same value with a lifetime of its own: borrowed parts are copied.
    pub fn into_owned(self) -> Value<'static> {
        match self {
            Value::Null => Value::Null,
            Value::Bool(value) => Value::Bool(value),
            Value::Int(value) => Value::Int(value),
            Value::Uint(value) => Value::Uint(value),
            Value::Double(value) => Value::Double(value),
            Value::String(text) => Value::String(Str::Shared(text.into())),
            Value::Bytes(bytes) => Value::Bytes(Bytes::Shared(bytes.into())),
            Value::Duration(value) => Value::Duration(value),
            Value::Timestamp(value) => Value::Timestamp(value),
            Value::List(list) => Value::List(list.into_owned()),
            Value::Map(map) => Value::Map(map.into_owned()),
            Value::Object(object) => Value::Object(object.into_owned()),
            Value::Type(value) => Value::Type(value),
            Value::Optional(None) => Value::Optional(None),
            Value::Optional(Some(value)) => {
                Value::optional(Some(Arc::unwrap_or_clone(value).into_owned()))
            }
            Value::Opaque(value) => Value::Opaque(value),
        }
    }

    /// The same value, borrowed: clones of it do not count references.
    pub(crate) fn borrowed(&'a self) -> Value<'a> {
        match self {
            Value::String(text) => Value::String(Str::Borrowed(text)),
            Value::Bytes(bytes) => Value::Bytes(Bytes::Borrowed(bytes)),
            other => other.clone(),
        }
    }
}

impl Deref for Str<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Str::Borrowed(text) => text,
            Str::Shared(text) => text,
        }
    }
}

impl Deref for Bytes<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Bytes::Borrowed(bytes) => bytes,
            Bytes::Shared(bytes) => bytes,
        }
    }
}

impl From<Str<'_>> for Arc<str> {
    fn from(text: Str<'_>) -> Self {
        match text {
            Str::Borrowed(text) => text.into(),
            Str::Shared(text) => text,
        }
    }
}

impl From<Bytes<'_>> for Arc<[u8]> {
    fn from(bytes: Bytes<'_>) -> Self {
        match bytes {
            Bytes::Borrowed(bytes) => bytes.into(),
            Bytes::Shared(bytes) => bytes,
        }
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Value::String(Str::Borrowed(text))
    }
}

impl From<String> for Value<'_> {
    fn from(text: String) -> Self {
        Value::String(Str::Shared(text.into()))
    }
}

impl From<Vec<u8>> for Value<'_> {
    fn from(bytes: Vec<u8>) -> Self {
        Value::Bytes(Bytes::Shared(bytes.into()))
    }
}

impl From<bool> for Value<'_> {
    fn from(value: bool) -> Self {
        Value::Bool(value)
    }
}

impl From<i64> for Value<'_> {
    fn from(value: i64) -> Self {
        Value::Int(value)
    }
}

impl From<u64> for Value<'_> {
    fn from(value: u64) -> Self {
        Value::Uint(value)
    }
}

impl From<f64> for Value<'_> {
    fn from(value: f64) -> Self {
        Value::Double(value)
    }
}

impl From<Duration> for Value<'_> {
    fn from(value: Duration) -> Self {
        Value::Duration(value)
    }
}

impl From<Timestamp> for Value<'_> {
    fn from(value: Timestamp) -> Self {
        Value::Timestamp(value)
    }
}

impl From<Type> for Value<'_> {
    fn from(value: Type) -> Self {
        Value::Type(Arc::new(value))
    }
}

/// As expressions would spell the value, for messages and tests.
impl fmt::Debug for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Null => f.write_str("null"),
            Value::Bool(value) => write!(f, "{value}"),
            Value::Int(value) => write!(f, "{value}"),
            Value::Uint(value) => write!(f, "{value}u"),
            Value::Double(value) => write!(f, "{value:?}"),
            Value::String(text) => write!(f, "{:?}", &**text),
            Value::Bytes(bytes) => write!(f, "b\"{}\"", bytes.escape_ascii()),
            Value::Duration(value) => write!(f, "duration(\"{value}\")"),
            Value::Timestamp(value) => write!(f, "timestamp(\"{value}\")"),
            Value::List(list) => f.debug_list().entries(list.iter()).finish(),
            Value::Map(map) => f.debug_map().entries(map.iter()).finish(),
            Value::Object(object) => {
                write!(f, "{}", object.type_name())?;
                f.debug_map().entries(object.fields()).finish()
            }
            Value::Type(value) => f.write_str(value.name()),
            Value::Optional(None) => f.write_str("optional.none()"),
            Value::Optional(Some(value)) => write!(f, "optional.of({value:?})"),
            Value::Opaque(value) => write!(f, "{value:?}"),
        }
    }
}
