//! Checks shared by several kinds.

use std::collections::HashSet;

use evenkeel_schema::metadata::check_labels;
use serde_json::Value;

use super::printed::{self, Printed, Ty};
use super::read::Read;
use super::report::{Errors, Path};
use crate::names;

/// Message for a field that cannot change.
pub(crate) const IMMUTABLE: &str = "field is immutable";

const NEGATIVE: &str = "must be greater than or equal to 0";

pub(crate) fn non_negative(errs: &mut Errors, path: Path<'_>, value: Option<i64>) {
    if let Some(value) = value.filter(|v| *v < 0) {
        errs.invalid(path, value, NEGATIVE);
    }
}

/// Checks several fields of one object for negative numbers.
pub(crate) fn non_negatives(errs: &mut Errors, path: Path<'_>, object: &Value, fields: &[&str]) {
    for field in fields {
        non_negative(errs, path.child(field), object.int(field));
    }
}

pub(crate) fn positive(errs: &mut Errors, path: Path<'_>, value: i64) {
    if value <= 0 {
        errs.invalid(path, value, "must be greater than zero");
    }
}

/// Checks a required field with a fixed set of values.
pub(crate) fn one_of(errs: &mut Errors, path: Path<'_>, value: &str, supported: &[&str]) {
    if value.is_empty() {
        errs.required(path, "");
    } else if !supported.contains(&value) {
        errs.not_supported(path, value, supported);
    }
}

/// Checks an optional field with a fixed set of values. An empty string is not one of them.
pub(crate) fn one_of_if_set(errs: &mut Errors, path: Path<'_>, value: &Value, supported: &[&str]) {
    if let Some(value) = value.as_str()
        && !supported.contains(&value)
    {
        errs.not_supported(path, value, supported);
    }
}

/// Checks that a field is set.
pub(crate) fn required_text(errs: &mut Errors, path: Path<'_>, object: &Value, field: &str) {
    if object.text(field).is_empty() {
        errs.required(path.child(field), "");
    }
}

pub(crate) fn dns1123_label(errs: &mut Errors, path: Path<'_>, value: &str) {
    errs.reasons(path, value, names::dns1123_label(value));
}

pub(crate) fn dns1123_subdomain(errs: &mut Errors, path: Path<'_>, value: &str) {
    errs.reasons(path, value, names::dns1123_subdomain(value));
}

pub(crate) fn qualified_name(errs: &mut Errors, path: Path<'_>, value: &str) {
    errs.reasons(path, value, names::qualified_name(value));
}

pub(crate) fn path_segment(errs: &mut Errors, path: Path<'_>, value: &str) {
    errs.reasons(path, value, names::path_segment(value, false));
}

pub(crate) fn port_number(errs: &mut Errors, path: Path<'_>, value: i64) {
    for reason in names::port_number(value) {
        errs.invalid(path, value, reason);
    }
}

/// Checks a port number or name.
pub(crate) fn port(errs: &mut Errors, path: Path<'_>, value: &Value) {
    match value {
        Value::String(name) => errs.reasons(path, name, names::port_name(name)),
        other => port_number(errs, path, other.as_i64().unwrap_or_default()),
    }
}

/// Whether the values in a label selector must be valid label values.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum SelectorValues {
    Validated,
    /// The stored object already has invalid values.
    AllowInvalid,
}

pub(crate) fn label_selector(
    errs: &mut Errors,
    path: Path<'_>,
    selector: &Value,
    values: SelectorValues,
) {
    if selector.is_null() {
        return;
    }
    check_labels(selector.at("matchLabels"), path.child("matchLabels"), errs.list());
    for (i, expression) in selector.list("matchExpressions").iter().enumerate() {
        let path = path.child("matchExpressions");
        selector_requirement(errs, path.index(i), expression, values, false);
    }
}

