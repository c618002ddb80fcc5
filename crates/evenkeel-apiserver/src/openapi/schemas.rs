//! The schemas of built-in types, from the table in `evenkeel-types`.
//!
//! [`Schemas`] collects the types a document refers to, transitively.

use std::collections::HashSet;

use evenkeel_types::{
    Custom, DefaultValue, Field, ListType, MapType, Shape, Type, TypeRef, by_name,
};
use serde_json::{Map, Value, json};

use super::Dialect;

pub(super) const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
pub(super) const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";

/// The schemas of a document under construction.
pub(super) struct Schemas<'a> {
    pub(super) dialect: Dialect,
    /// The group and version of the document, if it has one.
    group_version: Option<(&'a str, &'a str)>,
    done: Map<String, Value>,
    seen: HashSet<&'static str>,
    pending: Vec<&'static Type>,
}

impl<'a> Schemas<'a> {
    pub(super) fn new(dialect: Dialect, group_version: Option<(&'a str, &'a str)>) -> Schemas<'a> {
        Schemas {
            dialect,
            group_version,
            done: Map::new(),
            seen: HashSet::new(),
            pending: Vec::new(),
        }
    }

    /// Returns a reference to a type and adds the type to the document.
    pub(super) fn reference(&mut self, ty: &'static Type) -> Value {
        self.require(ty);
        self.dialect.reference(ty.name)
    }

    fn require(&mut self, ty: &'static Type) {
        if self.seen.insert(ty.name) {
            self.pending.push(ty);
        }
    }

    /// Returns a reference to a type to which properties can be added.
    pub(super) fn open_reference(&mut self, name: &str) -> Map<String, Value> {
        if let Some(ty) = by_name(name) {
            self.require(ty);
        }
        self.dialect.open_reference(name)
    }

    /// Adds a schema that is not a built-in type, unless it was added before.
    pub(super) fn insert(&mut self, name: &str, schema: impl FnOnce() -> Value) {
        if !self.done.contains_key(name) {
            self.done.insert(name.to_owned(), schema());
        }
    }

    pub(super) fn finish(mut self) -> Map<String, Value> {
        while let Some(ty) = self.pending.pop() {
            let schema = match ty.custom {
                Some(custom) => self.custom(custom),
                None => Value::Object(self.object(ty)),
            };
            self.done.insert(ty.name.to_owned(), schema);
        }
        self.done
    }

    fn custom(&self, custom: Custom) -> Value {
        match custom {
            Custom::Time | Custom::MicroTime => json!({ "type": "string", "format": "date-time" }),
            Custom::RawExtension | Custom::FieldsV1 => json!({ "type": "object" }),
            Custom::Json
            | Custom::JsonSchemaPropsOrArray
            | Custom::JsonSchemaPropsOrBool
            | Custom::JsonSchemaPropsOrStringArray => json!({}),
            Custom::Quantity => match self.dialect {
                Dialect::V2 => json!({ "type": "string" }),
                Dialect::V3 => json!({ "oneOf": [{ "type": "string" }, { "type": "number" }] }),
            },
            Custom::IntOrString => match self.dialect {
                Dialect::V2 => json!({ "type": "string", "format": "int-or-string" }),
                Dialect::V3 => json!({
                    "format": "int-or-string",
                    "oneOf": [{ "type": "integer" }, { "type": "string" }],
                }),
            },
        }
    }

    fn object(&mut self, ty: &'static Type) -> Map<String, Value> {
        let mut schema = Map::new();
        let mut set = |key: &str, value: Value| schema.insert(key.to_owned(), value);
        set("type", "object".into());
        let required: Vec<Value> = ty
            .fields
            .iter()
            .filter(|field| field.required)
            .map(|field| field.name.into())
            .collect();
        if !required.is_empty() {
            set("required", required.into());
        }
        if !ty.fields.is_empty() {
            let properties = ty.fields.iter().map(|field| {
                let mut property = self.property(field);
                if let Some(text) = description(ty, field) {
                    property.insert("description".to_owned(), text.into());
                }
                (field.name.to_owned(), Value::Object(property))
            });
            set("properties", Value::Object(properties.collect()));
        }
        let kinds = self.kinds(ty);
        if !kinds.is_empty() {
            set("x-kubernetes-group-version-kind", kinds.into());
        }
        if ty.atomic {
            set("x-kubernetes-map-type", "atomic".into());
        }
        if let Some(unions) = ty.unions.and_then(|text| serde_json::from_str(text).ok()) {
            set("x-kubernetes-unions", unions);
        }
        schema
    }

    /// Returns the kinds of a type. Options have a kind in every group; a document of one group
    /// lists that group and the core group.
    fn kinds(&self, ty: &'static Type) -> Vec<Value> {
        let is_relevant = |group: &str, version: &str| match self.group_version {
            Some(group_version) => {
                ty.gvks.len() == 1 || (group, version) == group_version || group.is_empty()
            }
            None => true,
        };
        let mut gvks: Vec<_> =
            ty.gvks.iter().filter(|gvk| is_relevant(gvk.group, gvk.version)).collect();
        gvks.sort_unstable_by_key(|gvk| (gvk.group, gvk.version, gvk.kind));
        gvks.into_iter()
            .map(|gvk| json!({ "group": gvk.group, "version": gvk.version, "kind": gvk.kind }))
            .collect()
    }

    fn property(&mut self, field: &Field) -> Map<String, Value> {
        let mut schema = match field.shape {
            Shape::Struct(ty) | Shape::Custom(_, ty) => {
                self.require(ty.get());
                self.dialect.open_reference(ty.get().name)
            }
            shape => self.value(shape, field),
        };
        let mut set = |key: &str, value: Value| schema.insert(key.to_owned(), value);
        // v2 publishes no defaults: its clients would apply them.
        if self.dialect == Dialect::V3 {
            let default = match field.default {
                DefaultValue::None => None,
                DefaultValue::Zero => zero(field.shape),
                DefaultValue::Json(text) => serde_json::from_str(text).ok(),
            };
            if let Some(default) = default {
                set("default", default);
            }
        }
        if let Some(list_type) = field.list_type {
            let name = match list_type {
                ListType::Atomic => "atomic",
                ListType::Set => "set",
                ListType::Map => "map",
            };
            set("x-kubernetes-list-type", name.into());
        }
        if let Some(map_type) = field.map_type {
            let name = match map_type {
                MapType::Atomic => "atomic",
                MapType::Granular => "granular",
            };
            set("x-kubernetes-map-type", name.into());
        }
        let keys: Vec<&str> = field.list_keys().collect();
        if !keys.is_empty() {
            set("x-kubernetes-list-map-keys", keys.into());
        }
        let strategies: Vec<&str> = field.patch_strategies().collect();
        if !strategies.is_empty() {
            set("x-kubernetes-patch-strategy", strategies.join(",").into());
        }
        if let Some(key) = field.merge_key {
            set("x-kubernetes-patch-merge-key", key.into());
        }
        schema
    }

    /// Returns the schema of a value that is not a reference. Strings are restricted to those the
    /// field allows.
    fn value(&mut self, shape: Shape, field: &Field) -> Map<String, Value> {
        let mut schema = Map::new();
        let mut set = |key: &str, value: Value| schema.insert(key.to_owned(), value);
        let (name, format) = match shape {
            Shape::String => ("string", ""),
            Shape::Bool => ("boolean", ""),
            Shape::Int32 => ("integer", "int32"),
            Shape::Int64 => ("integer", "int64"),
            Shape::Double => ("number", "double"),
            Shape::Bytes => ("string", "byte"),
            Shape::List(_) => ("array", ""),
            Shape::Map { .. } => ("object", ""),
            Shape::Any | Shape::Struct(_) | Shape::Custom(..) => return schema,
        };
        set("type", name.into());
        if !format.is_empty() {
            set("format", format.into());
        }
        match shape {
            Shape::String => {
                let allowed: Vec<&str> = field.allowed().collect();
                if !allowed.is_empty() {
                    set("enum", allowed.into());
                }
            }
            Shape::List(element) => {
                set("items", self.element(element.shape(), field));
            }
            Shape::Map { value, .. } => {
                set("additionalProperties", self.element(value.shape(), field));
            }
            _ => {}
        }
        schema
    }

    /// Returns the schema of a list element or map value.
    fn element(&mut self, shape: Shape, field: &Field) -> Value {
        let mut schema = match (self.dialect, shape) {
            (_, Shape::Custom(_, ty)) | (Dialect::V2, Shape::Struct(ty)) => {
                return self.reference(TypeRef::get(ty));
            }
            (Dialect::V3, Shape::Struct(ty)) => {
                self.require(ty.get());
                self.dialect.open_reference(ty.get().name)
            }
            _ => self.value(shape, field),
        };
        if self.dialect == Dialect::V3
            && let Some(zero) = zero(shape)
        {
            schema.insert("default".to_owned(), zero);
        }
        Value::Object(schema)
    }
}

