//! Errors about one field, in the words Kubernetes uses.
//!
//! Every validation in the workspace, of custom and of built-in kinds, reports a list of
//! [`Error`]s; the API server turns them into the `causes` of a 422 answer.

use std::fmt;

use evenkeel_types::{go, json};
use serde_json::Value;

/// What is wrong with a field. The names are those of Kubernetes' `field.ErrorType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Kind {
    /// A needed value is absent.
    Required,
    /// A value that must be unique occurs twice.
    Duplicate,
    /// The value is malformed or out of range.
    Invalid,
    /// The value is not one of an enumeration.
    NotSupported,
    /// The value may not be set (or changed) here.
    Forbidden,
    /// A string is longer than allowed.
    TooLong,
    /// A list or map has more entries than allowed.
    TooMany,
    /// Something the value refers to does not exist.
    NotFound,
    /// The value has the wrong JSON type.
    TypeInvalid,
    /// The check itself failed.
    Internal,
}

impl Kind {
    /// The `reason` of the cause in a Status, for example `FieldValueInvalid`.
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

    fn headline(self) -> &'static str {
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

/// One thing wrong with one field of an object.
///
/// `Display` gives the text of upstream's `field.Error`, path first:
/// `spec.replicas: Invalid value: -1: must be greater than or equal to 0`.
#[derive(Clone, Debug, PartialEq)]
pub struct Error {
    /// What is wrong.
    pub kind: Kind,
    /// Where: `spec.containers[0].image`, `metadata.labels[a/b]`; empty for the object itself.
    pub path: String,
    /// The offending value; `None` where upstream prints none.
    pub value: Option<Value>,
    /// Why it is wrong, for people.
    pub detail: String,
}

/// Whether rules that report a whole list for each of its elements stop: the text they add grows
/// with the square of the list. `shown` are the bytes that each error shows.
pub fn is_enough(errors: &[Error], shown: usize) -> bool {
    const ENOUGH: usize = 4 << 20;
    errors.len().saturating_mul(shown) > ENOUGH
}

impl Error {
    /// A needed value is absent.
    pub fn required(path: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { kind: Kind::Required, path: path.into(), value: None, detail: detail.into() }
    }

    /// The value is malformed or out of range.
    pub fn invalid(
        path: impl Into<String>,
        value: impl Into<Value>,
        detail: impl Into<String>,
    ) -> Self {
        Self {
            kind: Kind::Invalid,
            path: path.into(),
            value: Some(value.into()),
            detail: detail.into(),
        }
    }

    /// Like [`invalid`](Self::invalid), for a value upstream prints as a Go struct: its text is
    /// given, because JSON values do not keep the order of fields.
    pub(crate) fn invalid_text(path: impl Into<String>, value: &str, detail: &str) -> Self {
        let detail = format!("{value}: {detail}");
        Self { kind: Kind::Invalid, path: path.into(), value: None, detail }
    }

    /// The value has the wrong JSON type.
    pub(crate) fn type_invalid(
        path: impl Into<String>,
        value: impl Into<Value>,
        detail: impl Into<String>,
    ) -> Self {
        Self { kind: Kind::TypeInvalid, ..Self::invalid(path, value, detail) }
    }

    /// The value is not one of `supported`; they are listed in the given order.
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
        Self { kind: Kind::NotSupported, path: path.into(), value: Some(value.into()), detail }
    }

    /// A value that must be unique occurs twice.
    pub fn duplicate(path: impl Into<String>, value: impl Into<Value>) -> Self {
        Self {
            kind: Kind::Duplicate,
            path: path.into(),
            value: Some(value.into()),
            detail: String::new(),
        }
    }

    /// The field may not be set or changed here.
    pub fn forbidden(path: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { kind: Kind::Forbidden, path: path.into(), value: None, detail: detail.into() }
    }

    /// A string has more than `max` bytes.
    pub fn too_long(path: impl Into<String>, max: usize) -> Self {
        let unit = if max == 1 { "byte" } else { "bytes" };
        let detail = format!("may not be more than {max} {unit}");
        Self { kind: Kind::TooLong, path: path.into(), value: None, detail }
    }

    /// A list or map has `actual` entries where `max` are allowed.
    pub fn too_many(path: impl Into<String>, actual: usize, max: usize) -> Self {
        let unit = if max == 1 { "item" } else { "items" };
        let detail = format!("must have at most {max} {unit}");
        Self { kind: Kind::TooMany, path: path.into(), value: Some(actual.into()), detail }
    }

    /// Something the value refers to does not exist.
    pub fn not_found(path: impl Into<String>, value: impl Into<Value>) -> Self {
        Self {
            kind: Kind::NotFound,
            path: path.into(),
            value: Some(value.into()),
            detail: String::new(),
        }
    }

    /// The text without the path, as it stands in `details.causes[].message`.
    pub fn message(&self) -> String {
        let mut text = self.kind.headline().to_owned();
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

    /// The path as a Status names it: `<nil>` stands for the whole object.
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
