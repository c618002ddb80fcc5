//! Embedded resources: validates and coerces `apiVersion`, `kind` and `metadata` inside an object.

use serde_json::{Map, Value};

use super::{Node, Structural};
use crate::field::Error;
use crate::metadata::{self, Malformed};
use crate::names;

impl Structural {
    /// Validates `apiVersion`, `kind` and `metadata` of embedded resources.
    ///
    /// The object's own metadata is validated by [`metadata::validate`](crate::metadata).
    pub(super) fn validate_embedded(&self, object: &Value) -> Vec<Error> {
        let mut errors = Vec::new();
        validate(self.root(), object, "", &mut errors);
        errors
    }
}

/// Validates the value and all resources embedded in it.
pub(crate) fn validate(node: &Node, value: &Value, path: &str, errors: &mut Vec<Error>) {
    if !node.subtree.embedded {
        return;
    }
    match value {
        Value::Object(map) => {
            if node.embedded {
                validate_resource(map, path, errors);
            }
            for (key, child) in map {
                if let Some(property) = node.property(key) {
                    validate(property, child, &join(path, key), errors);
                } else if let Some(schema) = node.field(key) {
                    validate(schema, child, &format!("{path}[{key}]"), errors);
                }
            }
        }
        Value::Array(items) => {
            let Some(schema) = node.items.as_deref() else { return };
            for (i, item) in items.iter().enumerate() {
                validate(schema, item, &format!("{path}[{i}]"), errors);
            }
        }
        _ => {}
    }
}

fn validate_resource(map: &Map<String, Value>, path: &str, errors: &mut Vec<Error>) {
    for key in ["apiVersion", "kind"] {
        if !map.contains_key(key) {
            errors.push(Error::required(join(path, key), ""));
        }
    }
    for key in ["apiVersion", "kind"] {
        let here = join(path, key);
        match map.get(key) {
            None => {}
            Some(Value::String(text)) if text.is_empty() => {
                errors.push(Error::invalid(here, "", "must not be empty"));
            }
            Some(Value::String(text)) if key == "apiVersion" => {
                let parses = text.matches('/').count() <= 1;
                let detail = || format!("unexpected GroupVersion string: {text}");
                errors.extend((!parses).then(|| Error::invalid(here, text.as_str(), detail())));
            }
            Some(Value::String(text)) => {
                let wrong = names::dns1035_label(&text.to_lowercase());
                if !wrong.is_empty() {
                    let detail = format!(
                        "may have mixed case, but should otherwise match: {}",
                        wrong.join(",")
                    );
                    errors.push(Error::invalid(here, text.as_str(), detail));
                }
            }
            Some(other) => errors.push(Error::invalid(here, other.clone(), "must be a string")),
        }
    }
    if let Some(given) = map.get("metadata") {
        let here = join(path, "metadata");
        let mut typed = given.clone();
        match metadata::coerce(&mut typed, Malformed::Reject, &here, &mut Vec::new()) {
            Err(reason) => errors.push(Error::invalid(here, given.clone(), reason)),
            Ok(()) => {
                if typed.get("name").is_none() {
                    // A template has no name yet, so a placeholder is used to validate the rest.
                    typed["name"] = "fakename".into();
                }
                let namespaced = typed.get("namespace").is_some();
                errors.extend(metadata::validate(&typed, namespaced, names::path_segment, &here));
            }
        }
    }
}

/// Coerces the metadata of embedded resources in the value, including the value itself.
pub(crate) fn coerce(
    node: &Node,
    value: &mut Value,
    path: &str,
    malformed: Malformed,
    unknown: &mut Vec<String>,
) -> Result<(), Error> {
    if !node.subtree.embedded {
        return Ok(());
    }
    match value {
        Value::Object(map) => {
            if node.embedded {
                coerce_resource(map, path, malformed, unknown)?;
            }
            for (key, child) in map.iter_mut() {
                if let Some(property) = node.property(key) {
                    coerce(property, child, &join(path, key), malformed, unknown)?;
                } else if let Some(schema) = node.field(key) {
                    coerce(schema, child, &format!("{path}[{key}]"), malformed, unknown)?;
                }
            }
        }
        Value::Array(items) => {
            let Some(schema) = node.items.as_deref() else { return Ok(()) };
            for (i, item) in items.iter_mut().enumerate() {
                coerce(schema, item, &format!("{path}[{i}]"), malformed, unknown)?;
            }
        }
        _ => {}
    }
    Ok(())
}

fn coerce_resource(
    map: &mut Map<String, Value>,
    path: &str,
    malformed: Malformed,
    unknown: &mut Vec<String>,
) -> Result<(), Error> {
    for key in ["apiVersion", "kind"] {
        match map.get(key) {
            None | Some(Value::String(_)) => {}
            Some(_) if malformed == Malformed::Drop => {
                map.remove(key);
            }
            Some(other) => {
                return Err(Error::invalid(join(path, key), other.clone(), "must be a string"));
            }
        }
    }
    if let Some(given) = map.get_mut("metadata") {
        let here = join(path, "metadata");
        if let Err(reason) = metadata::coerce(given, malformed, &here, unknown)
            && malformed == Malformed::Reject
        {
            return Err(Error::invalid(here, given.clone(), reason));
        }
    }
    Ok(())
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}
