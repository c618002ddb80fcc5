//! Validates values against a schema, in the order and with the messages of kube-openapi.
//!
//! The same walk runs with different [`Sink`]s. The common case only determines validity: it stops
//! at the first failure and formats no messages. Invalid objects are walked again to collect all
//! failures. `anyOf` and `oneOf` also need upstream's count of passed checks, because upstream
//! reports the failures of the alternative with the highest count.

mod failure;
mod junctors;
mod numbers;
mod path;
mod sink;

use evenkeel_types::go;
use serde_json::{Map, Value};

use self::path::{Path, Step};
use self::sink::{Failures, Sink, Validity};
use super::correlate::{self, Correlation};
use super::{Additional, Checks, FormatRule, JsonType, JsonTypes, ListType, Node, Structural};
use crate::field;

impl Structural {
    /// Validates a new object.
    ///
    /// In upstream's order: schema, scale, embedded resources, sets and maps. The object's own
    /// metadata is validated before this by [`metadata::validate`](crate::metadata::validate).
    pub fn validate(&self, object: &Value) -> Vec<field::Error> {
        let mut errors = self.validate_schema(object);
        if let Some(scale) = &self.scale {
            errors.extend(scale.validate_spec(object));
            errors.extend(scale.validate_status(object));
        }
        errors.extend(self.validate_embedded(object));
        errors.extend(self.validate_lists(object));
        self.validate_rules(object, None, &mut Vec::new(), &mut errors);
        errors
    }

    /// Validates an update. Invalid values that are unchanged are accepted (ratcheting); those of rules
    /// become warnings.
    pub fn validate_update(
        &self,
        old: &Value,
        new: &Value,
        warnings: &mut Vec<String>,
    ) -> Vec<field::Error> {
        let mut errors = self.validate_schema_update(old, new);
        if let Some(scale) = &self.scale {
            errors.extend(scale.validate_spec(new));
            errors.extend(scale.validate_status(new));
        }
        errors.extend(self.validate_embedded(new));
        errors.extend(self.validate_lists_update(old, new));
        self.validate_rules(new, Some(old), warnings, &mut errors);
        errors
    }

    /// Validates an update through the `status` subresource.
    ///
    /// Takes whole objects. Validates only `status`, and sets, maps and rules of the whole object.
    pub fn validate_status_update(
        &self,
        old: &Value,
        new: &Value,
        warnings: &mut Vec<String>,
    ) -> Vec<field::Error> {
        let mut errors = match (self.root().property("status"), new.get("status")) {
            (Some(node), Some(status)) => {
                let old = old.get("status").unwrap_or(&Value::Null);
                check(node, status, Some(Correlation::new(old)), "status")
            }
            _ => Vec::new(),
        };
        if let Some(scale) = &self.scale {
            errors.extend(scale.validate_status(new));
        }
        errors.extend(self.validate_lists_update(old, new));
        self.validate_rules(new, Some(old), warnings, &mut errors);
        errors
    }

    /// Evaluates the rules, or adds upstream's note that they were not evaluated because the object has
    /// the wrong shape.
    fn validate_rules(
        &self,
        object: &Value,
        old: Option<&Value>,
        warnings: &mut Vec<String>,
        errors: &mut Vec<field::Error>,
    ) {
        use field::ErrorType::{NotSupported, Required, TooLong, TooMany, TypeInvalid};
        let blocking = |error: &field::Error| {
            matches!(error.error_type, NotSupported | Required | TooLong | TooMany | TypeInvalid)
        };
        let Some(rules) = self.compiled_rules() else { return };
        if errors.iter().any(blocking) {
            errors.push(field::Error::invalid(
                "",
                Value::Null,
                "some validation rules were not checked because the object was invalid; correct \
                 the existing errors to complete validation",
            ));
            return;
        }
        let found = super::rules::evaluate(rules, self.root(), object, old);
        errors.extend(found.errors);
        warnings.extend(found.warnings);
    }

    /// Runs only the schema part of [`validate`](Self::validate).
    pub(crate) fn validate_schema(&self, object: &Value) -> Vec<field::Error> {
        check(self.root(), object, None, "")
    }

    /// Runs only the schema part of [`validate_update`](Self::validate_update).
    pub(crate) fn validate_schema_update(&self, old: &Value, new: &Value) -> Vec<field::Error> {
        check(self.root(), new, Some(Correlation::new(old)), "")
    }
}

/// Validates a value against a node. `path` is the path of the value in errors.
pub(crate) fn check_against(node: &Node, value: &Value, path: &str) -> Vec<field::Error> {
    check(node, value, None, path)
}

