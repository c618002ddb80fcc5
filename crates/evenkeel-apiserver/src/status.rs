//! Errors: `Status` objects with the code, reason and message of kube-apiserver.
//!
//! Every stage creates its [`Status`] here, so that clients which match on codes, reasons or
//! messages (client-go does all three) behave the same.

use std::borrow::Cow;
use std::fmt;

use evenkeel_schema::field;
use evenkeel_types::go::Quoted;
use serde_json::{Map, Value, json};

use crate::limits::BODY_LIMIT;

/// The error of a request. Boxed, since every stage returns it.
#[derive(Clone, Debug)]
pub(crate) struct Status(Box<Inner>);

#[derive(Clone, Debug, Default)]
struct Inner {
    code: u16,
    reason: Cow<'static, str>,
    message: String,
    details: Option<Details>,
    /// The list metadata of an expired continue token: a token to continue inconsistently with.
    continue_token: Option<String>,
    plain: bool,
}

/// The details of a Status.
#[derive(Clone, Debug, Default)]
pub(crate) struct Details {
    pub(crate) name: String,
    pub(crate) group: String,
    pub(crate) kind: String,
    pub(crate) uid: String,
    pub(crate) causes: Vec<Cause>,
    pub(crate) retry_after_seconds: u32,
}

/// A cause in the details of a Status.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cause {
    pub(crate) reason: String,
    pub(crate) message: String,
    pub(crate) field: String,
}

/// A group and a resource (or a kind, where upstream uses one), as in messages.
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
        let reason = Cow::Borrowed(reason);
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

    /// Returns the same error with another code and reason.
    pub(crate) fn with_reason(mut self, code: u16, reason: &'static str) -> Self {
        self.0.code = code;
        self.0.reason = Cow::Borrowed(reason);
        self
    }

    /// Returns the same error with another message.
    pub(crate) fn with_message(mut self, message: &str) -> Self {
        message.clone_into(&mut self.0.message);
        self
    }

    fn retry_after(mut self, seconds: u32) -> Self {
        self.0.details.get_or_insert_default().retry_after_seconds = seconds;
        self
    }

    pub(crate) fn code(&self) -> u16 {
        self.0.code
    }

    pub(crate) fn reason(&self) -> &str {
        &self.0.reason
    }

    /// Returns the name of the object in the details.
    pub(crate) fn detail_name(&self) -> &str {
        self.0.details.as_ref().map_or("", |details| &details.name)
    }

    pub(crate) fn message(&self) -> &str {
        &self.0.message
    }

    /// Returns plain text instead of a Status object, like Go's router.
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
            status["reason"] = (&*inner.reason).into();
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

// === errors ===

impl Status {
    /// Returns the plain text error of Go's router, for an unknown group or path.
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

    /// Returns the error of an apply that changes fields of other field managers.
    pub(crate) fn apply_conflict(conflicts: &evenkeel_apply::managed::Conflicts) -> Self {
        let mut status = Self::new(409, "Conflict", conflicts.to_string());
        for conflict in conflicts.iter() {
            status =
                status.with_cause("FieldManagerConflict", &conflict.message(), &conflict.field());
        }
        status
    }

    /// Returns the error of an invalid object. `what.resource` is the kind, not the plural.
    pub(crate) fn invalid(what: GroupResource<'_>, name: &str, errors: &[field::Error]) -> Self {
        let list = match errors {
            [] => "<nil>".to_owned(),
            errors => field::aggregate(errors),
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

    /// Returns the error of the custom resource handler for an unsupported verb.
    pub(crate) fn verb_not_supported(what: GroupResource<'_>, verb: &str) -> Self {
        let message = format!("{verb} is not supported on resources of kind \"{what}\"");
        Self::new(405, "MethodNotAllowed", message).with_details(what, "")
    }

    /// Returns the error of a view that is for lists only, or for objects only.
    pub(crate) fn view_mismatch(message: impl Into<String>) -> Self {
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

    /// Returns the error of the built-in resources' router if `Accept` has no known type.
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

    /// Returns the error of the built-in resources' router for an unknown patch type.
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

    /// Returns the error of a valid patch that cannot be applied.
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

    /// Returns an error without a reason, as upstream does for some errors.
    pub(crate) fn without_reason(code: u16, message: impl Into<String>) -> Self {
        Self::new(code, "", message)
    }

    /// Returns etcd's error for a full disk.
    pub(crate) fn storage_full() -> Self {
        Self::without_reason(500, "etcdserver: mvcc: database space exceeded")
    }

    pub(crate) fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// Returns the error of a compacted continue token, with one that continues at the latest
    /// revision.
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

    /// Returns the plain text error of upstream's filter for too many requests.
    pub(crate) fn overloaded() -> Self {
        Self::overloaded_for(1)
    }

    /// Like [`overloaded`](Self::overloaded), with the seconds after which to try again.
    pub(crate) fn overloaded_for(seconds: u32) -> Self {
        let message = "Too many requests, please try again later.\n";
        let mut status = Self::too_many_requests(message, seconds);
        status.0.plain = true;
        status
    }

    /// Returns the error of a server that cannot handle the request now.
    pub(crate) fn unavailable() -> Self {
        let message = "the server is currently unable to handle the request";
        Self::new(503, "ServiceUnavailable", message).retry_after(1)
    }

    /// Returns the error of a request that timed out.
    pub(crate) fn timed_out() -> Self {
        let message = "Timeout: request did not complete within the allotted timeout";
        let mut status = Self::new(504, "Timeout", message);
        status.0.details = Some(Details::default());
        status
    }

    /// Returns the error of a request that did not complete in time, in the words of admission.
    pub(crate) fn request_timed_out() -> Self {
        let message = "Timeout: request did not complete within requested timeout";
        let mut status = Self::new(504, "Timeout", message);
        status.0.details = Some(Details::default());
        status
    }

    /// Returns the error of a webhook that rejects a request with a Status of its own.
    pub(crate) fn of_webhook(given: Option<&Value>, message: String) -> Self {
        let null = Value::Null;
        let given = given.unwrap_or(&null);
        let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
        let code = given["code"].as_u64().and_then(|code| u16::try_from(code).ok());
        let code = code.filter(|code| (400..=999).contains(code)).unwrap_or(400);
        let details = given["details"].as_object().map(|_| {
            let details = &given["details"];
            let causes = details["causes"].as_array().into_iter().flatten();
            Details {
                name: text(&details["name"]),
                group: text(&details["group"]),
                kind: text(&details["kind"]),
                uid: text(&details["uid"]),
                causes: causes
                    .map(|cause| Cause {
                        reason: text(&cause["reason"]),
                        message: text(&cause["message"]),
                        field: text(&cause["field"]),
                    })
                    .collect(),
                retry_after_seconds: details["retryAfterSeconds"]
                    .as_u64()
                    .and_then(|seconds| u32::try_from(seconds).ok())
                    .unwrap_or(0),
            }
        });
        let reason = Cow::Owned(text(&given["reason"]));
        Self(Box::new(Inner { code, reason, message, details, ..Inner::default() }))
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
