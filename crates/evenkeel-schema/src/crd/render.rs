//! Prints parts of a CRD as Go prints its internal structs: all fields, in declaration order.

use evenkeel_types::{go, json};
use serde_json::Value;

use super::schema::{Additional, Items, Schema};
use super::spec::{Parts, Spec, present, text};

/// Schema keywords and the names of their Go fields, in the order of the struct.
pub(super) const FIELDS: [(&str, &str); 43] = [
    ("id", "ID"),
    ("$schema", "Schema"),
    ("$ref", "Ref"),
    ("description", "Description"),
    ("type", "Type"),
    ("nullable", "Nullable"),
    ("format", "Format"),
    ("title", "Title"),
    ("default", "Default"),
    ("maximum", "Maximum"),
    ("exclusiveMaximum", "ExclusiveMaximum"),
    ("minimum", "Minimum"),
    ("exclusiveMinimum", "ExclusiveMinimum"),
    ("maxLength", "MaxLength"),
    ("minLength", "MinLength"),
    ("pattern", "Pattern"),
    ("maxItems", "MaxItems"),
    ("minItems", "MinItems"),
    ("uniqueItems", "UniqueItems"),
    ("multipleOf", "MultipleOf"),
    ("enum", "Enum"),
    ("maxProperties", "MaxProperties"),
    ("minProperties", "MinProperties"),
    ("required", "Required"),
    ("items", "Items"),
    ("allOf", "AllOf"),
    ("oneOf", "OneOf"),
    ("anyOf", "AnyOf"),
    ("not", "Not"),
    ("properties", "Properties"),
    ("additionalProperties", "AdditionalProperties"),
    ("patternProperties", "PatternProperties"),
    ("dependencies", "Dependencies"),
    ("additionalItems", "AdditionalItems"),
    ("definitions", "Definitions"),
    ("externalDocs", "ExternalDocs"),
    ("example", "Example"),
    ("x-kubernetes-preserve-unknown-fields", "XPreserveUnknownFields"),
    ("x-kubernetes-embedded-resource", "XEmbeddedResource"),
    ("x-kubernetes-int-or-string", "XIntOrString"),
    ("x-kubernetes-list-map-keys", "XListMapKeys"),
    ("x-kubernetes-list-type", "XListType"),
    ("x-kubernetes-map-type", "XMapType"),
];

/// Prints `spec.versions`.
pub(super) fn versions(spec: &Spec<'_>) -> String {
    if !spec.has_versions {
        return "null".to_owned();
    }
    let list = spec.versions.iter().map(|version| {
        record(&[
            ("Name", string(version.name)),
            ("Served", version.served.to_string()),
            ("Storage", version.storage.to_string()),
            ("Deprecated", version.deprecated.to_string()),
            ("DeprecationWarning", version.deprecation_warning.map_or_else(null, string)),
            ("Schema", version.parts.validation.map_or_else(null, |_| validation(&version.parts))),
            ("Subresources", version.parts.subresources.map_or_else(null, subresources)),
            ("AdditionalPrinterColumns", optional_list(version.parts.columns, column)),
            (
                "SelectableFields",
                optional_list(version.parts.selectable, |field| {
                    record(&[("JSONPath", string(text(field, "jsonPath")))])
                }),
            ),
        ])
    });
    array(list)
}

fn validation(parts: &Parts<'_>) -> String {
    record(&[("OpenAPIV3Schema", parts.schema().map_or_else(null, schema))])
}

fn subresources(value: &Value) -> String {
    let scale = |scale: &Value| {
        let selector = scale.get("labelSelectorPath").and_then(Value::as_str);
        record(&[
            ("SpecReplicasPath", string(text(scale, "specReplicasPath"))),
            ("StatusReplicasPath", string(text(scale, "statusReplicasPath"))),
            ("LabelSelectorPath", selector.map_or_else(null, string)),
        ])
    };
    record(&[
        ("Status", present(value, "status").map_or_else(null, |_| "{}".to_owned())),
        ("Scale", present(value, "scale").map_or_else(null, scale)),
    ])
}

