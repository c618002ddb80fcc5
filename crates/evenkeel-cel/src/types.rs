//! Types of the language, as the checker infers them and declarations state them.
//!
//! A [`Type`] is cheap to clone. Opaque types (`kubernetes.Quantity`, `net.IP`) are nominal: two are
//! the same if their names and parameters are.

use std::fmt;
use std::sync::Arc;

/// A type of the language.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    /// Any value; operations on it are resolved when they run.
    Dyn,
    /// The type of an expression that does not check.
    Error,
    /// The type of `null`.
    Null,
    /// `bool`
    Bool,
    /// Signed 64-bit integers.
    Int,
    /// Unsigned 64-bit integers.
    Uint,
    /// 64-bit floating point numbers.
    Double,
    /// Unicode text.
    String,
    /// Bytes.
    Bytes,
    /// `google.protobuf.Duration`
    Duration,
    /// `google.protobuf.Timestamp`
    Timestamp,
    /// A value of the inner type or `null`; the inner type is a primitive one.
    Wrapper(Arc<Type>),
    /// Lists of elements of one type.
    List(Arc<Type>),
    /// Maps with keys of one type and values of another.
    Map(Arc<(Type, Type)>),
    /// The type of a type, if known of which.
    Type(Option<Arc<Type>>),
    /// A named type without fields, with parameters: `optional_type(int)`, `kubernetes.Quantity`.
    Opaque(Arc<Opaque>),
    /// An object with declared fields, which the environment's
    /// [`TypeProvider`](crate::TypeProvider) has under this name.
    Struct(Arc<str>),
    /// A type parameter of a function declaration.
    Param(Arc<str>),
}

/// The name and parameters of an opaque type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Opaque {
    /// The name as expressions and messages spell it.
    pub name: Arc<str>,
    /// Types that the type is parameterized with.
    pub parameters: Vec<Type>,
}

impl Type {
    /// Lists of `element`.
    pub fn list(element: Type) -> Type {
        Type::List(Arc::new(element))
    }

    /// Maps from `key` to `value`.
    pub fn map(key: Type, value: Type) -> Type {
        Type::Map(Arc::new((key, value)))
    }

    /// An opaque type without parameters.
    pub fn opaque(name: impl Into<Arc<str>>) -> Type {
        Type::Opaque(Arc::new(Opaque { name: name.into(), parameters: Vec::new() }))
    }

    /// Optional values of `inner`.
    pub fn optional(inner: Type) -> Type {
        Type::Opaque(Arc::new(Opaque { name: OPTIONAL.into(), parameters: vec![inner] }))
    }

    /// An object type with declared fields.
    pub fn object(name: impl Into<Arc<str>>) -> Type {
        Type::Struct(name.into())
    }

    /// A type parameter of a function declaration.
    pub fn param(name: impl Into<Arc<str>>) -> Type {
        Type::Param(name.into())
    }

    /// The type of `inner` as a value.
    pub fn type_of(inner: Type) -> Type {
        Type::Type(Some(Arc::new(inner)))
    }

    /// `inner` or null.
    pub fn wrapper(inner: Type) -> Type {
        Type::Wrapper(Arc::new(inner))
    }

    /// The inner type of an optional one.
    pub fn optional_inner(&self) -> Option<&Type> {
        match self {
            Type::Opaque(opaque) if &*opaque.name == OPTIONAL => opaque.parameters.first(),
            _ => None,
        }
    }

    /// Whether the type is `dyn` or the type of a failed check.
    pub fn is_dyn(&self) -> bool {
        matches!(self, Type::Dyn)
    }

    /// The name without parameters, as `type(x)` prints it at run time.
    pub fn name(&self) -> &str {
        match self {
            Type::Dyn => "dyn",
            Type::Error => "*error*",
            Type::Null => "null_type",
            Type::Bool => "bool",
            Type::Int => "int",
            Type::Uint => "uint",
            Type::Double => "double",
            Type::String => "string",
            Type::Bytes => "bytes",
            Type::Duration => "google.protobuf.Duration",
            Type::Timestamp => "google.protobuf.Timestamp",
            Type::Wrapper(inner) => inner.name(),
            Type::List(_) => "list",
            Type::Map(_) => "map",
            Type::Type(_) => "type",
            Type::Opaque(opaque) => &opaque.name,
            Type::Struct(name) | Type::Param(name) => name,
        }
    }
}

/// The name of the type of optional values.
pub(crate) const OPTIONAL: &str = "optional_type";

/// As messages of the checker print types.
impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Error => f.write_str("!error!"),
            Type::Null => f.write_str("null"),
            Type::Duration => f.write_str("duration"),
            Type::Timestamp => f.write_str("timestamp"),
            Type::Wrapper(inner) => write!(f, "wrapper({inner})"),
            Type::List(element) => write!(f, "list({element})"),
            Type::Map(entry) => write!(f, "map({}, {})", entry.0, entry.1),
            Type::Type(Some(inner)) => write!(f, "type({inner})"),
            Type::Opaque(opaque) if !opaque.parameters.is_empty() => {
                write!(f, "{}(", opaque.name)?;
                for (i, parameter) in opaque.parameters.iter().enumerate() {
                    let comma = if i == 0 { "" } else { ", " };
                    write!(f, "{comma}{parameter}")?;
                }
                f.write_str(")")
            }
            _ => f.write_str(self.name()),
        }
    }
}
