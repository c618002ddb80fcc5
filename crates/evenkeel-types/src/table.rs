//! The table of built-in types: `table/types.txt`, parsed once per process.
//!
//! A [`Type`] shows its fields twice. [`Type::fields`] is the JSON view: one flat list in which the
//! fields of embedded structs stand beside the type's own. [`Type::embeds`] keeps the embedding,
//! which protobuf preserves as nested messages. Everything is sorted, borrowed from the text or
//! shared by index, so handles are `Copy` and a lookup never allocates.

mod parse;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt;
use std::ops::Deref;
use std::sync::OnceLock;

use crate::Gvk;

static TEXT: &str = include_str!("table/types.txt");

/// Kinds of `meta/v1` that every API group serves, custom ones included.
const META_KINDS: [&str; 7] = [
    "CreateOptions",
    "DeleteOptions",
    "GetOptions",
    "ListOptions",
    "PatchOptions",
    "UpdateOptions",
    "WatchEvent",
];

/// The type served as this kind.
pub fn lookup(gvk: Gvk<'_>) -> Option<&'static Type> {
    let table = table();
    let index = table.by_gvk.get(&gvk).or_else(|| {
        META_KINDS.contains(&gvk.kind).then(|| table.by_gvk.get(&Gvk::new("", "v1", gvk.kind)))?
    })?;
    Some(&table.types[*index as usize])
}

/// The type with this OpenAPI name, for example `io.k8s.api.core.v1.Pod`.
pub fn by_name(name: &str) -> Option<&'static Type> {
    let table = table();
    table.by_name.get(name).map(|index| &table.types[*index as usize])
}

/// Every type of the table, by package and then by name.
pub fn all() -> impl ExactSizeIterator<Item = &'static Type> {
    table().types.iter()
}

/// The type of the schemas that [`Custom::JsonSchemaPropsOrBool`] and its like may hold.
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

/// A struct of the API, or a type with a JSON form of its own.
#[derive(Debug)]
pub struct Type {
    /// Its OpenAPI name: `io.k8s.api.core.v1.Pod`.
    pub name: &'static str,
    /// The kinds it is served as; empty for the parts of other types.
    pub gvks: Vec<Gvk<'static>>,
    /// Set when the JSON form is not that of a struct; such a type has no fields.
    pub custom: Option<Custom>,
    /// `x-kubernetes-map-type: atomic`: appliers own it whole.
    pub atomic: bool,
    /// `x-kubernetes-unions`, as JSON text.
    pub unions: Option<&'static str>,
    /// The fields of its JSON form, those of embedded structs included, sorted by name.
    pub fields: Vec<Field>,
    /// The structs embedded in it.
    pub embeds: Vec<Embed>,
    /// By protobuf number: the fields and embeds that have one.
    pub(crate) members_by_number: Vec<(u32, Member)>,
    /// The members the Go struct declares, in its order.
    pub(crate) declared: Vec<Member>,
    /// Whether the numbers of the declared members ascend.
    pub(crate) ascending: bool,
    /// For each field its place in the JSON that Go prints.
    pub(crate) json_order: Vec<u16>,
    /// Indices of the fields that Go prints even when they are zero.
    pub(crate) always_printed: Vec<u16>,
}

/// A member of a struct: a field, or a struct embedded in it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Member {
    Field(u16),
    Embed(u16),
}

impl Type {
    /// The field with this JSON name.
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

    /// Its name without the package: `Pod`.
    pub fn short_name(&self) -> &'static str {
        self.name.rsplit_once('.').map_or(self.name, |(_, name)| name)
    }

    /// The package of its OpenAPI name: `io.k8s.api.core.v1`.
    pub fn package(&self) -> &'static str {
        self.name.rsplit_once('.').map_or("", |(package, _)| package)
    }
}

