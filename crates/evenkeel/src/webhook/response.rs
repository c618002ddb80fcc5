//! The response of an AdmissionReview.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::core::Status;
use serde_json::{Map, Value, json};

use crate::client;
use crate::error::{Error, chain};
use crate::webhook::patch::{self, Operation};

/// Whether a request is admitted, and with which changes, warnings and audit annotations.
///
/// ```
/// use evenkeel::webhook::AdmissionResponse;
///
/// let response = AdmissionResponse::allowed().warning("spec.size is deprecated");
/// assert!(response.is_allowed());
/// let response = AdmissionResponse::denied("spec.size cannot be changed");
/// assert!(!response.is_allowed());
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct AdmissionResponse {
    allowed: bool,
    code: u16,
    reason: String,
    message: String,
    /// The details of a Status, such as the fields that are invalid.
    details: Option<Value>,
    patch: Vec<Operation>,
    warnings: Vec<String>,
    audit_annotations: BTreeMap<String, String>,
}

impl AdmissionResponse {
    fn new(allowed: bool, code: u16, reason: &str, message: String) -> Self {
        Self {
            allowed,
            code,
            reason: reason.to_owned(),
            message,
            details: None,
            patch: Vec::new(),
            warnings: Vec::new(),
            audit_annotations: BTreeMap::new(),
        }
    }

    /// Admits the request.
    pub fn allowed() -> Self {
        Self::new(true, 200, "", String::new())
    }

    /// Denies the request with code 403. The client of the API server sees the message.
    pub fn denied(message: impl Into<String>) -> Self {
        Self::new(false, 403, "Forbidden", message.into())
    }

    /// Denies the request because it could not be processed: 400 for a malformed request, 500 for a
    /// failure of the webhook.
    pub fn errored(code: u16, message: impl Into<String>) -> Self {
        Self::new(false, code, "", message.into())
    }

    /// Denies the request because of an error: with the Status of an [`Invalid`](super::Invalid) or
    /// of a response of the API server, otherwise with code 403.
    pub fn from_error(error: &Error) -> Self {
        match status(error) {
            Some(status) => {
                let details = serde_json::to_value(&status.details).ok();
                let response = Self::new(false, status.code, &status.reason, status.message);
                Self { details: details.filter(|details| !details.is_null()), ..response }
            }
            None => Self::denied(chain(&**error)),
        }
    }

    /// Changes the object: `after` is the object that the API server shall use instead of `before`.
    pub fn patched(mut self, before: &Value, after: &Value) -> Self {
        self.patch.extend(patch::difference(before, after));
        self
    }

    pub(super) fn with_patch(mut self, patch: Vec<Operation>) -> Self {
        self.patch.extend(patch);
        self
    }

    /// Adds a warning, which the API server returns to its client. Warnings of more than 256
    /// characters may be truncated.
    pub fn warning(mut self, warning: impl Into<String>) -> Self {
        self.warnings.push(warning.into());
        self
    }

    /// Adds an annotation to the audit event of the request.
    pub fn audit_annotation(mut self, key: &str, value: impl Into<String>) -> Self {
        self.audit_annotations.insert(key.to_owned(), value.into());
        self
    }

    /// Adds the response of a further handler, which decides.
    pub(super) fn join(self, mut next: Self) -> Self {
        next.patch.splice(0..0, self.patch);
        next.warnings.splice(0..0, self.warnings);
        next.audit_annotations.extend(self.audit_annotations);
        next
    }

    /// Returns whether the request is admitted.
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        self.allowed
    }

    /// Returns the code of the status: 200 if the request is admitted.
    #[must_use]
    pub fn code(&self) -> u16 {
        self.code
    }

    /// Returns the message of a denial.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns the warnings.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Returns the response as JSON.
    pub(super) fn encode(self, uid: &str) -> Value {
        let mut status = Map::new();
        status.insert("metadata".to_owned(), json!({}));
        if !self.allowed {
            status.insert("status".to_owned(), "Failure".into());
        }
        if !self.message.is_empty() {
            status.insert("message".to_owned(), self.message.into());
        }
        if !self.reason.is_empty() {
            status.insert("reason".to_owned(), self.reason.into());
        }
        if let Some(details) = self.details {
            status.insert("details".to_owned(), details);
        }
        status.insert("code".to_owned(), self.code.into());
        let mut response = Map::new();
        response.insert("uid".to_owned(), uid.into());
        response.insert("allowed".to_owned(), self.allowed.into());
        response.insert("status".to_owned(), status.into());
        if self.allowed && !self.patch.is_empty() {
            let patch = patch::encode(self.patch).to_string();
            response.insert("patch".to_owned(), STANDARD.encode(patch).into());
            response.insert("patchType".to_owned(), "JSONPatch".into());
        }
        if !self.audit_annotations.is_empty() {
            response.insert("auditAnnotations".to_owned(), json!(self.audit_annotations));
        }
        if !self.warnings.is_empty() {
            response.insert("warnings".to_owned(), json!(self.warnings));
        }
        response.into()
    }
}

/// Returns the Status in an error, if there is one.
fn status(error: &Error) -> Option<Status> {
    if let Some(invalid) = error.find::<super::Invalid>() {
        return Some(invalid.status());
    }
    if let Some(status) = error.find::<client::Error>().and_then(client::Error::status) {
        return Some(status.clone());
    }
    match error.find::<kube::Error>() {
        Some(kube::Error::Api(status)) => Some((**status).clone()),
        _ => None,
    }
}