pub(crate) fn selector_requirement(
    errs: &mut Errors,
    path: Path<'_>,
    requirement: &Value,
    values: SelectorValues,
    any_operator: bool,
) {
    let operator = requirement.text("operator");
    match operator {
        "In" | "NotIn" => {
            if requirement.list("values").is_empty() {
                let detail = "must be specified when `operator` is 'In' or 'NotIn'";
                errs.required(path.child("values"), detail);
            }
        }
        "Exists" | "DoesNotExist" => {
            if !requirement.list("values").is_empty() {
                let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                errs.forbidden(path.child("values"), detail);
            }
        }
        _ if any_operator => {}
        _ => errs.invalid(path.child("operator"), operator, "not a valid selector operator"),
    }
    qualified_name(errs, path.child("key"), requirement.text("key"));
    if values == SelectorValues::Validated {
        for (i, value) in requirement.texts("values").enumerate() {
            errs.reasons(path.child("values").index(i), value, names::label_value(value));
        }
    }
}

/// Returns whether values of a stored selector are invalid and may therefore be kept.
pub(crate) fn selector_values(old: &Value) -> SelectorValues {
    let mut errs = Errors::new();
    label_selector(&mut errs, Path::root("selector"), old, SelectorValues::Validated);
    if errs.is_empty() { SelectorValues::Validated } else { SelectorValues::AllowInvalid }
}

/// Returns whether the selector matches the labels; `None` if it is malformed.
pub(crate) fn selects(selector: &Value, labels: &Value) -> Option<bool> {
    // An absent selector matches nothing, an empty one everything.
    if selector.is_null() {
        return Some(false);
    }
    let mut selected = true;
    for (key, value) in selector.entries("matchLabels") {
        let value = value.as_str().unwrap_or_default();
        if !names::qualified_name(key).is_empty() || !names::label_value(value).is_empty() {
            return None;
        }
        selected &= labels.text_opt(key) == Some(value);
    }
    for expression in selector.list("matchExpressions") {
        let (key, values) = (expression.text("key"), expression.list("values"));
        let invalid = !names::qualified_name(key).is_empty()
            || expression.texts("values").any(|v| !names::label_value(v).is_empty());
        let here = labels.text_opt(key);
        let listed = here.is_some_and(|v| expression.texts("values").any(|w| w == v));
        selected &= match expression.text("operator") {
            _ if invalid => return None,
            "In" if !values.is_empty() => listed,
            "NotIn" if !values.is_empty() => !listed,
            "Exists" if values.is_empty() => here.is_some(),
            "DoesNotExist" if values.is_empty() => here.is_none(),
            _ => return None,
        };
    }
    Some(selected)
}

/// Returns whether the selector matches everything.
pub(crate) fn selects_all(selector: &Value) -> bool {
    !selector.is_null() && is_empty_selector(selector)
}

pub(crate) fn is_empty_selector(selector: &Value) -> bool {
    selector.map("matchLabels").is_none_or(serde_json::Map::is_empty)
        && selector.list("matchExpressions").is_empty()
}

/// Checks a non-negative integer or percentage.
pub(crate) fn int_or_percent(errs: &mut Errors, path: Path<'_>, value: &Value) {
    match value {
        Value::String(text) => errs.reasons(path, text, names::percent(text)),
        other => non_negative(errs, path, other.as_i64()),
    }
}

pub(crate) fn not_more_than_100_percent(errs: &mut Errors, path: Path<'_>, value: &Value) {
    if let Value::String(text) = value
        && percentage(text).is_some_and(|p| p > 100)
    {
        errs.invalid(path, text.as_str(), "must not be greater than 100%");
    }
}

/// Returns the number in an integer or percentage; zero if there is none.
pub(crate) fn int_or_percent_value(value: &Value) -> i64 {
    match value {
        Value::String(text) => percentage(text).unwrap_or_else(|| text.parse().unwrap_or_default()),
        other => other.as_i64().unwrap_or_default(),
    }
}

fn percentage(text: &str) -> Option<i64> {
    if !names::percent(text).is_empty() {
        return None;
    }
    // Upstream reads an out-of-range number as the maximum integer.
    Some(text[..text.len() - 1].parse().unwrap_or(i64::MAX))
}

/// Checks that a field of an internal type is unchanged.
pub(crate) fn immutable(errs: &mut Errors, path: Path<'_>, ty: Ty, new: &Value, old: &Value) {
    if !printed::same(ty, new, old) {
        errs.invalid_printed(path, Printed(ty, new), IMMUTABLE);
    }
}

/// Checks that a selector is unchanged.
pub(crate) fn immutable_selector(errs: &mut Errors, path: Path<'_>, new: &Value, old: &Value) {
    immutable(errs, path, Ty::Opt(&Ty::Struct(printed::LABEL_SELECTOR)), new, old);
}

