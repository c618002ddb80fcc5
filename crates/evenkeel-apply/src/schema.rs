//! Schemas: how the values of a kind merge, as a graph of types shared by all requests for the
//! kind.
//!
//! A type may allow several shapes (scalar, list and map, for fields without a declared type); the
//! value then determines the shape. Types refer to each other by [`TypeId`] and may be recursive.
//! Schemas are built by [`SchemaBuilder`], by [`ObjectType::builtin`] for built-in kinds, and by
//! [`Schema::from_structural`] for custom resources.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use serde_json::Value;
use thiserror::Error;

mod builder;
mod builtin;
mod openapi;
#[cfg(test)]
mod tests;

pub use builder::{MapDef, SchemaBuilder};

/// A type within one [`Schema`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TypeId(u32);

/// The types of one or more kinds.
#[derive(Debug)]
pub struct Schema {
    types: Vec<TypeDef>,
    names: BTreeMap<String, TypeId>,
}

/// The root type of a kind with its schema. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ObjectType {
    schema: Arc<Schema>,
    root: TypeId,
    builtin: bool,
}

/// The type of a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalar {
    /// Integers and floats.
    Numeric,
    /// Strings.
    String,
    /// Booleans.
    Boolean,
    /// Any scalar.
    Untyped,
}

/// The shapes that a type allows; at least one.
#[derive(Clone, Debug, Default)]
pub(crate) struct TypeDef {
    pub(crate) name: Option<String>,
    pub(crate) scalar: Option<Scalar>,
    pub(crate) list: Option<ListType>,
    pub(crate) map: Option<MapType>,
}

#[derive(Clone, Debug)]
pub(crate) struct ListType {
    pub(crate) element: TypeId,
    pub(crate) relationship: ElementRelationship,
}

/// How the items of a list relate to each other.
#[derive(Clone, Debug)]
pub(crate) enum ElementRelationship {
    /// The list is a single value.
    Atomic,
    /// Items are scalars, identified by value.
    Set,
    /// Items are maps identified by key fields.
    Map(Keys),
}

#[derive(Clone, Debug)]
pub(crate) struct Keys {
    /// In declared order, for error messages.
    pub(crate) names: Vec<String>,
    /// Sorted by name, with the default for a missing key field.
    pub(crate) fields: Vec<(String, Option<Value>)>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct MapType {
    pub(crate) fields: Fields,
    /// The type of undeclared entries; `None` if they are not allowed.
    pub(crate) element: Option<TypeId>,
    pub(crate) atomic: bool,
}

/// The declared fields of a map, sorted by name.
///
/// Every walk looks up every entry, so the search runs over the first bytes of the names, which are
/// adjacent in memory. Whole names are compared only if those are equal.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fields {
    prefixes: Vec<u64>,
    sorted: Vec<Field>,
}

#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub(crate) name: Cow<'static, str>,
    pub(crate) ty: TypeId,
    pub(crate) default: Option<Value>,
}

/// Why a schema could not be built.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum SchemaError {
    /// A type is referenced but never defined.
    #[error("schema error: no type found matching: {0}")]
    Undefined(String),
    /// A scalar cannot be atomic or granular.
    #[error("schema error: {0} is neither a map nor a list")]
    NotAContainer(String),
    /// A map-type list whose items are not maps.
    #[error("{0}: associative list may not have non-map types")]
    ListItemsNotMaps(String),
    /// A document that does not describe a type.
    #[error("schema: {0}")]
    Document(String),
}

// === impl Schema ===

impl Schema {
    pub(crate) fn get(&self, id: TypeId) -> &TypeDef {
        &self.types[id.0 as usize]
    }

    /// Returns the type with this name.
    pub fn named(&self, name: &str) -> Option<TypeId> {
        self.names.get(name).copied()
    }

    /// Returns whether a map with this element type has no type information to reconcile.
    pub(crate) fn is_untyped(&self, id: TypeId) -> bool {
        let ty = self.get(id);
        id == SchemaBuilder::DEDUCED || (ty.name.is_none() && ty.scalar == Some(Scalar::Untyped))
    }
}

// === impl ObjectType ===

impl ObjectType {
    /// Creates the type of an object; `None` if the id is not part of the schema.
    pub fn new(schema: Arc<Schema>, root: TypeId) -> Option<Self> {
        let known = (root.0 as usize) < schema.types.len();
        known.then_some(Self { schema, root, builtin: false })
    }

    /// Returns the named type of a schema.
    pub fn named(schema: &Arc<Schema>, name: &str) -> Option<Self> {
        Some(Self { root: schema.named(name)?, schema: schema.clone(), builtin: false })
    }

    /// Returns the type of objects without a schema (smd's `DeducedParseableType`): maps merge by
    /// key, everything else is replaced as a whole.
    pub fn deduced() -> Self {
        let schema = SchemaBuilder::deduced_schema();
        Self { schema, root: SchemaBuilder::DEDUCED, builtin: false }
    }

    /// Returns whether stored objects always match the type: they were decoded into it, and it
    /// never changes.
    pub(crate) fn is_builtin(&self) -> bool {
        self.builtin
    }

    pub(crate) fn parts(&self) -> (&Schema, TypeId) {
        (&self.schema, self.root)
    }
}

// === impl MapType ===

impl MapType {
    pub(crate) fn field(&self, name: &str) -> Option<&Field> {
        self.fields.get(name)
    }

    /// Returns the type of an entry; `None` if it is undeclared and no other entries are allowed.
    pub(crate) fn type_of(&self, name: &str) -> Option<TypeId> {
        self.field(name).map(|field| field.ty).or(self.element)
    }
}

// === impl Fields ===

impl Fields {
    pub(crate) fn is_empty(&self) -> bool {
        self.sorted.is_empty()
    }

    fn get(&self, name: &str) -> Option<&Field> {
        let prefix = prefix(name);
        let mut at = self.prefixes.partition_point(|known| *known < prefix);
        while self.prefixes.get(at) == Some(&prefix) {
            if self.sorted[at].name == name {
                return Some(&self.sorted[at]);
            }
            at += 1;
        }
        None
    }

    /// Adds a field. Replaces a field with the same name.
    fn insert(&mut self, field: Field) {
        match self.sorted.binary_search_by(|known| known.name.cmp(&field.name)) {
            Ok(at) => self.sorted[at] = field,
            Err(at) => {
                self.prefixes.insert(at, prefix(&field.name));
                self.sorted.insert(at, field);
            }
        }
    }
}

/// Returns the first eight bytes of a name as a number with the same order.
fn prefix(name: &str) -> u64 {
    let mut bytes = [0; 8];
    let len = name.len().min(bytes.len());
    bytes[..len].copy_from_slice(&name.as_bytes()[..len]);
    u64::from_be_bytes(bytes)
}
