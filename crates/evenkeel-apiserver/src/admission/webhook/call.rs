//! Calls one webhook and returns its response.

use evenkeel_types::go::Quoted;
use serde_json::Value;
use tokio::time::Instant;

use super::matching::Invocation;
use super::review::{self, Invalid, Response};
use crate::context::Attributes;
use crate::status::Status;
use crate::webhook::Call;

/// The maximum size of a response: a patch may contain a whole object, in base64.
const MAX_RESPONSE: usize = 16 * 1024 * 1024;

/// Why a webhook did not allow a request.
pub(super) enum Failure {
    /// The call failed; the failure policy decides about the request.
    Calling(String),
    /// The webhook or the server rejects the request.
    Rejected(Status),
}

impl Failure {
    pub(super) fn calling(invocation: &Invocation, why: &str) -> Self {
        Self::Calling(format!("failed calling webhook {}: {why}", Quoted(&invocation.hook.name)))
    }
}

/// Calls a webhook with the object in its version. Returns only responses that allow the request.
pub(super) async fn call(
    attributes: &Attributes<'_>,
    invocation: &Invocation,
    object: Option<&Value>,
    old: Option<&Value>,
    mutating: bool,
) -> Result<Response, Failure> {
    let cx = attributes.cx;
    let hook = &*invocation.hook;
    let failed = |why: &str| Failure::calling(invocation, why);
    if attributes.dry_run {
        match hook.side_effects.as_deref() {
            None => return Err(failed("Webhook SideEffects is nil")),
            Some("None" | "NoneOnDryRun") => {}
            Some(_) => {
                let why =
                    format!("admission webhook {} does not support dry run", Quoted(&hook.name));
                return Err(Failure::Rejected(Status::bad_request(why)));
            }
        }
    }
    let version = hook.review.ok_or_else(|| {
        failed(
            "could not create admission objects: webhook does not accept known AdmissionReview \
             versions (v1, v1beta1)",
        )
    })?;
    let target =
        hook.target.as_ref().map_err(|why| failed(&format!("could not get REST client: {why}")))?;
    let uid = cx.core.clock_rng.uid();
    let body = review::encode(attributes, invocation, version, &uid, object, old).into();
    let left = cx.deadline.saturating_duration_since(Instant::now());
    let timeout = hook.timeout.min(left);
    let call = Call { target, body, timeout, max_response: MAX_RESPONSE };
    let body = cx.core.webhooks.post(call).await;
    let body = body.map_err(|why| failed(&format!("failed to call webhook: {why}")))?;
    let response = review::decode(&body, version, &uid, mutating).map_err(|invalid| {
        failed(&match invalid {
            Invalid::Undecodable(why) => format!("failed to call webhook: {why}"),
            Invalid::Unexpected(why) => format!("received invalid webhook response: {why}"),
        })
    })?;
    for (key, value) in &response.audit_annotations {
        cx.audit.annotate(format!("{}/{key}", hook.name), value.clone());
    }
    for warning in &response.warnings {
        cx.warnings.add(warning.clone());
    }
    if response.allowed {
        return Ok(response);
    }
    Err(Failure::Rejected(rejection(&hook.name, response.status.as_ref())))
}

/// Returns the error of a rejected request.
fn rejection(webhook: &str, status: Option<&Value>) -> Status {
    let text = |field: &str| status.and_then(|it| it[field].as_str()).unwrap_or("");
    let denied = format!("admission webhook {} denied the request", Quoted(webhook));
    let message = match (text("message"), text("reason")) {
        ("", "") => format!("{denied} without explanation"),
        ("", reason) => format!("{denied}: {reason}"),
        (message, _) => format!("{denied}: {message}"),
    };
    Status::of_webhook(status, message)
}

/// Returns the error of a failed call that is not ignored.
pub(super) fn refusal(failure: Failure) -> Status {
    match failure {
        Failure::Calling(why) => Status::internal(why),
        Failure::Rejected(status) => status,
    }
}

/// Returns whether the deadline of the request has passed: the next webhook is not called.
pub(super) fn timed_out(attributes: &Attributes<'_>) -> Option<Status> {
    (attributes.cx.deadline <= Instant::now()).then(Status::request_timed_out)
}
