//! Validates the keywords of a schema, structural or not.

use std::collections::HashSet;

use serde_json::Value;

use super::options::Options;
use super::schema::{Additional, Items, Schema};
use super::spec::text;
use super::{field_path, render, rules};
use crate::field::{Error, exceeds_text_limit};

pub(super) const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];

const REASONS: [&str; 4] =
    ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

/// Checks a schema. Rules are checked if there is a place for them.
pub(super) fn check(
    schema: Schema<'_>,
    path: &str,
    options: &Options<'_>,
    rules: Option<rules::Place<'_>>,
    errors: &mut Vec<Error>,
) {
    let context = Context { options, defaults_forbidden_reason: None, in_metadata: false, rules };
    context.check(schema, path, true, errors);
}

/// Validates the root schema of a CRD with a `status` subresource. The root is split there, so only
/// some keywords are allowed.
pub(super) fn check_root_for_status(schema: Schema<'_>, path: &str, errors: &mut Vec<Error>) {
    const ALLOWED: [&str; 22] = [
        "Description",
        "Type",
        "Format",
        "Title",
        "Maximum",
        "ExclusiveMaximum",
        "Minimum",
        "ExclusiveMinimum",
        "MaxLength",
        "MinLength",
        "Pattern",
        "MaxItems",
        "MinItems",
        "UniqueItems",
        "MultipleOf",
        "Required",
        "Items",
        "Properties",
        "ExternalDocs",
        "Example",
        "XPreserveUnknownFields",
        "XValidations",
    ];
    let used: Vec<&str> = schema.keywords().collect();
    for (key, name) in render::FIELDS.iter().filter(|(key, _)| used.contains(key)) {
        if *key == "type" {
            if schema.type_name() != "object" {
                errors.push(Error::invalid(
                    format!("{path}.openAPIV3Schema.type"),
                    schema.type_name(),
                    "only \"object\" is allowed as the type at the root of the schema if the \
                     status subresource is enabled",
                ));
                return;
            }
        } else if !ALLOWED.contains(name) {
            errors.push(Error::invalid_text(
                format!("{path}.openAPIV3Schema"),
                &render::schema(schema),
                &format!(
                    "only [{}] fields are allowed at the root of the schema if the status \
                     subresource is enabled",
                    ALLOWED.join(" ")
                ),
            ));
            return;
        }
    }
}

pub(super) fn has_extensions(schema: Schema<'_>) -> bool {
    schema.is_embedded()
        || schema.preserves_unknown().is_some()
        || schema.is_int_or_string()
        || !schema.texts("x-kubernetes-list-map-keys").is_empty()
        || schema.list_type().is_some()
        || has_rules(schema)
}

pub(super) fn has_rules(schema: Schema<'_>) -> bool {
    !schema.list("x-kubernetes-validations").is_empty()
}

pub(super) fn is_set_of_non_atomic(schema: Schema<'_>) -> bool {
    let Some(item) = schema.item().filter(|_| schema.list_type() == Some("set")) else {
        return false;
    };
    match item.type_name() {
        "array" => item.list_type().is_some_and(|kind| kind != "atomic"),
        "object" => item.map_type() != Some("atomic"),
        _ => false,
    }
}

pub(super) fn has_invalid_list_keys(schema: Schema<'_>) -> bool {
    let mut errors = Vec::new();
    check_list_keys(schema, "", &mut errors);
    !errors.is_empty()
}

#[derive(Clone, Copy)]
struct Context<'a> {
    options: &'a Options<'a>,
    /// The reason why defaults are forbidden here, if they are.
    defaults_forbidden_reason: Option<&'a str>,
    in_metadata: bool,
    /// Where the rules of the schema are checked.
    rules: Option<rules::Place<'a>>,
}

