//! Field errors, with the types and messages of upstream's `field.Error`.
//!
//! Every validation in the workspace, of custom resources and of built-in kinds, returns a list of
//! [`Error`]s. The API server turns them into the `causes` of a 422 response.

use std::collections::HashSet;
use std::fmt;

use evenkeel_types::{go, json};
use serde_json::Value;

/// What is wrong with a field. The names are those of upstream's `field.ErrorType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ErrorType {
    /// A required value is absent.
    Required,
    /// A value that must be unique occurs more than once.
    Duplicate,
    /// The value is malformed or out of range.
    Invalid,
    /// The value is not one of the supported values.
    NotSupported,
    /// The field may not be set or changed here.
    Forbidden,
    /// A string is longer than allowed.
    TooLong,
    /// A list or map has more entries than allowed.
    TooMany,
    /// The object that the value refers to does not exist.
    NotFound,
    /// The value has the wrong JSON type.
    TypeInvalid,
    /// The check itself failed.
    Internal,
}

impl ErrorType {
    /// Returns the `reason` of the cause in a Status, for example `FieldValueInvalid`.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::NotFound => "FieldValueNotFound",
            Self::TypeInvalid => "FieldValueTypeInvalid",
            Self::Internal => "InternalError",
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Required => "Required value",
            Self::Duplicate => "Duplicate value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
            Self::NotFound => "Not found",
            Self::Internal => "Internal error",
        }
    }
}

/// An error about one field of an object.
///
/// `Display` prints the text of upstream's `field.Error`, path first:
/// `spec.replicas: Invalid value: -1: must be greater than or equal to 0`.
#[derive(Clone, Debug, PartialEq)]
pub struct Error {
    /// What is wrong.
    pub error_type: ErrorType,
    /// The path, for example `spec.containers[0].image` or `metadata.labels[a/b]`; empty for the
    /// object itself.
    pub path: String,
    /// The offending value; `None` where upstream prints none.
    pub value: Option<Value>,
    /// Why the value is invalid, in human-readable form.
    pub detail: String,
}

/// Returns whether rules that print a whole list for each of its elements must stop, because their
/// output grows with the square of the list. `shown` is the number of bytes that each error prints.
pub fn exceeds_text_limit(errors: &[Error], shown: usize) -> bool {
    const MAX_TEXT_BYTES: usize = 4 << 20;
    errors.len().saturating_mul(shown) > MAX_TEXT_BYTES
}

/// The texts of several errors as one, the way Go's aggregates print them: each text once.
pub fn aggregate<'a>(errors: impl IntoIterator<Item = &'a Error>) -> String {
    let mut seen = HashSet::new();
    let mut texts: Vec<String> = Vec::new();
    for text in errors.into_iter().map(Error::to_string) {
        if seen.insert(text.clone()) {
            texts.push(text);
        }
    }
    match &mut texts[..] {
        [one] => std::mem::take(one),
        many => format!("[{}]", many.join(", ")),
    }
}

impl Error {
    /// Returns an error for an absent required value.
    pub fn required(path: impl Into<String>, detail: impl Into<String>) -> Self {
        Self {
            error_type: ErrorType::Required,
            path: path.into(),
            value: None,
            detail: detail.into(),
        }
    }

    /// Returns an error for a malformed or out-of-range value.
    pub fn invalid(
        path: impl Into<String>,
        value: impl Into<Value>,
        detail: impl Into<String>,
    ) -> Self {
        Self {
            error_type: ErrorType::Invalid,
            path: path.into(),
            value: Some(value.into()),
            detail: detail.into(),
        }
    }

    /// Like [`invalid`](Self::invalid), for a value that upstream prints as a Go struct. Takes the
    /// printed text because JSON objects do not keep the order of fields.
    pub(crate) fn invalid_text(path: impl Into<String>, value: &str, detail: &str) -> Self {
        let detail = format!("{value}: {detail}");
        Self { error_type: ErrorType::Invalid, path: path.into(), value: None, detail }
    }

    /// Returns an error for a value of the wrong JSON type.
    pub(crate) fn type_invalid(
        path: impl Into<String>,
        value: impl Into<Value>,
        detail: impl Into<String>,
    ) -> Self {
        Self { error_type: ErrorType::TypeInvalid, ..Self::invalid(path, value, detail) }
    }

    /// Returns an error for a value that is not in `supported`, which is printed in the given
    /// order.
    pub fn not_supported<'a>(
        path: impl Into<String>,
        value: impl Into<Value>,
        supported: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let quoted: Vec<String> = supported.into_iter().map(go::quote).collect();
        let detail = if quoted.is_empty() {
            String::new()
        } else {
            format!("supported values: {}", quoted.join(", "))
        };
        Self {
            error_type: ErrorType::NotSupported,
            path: path.into(),
            value: Some(value.into()),
            detail,
        }
    }

    /// Returns an error for a value that must be unique and occurs more than once.
    pub fn duplicate(path: impl Into<String>, value: impl Into<Value>) -> Self {
        Self {
            error_type: ErrorType::Duplicate,
            path: path.into(),
            value: Some(value.into()),
            detail: String::new(),
        }
    }

    /// Returns an error for a field that may not be set or changed here.
    pub fn forbidden(path: impl Into<String>, detail: impl Into<String>) -> Self {
        Self {
            error_type: ErrorType::Forbidden,
            path: path.into(),
            value: None,
            detail: detail.into(),
        }
    }

    /// Returns an error for a string of more than `max` bytes.
    pub fn too_long(path: impl Into<String>, max: usize) -> Self {
        let unit = if max == 1 { "byte" } else { "bytes" };
        let detail = format!("may not be more than {max} {unit}");
        Self { error_type: ErrorType::TooLong, path: path.into(), value: None, detail }
    }

    /// Returns an error for a list or map with `actual` entries where `max` are allowed.
    pub fn too_many(path: impl Into<String>, actual: usize, max: usize) -> Self {
        let unit = if max == 1 { "item" } else { "items" };
        let detail = format!("must have at most {max} {unit}");
        Self {
            error_type: ErrorType::TooMany,
            path: path.into(),
            value: Some(actual.into()),
            detail,
        }
    }

    /// Returns an error for a reference to an object that does not exist.
    pub fn not_found(path: impl Into<String>, value: impl Into<Value>) -> Self {
        Self {
            error_type: ErrorType::NotFound,
            path: path.into(),
            value: Some(value.into()),
            detail: String::new(),
        }
    }

    /// Returns the text without the path, as used in `details.causes[].message`.
    pub fn message(&self) -> String {
        let mut text = self.error_type.as_str().to_owned();
        if let Some(value) = &self.value {
            text.push_str(": ");
            match value {
                Value::String(string) => text.push_str(&go::quote(string)),
                Value::Number(number) => text.push_str(&go::Num::of(number).to_string()),
                other => json::any(&mut text, other),
            }
        }
        if !self.detail.is_empty() {
            text.push_str(": ");
            text.push_str(&self.detail);
        }
        text
    }

    /// Returns the path as a Status reports it: `<nil>` for the whole object.
    pub fn field(&self) -> &str {
        if self.path.is_empty() { "<nil>" } else { &self.path }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field(), self.message())
    }
}

impl std::error::Error for Error {}
