//! Schemas from the structural schemas of CRDs.
//!
//! Types and extensions are mapped as by kube-openapi's `schemaconv`. What it cannot express (an
//! unknown list type, an array without items) is an error, so that the CRD is rejected.

use serde_json::Value;

use super::{
    ElementRelationship, Keys, ListType, MapDef, ObjectType, Scalar, Schema, SchemaBuilder,
    SchemaError, TypeDef, TypeId,
};
use crate::MAX_DEPTH;

impl Schema {
    /// Builds the type of a custom resource from the `openAPIV3Schema` of one of its versions.
    ///
    /// `preserve_unknown_fields` is the legacy field of the CRD. `apiVersion`, `kind` and
    /// `metadata` always have their standard types.
    pub fn from_structural(
        document: &Value,
        preserve_unknown_fields: bool,
    ) -> Result<ObjectType, SchemaError> {
        let mut builder = SchemaBuilder::new();
        let root = resource(&mut builder, document, preserve_unknown_fields)?;
        builder.finish(root)
    }
}

fn resource(
    builder: &mut SchemaBuilder,
    document: &Value,
    preserve: bool,
) -> Result<TypeId, SchemaError> {
    let preserve = preserve || preserves_unknown(document);
    let def = map(builder, document, preserve, 0)?;
    let meta = builder.object_meta();
    Ok(builder.object(def.field("metadata", meta)))
}

fn read(
    builder: &mut SchemaBuilder,
    document: &Value,
    preserve: bool,
    depth: usize,
) -> Result<TypeId, SchemaError> {
    if depth > MAX_DEPTH {
        return Err(error("nested too deeply"));
    }
    let preserve = preserve || preserves_unknown(document);
    let def = match document.get("type").and_then(Value::as_str).unwrap_or_default() {
        "" => TypeDef {
            name: None,
            scalar: Some(Scalar::Untyped),
            list: Some(list(builder, document, preserve, depth)?),
            map: Some(map(builder, document, preserve, depth)?.into_map()),
        },
        "object" => TypeDef {
            map: Some(map(builder, document, preserve, depth)?.into_map()),
            ..TypeDef::default()
        },
        "array" => {
            TypeDef { list: Some(list(builder, document, preserve, depth)?), ..TypeDef::default() }
        }
        "integer" | "number" => scalar(Scalar::Numeric),
        "boolean" => scalar(Scalar::Boolean),
        "string" => match document.get("format").and_then(Value::as_str).unwrap_or_default() {
            "" | "byte" => scalar(Scalar::String),
            _ => scalar(Scalar::Untyped),
        },
        other => return Err(error(&format!("unrecognized type: '{other}'"))),
    };
    Ok(builder.add(def))
}

fn map(
    builder: &mut SchemaBuilder,
    document: &Value,
    preserve: bool,
    depth: usize,
) -> Result<MapDef, SchemaError> {
    let mut def = MapDef::new();
    let properties = document.get("properties").and_then(Value::as_object);
    for (name, property) in properties.into_iter().flatten() {
        let ty = read(builder, property, preserve, depth + 1)?;
        def = def.field_with_default(name.clone(), ty, property.get("default").cloned());
    }
    let embedded = flag(document, "x-kubernetes-embedded-resource");
    if embedded {
        let string = builder.scalar(Scalar::String);
        let meta = builder.object_meta();
        def = def.fields(["apiVersion", "kind"], string).field("metadata", meta);
    }
    let element = match document.get("additionalProperties") {
        // Without properties and additionalProperties, the object is free-form.
        None if preserve || !(embedded || properties.is_some_and(|map| !map.is_empty())) => {
            Some(builder.deduced())
        }
        Some(Value::Bool(true)) => Some(builder.deduced()),
        None | Some(Value::Bool(false)) => None,
        Some(document) => Some(read(builder, document, preserve, depth + 1)?),
    };
    if let Some(element) = element {
        def = def.element_type(element);
    }
    if map_type(document)? == Some(true) {
        def = def.atomic();
    }
    Ok(def)
}

fn list(
    builder: &mut SchemaBuilder,
    document: &Value,
    preserve: bool,
    depth: usize,
) -> Result<ListType, SchemaError> {
    let relationship = list_type(document)?;
    let element = match document.get("items") {
        Some(items) if items.is_object() => read(builder, items, preserve, depth + 1)?,
        Some(_) => {
            return Err(error("structural schema arrays must have exactly one member subtype"));
        }
        None if document.get("type").is_none() => builder.untyped(),
        None => return Err(error("`items` must be specified on arrays")),
    };
    Ok(ListType { element, relationship })
}

fn list_type(document: &Value) -> Result<ElementRelationship, SchemaError> {
    let text = |key| document.get(key).and_then(Value::as_str);
    let keys = |names| ElementRelationship::Map(Keys { names, fields: Vec::new() });
    match text("x-kubernetes-list-type") {
        Some("atomic") => return Ok(ElementRelationship::Atomic),
        Some("set") => return Ok(ElementRelationship::Set),
        Some("map") => {
            let names = document.get("x-kubernetes-list-map-keys").and_then(Value::as_array);
            let names = names.ok_or_else(|| error("missing map keys"))?;
            let names = names.iter().filter_map(Value::as_str).map(str::to_owned);
            return Ok(keys(names.collect()));
        }
        Some(other) => return Err(error(&format!("unknown list type {other}"))),
        None => {}
    }
    match text("x-kubernetes-patch-strategy") {
        Some("merge" | "merge,retainKeys") => match text("x-kubernetes-patch-merge-key") {
            Some(key) => Ok(keys(vec![key.to_owned()])),
            None => Ok(ElementRelationship::Set),
        },
        None | Some("retainKeys") => Ok(ElementRelationship::Atomic),
        Some(other) => Err(error(&format!("unknown patch strategy {other}"))),
    }
}

/// Returns whether a map is declared atomic (true) or granular (false); `None` if neither.
fn map_type(document: &Value) -> Result<Option<bool>, SchemaError> {
    match document.get("x-kubernetes-map-type").and_then(Value::as_str) {
        None => Ok(None),
        Some("atomic") => Ok(Some(true)),
        Some("granular") => Ok(Some(false)),
        Some(other) => Err(error(&format!("unknown map type {other}"))),
    }
}

fn error(message: &str) -> SchemaError {
    SchemaError::Document(message.to_owned())
}

fn scalar(scalar: Scalar) -> TypeDef {
    TypeDef { scalar: Some(scalar), ..TypeDef::default() }
}

fn flag(document: &Value, name: &str) -> bool {
    document.get(name) == Some(&Value::Bool(true))
}

fn preserves_unknown(document: &Value) -> bool {
    flag(document, "x-kubernetes-preserve-unknown-fields")
}
