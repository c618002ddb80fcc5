//! Schemas of built-in kinds, from the table of their types.
//!
//! Built-in types never change, so the schemas are cached per process.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use evenkeel_types::{Custom, DefaultValue, Expr, Field, ListType, MapType, Shape, Type};
use parking_lot::RwLock;
use serde_json::Value;

use super::{MapDef, ObjectType, Scalar, SchemaBuilder, SchemaError, TypeId};

impl ObjectType {
    /// Returns the type of a built-in kind.
    pub fn builtin(ty: &'static Type) -> Result<Self, SchemaError> {
        static CACHE: LazyLock<RwLock<HashMap<&'static str, ObjectType>>> =
            LazyLock::new(RwLock::default);
        if let Some(found) = CACHE.read().get(ty.name) {
            return Ok(found.clone());
        }
        let mut builder = SchemaBuilder::new();
        let root = struct_type(&mut builder, &mut Seen::new(), ty);
        let object_type = Self { builtin: true, ..builder.finish(root)? };
        Ok(CACHE.write().entry(ty.name).or_insert(object_type).clone())
    }
}

/// Names of types that are declared already; types may be recursive.
type Seen = HashSet<&'static str>;

fn struct_type(builder: &mut SchemaBuilder, seen: &mut Seen, ty: &'static Type) -> TypeId {
    if !seen.insert(ty.name) {
        return builder.declare(ty.name);
    }
    let id = builder.declare(ty.name);
    let mut def = MapDef::new();
    for field in &ty.fields {
        let ty_of_field = field_type(builder, seen, field);
        def = match default(field) {
            Some(value) => def.field_with_default(field.name, ty_of_field, value),
            None => def.field(field.name, ty_of_field),
        };
    }
    if ty.atomic {
        def = def.atomic();
    }
    let defined = builder.map(def);
    builder.define(ty.name, defined);
    id
}

/// Returns the default of a field, which is needed for missing list keys.
fn default(field: &Field) -> Option<Value> {
    match field.default {
        DefaultValue::Json(text) => serde_json::from_str(text).ok(),
        DefaultValue::None => None,
        DefaultValue::Zero => match field.shape {
            Shape::String => Some(Value::String(String::new())),
            Shape::Int32 | Shape::Int64 | Shape::Double => Some(Value::from(0)),
            Shape::Bool => Some(Value::Bool(false)),
            // List keys are always scalars.
            _ => None,
        },
    }
}

fn field_type(builder: &mut SchemaBuilder, seen: &mut Seen, field: &Field) -> TypeId {
    if let Shape::List(element) = field.shape {
        let element = expr_type(builder, seen, element);
        let merges = field.patch_strategies().any(|strategy| strategy == "merge");
        return match (field.list_type, field.merge_key) {
            (Some(ListType::Map), _) => builder.map_list(element, field.list_keys()),
            (Some(ListType::Set), _) => builder.set(element),
            (Some(ListType::Atomic), _) => builder.atomic_list(element),
            (None, Some(key)) if merges => builder.map_list(element, [key]),
            (None, None) if merges => builder.set(element),
            (None, _) => builder.atomic_list(element),
        };
    }
    let id = shape_type(builder, seen, field.shape);
    match field.map_type {
        Some(map_type) => builder.with_atomic(id, map_type == MapType::Atomic),
        None => id,
    }
}

fn expr_type(builder: &mut SchemaBuilder, seen: &mut Seen, expr: Expr) -> TypeId {
    shape_type(builder, seen, expr.shape())
}

fn shape_type(builder: &mut SchemaBuilder, seen: &mut Seen, shape: Shape) -> TypeId {
    match shape {
        Shape::String => builder.scalar(Scalar::String),
        Shape::Bool => builder.scalar(Scalar::Boolean),
        Shape::Int32 | Shape::Int64 | Shape::Double => builder.scalar(Scalar::Numeric),
        Shape::Bytes => builder.scalar(Scalar::String),
        Shape::Any => builder.deduced(),
        Shape::List(element) => {
            let element = expr_type(builder, seen, element);
            builder.atomic_list(element)
        }
        Shape::Map { value, .. } => {
            let value = expr_type(builder, seen, value);
            builder.map_of(value)
        }
        Shape::Struct(ty) => struct_type(builder, seen, ty.get()),
        Shape::Custom(custom, _) => match custom {
            Custom::Time | Custom::MicroTime | Custom::Quantity => builder.scalar(Scalar::Untyped),
            // OpenAPI publishes it as one of two types, so apply treats it as untyped; decoding
            // validates it.
            Custom::IntOrString => builder.deduced(),
            // An object without declared fields.
            Custom::FieldsV1 => {
                let anything = builder.deduced();
                builder.map_of(anything)
            }
            Custom::RawExtension
            | Custom::Json
            | Custom::JsonSchemaPropsOrArray
            | Custom::JsonSchemaPropsOrBool
            | Custom::JsonSchemaPropsOrStringArray => builder.untyped(),
        },
    }
}