/// Validates conditions of type `metav1.Condition`.
pub(crate) fn conditions(errs: &mut Errors, path: Path<'_>, conditions: &[Value]) {
    let mut kinds = HashSet::new();
    for (i, condition) in conditions.iter().enumerate() {
        let path = path.index(i);
        let kind = condition.text("type");
        if !kinds.insert(kind) {
            errs.duplicate(path.child("type"), kind);
        }
        qualified_name(errs, path.child("type"), kind);
        let status = condition.text("status");
        if !matches!(status, "True" | "False" | "Unknown") {
            errs.not_supported(path.child("status"), status, &["False", "True", "Unknown"]);
        }
        if let Some(generation) = condition.int("observedGeneration").filter(|g| *g < 0) {
            let detail = "must be greater than or equal to zero";
            errs.invalid(path.child("observedGeneration"), generation, detail);
        }
        if !condition.has("lastTransitionTime") {
            errs.required(path.child("lastTransitionTime"), "");
        }
        let reason = condition.text("reason");
        if reason.is_empty() {
            errs.required(path.child("reason"), "");
        } else {
            if !is_condition_reason(reason) {
                errs.invalid(path.child("reason"), reason, CONDITION_REASON);
            }
            if reason.len() > 1024 {
                errs.too_long(path.child("reason"), 1024);
            }
        }
        if condition.text("message").len() > 32 * 1024 {
            errs.too_long(path.child("message"), 32 * 1024);
        }
    }
}

const CONDITION_REASON: &str = "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')";

fn is_condition_reason(reason: &str) -> bool {
    let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    match reason.as_bytes() {
        [] => false,
        [only] => only.is_ascii_alphabetic(),
        [first, middle @ .., last] => {
            first.is_ascii_alphabetic()
                && word(*last)
                && middle.iter().all(|&b| word(b) || b == b',' || b == b':')
        }
    }
}

/// Checks a domain-prefixed path such as `example.com/a/path`.
pub(crate) fn domain_prefixed_path(errs: &mut Errors, path: Path<'_>, value: &str) {
    if value.is_empty() {
        errs.required(path, "");
        return;
    }
    let (host, rest) = value.split_once('/').unwrap_or_default();
    if host.is_empty() || rest.is_empty() {
        let detail = "must be a domain-prefixed path (such as \"acme.io/foo\")";
        errs.invalid(path, value, detail);
        return;
    }
    dns1123_subdomain(errs, path, host);
    if !rest.bytes().all(|b| b.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&b)) {
        let detail = "Invalid path (regex used for validation is \
                      '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')";
        errs.invalid(path, rest, detail);
    }
}

/// Checks a signer name such as `example.com/signer-name`.
pub(crate) fn signer_name(errs: &mut Errors, path: Path<'_>, value: &str) {
    const DOMAIN_MAX: usize = 253;
    if value.is_empty() {
        errs.required(path, "");
        return;
    }
    let (domain, name) = match value.split_once('/') {
        Some((domain, name)) if !name.contains('/') => (domain, name),
        _ => {
            let detail = "must be a fully qualified domain and path of the form \
                          'example.com/signer-name'";
            errs.invalid(path, value, detail);
            return;
        }
    };
    if domain.len() > DOMAIN_MAX {
        errs.too_long(path, DOMAIN_MAX);
    }
    let invalid = domain.split('.').find(|label| !names::dns1123_label(label).is_empty());
    if let Some(label) = invalid {
        for reason in names::dns1123_label(label) {
            errs.invalid(path, domain, format!("validating label \"{label}\": {reason}"));
        }
    }
    if !domain.contains('.') {
        let detail = "should be a domain with at least two segments separated by dots";
        errs.invalid(path, domain, detail);
    }
    let invalid = name.split('.').find(|label| !names::dns1123_subdomain(label).is_empty());
    if let Some(label) = invalid {
        for reason in names::dns1123_subdomain(label) {
            errs.invalid(path, name, format!("validating label \"{label}\": {reason}"));
        }
    }
    let max = DOMAIN_MAX + 1 + DOMAIN_MAX + 63 + 1;
    if value.len() > max {
        errs.too_long(path, max);
    }
}
