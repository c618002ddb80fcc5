//! The error of a validator that names the invalid fields.

use std::fmt;

use kube::core::Status;
use serde::Serialize;
use serde_json::json;

use crate::kind::{Kind, Object};

/// An object is invalid: the API server returns the code 422 and the fields, as for its own types.
///
/// ```
/// use evenkeel::webhook::Invalid;
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// let mut invalid = Invalid::of::<ConfigMap>("settings");
/// invalid.value("data.port", &"http", "must be a number");
/// assert_eq!(
///     invalid.to_string(),
///     "ConfigMap \"settings\" is invalid: data.port: Invalid value: \"http\": must be a number",
/// );
/// assert!(invalid.into_result().is_err());
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Invalid {
    kind: String,
    group: String,
    name: String,
    causes: Vec<Cause>,
}

#[derive(Clone, Debug)]
struct Cause {
    field: String,
    reason: &'static str,
    message: String,
}

impl Invalid {
    /// Creates the error of an object of type `K`, without fields.
    pub fn of<K: Object>(name: &str) -> Self {
        let kind = Kind::of::<K>();
        Self {
            kind: kind.kind().to_owned(),
            group: kind.group().to_owned(),
            name: name.to_owned(),
            causes: Vec::new(),
        }
    }

    fn add(&mut self, field: &str, reason: &'static str, message: String) -> &mut Self {
        self.causes.push(Cause { field: field.to_owned(), reason, message });
        self
    }

    /// Adds a field with an invalid value.
    pub fn value(&mut self, field: &str, value: &impl Serialize, detail: &str) -> &mut Self {
        let value = serde_json::to_string(value).unwrap_or_default();
        self.add(field, "FieldValueInvalid", format!("Invalid value: {value}: {detail}"))
    }

    /// Adds a required field that is not set.
    pub fn required(&mut self, field: &str, detail: &str) -> &mut Self {
        let message = match detail {
            "" => "Required value".to_owned(),
            detail => format!("Required value: {detail}"),
        };
        self.add(field, "FieldValueRequired", message)
    }

    /// Adds a field that may not be set or changed.
    pub fn forbidden(&mut self, field: &str, detail: &str) -> &mut Self {
        self.add(field, "FieldValueForbidden", format!("Forbidden: {detail}"))
    }

    /// Adds a field whose value is not one of `supported`.
    pub fn not_supported(
        &mut self,
        field: &str,
        value: &impl Serialize,
        supported: &[&str],
    ) -> &mut Self {
        let value = serde_json::to_string(value).unwrap_or_default();
        let supported: Vec<String> = supported.iter().map(|one| format!("{one:?}")).collect();
        let supported = supported.join(", ");
        let message = format!("Unsupported value: {value}: supported values: {supported}");
        self.add(field, "FieldValueNotSupported", message)
    }

    /// Returns whether no field was added.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.causes.is_empty()
    }

    /// Returns the error if a field was added.
    ///
    /// # Errors
    /// This error.
    pub fn into_result(self) -> Result<(), Self> {
        if self.is_empty() { Ok(()) } else { Err(self) }
    }

    pub(super) fn status(&self) -> Status {
        let causes: Vec<_> = self
            .causes
            .iter()
            .map(|cause| {
                let Cause { field, reason, message } = cause;
                json!({"reason": reason, "message": message, "field": field})
            })
            .collect();
        let details =
            json!({"name": self.name, "group": self.group, "kind": self.kind, "causes": causes});
        let mut status = Status::failure(&self.to_string(), "Invalid").with_code(422);
        status.details = serde_json::from_value(details).ok();
        status
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.kind)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        write!(f, " {:?} is invalid: ", self.name)?;
        let fields: Vec<String> = self
            .causes
            .iter()
            .map(|Cause { field, message, .. }| format!("{field}: {message}"))
            .collect();
        match fields.as_slice() {
            [one] => f.write_str(one),
            all => write!(f, "[{}]", all.join(", ")),
        }
    }
}

impl std::error::Error for Invalid {}
