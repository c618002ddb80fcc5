//! The table of built-in types: `table/types.txt`, parsed once per process.
//!
//! A [`Type`] has its fields in two views. [`Type::fields`] is the JSON view: a flat list that
//! includes the fields of embedded structs. [`Type::embeds`] keeps the embedding, which protobuf
//! encodes as nested messages. Everything is sorted, borrowed from the text or shared by index, so
//! handles are `Copy` and a lookup never allocates.

mod parse;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt;
use std::ops::Deref;
use std::sync::OnceLock;

use crate::Gvk;

static TEXT: &str = include_str!("table/types.txt");

/// Kinds of `meta/v1` that every API group serves, including those of CRDs.
const META_KINDS: [&str; 7] = [
    "CreateOptions",
    "DeleteOptions",
    "GetOptions",
    "ListOptions",
    "PatchOptions",
    "UpdateOptions",
    "WatchEvent",
];

/// Returns the type of a kind.
pub fn lookup(gvk: Gvk<'_>) -> Option<&'static Type> {
    let table = table();
    let index = table.by_gvk.get(&gvk).or_else(|| {
        META_KINDS.contains(&gvk.kind).then(|| table.by_gvk.get(&Gvk::new("", "v1", gvk.kind)))?
    })?;
    Some(&table.types[*index as usize])
}

/// Returns the type with this OpenAPI name, for example `io.k8s.api.core.v1.Pod`.
pub fn by_name(name: &str) -> Option<&'static Type> {
    let table = table();
    table.by_name.get(name).map(|index| &table.types[*index as usize])
}

/// Returns every type of the table, sorted by package and name.
pub fn all() -> impl ExactSizeIterator<Item = &'static Type> {
    table().types.iter()
}

/// Returns the type of the schemas in [`Custom::JsonSchemaPropsOrBool`] and similar types.
pub(crate) fn schema_type() -> Option<&'static Type> {
    by_name("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps")
}

#[derive(Debug)]
struct Table {
    types: Vec<Type>,
    expressions: Vec<Expression>,
    by_gvk: HashMap<Gvk<'static>, u16>,
    by_name: HashMap<&'static str, u16>,
}

fn table() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(|| parse::parse(TEXT))
}

/// A struct of the API, or a type with a custom JSON format.
#[derive(Debug)]
pub struct Type {
    /// The OpenAPI name: `io.k8s.api.core.v1.Pod`.
    pub name: &'static str,
    /// The kinds it is served as; empty if it is only part of other types.
    pub gvks: Vec<Gvk<'static>>,
    /// Set if the JSON format is not that of a struct; such a type has no fields.
    pub custom: Option<Custom>,
    /// `x-kubernetes-map-type: atomic`: managers own it as a whole.
    pub atomic: bool,
    /// `x-kubernetes-unions`, as JSON text.
    pub unions: Option<&'static str>,
    /// The fields of the JSON object, including those of embedded structs, sorted by name.
    pub fields: Vec<Field>,
    /// The embedded structs.
    pub embeds: Vec<Embed>,
    /// The fields and embedded structs with a protobuf number, sorted by it.
    pub(crate) members_by_number: Vec<(u32, Member)>,
    /// The members of the Go struct, in declaration order.
    pub(crate) declared: Vec<Member>,
    /// Whether the numbers of the declared members are ascending.
    pub(crate) ascending: bool,
    /// The position of each field in the JSON that Go prints.
    pub(crate) json_order: Vec<u16>,
    /// Indices of the fields that Go prints even if they are zero.
    pub(crate) always_printed: Vec<u16>,
}

/// A member of a struct: a field or an embedded struct.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Member {
    Field(u16),
    Embed(u16),
}

