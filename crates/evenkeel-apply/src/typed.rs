//! Typed values: field sets, comparison, merge, removal and extraction.
//!
//! Every operation is one walk of the value and the type graph. Values are only copied into the
//! result. Values that the schema does not allow are reported with their path and smd's error
//! message.

use std::fmt;

use serde_json::Value;

use crate::{
    MAX_DEPTH,
    path::PathElement,
    schema::{Field, ListType, MapType, ObjectType, Scalar, Schema, TypeDef, TypeId},
    set::Set,
    work,
};

mod atomics;
mod compare;
mod extract;
mod field_set;
mod item;
mod merge;
mod reconcile;
mod remove;
#[cfg(test)]
mod tests;
mod validate;

pub use compare::Comparison;
pub(crate) use merge::Edit;

/// Whether associative lists may contain several items with the same key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duplicates {
    /// For live objects: duplicates were not rejected when they were written.
    Allow,
    /// For applied configurations.
    Reject,
}

/// One violation of the schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidationError {
    /// The path, such as `.spec.containers[name="c"].image`; empty for the object itself.
    pub path: String,
    /// The error message.
    pub message: String,
}

/// The violations in a value; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidationErrors(Vec<ValidationError>);

impl ObjectType {
    /// Validates a value: shapes, declared fields and list keys.
    pub fn validate(&self, value: &Value, duplicates: Duplicates) -> Result<(), ValidationErrors> {
        self.walk(|walker, root| walker.validate(value, root, duplicates))
    }

    /// Returns the field set of a value.
    ///
    /// Leaves, list items and map entries are members; structs only if they are empty.
    pub fn to_field_set(&self, value: &Value) -> Result<Set, ValidationErrors> {
        self.walk(|walker, root| walker.field_set(value, root)).map(|tree| tree.children)
    }

    /// Compares two values and validates both.
    pub fn compare(&self, old: &Value, new: &Value) -> Result<Comparison, ValidationErrors> {
        self.walk(|walker, root| walker.compare(old, new, root))
    }

    /// Merges an applied configuration into a live value: nothing is removed, applied leaves
    /// replace live ones, and lists have the applied order for items that both share.
    pub fn merge(&self, mut live: Value, applied: &Value) -> Result<Value, ValidationErrors> {
        if let Some(edit) = self.edit(&live, applied)? {
            edit.apply(&mut live);
        }
        Ok(live)
    }

    /// Returns the changes of [`ObjectType::merge`] to the live value; `None` if there are none.
    pub(crate) fn edit<'a>(
        &self,
        live: &Value,
        applied: &'a Value,
    ) -> Result<Option<Edit<'a>>, ValidationErrors> {
        self.walk(|walker, root| walker.merge(live, applied, root))
    }

    /// Removes the fields of the set from the value. Containers that become empty become null.
    pub fn remove(&self, value: Value, fields: &Set) -> Value {
        let (schema, root) = self.parts();
        remove::remove(schema, value, fields, Some(root))
    }

    /// Keeps only the fields of the set.
    pub fn extract(&self, value: Value, fields: &Set) -> Value {
        let (schema, root) = self.parts();
        extract::extract(schema, value, fields, Some(root))
    }

    /// Keeps only the fields of the set, and the key fields of every remaining list item.
    pub fn extract_with_keys(&self, value: Value, fields: &Set) -> Value {
        match self.to_field_set(&value) {
            Ok(present) => self.extract(value, &extract::with_key_fields(fields, &present)),
            Err(_) => self.extract(value, fields),
        }
    }

    /// Reconciles a stored set with the current type: types that became atomic are owned as a
    /// whole. Returns `None` if the set is unchanged.
    pub fn reconcile(&self, fields: &Set) -> Option<Set> {
        let (schema, root) = self.parts();
        reconcile::reconcile(schema, fields, root)
    }

    /// Adds every declared struct field that has members below it to the set.
    pub(crate) fn with_named_fields(&self, fields: &Set) -> Set {
        let (schema, root) = self.parts();
        remove::with_named_fields(schema, fields, Some(root))
    }

    fn walk<T>(
        &self,
        run: impl FnOnce(&mut Walker<'_>, TypeId) -> T,
    ) -> Result<T, ValidationErrors> {
        let (schema, root) = self.parts();
        let mut walker = Walker { schema, depth: 0, errors: Vec::new() };
        let out = run(&mut walker, root);
        if walker.errors.is_empty() { Ok(out) } else { Err(ValidationErrors(walker.errors)) }
    }
}