impl Context<'_> {
    fn check(self, schema: Schema<'_>, path: &str, root: bool, errors: &mut Vec<Error>) {
        let at = |key: &str| format!("{path}.{key}");
        let before = errors.len();
        self.check_keywords(schema, path, errors);
        if schema.flag("uniqueItems") {
            let detail =
                "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
            errors.push(Error::forbidden(at("uniqueItems"), detail));
        }
        self.check_fields(schema, path, root, errors);
        let without_rules = Context { rules: None, ..self };
        if let Some(not) = schema.not() {
            without_rules.check(not, &at("not"), false, errors);
        }
        for key in ["allOf", "oneOf", "anyOf"] {
            for (i, nested) in schema.list(key).into_iter().enumerate() {
                without_rules.check(nested, &format!("{path}.{key}[{i}]"), false, errors);
            }
        }
        for (name, nested) in schema.named("definitions") {
            without_rules.check(nested, &format!("{path}.definitions[{name}]"), false, errors);
        }
        match schema.items() {
            Some(Items::One(item)) => {
                let rules = self.rules.and_then(|place| place.items(schema, path));
                Context { rules, ..self }.check(item, &at("items"), false, errors);
            }
            Some(Items::Many(items)) => {
                for (i, item) in items.into_iter().enumerate() {
                    without_rules.check(item, &format!("{path}.items[{i}]"), false, errors);
                }
            }
            None => {}
        }
        for (name, nested) in schema.named("dependencies") {
            without_rules.check(nested, &format!("{path}.dependencies[{name}]"), false, errors);
        }
        if schema.preserves_unknown() == Some(false) {
            let path = at("x-kubernetes-preserve-unknown-fields");
            errors.push(Error::invalid(path, false, "must be true or undefined"));
        }
        check_map_type(schema, path, errors);
        self.check_list_type(schema, path, errors);
        if self.options.require_valid_list_keys {
            check_list_keys(schema, path, errors);
        }
        check_rules(schema, path, errors);
        // Expressions on an invalid schema would have misleading errors.
        if let Some(place) = self.rules.filter(|_| errors.len() == before) {
            place.check(schema, path);
        }
    }

    fn check_keywords(self, schema: Schema<'_>, path: &str, errors: &mut Vec<Error>) {
        let at = |key: &str| format!("{path}.{key}");
        let type_name = schema.type_name();
        if self.options.require_valid_types && !type_name.is_empty() && !TYPES.contains(&type_name)
        {
            errors.push(Error::not_supported(at("type"), type_name, TYPES));
        }
        if let Some(reason) =
            self.defaults_forbidden_reason.filter(|_| schema.get("default").is_some())
        {
            errors.push(Error::forbidden(at("default"), format!("must not be set {reason}")));
        }
        let mut unsupported = |key: &str, set: bool| {
            if set {
                errors.push(Error::forbidden(at(key), format!("{key} is not supported")));
            }
        };
        unsupported("id", !schema.text("id").is_empty());
        unsupported("additionalItems", schema.get("additionalItems").is_some());
        unsupported("patternProperties", !schema.named("patternProperties").is_empty());
        unsupported("definitions", !schema.named("definitions").is_empty());
        unsupported("dependencies", schema.get("dependencies").is_some());
        unsupported("$ref", schema.get("$ref").is_some());
        if type_name == "null" {
            let detail = "type cannot be set to null, use nullable as an alternative";
            errors.push(Error::forbidden(at("type"), detail));
        }
        if matches!(schema.items(), Some(Items::Many(list)) if !list.is_empty()) {
            let detail = "items must be a schema object and not an array";
            errors.push(Error::forbidden(at("items"), detail));
        }
        if self.in_metadata && schema.is_embedded() {
            let path = at("x-kubernetes-embedded-resource");
            errors.push(Error::forbidden(path, "must not be used inside of resource meta"));
        }
    }

    fn check_fields(self, schema: Schema<'_>, path: &str, root: bool, errors: &mut Vec<Error>) {
        let properties = schema.properties();
        if let Some(additional) = schema.additional() {
            let path = format!("{path}.additionalProperties");
            let open = matches!(additional, Additional::Allowed(true));
            if !properties.is_empty() && !open {
                let detail = "additionalProperties and properties are mutual exclusive";
                errors.push(Error::forbidden(&*path, detail));
            }
            if let Additional::Schema(child) = additional {
                // Forbids defaults because pruning is ambiguous here without an actual value.
                let reason = "inside additionalProperties applying to object metadata";
                let context = Context {
                    defaults_forbidden_reason: if self.in_metadata {
                        Some(reason)
                    } else {
                        self.defaults_forbidden_reason
                    },
                    rules: self.rules.and_then(rules::Place::values),
                    ..self
                };
                context.check(child, &path, false, errors);
            }
        }
        for (name, property) in properties {
            let is_meta = matches!(name, "metadata" | "kind" | "apiVersion");
            let reason = format!("in top-level {name}");
            let mut context = Context {
                defaults_forbidden_reason: self.defaults_forbidden_reason,
                rules: self.rules.and_then(|place| place.property(name)),
                ..self
            };
            if is_meta && (root || schema.is_embedded()) {
                context.in_metadata = true;
                if root {
                    context.defaults_forbidden_reason = Some(&reason);
                }
            }
            context.check(property, &format!("{path}.properties[{name}]"), false, errors);
        }
    }

    fn check_list_type(self, schema: Schema<'_>, path: &str, errors: &mut Vec<Error>) {
        let at = |key: &str| format!("{path}.{key}");
        let keys = schema.texts("x-kubernetes-list-map-keys");
        let list_type = schema.list_type();
        if let Some(kind) = list_type {
            let detail = "must be array if x-kubernetes-list-type is specified";
            match schema.type_name() {
                "array" => {
                    if self.options.require_atomic_sets {
                        check_set_items(schema, path, errors);
                    }
                }
                "" => errors.push(Error::required(at("type"), detail)),
                other => errors.push(Error::invalid(at("type"), other, detail)),
            }
            if !matches!(kind, "atomic" | "set" | "map") {
                let path = at("x-kubernetes-list-type");
                errors.push(Error::not_supported(path, kind, ["atomic", "set", "map"]));
            }
        }
        if !keys.is_empty() {
            let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
            match list_type {
                Some("map") => {}
                None => errors.push(Error::required(at("x-kubernetes-list-type"), detail)),
                Some(other) => {
                    errors.push(Error::invalid(at("x-kubernetes-list-type"), other, detail));
                }
            }
        }
        if list_type == Some("map") {
            check_map_list(schema, &keys, path, errors);
        }
    }
}