/// One field of a [`Type`].
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Its JSON name.
    pub name: &'static str,
    /// Its protobuf number within the message that declares it; 0 when it has none.
    pub number: u32,
    /// What it holds, pointers aside.
    pub expr: Expr,
    /// [`Expr::shape`] of that.
    pub shape: Shape,
    /// A Go pointer: zero and absent differ.
    pub pointer: bool,
    /// The Go tag `omitempty`.
    pub omitempty: bool,
    /// The Go tag `omitzero`.
    pub omitzero: bool,
    /// Listed as required in OpenAPI.
    pub required: bool,
    /// `x-kubernetes-list-type`.
    pub list_type: Option<ListType>,
    /// `x-kubernetes-map-type` of this field alone; see also [`Type::atomic`].
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
    /// `x-kubernetes-list-map-keys`, in order.
    pub fn list_keys(&self) -> impl Iterator<Item = &'static str> {
        split(self.list_keys)
    }

    /// `x-kubernetes-patch-strategy`: `merge`, `replace`, `retainKeys`.
    pub fn patch_strategies(&self) -> impl Iterator<Item = &'static str> {
        split(self.patch_strategy)
    }

    /// `enum` of the strings it holds; empty when any will do.
    pub fn allowed(&self) -> impl Iterator<Item = &'static str> {
        self.allowed.into_iter().flat_map(|values| values.split(','))
    }

    /// Go prints the field even when it is zero.
    pub(crate) fn is_always_printed(&self) -> bool {
        let struct_kind = matches!(self.shape, Shape::Struct(_) | Shape::Custom(..));
        !self.omitzero && (!self.omitempty || (struct_kind && !self.pointer))
    }
}

fn split(list: &'static str) -> impl Iterator<Item = &'static str> {
    list.split(',').filter(|item| !item.is_empty())
}

/// A struct whose fields appear among those of the struct that embeds it.
#[derive(Clone, Copy, Debug)]
pub struct Embed {
    /// The name Go gives the field.
    pub name: &'static str,
    /// The number of its message; 0 when protobuf leaves it out.
    pub number: u32,
    /// What is embedded.
    pub ty: TypeRef,
}

/// What a value looks like in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A string.
    String,
    /// A boolean.
    Bool,
    /// An integer of 32 bits.
    Int32,
    /// An integer of 64 bits.
    Int64,
    /// A floating point number of 64 bits.
    Double,
    /// Bytes, in JSON as base64.
    Bytes,
    /// Any JSON value.
    Any,
    /// A list.
    List(Expr),
    /// An object whose keys are data.
    Map {
        /// Always a kind of string.
        key: Expr,
        /// What the keys lead to.
        value: Expr,
    },
    /// An object with the fields of this type.
    Struct(TypeRef),
    /// A type with a JSON form of its own.
    Custom(Custom, TypeRef),
}

/// The types that decode their own JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Custom {
    /// RFC 3339, whole seconds.
    Time,
    /// RFC 3339, six digits of a second.
    MicroTime,
    /// A number with a unit: `500m`, `2Gi`.
    Quantity,
    /// An integer of 32 bits or a string.
    IntOrString,
    /// Any JSON, kept as it is.
    RawExtension,
    /// A set of field paths, kept as it is.
    FieldsV1,
    /// Any JSON, kept as it is.
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
    /// Owned whole.
    Atomic,
    /// Every scalar by itself.
    Set,
    /// Every object by its keys.
    Map,
}

/// `x-kubernetes-map-type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapType {
    /// Owned whole.
    Atomic,
    /// Key by key.
    Granular,
}

/// `default` in OpenAPI v3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefaultValue {
    /// None is published.
    None,
    /// The zero of the field's shape: `""`, `0`, `false`, `{}`.
    Zero,
    /// This JSON text.
    Json(&'static str),
}

/// A handle on a [`Type`].
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TypeRef(u16);

impl TypeRef {
    /// The type itself.
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

/// A handle on a type expression: a shape, and the Go name it goes by.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Expr(u16);

#[derive(Clone, Copy, Debug)]
struct Expression {
    shape: Shape,
    /// Package and name, for a named type that is no struct.
    alias: Option<(&'static str, &'static str)>,
    wrapped: bool,
}

impl Expr {
    /// What values look like.
    pub fn shape(self) -> Shape {
        self.expression().shape
    }

    /// How Go writes the type in error messages: `v1.Protocol`, `[]v1.Container`.
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

    /// A list that is a message of its own in protobuf.
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
    /// How Go writes the type in error messages: `v1.Pod`.
    pub(crate) fn go_type(&self) -> String {
        format!("{}.{}", go_package(self.package()), self.short_name())
    }
}

fn go_package(package: &str) -> &str {
    package.rsplit_once('.').map_or(package, |(_, last)| last)
}