// === impl ValidationErrors ===

impl ValidationErrors {
    /// Returns the violations.
    pub fn iter(&self) -> impl Iterator<Item = &ValidationError> {
        self.0.iter()
    }
}

impl fmt::Display for ValidationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            f.write_str(&self.message)
        } else {
            write!(f, "{}: {}", self.path, self.message)
        }
    }
}

impl fmt::Display for ValidationErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [only] = self.0.as_slice() {
            return only.fmt(f);
        }
        f.write_str("errors:")?;
        self.0.iter().try_for_each(|error| write!(f, "\n  {error}"))
    }
}

impl std::error::Error for ValidationErrors {}

// === impl Walker ===

/// State of a walk.
struct Walker<'s> {
    schema: &'s Schema,
    depth: usize,
    errors: Vec<ValidationError>,
}

/// The shape of a type that applies to a value.
#[derive(Clone, Copy)]
enum Shape<'s> {
    Scalar(Scalar),
    List(&'s ListType),
    Map(&'s MapType),
}

/// Selects the shape for a value. Null and values of no allowed shape have the first allowed shape.
fn shape<'s>(ty: &'s TypeDef, value: Option<&Value>) -> Option<Shape<'s>> {
    let scalar = ty.scalar.map(Shape::Scalar);
    let list = ty.list.as_ref().map(Shape::List);
    let map = ty.map.as_ref().map(Shape::Map);
    let fitting = match value {
        Some(Value::Bool(_) | Value::Number(_) | Value::String(_)) => scalar,
        Some(Value::Array(_)) => list,
        Some(Value::Object(_)) => map,
        Some(Value::Null) | None => None,
    };
    fitting.or(map).or(scalar).or(list)
}

impl<'s> Walker<'s> {
    /// Walks one level down. The path of reported errors is prefixed with the element.
    fn at<T>(
        &mut self,
        element: impl Fn() -> PathElement,
        run: impl FnOnce(&mut Self) -> T,
    ) -> Option<T> {
        work::step();
        let reported = self.errors.len();
        let out = if self.depth < MAX_DEPTH {
            self.depth += 1;
            let out = run(self);
            self.depth -= 1;
            Some(out)
        } else {
            self.error("exceeded max depth");
            None
        };
        if self.errors.len() > reported {
            let prefix = element().to_string();
            for error in &mut self.errors[reported..] {
                error.path.insert_str(0, &prefix);
            }
        }
        out
    }

    fn error(&mut self, message: impl Into<String>) {
        self.errors.push(ValidationError { path: String::new(), message: message.into() });
    }

    /// Returns the type of a map entry and its declared field. Reports undeclared entries.
    fn entry<'m>(&mut self, map: &'m MapType, name: &str) -> Option<(TypeId, Option<&'m Field>)> {
        let field = map.field(name);
        let ty = field.map(|field| field.ty).or(map.element);
        if ty.is_none() {
            self.undeclared(name);
        }
        Some((ty?, field))
    }

    fn undeclared(&mut self, name: &str) {
        self.at(|| PathElement::field(name), |walker| walker.error("field not declared in schema"));
    }

    fn shape(&mut self, ty: TypeId, value: Option<&Value>) -> Option<Shape<'s>> {
        let def = self.schema.get(ty);
        let shape = shape(def, value);
        if shape.is_none() {
            let name =
                def.name.as_ref().map_or("inlined".into(), |name| format!("named type: {name}"));
            self.error(format!("schema error: invalid atom: {name}"));
        }
        shape
    }
}