fn check_map_type(schema: Schema<'_>, path: &str, errors: &mut Vec<Error>) {
    let Some(kind) = schema.map_type() else { return };
    let detail = "must be object if x-kubernetes-map-type is specified";
    match schema.type_name() {
        "object" => {}
        "" => errors.push(Error::required(format!("{path}.type"), detail)),
        other => errors.push(Error::invalid(format!("{path}.type"), other, detail)),
    }
    if !matches!(kind, "atomic" | "granular") {
        let path = format!("{path}.x-kubernetes-map-type");
        errors.push(Error::not_supported(path, kind, ["atomic", "granular"]));
    }
}

fn check_set_items(schema: Schema<'_>, path: &str, errors: &mut Vec<Error>) {
    if !is_set_of_non_atomic(schema) {
        return;
    }
    let Some(item) = schema.item() else { return };
    let key = if item.type_name() == "array" { "list" } else { "map" };
    // Upstream reports the list type as the value in both cases.
    let shown = item.list_type().map_or(Value::Null, Value::from);
    errors.push(Error::invalid(
        format!("{path}.items.x-kubernetes-{key}-type"),
        shown,
        "must be atomic as item of a list with x-kubernetes-list-type=set",
    ));
}

fn check_map_list(schema: Schema<'_>, keys: &[&str], path: &str, errors: &mut Vec<Error>) {
    let keys_path = format!("{path}.x-kubernetes-list-map-keys");
    if keys.is_empty() {
        let detail = "must not be empty if x-kubernetes-list-type is map";
        errors.push(Error::required(&*keys_path, detail));
    }
    let item = match schema.items() {
        None => {
            let detail = "must have a schema if x-kubernetes-list-type is map";
            errors.push(Error::required(format!("{path}.items"), detail));
            return;
        }
        Some(Items::Many(_)) => {
            let items = schema.get("items").cloned().unwrap_or_default();
            let detail = "must only have a single schema if x-kubernetes-list-type is map";
            errors.push(Error::invalid(format!("{path}.items"), items, detail));
            return;
        }
        Some(Items::One(item)) => item,
    };
    if item.type_name() != "object" {
        let detail = "must be object if parent array's x-kubernetes-list-type is map";
        errors.push(Error::invalid(format!("{path}.items.type"), item.type_name(), detail));
        return;
    }
    let mut seen = HashSet::new();
    let shown = keys.iter().map(|key| key.len() + 3).sum();
    for key in keys {
        if exceeds_text_limit(errors, shown) {
            break;
        }
        match item.property(key) {
            Some(property) if matches!(property.type_name(), "array" | "object") => {
                errors.push(Error::invalid(
                    format!("{path}.items.properties[{key}].type"),
                    item.type_name(),
                    "must be a scalar type if parent array's x-kubernetes-list-type is map",
                ));
            }
            Some(_) => {}
            None => {
                let detail = "entries must all be names of item properties";
                errors.push(Error::invalid(&*keys_path, keys.to_vec(), detail));
            }
        }
        if !seen.insert(key) {
            let detail = "must not contain duplicate entries";
            errors.push(Error::invalid(&*keys_path, keys.to_vec(), detail));
        }
    }
}

