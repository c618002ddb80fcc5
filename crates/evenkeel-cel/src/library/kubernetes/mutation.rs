//! Types that expressions of mutating admission policies construct: `JSONPatch{…}` and `Object{…}`.
//!
//! The type of a part of an object is named after its path: `Object.spec.template`. Fields of objects are
//! not checked here, because the schema is not known.

use crate::{Type, TypeProvider};

/// The types `JSONPatch` and `Object`.
#[derive(Clone, Copy, Debug, Default)]
pub struct MutationTypes;

impl TypeProvider for MutationTypes {
    fn has_type(&self, name: &str) -> bool {
        name == "JSONPatch" || name == "Object" || name.starts_with("Object.")
    }

    fn field(&self, type_name: &str, field: &str) -> Option<Type> {
        match (type_name, field) {
            ("JSONPatch", "op" | "from" | "path") => Some(Type::String),
            ("JSONPatch", "value") => Some(Type::Dyn),
            ("JSONPatch", _) => None,
            _ => Some(Type::Dyn),
        }
    }
}