fn check(
    node: &Node,
    value: &Value,
    old: Option<Correlation<'_>>,
    path: &str,
) -> Vec<field::Error> {
    let mut validity = Validity { valid: true };
    ratcheted(&mut validity, node, value, &Path::ROOT, old);
    if validity.valid {
        return Vec::new();
    }
    let mut failures = Failures::default();
    ratcheted(&mut failures, node, value, &Path::ROOT, old);
    failures.into_errors(path)
}

/// Returns whether both walks agree. If they did not, a failure would be lost.
#[cfg(test)]
pub(super) fn validity_agrees_with_failures(
    node: &Node,
    value: &Value,
    old: Option<&Value>,
) -> bool {
    let mut validity = Validity { valid: true };
    ratcheted(&mut validity, node, value, &Path::ROOT, old.map(Correlation::new));
    let mut failures = Failures::default();
    ratcheted(&mut failures, node, value, &Path::ROOT, old.map(Correlation::new));
    validity.valid == failures.is_valid()
}

/// Validates a value and ignores failures if it equals its old counterpart.
fn ratcheted<S: Sink>(
    sink: &mut S,
    node: &Node,
    value: &Value,
    path: &Path<'_>,
    old: Option<Correlation<'_>>,
) -> u64 {
    let Some(old) = old else { return walk(sink, node, value, path, None) };
    let mut own = sink.fork();
    let passed = walk(&mut own, node, value, path, Some(old));
    if !own.is_valid() && !correlate::is_unchanged(node, value, old.value) {
        sink.merge(own);
    }
    passed
}

/// Validates a value against a node. Returns the number of passed checks as upstream counts them.
fn walk<S: Sink>(
    sink: &mut S,
    node: &Node,
    value: &Value,
    path: &Path<'_>,
    old: Option<Correlation<'_>>,
) -> u64 {
    let checks = node.checks.as_deref();
    let format = checks.and_then(|checks| checks.format.as_ref());
    if value.is_null() {
        let allowed = node.types == JsonTypes::Any || node.nullable;
        if !allowed {
            sink.fail(|| failure::wrong_type(path, types_name(node.types), "null"));
        }
        if let Some(checks) = checks {
            check_enum(sink, checks, value, path);
        }
        return u64::from(allowed);
    }

    // Upstream counts one for the schema, two for junctors and one for `enum`, whatever the
    // outcome.
    let mut passed = 4;
    if node.types != JsonTypes::Any || format.is_some() {
        passed += 1 + u64::from(type_matches(sink, node, value, path));
        if sink.is_done() {
            return 0;
        }
    }
    if let Some(checks) = checks {
        passed += junctors::check(sink, checks, value, path);
        if sink.is_done() {
            return 0;
        }
    }
    match value {
        Value::String(text) => {
            passed += 1;
            if let Some(checks) = checks {
                string(sink, checks, text, path);
            }
            if let Some((name, FormatRule::Text(format))) = format {
                passed += 1;
                if !format.accepts(text) {
                    sink.fail(|| failure::wrong_format(path, name, text));
                }
            }
        }
        Value::Number(number) => {
            passed += 2;
            numbers::check(sink, node, go::Num::of(number), path);
        }
        Value::Array(items) => passed += 2 + array(sink, node, items, path, old),
        _ => {}
    }
    if sink.is_done() {
        return 0;
    }
    if let Some(checks) = checks {
        check_enum(sink, checks, value, path);
    }
    if let Value::Object(map) = value {
        passed += 1 + object(sink, node, map, path, old);
    }
    passed
}

fn types_name(types: JsonTypes) -> &'static str {
    match types {
        JsonTypes::Any => "",
        JsonTypes::One(json_type) => json_type.name(),
        JsonTypes::IntOrString => "integer,string",
    }
}

/// Checks the type. Like upstream, lenient for strings and lists with a format.
fn type_matches<S: Sink>(sink: &mut S, node: &Node, value: &Value, path: &Path<'_>) -> bool {
    let (json_type, value_format) = match value {
        Value::Bool(_) => (JsonType::Boolean, ""),
        Value::String(_) => (JsonType::String, ""),
        Value::Array(_) => (JsonType::Array, ""),
        Value::Number(n) => match go::Num::of(n) {
            go::Num::Int(_) => (JsonType::Integer, "int64"),
            go::Num::Float(_) => (JsonType::Number, "float64"),
        },
        _ => (JsonType::Object, ""),
    };
    let same = node.types.allows(json_type);
    let whole_float = matches!(value, Value::Number(n)
        if json_type == JsonType::Number
            && node.types.allows(JsonType::Integer)
            && numbers::is_json_integer(go::Num::of(n).as_f64()));
    let widened = json_type == JsonType::Integer && node.types.allows(JsonType::Number);
    let format = node.checks.as_deref().and_then(|checks| checks.format.as_ref());
    if let Some((format, _)) = format {
        let textual = matches!(json_type, JsonType::String | JsonType::Array);
        if !(textual || same || value_format == &**format || whole_float || widened) {
            sink.fail(|| failure::wrong_type(path, format, value_format));
            return false;
        }
        let numeric = node.types.allows(JsonType::Number) || node.types.allows(JsonType::Integer);
        if textual && !numeric {
            return true;
        }
    }
    if !(same || whole_float || widened) {
        sink.fail(|| failure::wrong_type(path, types_name(node.types), json_type.name()));
        return false;
    }
    true
}

