//! The schemas of custom resources, from their CRDs.
//!
//! v3 documents publish the declared schema, plus the fields that every object has. v2 cannot
//! express all of it, and kubectl rejects fields without a schema; so v2 publishes values that may
//! be null or have unknown fields without their structure.

use serde_json::{Map, Value, json};

use super::schemas::{API_VERSION, KIND, LIST_META, LIST_METADATA, METADATA, OBJECT_META, Schemas};
use super::{Dialect, Served, Source};

type Schema = Map<String, Value>;

/// Returns the schema name of a kind: the reversed group, the version, the kind.
pub(super) fn name(group: &str, version: &str, kind: &str) -> String {
    let mut parts: Vec<&str> = group.split('.').rev().collect();
    parts.extend([version, kind]);
    parts.join(".")
}

/// Adds the schemas of a custom resource and of its list.
pub(super) fn add(served: &Served<'_>, schemas: &mut Schemas<'_>) {
    let Source::Custom { schema, selectable } = &served.schema else { return };
    let Served { group, version, kind, list_kind, .. } = *served;
    let mut kinds = [(kind, root(schema, schemas)), (list_kind, list(served, schemas))];
    for (kind, schema) in &mut kinds {
        schema.insert(
            "x-kubernetes-group-version-kind".to_owned(),
            json!([{ "group": group, "version": version, "kind": kind }]),
        );
        if !selectable.is_empty() {
            let fields = selectable
                .iter()
                .map(|path| json!({ "fieldPath": path.strip_prefix('.').unwrap_or(path) }));
            schema.insert("x-kubernetes-selectable-fields".to_owned(), fields.collect());
        }
    }
    for (kind, schema) in kinds {
        schemas.insert(&name(group, version, kind), || Value::Object(schema));
    }
}

fn root(declared: &Value, schemas: &mut Schemas<'_>) -> Schema {
    let Value::Object(declared) = declared else { return object() };
    let mut schema = match schemas.dialect {
        Dialect::V2 if is_true(declared, PRESERVE) => return object(),
        Dialect::V2 => v2(declared),
        Dialect::V3 => v3(declared, true),
    };
    let properties = properties(&mut schema);
    properties.insert("apiVersion".to_owned(), text(API_VERSION));
    properties.insert("kind".to_owned(), text(KIND));
    properties.insert("metadata".to_owned(), meta(OBJECT_META, METADATA, schemas));
    complete_embedded(&mut schema, schemas);
    schema
}

fn list(served: &Served<'_>, schemas: &mut Schemas<'_>) -> Schema {
    let item = schemas.dialect.reference(&name(served.group, served.version, served.kind));
    let mut schema = object();
    schema.insert("required".to_owned(), json!(["items"]));
    let properties = properties(&mut schema);
    properties.insert("apiVersion".to_owned(), text(API_VERSION));
    properties.insert("kind".to_owned(), text(KIND));
    properties.insert("metadata".to_owned(), meta(LIST_META, LIST_METADATA, schemas));
    properties.insert("items".to_owned(), json!({ "type": "array", "items": item }));
    schema
}

fn object() -> Schema {
    Schema::from_iter([("type".to_owned(), "object".into())])
}

fn text(description: &str) -> Value {
    json!({ "type": "string", "description": description })
}

fn meta(name: &str, description: &str, schemas: &mut Schemas<'_>) -> Value {
    let mut schema = schemas.open_reference(name);
    schema.insert("description".to_owned(), description.into());
    Value::Object(schema)
}

fn properties(schema: &mut Schema) -> &mut Schema {
    let properties = schema.entry("properties").or_insert_with(|| Value::Object(Map::new()));
    if !properties.is_object() {
        *properties = Value::Object(Map::new());
    }
    match properties {
        Value::Object(properties) => properties,
        _ => unreachable!("set to an object above"),
    }
}

const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
const EMBEDDED: &str = "x-kubernetes-embedded-resource";
const INT_OR_STRING: &str = "x-kubernetes-int-or-string";

fn is_true(schema: &Schema, key: &str) -> bool {
    schema.get(key) == Some(&Value::Bool(true))
}

/// Renders the published v3 schema. `structural` is false within `allOf` and the like, which only
/// constrain the structure declared outside.
fn v3(declared: &Schema, structural: bool) -> Schema {
    let mut schema = Schema::new();
    for (key, value) in declared {
        let published = match (key.as_str(), value) {
            (_, Value::Null) => None,
            ("default" | "example", value) => Some(value.clone()),
            ("properties", Value::Object(of)) => {
                nonempty(of.iter().map(|(name, schema)| (name.clone(), nested(schema, structural))))
            }
            ("items" | "not", value) => Some(nested(value, structural && key == "items")),
            ("additionalProperties", value) => structural.then(|| nested(value, true)),
            ("allOf" | "anyOf" | "oneOf", Value::Array(of)) if !of.is_empty() => {
                Some(of.iter().map(|schema| nested(schema, false)).collect())
            }
            (key, value) => (is_published(key) && !is_zero(value)).then(|| value.clone()),
        };
        if let Some(value) = published {
            schema.insert(key.clone(), value);
        }
    }
    if structural && is_true(&schema, INT_OR_STRING) {
        unfold(&mut schema);
    }
    schema
}

fn nested(schema: &Value, structural: bool) -> Value {
    match schema {
        Value::Object(schema) => Value::Object(v3(schema, structural)),
        // `additionalProperties` may be a boolean.
        other => other.clone(),
    }
}