/// Returns the zero value that v3 publishes as a default.
fn zero(shape: Shape) -> Option<Value> {
    match shape {
        Shape::String => Some("".into()),
        Shape::Bool => Some(false.into()),
        Shape::Int32 | Shape::Int64 | Shape::Double => Some(0.into()),
        Shape::Struct(_) => Some(json!({})),
        Shape::Bytes | Shape::Any | Shape::List(_) | Shape::Map { .. } | Shape::Custom(..) => None,
    }
}

pub(super) const API_VERSION: &str =
    "APIVersion defines the group and version that this object is written in.";
pub(super) const KIND: &str = "Kind names the type of this object, in CamelCase.";
pub(super) const METADATA: &str = "Standard object's metadata: what every object has.";
pub(super) const LIST_METADATA: &str = "Standard list metadata.";

/// Returns the description of a field that all kinds have. The types have no descriptions.
fn description(ty: &Type, field: &Field) -> Option<&'static str> {
    if ty.name == OBJECT_META {
        return object_meta(field.name);
    }
    if ty.gvks.is_empty() {
        return None;
    }
    match (field.name, field.shape) {
        ("apiVersion", _) => Some(API_VERSION),
        ("kind", _) => Some(KIND),
        ("metadata", Shape::Struct(ty)) if ty.name == OBJECT_META => Some(METADATA),
        ("metadata", Shape::Struct(ty)) if ty.name == LIST_META => Some(LIST_METADATA),
        _ => None,
    }
}

