//! Checks that a schema is structural: every value has a specified type, and the logical junctors
//! (`allOf`, `anyOf`, `oneOf`, `not`) only restrict values that are specified outside of them.

use serde_json::Value;

use super::schema::{Additional, Items, Schema};
use crate::field::Error;
use evenkeel_types::pattern::Pattern;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

/// Returns the violations of the structural rules, sorted by text as upstream sorts them.
pub(super) fn check(schema: Schema<'_>, path: &str) -> Vec<Error> {
    let mut errors = Vec::new();
    invariants(schema, Level::Root, path, &mut errors);
    complete_junctors(schema, Some(schema), path, path, &mut errors);
    errors.sort_by_cached_key(Error::to_string);
    errors
}

pub(super) fn is_not_structural(schema: Schema<'_>) -> bool {
    unsupported(schema).is_some() || !check(schema, "").is_empty()
}

/// Returns the first keyword that structural schemas do not support.
pub(super) fn unsupported(schema: Schema<'_>) -> Option<String> {
    let keyword = |name: &str| Some(format!("OpenAPIV3Schema '{name}' is not supported"));
    for (key, name) in [("id", "id"), ("$schema", "schema"), ("$ref", "$ref")] {
        if !schema.text(key).is_empty() {
            return keyword(name);
        }
    }
    for key in ["patternProperties", "dependencies", "definitions"] {
        if !schema.named(key).is_empty() {
            return keyword(key);
        }
    }
    if schema.get("additionalItems").is_some() {
        return keyword("additionalItems");
    }
    let junctors = schema
        .not()
        .into_iter()
        .chain(schema.list("allOf"))
        .chain(schema.list("anyOf"))
        .chain(schema.list("oneOf"));
    if let Some(reason) = junctors.into_iter().find_map(unsupported) {
        return Some(reason);
    }
    if schema.preserves_unknown() == Some(false) {
        return Some(
            "internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined"
                .to_owned(),
        );
    }
    let item = match schema.items() {
        Some(Items::Many(list)) if !list.is_empty() => {
            return Some("OpenAPIV3Schema 'items' must be a schema, but is an array".to_owned());
        }
        Some(Items::One(item)) => Some(item),
        _ => None,
    };
    let properties = schema.properties().into_iter().map(|(_, property)| property);
    item.into_iter().chain(properties).chain(schema.additional_schema()).find_map(unsupported)
}

