//! Schemas from documents: structural schemas of CRDs and OpenAPI schemas.
//!
//! Types and extensions are mapped as by kube-openapi's `schemaconv`. What it cannot express (an
//! unknown list type, an array without items) is an error, so that the CRD is rejected.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::{
    ElementRelationship, Keys, ListType, MapDef, ObjectType, Scalar, Schema, SchemaBuilder,
    SchemaError, TypeDef, TypeId,
};
use crate::MAX_DEPTH;

const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";
const RAW_EXTENSION: &str = "io.k8s.apimachinery.pkg.runtime.RawExtension";

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
        let reader = Reader { name: "schema", structural: true };
        let root = reader.resource(&mut builder, document, preserve_unknown_fields)?;
        builder.finish(root)
    }

    /// Builds all types of an OpenAPI document: `definitions` (v2) or `components.schemas` (v3).
    pub fn from_openapi(definitions: &Map<String, Value>) -> Result<Arc<Self>, SchemaError> {
        let mut builder = SchemaBuilder::new();
        for (name, document) in definitions {
            if document.get("$ref").is_some() {
                continue;
            }
            let id = match name.as_str() {
                QUANTITY => builder.scalar(Scalar::Untyped),
                RAW_EXTENSION => builder.untyped(),
                _ => Reader { name, structural: false }.read(&mut builder, document, false, 0)?,
            };
            builder.define(name, id);
        }
        builder.build()
    }
}

#[derive(Clone, Copy)]
struct Reader<'a> {
    /// The name of the type, for error messages.
    name: &'a str,
    /// Whether the metadata of embedded resources is typed.
    structural: bool,
}

impl Reader<'_> {
    fn resource(
        self,
        builder: &mut SchemaBuilder,
        document: &Value,
        preserve: bool,
    ) -> Result<TypeId, SchemaError> {
        let preserve = preserve || preserves_unknown(document);
        let def = self.map(builder, document, preserve, 0)?;
        let meta = builder.object_meta();
        Ok(builder.object(def.field("metadata", meta)))
    }

    fn read(
        self,
        builder: &mut SchemaBuilder,
        document: &Value,
        preserve: bool,
        depth: usize,
    ) -> Result<TypeId, SchemaError> {
        if depth > MAX_DEPTH {
            return Err(self.error("nested too deeply"));
        }
        if let Some(name) = reference(document) {
            let id = builder.declare(name);
            return Ok(match self.map_type(document)? {
                Some(atomic) => builder.with_atomic(id, atomic),
                None => id,
            });
        }
        let preserve = preserve || preserves_unknown(document);
        let def = match document.get("type").and_then(Value::as_str).unwrap_or_default() {
            "" => TypeDef {
                name: None,
                scalar: Some(Scalar::Untyped),
                list: Some(self.list(builder, document, preserve, depth)?),
                map: Some(self.map(builder, document, preserve, depth)?.into_map()),
            },
            "object" => TypeDef {
                map: Some(self.map(builder, document, preserve, depth)?.into_map()),
                ..TypeDef::default()
            },
            "array" => TypeDef {
                list: Some(self.list(builder, document, preserve, depth)?),
                ..TypeDef::default()
            },
            "integer" | "number" => scalar(Scalar::Numeric),
            "boolean" => scalar(Scalar::Boolean),
            "string" => match document.get("format").and_then(Value::as_str).unwrap_or_default() {
                "" | "byte" => scalar(Scalar::String),
                _ => scalar(Scalar::Untyped),
            },
            other => return Err(self.error(&format!("unrecognized type: '{other}'"))),
        };
        Ok(builder.add(def))
    }

    fn map(
        self,
        builder: &mut SchemaBuilder,
        document: &Value,
        preserve: bool,
        depth: usize,
    ) -> Result<MapDef, SchemaError> {
        let mut def = MapDef::new();
        let properties = document.get("properties").and_then(Value::as_object);
        for (name, property) in properties.into_iter().flatten() {
            let ty = self.read(builder, property, preserve, depth + 1)?;
            def = def.field_with_default(name.clone(), ty, property.get("default").cloned());
        }
        let embedded = self.structural && flag(document, "x-kubernetes-embedded-resource");
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
            Some(document) => Some(self.read(builder, document, preserve, depth + 1)?),
        };
        if let Some(element) = element {
            def = def.element_type(element);
        }
        if self.map_type(document)? == Some(true) {
            def = def.atomic();
        }
        Ok(def)
    }

    fn list(
        self,
        builder: &mut SchemaBuilder,
        document: &Value,
        preserve: bool,
        depth: usize,
    ) -> Result<ListType, SchemaError> {
        let relationship = self.list_type(document)?;
        let element = match document.get("items") {
            Some(items) if items.is_object() => self.read(builder, items, preserve, depth + 1)?,
            Some(_) => {
                return Err(
                    self.error("structural schema arrays must have exactly one member subtype")
                );
            }
            None if document.get("type").is_none() => builder.untyped(),
            None => return Err(self.error("`items` must be specified on arrays")),
        };
        Ok(ListType { element, relationship })
    }

    fn list_type(self, document: &Value) -> Result<ElementRelationship, SchemaError> {
        let text = |key| document.get(key).and_then(Value::as_str);
        let keys = |names| ElementRelationship::Map(Keys { names, fields: Vec::new() });
        match text("x-kubernetes-list-type") {
            Some("atomic") => return Ok(ElementRelationship::Atomic),
            Some("set") => return Ok(ElementRelationship::Set),
            Some("map") => {
                let names = document.get("x-kubernetes-list-map-keys").and_then(Value::as_array);
                let names = names.ok_or_else(|| self.error("missing map keys"))?;
                let names = names.iter().filter_map(Value::as_str).map(str::to_owned);
                return Ok(keys(names.collect()));
            }
            Some(other) => return Err(self.error(&format!("unknown list type {other}"))),
            None => {}
        }
        match text("x-kubernetes-patch-strategy") {
            Some("merge" | "merge,retainKeys") => match text("x-kubernetes-patch-merge-key") {
                Some(key) => Ok(keys(vec![key.to_owned()])),
                None => Ok(ElementRelationship::Set),
            },
            None | Some("retainKeys") => Ok(ElementRelationship::Atomic),
            Some(other) => Err(self.error(&format!("unknown patch strategy {other}"))),
        }
    }

    /// Returns whether a map is declared atomic (true) or granular (false); `None` if neither.
    fn map_type(self, document: &Value) -> Result<Option<bool>, SchemaError> {
        match document.get("x-kubernetes-map-type").and_then(Value::as_str) {
            None => Ok(None),
            Some("atomic") => Ok(Some(true)),
            Some("granular") => Ok(Some(false)),
            Some(other) => Err(self.error(&format!("unknown map type {other}"))),
        }
    }

    fn error(self, message: &str) -> SchemaError {
        SchemaError::Document(self.name.into(), message.into())
    }
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

/// Returns the name that a document references, directly or through a single `allOf`.
fn reference(document: &Value) -> Option<&str> {
    let direct = document.get("$ref");
    let wrapped = || match document.get("allOf")?.as_array()?.as_slice() {
        [only] => only.get("$ref"),
        _ => None,
    };
    let target = direct.or_else(wrapped)?.as_str()?;
    target.rsplit('/').next().filter(|name| !name.is_empty())
}