/// Validates that items of sets and maps are not nullable and that map keys are required or
/// defaulted.
fn check_list_keys(schema: Schema<'_>, path: &str, errors: &mut Vec<Error>) {
    let (Some(item), Some(kind @ ("set" | "map"))) = (schema.item(), schema.list_type()) else {
        return;
    };
    if item.flag("nullable") {
        let detail = format!("cannot be nullable when x-kubernetes-list-type is {kind}");
        errors.push(Error::forbidden(format!("{path}.items.nullable"), detail));
    }
    if kind == "set" {
        return;
    }
    let required: HashSet<&str> = item.texts("required").into_iter().collect();
    for key in schema.texts("x-kubernetes-list-map-keys") {
        let Some(property) = item.property(key) else { continue };
        let path = format!("{path}.items.properties[{key}]");
        if !required.contains(key) && property.get("default").is_none() {
            let detail = "this property is in x-kubernetes-list-map-keys, so it must have a \
                          default or be a required property";
            errors.push(Error::required(format!("{path}.default"), detail));
        }
        if property.flag("nullable") {
            let detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            errors.push(Error::forbidden(format!("{path}.nullable"), detail));
        }
    }
}

fn check_rules(schema: Schema<'_>, path: &str, errors: &mut Vec<Error>) {
    let rules = schema.get("x-kubernetes-validations").and_then(Value::as_array);
    for (i, rule) in rules.into_iter().flatten().enumerate() {
        let path = format!("{path}.x-kubernetes-validations[{i}]");
        let at = |key: &str| format!("{path}.{key}");
        let breaks = |text: &str| text.contains(['\n', '\r']);
        let blank = |text: &str| !text.is_empty() && text.trim().is_empty();
        let (expression, message) = (text(rule, "rule"), text(rule, "message"));
        if expression.trim().is_empty() {
            errors.push(Error::required(at("rule"), "rule is not specified"));
        } else if blank(message) {
            let detail = "must be non-empty if specified";
            errors.push(Error::invalid(at("message"), message, detail));
        } else if breaks(message.trim()) {
            errors.push(Error::invalid(at("message"), message, "must not contain line breaks"));
        } else if breaks(expression.trim()) && message.is_empty() {
            let detail = "message must be specified if rule contains line breaks";
            errors.push(Error::required(at("message"), detail));
        }
        if blank(text(rule, "messageExpression")) {
            let detail = "messageExpression must be non-empty if specified";
            errors.push(Error::required(at("messageExpression"), detail));
        }
        if let Some(reason) = rule.get("reason").and_then(Value::as_str)
            && !REASONS.contains(&reason)
        {
            errors.push(Error::not_supported(at("reason"), reason, REASONS));
        }
        let field = text(rule, "fieldPath");
        if field.is_empty() {
            continue;
        }
        let mut wrong = |detail: &str| errors.push(Error::invalid(at("fieldPath"), field, detail));
        if blank(field) {
            wrong("must be non-empty if specified");
        }
        if breaks(field) {
            wrong("must not contain line breaks");
        }
        if super::shape::unsupported(schema).is_none()
            && field_path::resolve(field, schema, true).is_err()
        {
            wrong("must be a valid path");
        }
    }
}
