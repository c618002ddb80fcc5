//! Validation failures, with kube-openapi's messages, and their conversion to field errors.

use evenkeel_types::go;
use serde_json::Value;

use super::path::Path;
use crate::field;

/// One failed check.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    /// kube-openapi's message. Failures with equal messages are duplicates.
    pub(super) text: String,
    /// The path, or `None` if upstream reports the failure for the whole object.
    at: Option<String>,
    failure_type: FailureType,
}

#[derive(Clone, Debug)]
enum FailureType {
    Required,
    Unsupported { value: Value, supported: Vec<String> },
    TooLong { max: i64 },
    TooMany { actual: i64, max: i64 },
    Type { value: Value },
    Invalid { value: Value },
}

impl Failure {
    pub(super) fn into_error(self, prefix: &str) -> field::Error {
        let path = match self.at.as_deref().map(|at| at.strip_prefix('.').unwrap_or(at)) {
            None | Some("") => prefix.to_owned(),
            Some(at) if prefix.is_empty() => at.to_owned(),
            Some(at) => format!("{prefix}.{at}"),
        };
        match self.failure_type {
            FailureType::Required => field::Error::required(path, ""),
            FailureType::Unsupported { value, supported } => {
                field::Error::not_supported(path, value, supported.iter().map(String::as_str))
            }
            FailureType::TooLong { max } => match usize::try_from(max) {
                Ok(max) => field::Error::too_long(path, max),
                Err(_) => field::Error {
                    error_type: field::ErrorType::TooLong,
                    path,
                    value: None,
                    detail: "value is too long".to_owned(),
                },
            },
            FailureType::TooMany { actual, max } => {
                let actual = usize::try_from(actual).unwrap_or(0);
                match usize::try_from(max) {
                    Ok(max) => field::Error::too_many(path, actual, max),
                    Err(_) => field::Error {
                        error_type: field::ErrorType::TooMany,
                        path,
                        value: Some(actual.into()),
                        detail: "has too many items".to_owned(),
                    },
                }
            }
            FailureType::Type { value } => field::Error::type_invalid(path, value, self.text),
            FailureType::Invalid { value } => field::Error::invalid(path, value, self.text),
        }
    }
}

fn at(path: &Path<'_>, failure_type: FailureType, what: impl FnOnce(&str) -> String) -> Failure {
    let path = path.render();
    Failure { text: what(&path), at: Some(path), failure_type }
}

fn invalid(path: &Path<'_>, value: impl Into<Value>, what: impl FnOnce(&str) -> String) -> Failure {
    at(path, FailureType::Invalid { value: value.into() }, what)
}

/// Returns a failure that kube-openapi reports without a path.
fn without_path(text: String) -> Failure {
    Failure { text, at: None, failure_type: FailureType::Invalid { value: "".into() } }
}

pub(super) fn wrong_type(path: &Path<'_>, expected: &str, actual: &str) -> Failure {
    at(path, FailureType::Type { value: actual.into() }, |path| {
        format!("{path} in body must be of type {expected}: {}", go::quote(actual))
    })
}

pub(super) fn wrong_format(path: &Path<'_>, format: &str, text: &str) -> Failure {
    wrong_type(path, format, text)
}

pub(super) fn too_long(path: &Path<'_>, max: i64) -> Failure {
    at(path, FailureType::TooLong { max }, |path| {
        format!("{path} in body should be at most {max} chars long")
    })
}

pub(super) fn too_short(path: &Path<'_>, min: i64, text: &str) -> Failure {
    invalid(path, text, |path| format!("{path} in body should be at least {min} chars long"))
}

pub(super) fn mismatch(path: &Path<'_>, pattern: &str, text: &str) -> Failure {
    invalid(path, text, |path| format!("{path} in body should match '{pattern}'"))
}

