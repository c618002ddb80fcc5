//! Helpers of the printers: field accessors with Go's zero values, and placeholder texts.

use serde_json::Value;

use super::age::since;

pub(super) const NONE: &str = "<none>";
pub(super) const UNKNOWN: &str = "<unknown>";
pub(super) const UNSET: &str = "<unset>";

/// The operator and values of a selector requirement do not fit together.
pub(super) struct InvalidSelector;

pub(super) fn str(field: &Value) -> &str {
    field.as_str().unwrap_or_default()
}

pub(super) fn int(field: &Value) -> i64 {
    field.as_i64().unwrap_or_default()
}

pub(super) fn flag(field: &Value) -> bool {
    field.as_bool().unwrap_or_default()
}

pub(super) fn list(field: &Value) -> &[Value] {
    field.as_array().map_or(&[], Vec::as_slice)
}

pub(super) fn count(field: &Value) -> usize {
    match field {
        Value::Array(items) => items.len(),
        Value::Object(entries) => entries.len(),
        _ => 0,
    }
}

pub(super) fn name(object: &Value) -> &str {
    str(&object["metadata"]["name"])
}

pub(super) fn age(object: &Value, now: i64) -> String {
    since(&object["metadata"]["creationTimestamp"], now)
}

pub(super) fn deleted(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

pub(super) fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object["metadata"]["annotations"][key].as_str()
}

/// Returns a field's text, or `otherwise` if the field is not set. An empty string counts as set.
pub(super) fn set_or<'a>(field: &'a Value, otherwise: &'a str) -> &'a str {
    field.as_str().unwrap_or(otherwise)
}

/// Returns a field's text, or `otherwise` if it is empty or not set.
pub(super) fn filled_or<'a>(field: &'a Value, otherwise: &'a str) -> &'a str {
    match str(field) {
        "" => otherwise,
        text => text,
    }
}

/// Prints an int-or-string field, as in `minAvailable: 1` and `minAvailable: 50%`.
pub(super) fn int_or_string(field: &Value) -> String {
    match field {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => String::new(),
    }
}

/// Prints a quantity, which is canonical in stored form. An unset quantity prints as zero.
pub(super) fn quantity(field: &Value) -> String {
    match int_or_string(field) {
        absent if absent.is_empty() => "0".to_owned(),
        text => text,
    }
}

/// Returns the first condition of the type.
pub(super) fn condition<'a>(conditions: &'a Value, type_name: &str) -> Option<&'a Value> {
    list(conditions).iter().find(|condition| condition["type"] == type_name)
}

pub(super) fn condition_true(conditions: &Value, type_name: &str) -> bool {
    condition(conditions, type_name).is_some_and(|condition| condition["status"] == "True")
}

pub(super) fn join<'a>(texts: impl Iterator<Item = &'a str>, separator: &str) -> String {
    let mut joined = String::new();
    for (index, text) in texts.enumerate() {
        if index > 0 {
            joined.push_str(separator);
        }
        joined.push_str(text);
    }
    joined
}

/// Joins at most `max` of the texts and appends the number of the rest.
pub(super) fn join_some<'a>(texts: impl Iterator<Item = &'a str>, max: usize) -> String {
    let mut texts = texts.into_iter();
    let shown = join(texts.by_ref().take(max), ",");
    match texts.count() {
        0 if shown.is_empty() => UNSET.to_owned(),
        0 => shown,
        more => format!("{shown} + {more} more..."),
    }
}

/// Returns the names and images of the containers of a pod template.
pub(super) fn containers(template: &Value) -> (String, String) {
    let containers = list(&template["spec"]["containers"]);
    let column = |field: &str| join(containers.iter().map(|container| str(&container[field])), ",");
    (column("name"), column("image"))
}

/// Prints `key=value` pairs sorted by key.
pub(super) fn labels(map: &Value) -> String {
    let Some(map) = map.as_object().filter(|map| !map.is_empty()) else {
        return NONE.to_owned();
    };
    let mut pairs: Vec<_> = map.iter().map(|(key, value)| (key.as_str(), str(value))).collect();
    pairs.sort_unstable();
    let pairs: Vec<_> = pairs.iter().map(|(key, value)| format!("{key}={value}")).collect();
    pairs.join(",")
}

/// Prints a label selector in the syntax of the `labelSelector` parameter; empty if it has no
/// terms.
pub(super) fn selector(selector: &Value) -> Result<String, InvalidSelector> {
    let mut terms: Vec<(&str, String)> = Vec::new();
    if let Some(labels) = selector["matchLabels"].as_object() {
        terms.extend(labels.iter().map(|(key, value)| (&**key, format!("{key}={}", str(value)))));
    }
    for expression in list(&selector["matchExpressions"]) {
        let key = str(&expression["key"]);
        terms.push((key, term(key, expression)?));
    }
    terms.sort_by_key(|&(key, _)| key);
    Ok(join(terms.iter().map(|(_, term)| &**term), ","))
}

/// Prints a label selector for a cell.
pub(super) fn selector_cell(of: &Value) -> String {
    match selector(of) {
        Err(InvalidSelector) => "<error>".to_owned(),
        Ok(terms) if terms.is_empty() => NONE.to_owned(),
        Ok(terms) => terms,
    }
}

fn term(key: &str, expression: &Value) -> Result<String, InvalidSelector> {
    let mut values: Vec<_> = list(&expression["values"]).iter().map(str).collect();
    values.sort_unstable();
    match (str(&expression["operator"]), values.is_empty()) {
        ("In", false) => Ok(format!("{key} in ({})", values.join(","))),
        ("NotIn", false) => Ok(format!("{key} notin ({})", values.join(","))),
        ("Exists", true) => Ok(key.to_owned()),
        ("DoesNotExist", true) => Ok(format!("!{key}")),
        _ => Err(InvalidSelector),
    }
}
