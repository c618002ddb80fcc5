//! Tests of the questions on client errors.

use kube::core::Status;

use super::*;
use crate::cache::{FailureReason, WatchFailure};
use crate::key::Key;
use crate::request_info::Target;

fn request_info() -> RequestInfo {
    let kind = Kind::of::<k8s_openapi::api::core::v1::Pod>();
    let target = Target::Object(Key::new(Some("default"), "web"));
    RequestInfo { verb: "create", kind, subresource: None, target }
}

fn api(reason: &str, code: u16) -> Error {
    let status = Box::new(Status::failure("refused", reason).with_code(code));
    ErrorKind::Api { request_info: request_info(), status }.into()
}

fn no_response(source: impl Into<BoxError>) -> Error {
    ErrorKind::NoResponse { request_info: request_info(), source: source.into() }.into()
}

type Question = fn(&Error) -> bool;

fn questions(error: &Error) -> Vec<&'static str> {
    let questions: [(&str, Question); 12] = [
        ("not found", Error::is_not_found),
        ("already exists", Error::is_already_exists),
        ("conflict", Error::is_conflict),
        ("forbidden", Error::is_forbidden),
        ("unauthorized", Error::is_unauthorized),
        ("invalid", Error::is_invalid),
        ("expired", Error::is_expired),
        ("timeout", Error::is_timeout),
        ("too many requests", Error::is_too_many_requests),
        ("retryable", Error::is_retryable),
        ("outcome unknown", Error::is_outcome_unknown),
        ("not cached", Error::is_not_cached),
    ];
    questions.into_iter().filter(|(_, ask)| ask(error)).map(|(name, _)| name).collect()
}

#[test]
fn questions_are_answered_as_in_apimachinery() {
    let table: [(&str, u16, &[&str]); 20] = [
        ("NotFound", 404, &["not found"]),
        ("", 404, &["not found"]),
        // A known reason decides, an unknown one does not.
        ("Invalid", 404, &["invalid"]),
        ("QuotaEmpty", 404, &["not found"]),
        ("AlreadyExists", 409, &["already exists"]),
        ("", 409, &["conflict"]),
        ("Conflict", 409, &["conflict"]),
        ("Forbidden", 403, &["forbidden"]),
        ("Unauthorized", 401, &["unauthorized"]),
        ("Invalid", 422, &["invalid"]),
        ("Expired", 410, &["expired"]),
        ("Gone", 410, &["expired"]),
        ("", 410, &["expired"]),
        ("BadRequest", 400, &[]),
        ("TooManyRequests", 429, &["too many requests", "retryable"]),
        ("", 429, &["too many requests", "retryable"]),
        ("Timeout", 504, &["timeout", "retryable", "outcome unknown"]),
        ("ServerTimeout", 500, &["timeout", "retryable", "outcome unknown"]),
        ("ServiceUnavailable", 503, &["retryable", "outcome unknown"]),
        ("InternalError", 500, &["retryable", "outcome unknown"]),
    ];
    for (reason, code, expected) in table {
        assert_eq!(questions(&api(reason, code)), expected, "{reason} {code}");
    }
    assert_eq!(questions(&api("", 502)), ["retryable", "outcome unknown"]);
    assert!(questions(&api("MethodNotAllowed", 405)).is_empty());
}

#[test]
fn requests_without_response_are_retryable_and_of_unknown_outcome() {
    let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
    assert_eq!(questions(&no_response(refused)), ["retryable", "outcome unknown"]);
    let late = kube::Error::Service(io::Error::from(io::ErrorKind::TimedOut).into());
    assert_eq!(questions(&no_response(late)), ["timeout", "retryable", "outcome unknown"]);
}

#[test]
fn errors_of_the_cache_are_distinguished() {
    let kind = request_info().kind;
    let undeclared = Error::from(ReadError::Undeclared { kind: kind.clone() });
    assert_eq!(questions(&undeclared), ["not cached"]);
    let failure = WatchFailure { message: "no route".into(), reason: FailureReason::Other };
    let syncing = Error::from(ReadError::NotSynced { kind: kind.clone(), last: Some(failure) });
    assert_eq!(questions(&syncing), ["retryable"]);
    assert_eq!(chain(&syncing), "Pod is not synced yet: no route");
    assert!(questions(&Error::from(ReadError::Stopped { kind })).is_empty());
}

#[test]
fn server_requests_a_retry() {
    let status = serde_json::json!({
        "message": "the leader changed", "reason": "Conflict", "code": 409,
        "details": { "retryAfterSeconds": 2 },
    });
    let status = serde_json::from_value(status).unwrap();
    let error: Error =
        ErrorKind::Api { request_info: request_info(), status: Box::new(status) }.into();
    assert!(error.is_retryable());
    assert_eq!(error.retry_after(), Some(Duration::from_secs(2)));
}
