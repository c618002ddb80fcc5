//! Refusals: `Status` objects with the code, reason and wording of kube-apiserver.
//!
//! Every stage that refuses a request makes its [`Status`] here, so that clients which match on
//! codes, reasons or texts (client-go does all three) cannot tell the difference.

use std::fmt;

use evenkeel_schema::field;
use evenkeel_types::go::Quoted;
use serde_json::{Map, Value, json};

use crate::limits::BODY_LIMIT;

/// Why a request was refused. Boxed, since results of every stage carry it.
#[derive(Clone, Debug)]
pub(crate) struct Status(Box<Inner>);

#[derive(Clone, Debug, Default)]
struct Inner {
    code: u16,
    reason: &'static str,
    message: String,
    details: Option<Details>,
    /// The list metadata of an expired continue: a token that goes on inconsistently.
    continue_token: Option<String>,
    plain: bool,
}

/// What a Status says about the object concerned.
#[derive(Clone, Debug, Default)]
pub(crate) struct Details {
    pub(crate) name: String,
    pub(crate) group: String,
    pub(crate) kind: String,
    pub(crate) uid: String,
    pub(crate) causes: Vec<Cause>,
    pub(crate) retry_after_seconds: u32,
}

/// One of several reasons.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cause {
    pub(crate) reason: String,
    pub(crate) message: String,
    pub(crate) field: String,
}

/// A group and a plural (or a kind, where upstream uses it as one): how messages name resources.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GroupResource<'a> {
    pub(crate) group: &'a str,
    pub(crate) resource: &'a str,
}

impl fmt::Display for GroupResource<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.resource)?;
        if self.group.is_empty() { Ok(()) } else { write!(f, ".{}", self.group) }
    }
}

impl Status {
    fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self(Box::new(Inner { code, reason, message: message.into(), ..Inner::default() }))
    }

    fn with_details(mut self, what: GroupResource<'_>, name: &str) -> Self {
        self.0.details = Some(Details {
            name: name.to_owned(),
            group: what.group.to_owned(),
            kind: what.resource.to_owned(),
            ..Details::default()
        });
        self
    }

    pub(crate) fn with_cause(mut self, reason: &str, message: &str, field: &str) -> Self {
        self.0.details.get_or_insert_default().causes.push(Cause {
            reason: reason.to_owned(),
            message: message.to_owned(),
            field: field.to_owned(),
        });
        self
    }

    fn retry_after(mut self, seconds: u32) -> Self {
        self.0.details.get_or_insert_default().retry_after_seconds = seconds;
        self
    }

    pub(crate) fn code(&self) -> u16 {
        self.0.code
    }

    pub(crate) fn reason(&self) -> &'static str {
        self.0.reason
    }

    /// The name of the object concerned.
    pub(crate) fn detail_name(&self) -> &str {
        self.0.details.as_ref().map_or("", |details| &details.name)
    }

    pub(crate) fn message(&self) -> &str {
        &self.0.message
    }

    /// Text instead of a Status object, as Go's own router answers.
    pub(crate) fn plain_text(&self) -> Option<&str> {
        self.0.plain.then_some(self.0.message.as_str())
    }

    pub(crate) fn retry_after_seconds(&self) -> Option<u32> {
        self.0.details.as_ref().map(|d| d.retry_after_seconds).filter(|s| *s > 0)
    }

    pub(crate) fn to_value(&self) -> Value {
        let inner = &self.0;
        let mut metadata = Map::new();
        if let Some(token) = &inner.continue_token {
            metadata.insert("continue".into(), token.clone().into());
        }
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": metadata, "status": "Failure",
            "code": inner.code,
        });
        if !inner.message.is_empty() {
            status["message"] = inner.message.clone().into();
        }
        if !inner.reason.is_empty() {
            status["reason"] = inner.reason.into();
        }
        if let Some(details) = &inner.details {
            status["details"] = details.to_value();
        }
        status
    }
}

impl Details {
    pub(crate) fn to_value(&self) -> Value {
        let mut details = Map::new();
        for (key, text) in
            [("name", &self.name), ("group", &self.group), ("kind", &self.kind), ("uid", &self.uid)]
        {
            if !text.is_empty() {
                details.insert(key.into(), text.clone().into());
            }
        }
        if !self.causes.is_empty() {
            let causes = self.causes.iter().map(|cause| {
                let mut entry = Map::new();
                for (key, text) in [
                    ("reason", &cause.reason),
                    ("message", &cause.message),
                    ("field", &cause.field),
                ] {
                    if !text.is_empty() {
                        entry.insert(key.into(), text.clone().into());
                    }
                }
                Value::Object(entry)
            });
            details.insert("causes".into(), causes.collect());
        }
        if self.retry_after_seconds > 0 {
            details.insert("retryAfterSeconds".into(), self.retry_after_seconds.into());
        }
        Value::Object(details)
    }
}