fn invariants(schema: Schema<'_>, level: Level, path: &str, errors: &mut Vec<Error>) {
    let type_name = schema.type_name();
    let at = |key: &str| format!("{path}.{key}");
    match schema.item() {
        None if type_name == "array" => {
            errors.push(Error::required(at("items"), "must be specified"));
        }
        None => {}
        Some(item) => invariants(item, Level::Item, &at("items"), errors),
    }
    for (name, property) in schema.properties() {
        invariants(property, Level::Field, &format!("{path}.properties[{name}]"), errors);
    }
    let additional = schema.additional();
    if additional.is_some() && level == Level::Root {
        errors.push(Error::forbidden(at("additionalProperties"), "must not be used at the root"));
    }
    if let Some(Additional::Schema(child)) = additional {
        invariants(child, Level::Field, &at("additionalProperties"), errors);
    }
    let preserves = schema.preserves_unknown() == Some(true);
    let (embedded, int_or_string) = (schema.is_embedded(), schema.is_int_or_string());
    for (key, set) in [
        ("x-kubernetes-preserve-unknown-fields", preserves),
        ("x-kubernetes-embedded-resource", embedded),
    ] {
        if int_or_string && set {
            let detail = "must be false if x-kubernetes-int-or-string is true";
            errors.push(Error::invalid(at(key), true, detail));
        }
    }
    let first_all_of = schema.list("allOf").into_iter().next();
    value_validation(
        schema,
        is_int_or_string_choice(schema),
        first_all_of.is_some_and(is_int_or_string_choice),
        path,
        errors,
    );

    if embedded && type_name != "object" {
        let detail = "must be object if x-kubernetes-embedded-resource is true";
        errors.push(if type_name.is_empty() {
            Error::required(at("type"), detail)
        } else {
            Error::invalid(at("type"), type_name, detail)
        });
    } else if type_name.is_empty() && !int_or_string && !preserves {
        let place = match level {
            Level::Root => "at the root",
            Level::Item => "for specified array items",
            Level::Field => "for specified object fields",
        };
        errors.push(Error::required(at("type"), format!("must not be empty {place}")));
    }
    if embedded && schema.get("additionalProperties").is_some() {
        let detail = "must not be used if x-kubernetes-embedded-resource is set";
        errors.push(Error::forbidden(at("additionalProperties"), detail));
    }
    if level == Level::Root && !matches!(type_name, "" | "object") {
        errors.push(Error::invalid(at("type"), type_name, "must be object at the root"));
    }
    let resource = level == Level::Root || embedded;
    for name in ["kind", "apiVersion"] {
        if let Some(property) = schema.property(name).filter(|_| resource)
            && property.type_name() != "string"
        {
            let path = format!("{path}.properties[{name}].type");
            errors.push(Error::invalid(path, property.type_name(), "must be string"));
        }
    }
    if let Some(metadata) = schema.property("metadata") {
        let path = format!("{path}.properties[metadata]");
        if resource && metadata.type_name() != "object" {
            let path = format!("{path}.type");
            errors.push(Error::invalid(path, metadata.type_name(), "must be object"));
        }
        if level == Level::Root && !restricts_names_only(metadata) {
            let detail = "must not specify anything other than name and generateName, but metadata \
                          is implicitly specified";
            errors.push(Error::forbidden(path, detail));
        }
    }
    if embedded && !preserves && schema.properties().is_empty() {
        let detail = "must not be empty if x-kubernetes-embedded-resource is true without \
                      x-kubernetes-preserve-unknown-fields";
        errors.push(Error::required(at("properties"), detail));
    }
}

fn restricts_names_only(metadata: Schema<'_>) -> bool {
    metadata.keywords().all(|key| matches!(key, "type" | "default" | "properties"))
        && metadata.properties().iter().all(|(name, _)| matches!(*name, "name" | "generateName"))
}

/// Returns whether this is `anyOf: [{type: integer}, {type: string}]`, the only junctor that may
/// contain types.
fn is_int_or_string_choice(schema: Schema<'_>) -> bool {
    let only_type = |schema: &Schema<'_>, name: &str| {
        schema.type_name() == name && schema.keywords().all(|key| key == "type")
    };
    match &schema.list("anyOf")[..] {
        [first, second] => only_type(first, "integer") && only_type(second, "string"),
        _ => false,
    }
}

fn value_validation(
    schema: Schema<'_>,
    skip_any_of: bool,
    skip_first_all_of: bool,
    path: &str,
    errors: &mut Vec<Error>,
) {
    if !skip_any_of {
        for (i, nested) in schema.list("anyOf").into_iter().enumerate() {
            nested_validation(nested, false, &format!("{path}.anyOf[{i}]"), errors);
        }
    }
    for (i, nested) in schema.list("allOf").into_iter().enumerate() {
        let skip = skip_first_all_of && i == 0;
        nested_validation(nested, skip, &format!("{path}.allOf[{i}]"), errors);
    }
    for (i, nested) in schema.list("oneOf").into_iter().enumerate() {
        nested_validation(nested, false, &format!("{path}.oneOf[{i}]"), errors);
    }
    if let Some(not) = schema.not() {
        nested_validation(not, false, &format!("{path}.not"), errors);
    }
    let pattern = schema.text("pattern");
    if !pattern.is_empty()
        && let Err(reason) = Pattern::new(pattern)
    {
        let detail = format!("must be a valid regular expression, but isn't: {reason}");
        errors.push(Error::invalid(format!("{path}.pattern"), pattern, detail));
    }
}