fn nonempty(properties: impl Iterator<Item = (String, Value)>) -> Option<Value> {
    let properties: Schema = properties.collect();
    (!properties.is_empty()).then_some(Value::Object(properties))
}

fn is_published(key: &str) -> bool {
    matches!(
        key,
        "description"
            | "type"
            | "format"
            | "title"
            | "nullable"
            | "externalDocs"
            | "maximum"
            | "exclusiveMaximum"
            | "minimum"
            | "exclusiveMinimum"
            | "maxLength"
            | "minLength"
            | "pattern"
            | "maxItems"
            | "minItems"
            | "uniqueItems"
            | "multipleOf"
            | "enum"
            | "maxProperties"
            | "minProperties"
            | "required"
            | "x-kubernetes-preserve-unknown-fields"
            | "x-kubernetes-embedded-resource"
            | "x-kubernetes-int-or-string"
            | "x-kubernetes-list-map-keys"
            | "x-kubernetes-list-type"
            | "x-kubernetes-map-type"
            | "x-kubernetes-validations"
    )
}

/// Returns whether Go omits the value. Numbers are pointers there, so zeros are kept.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::Bool(flag) => !flag,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Null | Value::Number(_) | Value::Object(_) => false,
    }
}

/// Adds `anyOf` for an integer or a string, unless it is declared.
fn unfold(schema: &mut Schema) {
    let either = json!([{ "type": "integer" }, { "type": "string" }]);
    let spelled_out = schema.get("anyOf") == Some(&either)
        || schema.get("allOf").and_then(|all| all.get(0)?.get("anyOf")) == Some(&either);
    if spelled_out {
        return;
    }
    if !schema.contains_key("anyOf") {
        schema.insert("anyOf".to_owned(), either);
        return;
    }
    let mut all = vec![json!({ "anyOf": either })];
    if let Some(Value::Array(declared)) = schema.remove("allOf") {
        all.extend(declared);
    }
    schema.insert("allOf".to_owned(), Value::Array(all));
}

/// Renders the published v2 schema, restricted to what kubectl accepts.
fn v2(declared: &Schema) -> Schema {
    let nullable = is_true(declared, "nullable");
    let preserve = is_true(declared, PRESERVE);
    let opaque = nullable || preserve;
    let mut schema = Schema::new();
    for (key, value) in declared {
        let published = match (key.as_str(), value) {
            ("default" | "nullable" | "allOf" | "anyOf" | "oneOf" | "not", _) => None,
            ("items" | "properties", _) if opaque => None,
            ("type", Value::String(ty)) => {
                // kubectl supports neither lists without items nor objects with unknown fields.
                let bare = match ty.as_str() {
                    "array" => opaque || !declared.contains_key("items"),
                    "object" => preserve,
                    _ => false,
                };
                (!nullable && !bare && !ty.is_empty()).then(|| value.clone())
            }
            ("required", Value::Array(names)) => required(names, declared, opaque),
            ("example", Value::Null) => None,
            ("example", value) => Some(value.clone()),
            ("properties", Value::Object(of)) => {
                nonempty(of.iter().map(|(name, schema)| (name.clone(), nested_v2(schema))))
            }
            ("items" | "additionalProperties", Value::Null) => None,
            ("items" | "additionalProperties", value) => Some(nested_v2(value)),
            (_, Value::Null) => None,
            (key, value) => (is_published(key) && !is_zero(value)).then(|| value.clone()),
        };
        if let Some(value) = published {
            schema.insert(key.clone(), value);
        }
    }
    schema
}

fn nested_v2(schema: &Value) -> Value {
    match schema {
        Value::Object(schema) => Value::Object(v2(schema)),
        other => other.clone(),
    }
}

/// Returns the required names without nullable fields, which v2 cannot express.
fn required(names: &[Value], declared: &Schema, opaque: bool) -> Option<Value> {
    let may_be_null = |schema: Option<&Value>| {
        schema.and_then(Value::as_object).is_some_and(|schema| is_true(schema, "nullable"))
    };
    if may_be_null(declared.get("additionalProperties")) {
        return None;
    }
    let properties = declared.get("properties").filter(|_| !opaque);
    let kept: Vec<Value> = names
        .iter()
        .filter(|name| {
            let property = name.as_str().and_then(|name| properties?.get(name));
            !may_be_null(property)
        })
        .cloned()
        .collect();
    (!kept.is_empty()).then_some(Value::Array(kept))
}

/// Adds type and object metadata to each embedded resource.
fn complete_embedded(schema: &mut Schema, schemas: &mut Schemas<'_>) {
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        for property in properties.values_mut() {
            if let Value::Object(property) = property {
                complete_embedded(property, schemas);
            }
        }
    }
    for key in ["items", "additionalProperties"] {
        if let Some(Value::Object(inner)) = schema.get_mut(key) {
            complete_embedded(inner, schemas);
        }
    }
    let open = schemas.dialect == Dialect::V2 && is_true(schema, PRESERVE);
    if open || !is_true(schema, EMBEDDED) {
        return;
    }
    let properties = properties(schema);
    properties.insert("apiVersion".to_owned(), text(API_VERSION));
    properties.insert("kind".to_owned(), text(KIND));
    properties.insert("metadata".to_owned(), meta(OBJECT_META, METADATA, schemas));
    let required = schema.entry("required").or_insert_with(|| Value::Array(Vec::new()));
    if let Value::Array(required) = required {
        for name in ["kind", "apiVersion"] {
            if !required.iter().any(|known| known == name) {
                required.push(name.into());
            }
        }
    }
}
