//! Validates subresources, printer columns and selectable fields.

use std::collections::HashSet;

use serde_json::Value;

use super::field_path;
use super::schema::Schema;
use super::spec::{present, text};
use crate::field::Error;

pub(super) const SELECTABLE_MAX: usize = 8;

const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS: [&str; 8] =
    ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];

pub(super) fn check_subresources(
    subresources: Option<&Value>,
    path: &str,
    errors: &mut Vec<Error>,
) {
    let Some(scale) = subresources.and_then(|s| present(s, "scale")) else { return };
    for (key, root) in [("specReplicasPath", ".spec."), ("statusReplicasPath", ".status.")] {
        let value = text(scale, key);
        let path = format!("{path}.scale.{key}");
        if value.is_empty() {
            errors.push(Error::required(path, ""));
        } else if let Some(error) = check_simple_path(value, &path) {
            errors.push(error);
        } else if !value.starts_with(root) {
            let detail = format!("should be a json path under {}", root.trim_end_matches('.'));
            errors.push(Error::invalid(path, value, detail));
        }
    }
    let selector = text(scale, "labelSelectorPath");
    if !selector.is_empty() {
        let path = format!("{path}.scale.labelSelectorPath");
        if let Some(error) = check_simple_path(selector, &path) {
            errors.push(error);
        } else if !(selector.starts_with(".spec.") || selector.starts_with(".status.")) {
            let detail = "should be a json path under either .spec or .status";
            errors.push(Error::invalid(path, selector, detail));
        }
    }
}

fn check_simple_path(value: &str, path: &str) -> Option<Error> {
    (!value.starts_with('.'))
        .then(|| Error::invalid(path, value, "must be a simple json path starting with ."))
}

pub(super) fn check_columns(columns: &[Value], path: &str, errors: &mut Vec<Error>) {
    for (i, column) in columns.iter().enumerate() {
        let path = format!("{path}[{i}]");
        if text(column, "name").is_empty() {
            errors.push(Error::required(format!("{path}.name"), ""));
        }
        let type_name = text(column, "type");
        let one_of = || format!("must be one of {}", COLUMN_TYPES.join(","));
        if type_name.is_empty() {
            errors.push(Error::required(format!("{path}.type"), one_of()));
        } else if !COLUMN_TYPES.contains(&type_name) {
            errors.push(Error::invalid(format!("{path}.type"), type_name, one_of()));
        }
        let format = text(column, "format");
        if !format.is_empty() && !COLUMN_FORMATS.contains(&format) {
            let detail = format!("must be one of {}", COLUMN_FORMATS.join(","));
            errors.push(Error::invalid(format!("{path}.format"), format, detail));
        }
        let json_path = text(column, "jsonPath");
        if json_path.is_empty() {
            errors.push(Error::required(format!("{path}.JSONPath"), ""));
        } else {
            errors.extend(check_simple_path(json_path, &format!("{path}.JSONPath")));
        }
    }
}

pub(super) fn check_selectable(
    fields: &[Value],
    schema: Schema<'_>,
    unlimited: bool,
    path: &str,
    errors: &mut Vec<Error>,
) {
    let mut unique = HashSet::new();
    for (i, field) in fields.iter().enumerate() {
        let at = format!("{path}[{i}].jsonPath");
        let json_path = text(field, "jsonPath");
        if json_path.is_empty() {
            errors.push(Error::required(at, ""));
            continue;
        }
        let (steps, found) = match field_path::resolve(json_path, schema, false) {
            Ok(resolved) => resolved,
            Err(reason) => {
                let detail = format!("is an invalid path: {reason}");
                errors.push(Error::invalid(at, json_path, detail));
                continue;
            }
        };
        if steps.first().is_some_and(|step| step == "metadata") {
            let detail = "must not point to fields in metadata";
            errors.push(Error::invalid(&*at, json_path, detail));
        }
        if !matches!(found.type_name(), "string" | "boolean" | "integer") {
            let detail = "must point to a field of type string, boolean or integer. Enum string \
                          fields and strings with formats are allowed.";
            errors.push(Error::invalid(&*at, json_path, detail));
        }
        if !unique.insert(steps) {
            errors.push(Error::duplicate(at, json_path));
        }
    }
    if unique.len() > SELECTABLE_MAX && !unlimited {
        errors.push(Error::too_many(path, unique.len(), SELECTABLE_MAX));
    }
}