fn column(column: &Value) -> String {
    let priority = column.get("priority").and_then(Value::as_i64).unwrap_or(0);
    record(&[
        ("Name", string(text(column, "name"))),
        ("Type", string(text(column, "type"))),
        ("Format", string(text(column, "format"))),
        ("Description", string(text(column, "description"))),
        ("Priority", priority.to_string()),
        ("JSONPath", string(text(column, "jsonPath"))),
    ])
}

/// Prints one `JSONSchemaProps`.
pub(super) fn schema(given: Schema<'_>) -> String {
    let mut fields: Vec<(&str, String)> =
        FIELDS.iter().map(|(key, name)| (*name, keyword(given, key))).collect();
    fields.push(("XValidations", optional_list(given.get("x-kubernetes-validations"), rule)));
    record(&fields)
}

fn keyword(given: Schema<'_>, key: &str) -> String {
    match key {
        "id" | "$schema" | "description" | "type" | "format" | "title" | "pattern" => {
            string(given.text(key))
        }
        "nullable"
        | "exclusiveMaximum"
        | "exclusiveMinimum"
        | "uniqueItems"
        | "x-kubernetes-embedded-resource"
        | "x-kubernetes-int-or-string" => given.flag(key).to_string(),
        "allOf" | "anyOf" | "oneOf" => {
            given.get(key).map_or_else(null, |_| array(given.list(key).into_iter().map(schema)))
        }
        "not" => given.not().map_or_else(null, schema),
        "properties" | "patternProperties" | "definitions" => {
            given.get(key).map_or_else(null, |_| named(given, key))
        }
        "items" => match given.items() {
            None => null(),
            Some(Items::One(item)) => record(&[("Schema", schema(item)), ("JSONSchemas", null())]),
            Some(Items::Many(items)) => {
                let items = array(items.into_iter().map(schema));
                record(&[("Schema", null()), ("JSONSchemas", items)])
            }
        },
        "additionalProperties" => match given.additional() {
            None => null(),
            Some(Additional::Allowed(allowed)) => {
                record(&[("Allows", allowed.to_string()), ("Schema", null())])
            }
            Some(Additional::Schema(child)) => {
                record(&[("Allows", "true".to_owned()), ("Schema", schema(child))])
            }
        },
        "externalDocs" => given.get(key).map_or_else(null, |docs| {
            record(&[
                ("Description", string(text(docs, "description"))),
                ("URL", string(text(docs, "url"))),
            ])
        }),
        _ => given.get(key).map_or_else(null, go::json),
    }
}

fn named(given: Schema<'_>, key: &str) -> String {
    let entries: Vec<String> = given
        .named(key)
        .into_iter()
        .map(|(name, child)| format!("{}:{}", string(name), schema(child)))
        .collect();
    format!("{{{}}}", entries.join(","))
}

/// Prints one `ValidationRule`.
pub(super) fn rule(rule: &Value) -> String {
    let optional = |key: &str| rule.get(key).filter(|v| !v.is_null()).map_or_else(null, go::json);
    record(&[
        ("Rule", string(text(rule, "rule"))),
        ("Message", string(text(rule, "message"))),
        ("MessageExpression", string(text(rule, "messageExpression"))),
        ("Reason", optional("reason")),
        ("FieldPath", string(text(rule, "fieldPath"))),
        ("OptionalOldSelf", optional("optionalOldSelf")),
    ])
}

fn optional_list(list: Option<&Value>, item: impl Fn(&Value) -> String) -> String {
    match list.and_then(Value::as_array) {
        Some(list) => array(list.iter().map(item)),
        None => null(),
    }
}

fn record(fields: &[(&str, String)]) -> String {
    let fields: Vec<String> =
        fields.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
    format!("{{{}}}", fields.join(","))
}

fn array(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(","))
}

pub(super) fn string(text: &str) -> String {
    let mut out = String::new();
    json::string(&mut out, text);
    out
}

fn null() -> String {
    "null".to_owned()
}