/// Validates a schema inside a junctor, which may restrict values but not specify them. Mirrors
/// upstream's `validateNestedValueValidation`.
fn nested_validation(schema: Schema<'_>, skip_any_of: bool, path: &str, errors: &mut Vec<Error>) {
    value_validation(schema, skip_any_of, false, path, errors);
    if let Some(item) = schema.item() {
        nested_validation(item, false, &format!("{path}.items"), errors);
    }
    for (name, property) in schema.properties() {
        nested_validation(property, false, &format!("{path}.properties[{name}]"), errors);
    }
    let mut forbid = |key: &str, set: bool, rule: &str| {
        if set {
            let detail = format!("must be {rule} to be structural");
            errors.push(Error::forbidden(format!("{path}.{key}"), detail));
        }
    };
    let additional = match schema.get("additionalProperties") {
        None | Some(Value::Bool(false)) => false,
        Some(_) => true,
    };
    forbid("type", !schema.type_name().is_empty(), "empty");
    forbid("additionalProperties", additional, "undefined");
    forbid("default", schema.get("default").is_some(), "undefined");
    forbid("title", !schema.text("title").is_empty(), "empty");
    forbid("description", !schema.text("description").is_empty(), "empty");
    forbid("nullable", schema.flag("nullable"), "false");
    let preserve = "x-kubernetes-preserve-unknown-fields";
    forbid(preserve, schema.preserves_unknown() == Some(true), "false");
    forbid("x-kubernetes-embedded-resource", schema.is_embedded(), "false");
    forbid("x-kubernetes-int-or-string", schema.is_int_or_string(), "false");
    let keys = "x-kubernetes-list-map-keys";
    forbid(keys, !schema.texts(keys).is_empty(), "empty");
    forbid("x-kubernetes-list-type", schema.list_type().is_some(), "undefined");
    forbid("x-kubernetes-map-type", schema.map_type().is_some(), "undefined");
    let rules = "x-kubernetes-validations";
    forbid(rules, !schema.list(rules).is_empty(), "empty");
    if schema.property("metadata").is_some() {
        let path = format!("{path}.properties[metadata]");
        errors.push(Error::forbidden(path, "must not be specified in a nested context"));
    }
}

/// Checks that every value in a junctor is specified outside of it. `schema` contains the junctors;
/// `specified` is the structural schema of the same value. Mirrors upstream's
/// `validateStructuralCompleteness`.
fn complete_junctors(
    schema: Schema<'_>,
    specified: Option<Schema<'_>>,
    specified_path: &str,
    path: &str,
    errors: &mut Vec<Error>,
) {
    let mut nested = |nested: Schema<'_>, at: String| {
        complete(nested, specified, specified_path, &at, errors);
    };
    if let Some(not) = schema.not() {
        nested(not, format!("{path}.not"));
    }
    for key in ["allOf", "anyOf", "oneOf"] {
        for (i, child) in schema.list(key).into_iter().enumerate() {
            nested(child, format!("{path}.{key}[{i}]"));
        }
    }
}

fn complete(
    schema: Schema<'_>,
    specified: Option<Schema<'_>>,
    specified_path: &str,
    path: &str,
    errors: &mut Vec<Error>,
) {
    let Some(specified) = specified else {
        let detail = format!("because it is defined in {path}");
        errors.push(Error::required(specified_path, detail));
        return;
    };
    complete_junctors(schema, Some(specified), specified_path, path, errors);
    if let Some(item) = schema.item() {
        let (at, specified_at) = (format!("{path}.items"), format!("{specified_path}.items"));
        complete(item, specified.item(), &specified_at, &at, errors);
    }
    for (name, property) in schema.properties() {
        let at = format!("{path}.properties[{name}]");
        let specified_at = format!("{specified_path}.properties[{name}]");
        complete(property, specified.property(name), &specified_at, &at, errors);
    }
}
