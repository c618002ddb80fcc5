//! Collects field errors at no cost for valid fields.
//!
//! A [`Path`] is a linked list of borrowed steps on the stack. It is formatted only for an error,
//! so validating a valid object allocates no paths.

use std::fmt;

use evenkeel_schema::field::{Error, ErrorType, exceeds_text_limit};
use serde_json::Value;

use crate::names::Reasons;

/// The path of a field: `spec.containers[0].image`, `metadata.labels[a/b]`.
#[derive(Clone, Copy)]
pub(crate) struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    step: Step<'a>,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Name(&'a str),
    Index(usize),
    Key(&'a str),
}

impl<'a> Path<'a> {
    /// Returns a path that starts at a field of the object. The name is not split: `spec.source` is
    /// one step.
    pub(crate) const fn root(name: &'a str) -> Self {
        Self { parent: None, step: Step::Name(name) }
    }

    pub(crate) const fn child<'b>(&'b self, name: &'b str) -> Path<'b> {
        Path { parent: Some(self), step: Step::Name(name) }
    }

    pub(crate) const fn index(&self, index: usize) -> Path<'_> {
        Path { parent: Some(self), step: Step::Index(index) }
    }

    pub(crate) const fn key<'b>(&'b self, key: &'b str) -> Path<'b> {
        Path { parent: Some(self), step: Step::Key(key) }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            parent.fmt(f)?;
        }
        match self.step {
            // A field without a name prints like an empty key.
            Step::Name("") => f.write_str("[]"),
            Step::Name(name) if self.parent.is_some() => write!(f, ".{name}"),
            Step::Name(name) => f.write_str(name),
            Step::Index(index) => write!(f, "[{index}]"),
            Step::Key(key) => write!(f, "[{key}]"),
        }
    }
}

impl From<Path<'_>> for String {
    fn from(path: Path<'_>) -> Self {
        path.to_string()
    }
}

/// The errors found so far, in order.
#[derive(Default)]
pub(crate) struct Errors {
    list: Vec<Error>,
    /// Set once the metadata of the current object was found valid, so that later rules need not
    /// repeat the checks that do not depend on the kind.
    pub(crate) metadata_is_valid: bool,
}

impl Errors {
    pub(crate) const fn new() -> Self {
        Self { list: Vec::new(), metadata_is_valid: false }
    }

    pub(crate) fn into_vec(self) -> Vec<Error> {
        self.list
    }

    pub(crate) fn extend(&mut self, errors: Vec<Error>) {
        self.list.extend(errors);
    }

    /// Returns the underlying list, for checks that add to a plain list.
    pub(crate) fn list(&mut self) -> &mut Vec<Error> {
        &mut self.list
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// Returns whether rules that print a whole list for each of its elements must stop.
    pub(crate) fn is_full(&self, shown: usize) -> bool {
        exceeds_text_limit(&self.list, shown)
    }

    /// Removes all errors after the first `len`.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.list.truncate(len);
    }

    pub(crate) fn required(&mut self, path: Path<'_>, detail: impl Into<String>) {
        self.list.push(Error::required(path, detail));
    }

    pub(crate) fn forbidden(&mut self, path: Path<'_>, detail: impl Into<String>) {
        self.list.push(Error::forbidden(path, detail));
    }

    pub(crate) fn invalid(
        &mut self,
        path: Path<'_>,
        value: impl Into<Value>,
        detail: impl Into<String>,
    ) {
        self.list.push(Error::invalid(path, value, detail));
    }

    /// Adds an `Invalid` error whose value is printed in another form than the client sent.
    pub(crate) fn invalid_printed(
        &mut self,
        path: Path<'_>,
        printed: impl fmt::Display,
        detail: impl fmt::Display,
    ) {
        self.printed(ErrorType::Invalid, path, printed, detail);
    }

    /// Adds an `Invalid` error without a value.
    pub(crate) fn invalid_omitted(&mut self, path: Path<'_>, detail: impl Into<String>) {
        let (path, detail) = (path.into(), detail.into());
        self.list.push(Error { error_type: ErrorType::Invalid, path, value: None, detail });
    }

    pub(crate) fn not_supported(
        &mut self,
        path: Path<'_>,
        value: impl Into<Value>,
        supported: &[&str],
    ) {
        self.list.push(Error::not_supported(path, value, supported.iter().copied()));
    }

    /// Like [`Errors::not_supported`], for a value printed in another form than the client sent.
    pub(crate) fn not_supported_printed(
        &mut self,
        path: Path<'_>,
        printed: impl fmt::Display,
        supported: &[&str],
    ) {
        let detail = Error::not_supported("", Value::Null, supported.iter().copied()).detail;
        self.printed(ErrorType::NotSupported, path, printed, detail);
    }

    pub(crate) fn duplicate(&mut self, path: Path<'_>, value: impl Into<Value>) {
        self.list.push(Error::duplicate(path, value));
    }

    /// Like [`Errors::duplicate`], for a value printed in another form than the client sent.
    pub(crate) fn duplicate_printed(
        &mut self,
        path: Path<'_>,
        printed: impl fmt::Display,
        detail: &str,
    ) {
        self.printed(ErrorType::Duplicate, path, printed, detail);
    }

    pub(crate) fn not_found(&mut self, path: Path<'_>, value: &str, detail: impl Into<String>) {
        self.list.push(Error { detail: detail.into(), ..Error::not_found(path, value) });
    }

    pub(crate) fn too_long(&mut self, path: Path<'_>, max: usize) {
        self.list.push(Error::too_long(path, max));
    }

    pub(crate) fn too_many(&mut self, path: Path<'_>, actual: usize, max: usize) {
        self.list.push(Error::too_many(path, actual, max));
    }

    pub(crate) fn internal(&mut self, path: Path<'_>, detail: impl Into<String>) {
        let (path, detail) = (path.into(), detail.into());
        self.list.push(Error { error_type: ErrorType::Internal, path, value: None, detail });
    }

    /// Adds an `Invalid` error for each reason.
    pub(crate) fn reasons(&mut self, path: Path<'_>, value: &str, reasons: Reasons) {
        for reason in reasons {
            self.list.push(Error::invalid(path, value, reason));
        }
    }

    fn printed(
        &mut self,
        error_type: ErrorType,
        path: Path<'_>,
        printed: impl fmt::Display,
        detail: impl fmt::Display,
    ) {
        let mut text = printed.to_string();
        let detail = detail.to_string();
        if !detail.is_empty() {
            text.push_str(": ");
            text.push_str(&detail);
        }
        self.list.push(Error { error_type, path: path.into(), value: None, detail: text });
    }
}