// === the catalogue ===

impl Status {
    /// Neither group nor path is known: Go's router answers, in plain text.
    pub(crate) fn page_not_found() -> Self {
        let mut status = Self::new(404, "NotFound", "404 page not found\n");
        status.0.plain = true;
        status
    }

    pub(crate) fn resource_not_found() -> Self {
        let mut status =
            Self::new(404, "NotFound", "the server could not find the requested resource");
        status.0.details = Some(Details::default());
        status
    }

    pub(crate) fn not_found(what: GroupResource<'_>, name: &str) -> Self {
        Self::new(404, "NotFound", format!("{what} {} not found", Quoted(name)))
            .with_details(what, name)
    }

    pub(crate) fn already_exists(what: GroupResource<'_>, name: &str, deleting: bool) -> Self {
        let prefix = if deleting { "object is being deleted: " } else { "" };
        Self::new(409, "AlreadyExists", format!("{prefix}{what} \"{name}\" already exists"))
            .with_details(what, name)
    }

    pub(crate) fn name_generation_exhausted(what: GroupResource<'_>, name: &str) -> Self {
        let message = format!(
            "{what} \"{name}\" already exists, the server was not able to generate a unique name \
             for the object"
        );
        Self::new(409, "AlreadyExists", message).with_details(what, name).retry_after(1)
    }

    pub(crate) fn conflict(what: GroupResource<'_>, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {what} \"{name}\": {why}");
        Self::new(409, "Conflict", message).with_details(what, name)
    }

    pub(crate) fn modified(what: GroupResource<'_>, name: &str) -> Self {
        Self::conflict(
            what,
            name,
            "the object has been modified; please apply your changes to the latest version and \
             try again",
        )
    }

    /// Others own what an apply would change.
    pub(crate) fn apply_conflict(conflicts: &evenkeel_apply::managed::Conflicts) -> Self {
        let mut status = Self::new(409, "Conflict", conflicts.to_string());
        for conflict in conflicts.iter() {
            status =
                status.with_cause("FieldManagerConflict", &conflict.message(), &conflict.field());
        }
        status
    }