fn object_meta(field: &str) -> Option<&'static str> {
    Some(match field {
        "annotations" => "Annotations hold data about the object that selects nothing.",
        "creationTimestamp" => {
            "CreationTimestamp is a timestamp: when the server first stored the object."
        }
        "deletionGracePeriodSeconds" => {
            "DeletionGracePeriodSeconds is how long the object may take to go once it is deleted."
        }
        "deletionTimestamp" => {
            "DeletionTimestamp is when the object is to be gone. Set by the server when a deletion \
             has to wait."
        }
        "finalizers" => "Finalizers must all be removed before the object goes.",
        "generateName" => "GenerateName begins a name that the server completes if there is none.",
        "generation" => "Generation counts the changes of what is wanted.",
        "labels" => "Labels are what selectors match.",
        "managedFields" => "ManagedFields tells who set which fields.",
        "name" => "Name is unique among the objects of the resource in a namespace.",
        "namespace" => "Namespace is the space within which the name is unique.",
        "ownerReferences" => "OwnerReferences are the objects this one goes with.",
        "resourceVersion" => {
            "ResourceVersion changes with each change of the object. Compare it for equality only."
        }
        "selfLink" => "SelfLink is no longer set.",
        "uid" => "UID tells this object from all others of any time.",
        _ => return None,
    })
}