impl Type {
    /// Returns the field with this JSON name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.field_index(name).map(|index| &self.fields[index])
    }

    pub(crate) fn field_index(&self, name: &str) -> Option<usize> {
        self.fields.binary_search_by(|field| field.name.cmp(name)).ok()
    }

    pub(crate) fn member(&self, number: u32) -> Option<Member> {
        let found =
            self.members_by_number.binary_search_by_key(&number, |(number, _)| *number).ok()?;
        Some(self.members_by_number[found].1)
    }

    /// Returns the name without the package: `Pod`.
    pub fn short_name(&self) -> &'static str {
        self.name.rsplit_once('.').map_or(self.name, |(_, name)| name)
    }

    /// Returns the package of the OpenAPI name: `io.k8s.api.core.v1`.
    pub fn package(&self) -> &'static str {
        self.name.rsplit_once('.').map_or("", |(package, _)| package)
    }
}

/// One field of a [`Type`].
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// The JSON name.
    pub name: &'static str,
    /// The protobuf number within the message that declares it; 0 if it has none.
    pub number: u32,
    /// The type, without pointers.
    pub expr: Expr,
    /// The [`Expr::shape`] of the type.
    pub shape: Shape,
    /// Whether it is a Go pointer: zero and absent differ.
    pub pointer: bool,
    /// The Go tag `omitempty`.
    pub omitempty: bool,
    /// The Go tag `omitzero`.
    pub omitzero: bool,
    /// Whether OpenAPI lists it as required.
    pub required: bool,
    /// `x-kubernetes-list-type`.
    pub list_type: Option<ListType>,
    /// `x-kubernetes-map-type` of this field; see also [`Type::atomic`].
    pub map_type: Option<MapType>,
    /// `x-kubernetes-patch-merge-key`.
    pub merge_key: Option<&'static str>,
    /// `default` in OpenAPI v3.
    pub default: DefaultValue,
    /// The embedded struct that declares it, as an index into [`Type::embeds`].
    pub embed: Option<u16>,
    list_keys: &'static str,
    patch_strategy: &'static str,
    allowed: Option<&'static str>,
}

impl Field {
    /// Returns `x-kubernetes-list-map-keys`, in order.
    pub fn list_keys(&self) -> impl Iterator<Item = &'static str> {
        split(self.list_keys)
    }

    /// Returns `x-kubernetes-patch-strategy`: `merge`, `replace`, `retainKeys`.
    pub fn patch_strategies(&self) -> impl Iterator<Item = &'static str> {
        split(self.patch_strategy)
    }

    /// Returns the `enum` of a string; empty if any value is allowed.
    pub fn allowed(&self) -> impl Iterator<Item = &'static str> {
        self.allowed.into_iter().flat_map(|values| values.split(','))
    }

    /// Returns whether Go prints the field even if it is zero.
    pub(crate) fn is_always_printed(&self) -> bool {
        let struct_kind = matches!(self.shape, Shape::Struct(_) | Shape::Custom(..));
        !self.omitzero && (!self.omitempty || (struct_kind && !self.pointer))
    }
}

fn split(list: &'static str) -> impl Iterator<Item = &'static str> {
    list.split(',').filter(|item| !item.is_empty())
}

/// A struct whose fields are part of the struct that embeds it.
#[derive(Clone, Copy, Debug)]
pub struct Embed {
    /// The Go name of the field.
    pub name: &'static str,
    /// The number of its message; 0 if protobuf omits it.
    pub number: u32,
    /// The embedded type.
    pub ty: TypeRef,
}

/// The JSON form of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A string.
    String,
    /// A boolean.
    Bool,
    /// A 32-bit integer.
    Int32,
    /// A 64-bit integer.
    Int64,
    /// A 64-bit floating point number.
    Double,
    /// Bytes, as base64 in JSON.
    Bytes,
    /// Any JSON value.
    Any,
    /// A list.
    List(Expr),
    /// An object whose keys are data.
    Map {
        /// The type of the keys, always a string type.
        key: Expr,
        /// The type of the values.
        value: Expr,
    },
    /// An object with the fields of this type.
    Struct(TypeRef),
    /// A type with a custom JSON format.
    Custom(Custom, TypeRef),
}