    /// The object breaks rules of its kind. `what.kind` is the Kind, not the plural.
    pub(crate) fn invalid(what: GroupResource<'_>, name: &str, errors: &[field::Error]) -> Self {
        let mut texts: Vec<String> = Vec::new();
        for error in errors {
            let text = error.to_string();
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        let list = match texts.as_slice() {
            [] => "<nil>".to_owned(),
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let mut status = Self::new(422, "Invalid", format!("{what} \"{name}\" is invalid: {list}"))
            .with_details(what, name);
        for error in errors {
            status = status.with_cause(error.error_type.reason(), &error.message(), error.field());
        }
        status
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    pub(crate) fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }

    pub(crate) fn forbidden(what: GroupResource<'_>, name: &str, why: &str) -> Self {
        let message = if name.is_empty() {
            format!("{what} is forbidden: {why}")
        } else {
            format!("{what} \"{name}\" is forbidden: {why}")
        };
        Self::new(403, "Forbidden", message).with_details(what, name)
    }

    pub(crate) fn forbidden_path(message: impl Into<String>) -> Self {
        let mut status = Self::new(403, "Forbidden", message);
        status.0.details = Some(Details::default());
        status
    }

    pub(crate) fn method_not_allowed() -> Self {
        let mut status = Self::new(
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        );
        status.0.details = Some(Details::default());
        status
    }

    /// What the handler of custom resources says of a verb they do not have.
    pub(crate) fn verb_not_supported(what: GroupResource<'_>, verb: &str) -> Self {
        let message = format!("{verb} is not supported on resources of kind \"{what}\"");
        Self::new(405, "MethodNotAllowed", message).with_details(what, "")
    }

    /// A transformation was asked for that fits lists only, or objects only.
    pub(crate) fn wrong_shape(message: impl Into<String>) -> Self {
        Self::new(406, "NotAcceptable", message)
    }

    pub(crate) fn not_acceptable(accepted: &[&str]) -> Self {
        let list = accepted.join(", ");
        Self::new(
            406,
            "NotAcceptable",
            format!("only the following media types are accepted: {list}"),
        )
    }

    /// What the router of built-in resources says if `Accept` names nothing it knows.
    pub(crate) fn no_representation(accepted: &[&str], streams: bool) -> Self {
        let mut list = accepted.join(", ");
        if streams {
            list.push_str(
                ", application/json;stream=watch, \
                 application/vnd.kubernetes.protobuf;stream=watch",
            );
        }
        let message = format!("406: Not Acceptable\n\nAvailable representations: {list}");
        let mut status = Self::new(406, "NotAcceptable", message);
        status.0.details = Some(Details::default());
        status
    }

    pub(crate) fn unsupported_media_type(accepted: &[&str]) -> Self {
        let list = accepted.join(", ");
        Self::new(
            415,
            "UnsupportedMediaType",
            format!(
                "the body of the request was in an unknown format - accepted media types \
                 include: {list}"
            ),
        )
    }

    /// What the router of built-in resources says of a patch it does not know.
    pub(crate) fn unsupported_patch() -> Self {
        let mut status = Self::new(415, "UnsupportedMediaType", "415: Unsupported Media Type");
        status.0.details = Some(Details::default());
        status
    }

    pub(crate) fn too_large() -> Self {
        Self::new(
            413,
            "RequestEntityTooLarge",
            format!("Request entity too large: limit is {BODY_LIMIT}"),
        )
    }

    pub(crate) fn patch_too_long(operations: usize) -> Self {
        Self::new(
            413,
            "RequestEntityTooLarge",
            format!(
                "Request entity too large: The allowed maximum operations in a JSON patch is \
                 10000, got {operations}"
            ),
        )
    }

    /// A patch that can be read but not carried out.
    pub(crate) fn unprocessable(message: &str) -> Self {
        let mut status = Self::new(
            422,
            "Invalid",
            "the server rejected our request due to an error in our request",
        );
        status.0.details = Some(Details::default());
        if !message.is_empty() {
            tracing::debug!(message, "patch could not be applied");
        }
        status
    }

    pub(crate) fn internal(message: impl fmt::Display) -> Self {
        let message = message.to_string();
        let mut status =
            Self::new(500, "InternalError", format!("Internal error occurred: {message}"));
        status.0.details = Some(Details::default());
        status.with_cause("", &message, "")
    }

    /// An error upstream passes through without a reason of its own.
    pub(crate) fn without_reason(code: u16, message: impl Into<String>) -> Self {
        Self::new(code, "", message)
    }

    /// The disk is full: what the store behind upstream's server answers then.
    pub(crate) fn storage_full() -> Self {
        Self::without_reason(500, "etcdserver: mvcc: database space exceeded")
    }

    pub(crate) fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// A continue token whose snapshot is gone, with one that goes on at the newest state.
    pub(crate) fn continue_expired(token: String) -> Self {
        let mut status = Self::expired(
            "The provided continue parameter is too old to display a consistent list result. You \
             can start a new list without the continue parameter, or use the continue token in \
             this response to retrieve the remainder of the results. Continuing with the provided \
             token results in an inconsistent list - objects that were created, modified, or \
             deleted between the time the first chunk was returned and now may show up in the \
             list.",
        );
        status.0.continue_token = Some(token);
        status
    }

    pub(crate) fn too_large_resource_version(requested: u64, current: u64) -> Self {
        Self::new(
            504,
            "Timeout",
            format!("Timeout: Too large resource version: {requested}, current: {current}"),
        )
        .with_cause("ResourceVersionTooLarge", "Too large resource version", "")
        .retry_after(1)
    }

    pub(crate) fn too_many_requests(message: impl Into<String>, retry_after: u32) -> Self {
        Self::new(429, "TooManyRequests", message).retry_after(retry_after)
    }

    /// More requests than the server takes: a filter of upstream's answers, in plain text.
    pub(crate) fn overloaded() -> Self {
        let message = "Too many requests, please try again later.\n";
        let mut status = Self::too_many_requests(message, 1);
        status.0.plain = true;
        status
    }

    /// The request was not done within its time.
    pub(crate) fn timed_out() -> Self {
        let message = "Timeout: request did not complete within the allotted timeout";
        let mut status = Self::new(504, "Timeout", message);
        status.0.details = Some(Details::default());
        status
    }

    pub(crate) fn not_implemented(message: impl Into<String>) -> Self {
        Self::new(501, "NotImplemented", message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_names_kind_object_and_every_field() {
        let errors = [
            field::Error::required("metadata.name", "name or generateName is required"),
            field::Error::invalid("spec.replicas", -1, "must be greater than or equal to 0"),
        ];
        let what = GroupResource { group: "apps", resource: "Deployment" };
        let status = Status::invalid(what, "web", &errors).to_value();
        assert_eq!(
            status["message"],
            "Deployment.apps \"web\" is invalid: [metadata.name: Required value: name or \
             generateName is required, spec.replicas: Invalid value: -1: must be greater than or \
             equal to 0]"
        );
        assert_eq!(status["details"]["causes"][0]["reason"], "FieldValueRequired");
        assert_eq!(status["details"]["causes"][1]["field"], "spec.replicas");
    }

    #[test]
    fn duplicate_errors_appear_once_in_the_message() {
        let error = field::Error::required("a", "b");
        let what = GroupResource { group: "", resource: "Pod" };
        let status = Status::invalid(what, "p", &[error.clone(), error]).to_value();
        assert_eq!(status["message"], "Pod \"p\" is invalid: a: Required value: b");
        assert_eq!(status["details"]["causes"].as_array().unwrap().len(), 2);
    }
}
