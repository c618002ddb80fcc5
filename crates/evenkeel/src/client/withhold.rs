//! Rejections of requests about Secrets.
//!
//! The message of a Status may quote what was sent: a value that does not decode, a field with an
//! invalid value, the text of an admission webhook. Errors are logged, recorded in the journal and
//! in events, so of Secrets only what cannot quote their content is kept: reason, code, and the
//! fields of the causes.

use std::fmt::Write as _;

use kube::core::Status;

use crate::kind::Kind;

/// Reasons whose messages the API server makes of names, versions and managers of fields.
const QUOTES_NOTHING: [&str; 11] = [
    "AlreadyExists",
    "Conflict",
    "Expired",
    "Gone",
    "MethodNotAllowed",
    "NotFound",
    "ServerTimeout",
    "Timeout",
    "TooManyRequests",
    "Unauthorized",
    "UnsupportedMediaType",
];

/// Returns the rejection of a request about `kind` without the values of a Secret.
pub(super) fn withhold(kind: &Kind, mut status: Status) -> Status {
    if !kind.is_confidential() || quotes_nothing(&status) {
        return status;
    }
    let mut message = match &*status.reason {
        "" => format!("rejected with code {}", status.code),
        reason => format!("rejected as {reason} ({})", status.code),
    };
    let causes = status.details.iter_mut().flat_map(|details| &mut details.causes);
    for (number, cause) in causes.enumerate() {
        cause.message.clear();
        let separator = if number == 0 { ": " } else { ", " };
        // Writing to a String cannot fail.
        let _ = write!(message, "{separator}{}", cause.field);
    }
    let _ = write!(message, "; the message is withheld, since it may quote the {}", kind.kind());
    status.message = message;
    status
}

fn quotes_nothing(status: &Status) -> bool {
    let message = &status.message;
    if message.starts_with("admission webhook ") {
        return false;
    }
    // The other rejections with the reason Forbidden are those of admission.
    let unauthorized = status.reason == "Forbidden" && message.contains(" is forbidden: User ");
    // A 404 or 429 of another server than the API server, or of its filters, has no reason.
    let no_reason = status.reason.is_empty() && matches!(status.code, 404 | 429);
    unauthorized || no_reason || QUOTES_NOTHING.contains(&&*status.reason)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    use serde_json::json;

    use super::*;

    fn status(reason: &str, code: u16, message: &str) -> Status {
        serde_json::from_value(json!({
            "status": "Failure",
            "reason": reason,
            "code": code,
            "message": message,
            "details": { "causes": [
                { "reason": "FieldValueInvalid", "field": "data[a]", "message": "Invalid: hunter2" },
                { "reason": "FieldValueInvalid", "field": "type", "message": "Invalid: hunter2" },
            ] },
        }))
        .unwrap()
    }

    #[test]
    fn messages_that_may_quote_a_secret_are_replaced() {
        let secret = Kind::of::<Secret>();
        let invalid = status("Invalid", 422, "data[a]: Invalid value: \"hunter2\"");
        let kept = withhold(&Kind::of::<ConfigMap>(), invalid.clone());
        assert_eq!(kept.message, invalid.message);
        let printed = withhold(&secret, invalid);
        let expected = "rejected as Invalid (422): data[a], type; the message is withheld, since it \
                        may quote the Secret";
        assert_eq!(printed.message, expected);
        assert_eq!((&*printed.reason, printed.code), ("Invalid", 422));
        assert!(!format!("{printed:?}").contains("hunter2"));
        for (reason, code) in [("BadRequest", 400), ("InternalError", 500), ("", 413)] {
            let printed = withhold(&secret, status(reason, code, "unable to decode hunter2"));
            assert!(!format!("{printed:?}").contains("hunter2"), "{reason}");
            assert!(printed.message.contains(&code.to_string()), "{}", printed.message);
        }
        for reason in ["Forbidden", "Conflict"] {
            let webhook = "admission webhook \"a.b.c\" denied the request: hunter2 is weak";
            let printed = withhold(&secret, status(reason, 403, webhook));
            assert!(!format!("{printed:?}").contains("hunter2"), "{reason}");
        }
    }

    #[test]
    fn messages_about_permissions_and_versions_are_kept() {
        let user = "secrets \"a\" is forbidden: User \"u\" cannot patch resource \"secrets\"";
        let conflict =
            "Operation cannot be fulfilled on secrets \"a\": the object has been modified";
        for (reason, code, message) in
            [("Forbidden", 403, user), ("Conflict", 409, conflict), ("", 404, "404 page not found")]
        {
            let printed = withhold(&Kind::of::<Secret>(), status(reason, code, message));
            assert_eq!(printed.message, message);
        }
    }
}