pub(super) fn not_in_enum(path: &Path<'_>, value: &Value, supported: &[Value]) -> Failure {
    let supported: Vec<String> = supported
        .iter()
        .map(|choice| match choice {
            Value::String(text) => text.clone(),
            other => go::json(other),
        })
        .collect();
    let listed = supported.join(" ");
    at(path, FailureType::Unsupported { value: value.clone(), supported }, |path| {
        format!("{path} in body should be one of [{listed}]")
    })
}

pub(super) fn too_few_items(path: &Path<'_>, min: i64, size: i64) -> Failure {
    invalid(path, size, |path| format!("{path} in body should have at least {min} items"))
}

pub(super) fn too_many_items(path: &Path<'_>, max: i64, size: i64) -> Failure {
    at(path, FailureType::TooMany { actual: size, max }, |path| {
        format!("{path} in body should have at most {max} items")
    })
}

pub(super) fn duplicates(path: &Path<'_>) -> Failure {
    invalid(path, "", |path| format!("{path} in body shouldn't contain duplicates"))
}

pub(super) fn too_few_properties(path: &Path<'_>, min: i64, size: i64) -> Failure {
    invalid(path, size, |path| format!("{path} in body should have at least {min} properties"))
}

pub(super) fn too_many_properties(path: &Path<'_>, max: i64, size: i64) -> Failure {
    at(path, FailureType::TooMany { actual: size, max }, |path| {
        format!("{path} in body should have at most {max} properties")
    })
}

pub(super) fn not_allowed(path: &Path<'_>, key: &str) -> Failure {
    invalid(path, key, |path| format!("{path}.{key} in body is a forbidden property"))
}

pub(super) fn missing(path: &Path<'_>, key: &str) -> Failure {
    let name = format!("{}.{key}", path.render());
    Failure {
        text: format!("{name} in body is required"),
        at: Some(name),
        failure_type: FailureType::Required,
    }
}

pub(super) fn any_of(path: &Path<'_>) -> Failure {
    let path = go::quote(&path.render());
    without_path(format!("{path} must validate at least one schema (anyOf)"))
}

pub(super) fn one_of(path: &Path<'_>, valid: usize) -> Failure {
    let found = match valid {
        0 => "Found none valid".to_owned(),
        n => format!("Found {n} valid alternatives"),
    };
    let path = go::quote(&path.render());
    without_path(format!("{path} must validate one and only one schema (oneOf). {found}"))
}

pub(super) fn all_of(path: &Path<'_>, none: bool) -> Failure {
    let found = if none { ". None validated" } else { "" };
    let path = go::quote(&path.render());
    without_path(format!("{path} must validate all the schemas (allOf){found}"))
}

pub(super) fn must_not_validate(path: &Path<'_>) -> Failure {
    let path = go::quote(&path.render());
    without_path(format!("{path} must not validate the schema (not)"))
}

/// `role` is what the number is: the validated value or one of the schema's bounds.
pub(super) fn out_of_type(
    path: &Path<'_>,
    role: &str,
    type_name: &str,
    format: Option<&str>,
) -> Failure {
    let format = match format {
        Some(format) => format!("with format {format}"),
        None => "(default format)".to_owned(),
    };
    let path = path.render();
    without_path(format!("{role} value must be of type {type_name} {format} in {path}"))
}

pub(super) fn out_of_bounds(
    path: &Path<'_>,
    relation: &str,
    bound: &str,
    value: impl Into<Value>,
) -> Failure {
    invalid(path, value, |path| format!("{path} in body should be {relation} {bound}"))
}

pub(super) fn not_a_multiple(path: &Path<'_>, of: &str, value: impl Into<Value>) -> Failure {
    invalid(path, value, |path| format!("{path} in body should be a multiple of {of}"))
}

pub(super) fn factor_not_positive(
    path: &Path<'_>,
    factor: impl Into<Value>,
    shown: &str,
) -> Failure {
    invalid(path, factor, |path| {
        format!("factor MultipleOf declared for {path} must be positive: {shown}")
    })
}