fn string<S: Sink>(sink: &mut S, checks: &Checks, text: &str, path: &Path<'_>) {
    // Like upstream, reports only the first of the three.
    if checks.max_length.is_some() || checks.min_length.is_some() {
        let length = text.chars().count() as i64;
        if let Some(max) = checks.max_length.filter(|max| length > *max) {
            return sink.fail(|| failure::too_long(path, max));
        }
        if let Some(min) = checks.min_length.filter(|min| length < *min) {
            return sink.fail(|| failure::too_short(path, min, text));
        }
    }
    if let Some(pattern) = checks.pattern.as_ref().filter(|pattern| !pattern.is_match(text)) {
        sink.fail(|| failure::mismatch(path, pattern.source(), text));
    }
}

fn check_enum<S: Sink>(sink: &mut S, checks: &Checks, value: &Value, path: &Path<'_>) {
    if !checks.enum_values.allow(value) {
        sink.fail(|| failure::not_in_enum(path, value, checks.enum_values.all()));
    }
}

fn array<S: Sink>(
    sink: &mut S,
    node: &Node,
    items: &[Value],
    path: &Path<'_>,
    old: Option<Correlation<'_>>,
) -> u64 {
    let mut passed = 0;
    if let Some(schema) = &node.items {
        let old_items = match (&node.list, old) {
            (ListType::Map(keys), Some(old)) => Some(correlate::OldItems::new(keys, old.value)),
            _ => None,
        };
        for (i, item) in items.iter().enumerate() {
            let old = old_items.as_ref().and_then(|old_items| old_items.counterpart(item));
            passed += ratcheted(sink, schema, item, &path.child(Step::Index(i)), old);
            if sink.is_done() {
                return 0;
            }
        }
    }
    let Some(checks) = node.checks.as_deref() else { return passed };
    let size = items.len() as i64;
    if let Some(min) = checks.min_items.filter(|min| size < *min) {
        sink.fail(|| failure::too_few_items(path, min, size));
    }
    if let Some(max) = checks.max_items.filter(|max| size > *max) {
        sink.fail(|| failure::too_many_items(path, max, size));
    }
    if checks.unique_items {
        let mut seen = std::collections::HashSet::with_capacity(items.len());
        if !items.iter().all(|item| seen.insert(go::json(item))) {
            sink.fail(|| failure::duplicates(path));
        }
    }
    passed
}

fn object<S: Sink>(
    sink: &mut S,
    node: &Node,
    map: &Map<String, Value>,
    path: &Path<'_>,
    old: Option<Correlation<'_>>,
) -> u64 {
    let mut passed = 0;
    let checks = node.checks.as_deref();
    if let Some(checks) = checks {
        let size = map.len() as i64;
        if let Some(min) = checks.min_properties.filter(|min| size < *min) {
            sink.fail(|| failure::too_few_properties(path, min, size));
        }
        if let Some(max) = checks.max_properties.filter(|max| size > *max) {
            sink.fail(|| failure::too_many_properties(path, max, size));
        }
    }
    match &node.additional {
        Additional::Allowed(false) => {
            for key in map.keys().filter(|key| node.property(key).is_none()) {
                sink.fail(|| failure::not_allowed(path, key));
            }
        }
        Additional::Schema(schema) => {
            for (key, child) in map {
                if node.property(key).is_none() {
                    let old = old.and_then(|old| old.field(key));
                    let path = path.child(Step::Additional(key));
                    passed += ratcheted(sink, schema, child, &path, old);
                    if sink.is_done() {
                        return 0;
                    }
                }
            }
        }
        Additional::Allowed(true) | Additional::Unset => {}
    }
    if !node.properties.is_empty() {
        for (key, child) in map {
            let Some(schema) = node.property(key) else { continue };
            // Both sides were converted to the same type, so comparing the object's type is
            // meaningless.
            let comparable = !(path.is_root() && matches!(key.as_str(), "apiVersion" | "kind"));
            let old = old.filter(|_| comparable).and_then(|old| old.field(key));
            passed += ratcheted(sink, schema, child, &path.child(Step::Property(key)), old);
            if sink.is_done() {
                return 0;
            }
        }
    }
    for key in checks.map(|checks| &checks.required[..]).unwrap_or_default() {
        if !map.contains_key(&**key) {
            sink.fail(|| failure::missing(path, key));
        }
    }
    passed
}