/// Types that decode their own JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Custom {
    /// RFC 3339 with whole seconds.
    Time,
    /// RFC 3339 with microseconds.
    MicroTime,
    /// A number with a unit: `500m`, `2Gi`.
    Quantity,
    /// A 32-bit integer or a string.
    IntOrString,
    /// Any JSON, unchanged.
    RawExtension,
    /// A field set, unchanged.
    FieldsV1,
    /// Any JSON, unchanged.
    Json,
    /// A schema or a list of them.
    JsonSchemaPropsOrArray,
    /// A schema or a boolean.
    JsonSchemaPropsOrBool,
    /// A schema or a list of strings.
    JsonSchemaPropsOrStringArray,
}

/// `x-kubernetes-list-type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListType {
    /// Owned as a whole.
    Atomic,
    /// Scalars, owned individually.
    Set,
    /// Objects, owned individually by their keys.
    Map,
}

/// `x-kubernetes-map-type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapType {
    /// Owned as a whole.
    Atomic,
    /// Owned key by key.
    Granular,
}

/// `default` in OpenAPI v3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefaultValue {
    /// No default is published.
    None,
    /// The zero value of the field's shape: `""`, `0`, `false`, `{}`.
    Zero,
    /// This JSON text.
    Json(&'static str),
}

/// A handle on a [`Type`].
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TypeRef(u16);

impl TypeRef {
    /// Returns the type.
    pub fn get(self) -> &'static Type {
        &table().types[self.0 as usize]
    }
}

impl Deref for TypeRef {
    type Target = Type;

    fn deref(&self) -> &Type {
        self.get()
    }
}

impl fmt::Debug for TypeRef {
    // Types are cyclic, and the table may still be under construction.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TypeRef({})", self.0)
    }
}

/// A handle on a type expression: a shape and its Go name.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Expr(u16);

#[derive(Clone, Copy, Debug)]
struct Expression {
    shape: Shape,
    /// Package and name of a named type that is not a struct.
    alias: Option<(&'static str, &'static str)>,
    wrapped: bool,
}

impl Expr {
    /// Returns the JSON form of the values.
    pub fn shape(self) -> Shape {
        self.expression().shape
    }

    /// Returns the type as Go's error messages name it: `v1.Protocol`, `[]v1.Container`.
    pub(crate) fn go_type(self) -> String {
        let expression = self.expression();
        if let Some((package, name)) = expression.alias {
            return format!("{}.{name}", go_package(package));
        }
        match expression.shape {
            Shape::String => "string".to_owned(),
            Shape::Bool => "bool".to_owned(),
            Shape::Int32 => "int32".to_owned(),
            Shape::Int64 => "int64".to_owned(),
            Shape::Double => "float64".to_owned(),
            Shape::Bytes => "[]uint8".to_owned(),
            Shape::Any => "interface {}".to_owned(),
            Shape::List(element) => format!("[]{}", element.go_type()),
            Shape::Map { key, value } => format!("map[{}]{}", key.go_type(), value.go_type()),
            Shape::Struct(ty) | Shape::Custom(_, ty) => ty.go_type(),
        }
    }

    /// Returns whether this is a list that is a separate message in protobuf.
    pub(crate) fn wrapped(self) -> bool {
        self.expression().wrapped
    }

    fn expression(self) -> &'static Expression {
        &table().expressions[self.0 as usize]
    }
}

impl fmt::Debug for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Expr({})", self.0)
    }
}

impl Type {
    /// Returns the type as Go's error messages name it: `v1.Pod`.
    pub(crate) fn go_type(&self) -> String {
        format!("{}.{}", go_package(self.package()), self.short_name())
    }
}

fn go_package(package: &str) -> &str {
    package.rsplit_once('.').map_or(package, |(_, last)| last)
}
