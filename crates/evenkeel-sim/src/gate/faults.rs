//! The faults of a plan: which happens at which request or event, and the responses that the gate
//! makes up.

use std::collections::BTreeMap;

use bytes::Bytes;
use http::Response;
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};
use tokio::time::{Duration, Instant};

use super::conditions::after;
use super::{Call, SimBody};
use crate::plan::{At, Effect, Fault};

/// How long a gap lasts.
const GAP: Duration = Duration::from_secs(5);

/// How much later an event is delivered than the one of another resource.
const REORDERED: Duration = Duration::from_secs(1);

/// The faults that are still to happen, and the counts that determine when.
pub(super) struct Faults {
    pending: Vec<Fault>,
    counts: BTreeMap<(String, String, String), u32>,
    /// Until when events of a resource are held.
    holds: BTreeMap<String, Hold>,
    /// Until when a resource cannot be listed or watched; then its watches have expired.
    gaps: BTreeMap<String, Instant>,
    /// When the last fault is over, as far as it is known.
    over: Option<Instant>,
}

/// Why events of a resource are not delivered yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hold {
    pub(super) until: Instant,
    /// Released early when the operator has written this often.
    pub(super) until_write: Option<u64>,
    /// Released early when this many events of other resources were delivered.
    pub(super) until_event: Option<u64>,
}

impl Hold {
    pub(super) fn until(until: Instant) -> Self {
        Self { until, until_write: None, until_event: None }
    }
}

impl Faults {
    pub(super) fn new(faults: &[Fault]) -> Self {
        Self {
            pending: faults.to_vec(),
            counts: BTreeMap::new(),
            holds: BTreeMap::new(),
            gaps: BTreeMap::new(),
            over: None,
        }
    }

    /// Whether a fault still disturbs the operator.
    pub(super) fn are_active(&self) -> bool {
        let now = Instant::now();
        let holds = self.holds.values().any(|hold| now < hold.until);
        holds || self.over.is_some_and(|over| now < over)
    }

    pub(super) fn unused(&self) -> Vec<Fault> {
        self.pending.clone()
    }

    fn count(&mut self, verb: &str, resource: &str, object: &str) -> u32 {
        let key = (verb.to_owned(), resource.to_owned(), object.to_owned());
        let count = self.counts.entry(key).or_default();
        *count += 1;
        *count
    }

    fn take(&mut self, verb: &str, resource: &str, object: &str, of: [u32; 2]) -> Option<Effect> {
        let [nth, nth_of_object] = of;
        let happens = |at: &At| {
            at.verb == verb
                && at.resource == resource
                && match &*at.object {
                    "" => at.nth == nth,
                    name => name == object && at.nth == nth_of_object,
                }
        };
        let index = self.pending.iter().position(|fault| happens(&fault.at))?;
        let effect = self.pending.remove(index).effect;
        // The driver checks once per second.
        self.over = self.over.max(Some(after(effect.seconds().max(1))));
        Some(effect)
    }

    /// Counts a request; returns its number and the fault that happens.
    pub(super) fn at_request(&mut self, call: &Call) -> (u32, Option<Effect>) {
        let object = call.object();
        let nth = self.count(call.verb, &call.resource, "");
        let of_object = match object.is_empty() {
            true => nth,
            false => self.count(call.verb, &call.resource, &object),
        };
        let effect = self.take(call.verb, &call.resource, &object, [nth, of_object]);
        (of_object, effect)
    }

    /// Counts a watch event; returns the fault that happens.
    pub(super) fn at_event(&mut self, resource: &str, object: &str) -> Option<Effect> {
        let nth = self.count("event", resource, "");
        let of_object = self.count("event", resource, object);
        self.take("event", resource, object, [nth, of_object])
    }

    /// Counts a review by a webhook of the operator; returns the fault that happens.
    pub(super) fn at_review(&mut self, resource: &str, object: &str) -> Option<Effect> {
        let nth = self.count("review", resource, "");
        let of_object = self.count("review", resource, object);
        self.take("review", resource, object, [nth, of_object])
    }

    pub(super) fn hold(&mut self, resource: &str, hold: Hold) {
        self.holds.insert(resource.to_owned(), hold);
    }

    /// Whether events wait for those of another resource.
    pub(super) fn awaits_events(&self) -> bool {
        self.holds.values().any(|hold| hold.until_event.is_some())
    }

    /// Returns why events of the resource are held, if they are.
    pub(super) fn held(&mut self, resource: &str, written: u64, others: u64) -> Option<Hold> {
        let hold = *self.holds.get(resource)?;
        let written = hold.until_write.is_some_and(|count| written >= count);
        if hold.until_event.is_some_and(|count| others >= count) {
            // The operator reacts to the other event first.
            let hold = Hold::until(hold.until.min(Instant::now() + REORDERED));
            self.holds.insert(resource.to_owned(), hold);
            return Some(hold);
        }
        if written || Instant::now() >= hold.until {
            self.holds.remove(resource);
            return None;
        }
        Some(hold)
    }

    pub(super) fn open_gap(&mut self, resource: &str) {
        self.gaps.insert(resource.to_owned(), Instant::now() + GAP);
    }

    /// Returns whether the resource is still unreachable, after a gap began; it is forgotten once
    /// the gap is over.
    pub(super) fn gap(&mut self, resource: &str) -> Option<bool> {
        let until = *self.gaps.get(resource)?;
        let open = Instant::now() < until;
        if !open {
            self.gaps.remove(resource);
        }
        Some(open)
    }
}

pub(super) fn full(bytes: Bytes) -> SimBody {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}

pub(super) fn empty() -> Response<SimBody> {
    json_response(200, Bytes::new())
}

fn json_response(code: u16, bytes: Bytes) -> Response<SimBody> {
    let mut response = Response::new(full(bytes));
    *response.status_mut() = http::StatusCode::from_u16(code).unwrap_or_default();
    let json = http::HeaderValue::from_static("application/json");
    response.headers_mut().insert(http::header::CONTENT_TYPE, json);
    response
}

fn status(code: u16, reason: &str, message: &str) -> Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "code": code, "reason": reason, "message": message,
    })
}

/// Returns the Status of an expired watch.
pub(super) fn expired_status() -> Value {
    status(410, "Expired", "too old resource version")
}

pub(super) fn expired() -> Response<SimBody> {
    json_response(410, expired_status().to_string().into())
}

/// Returns the response to a version that the server has not reached.
pub(super) fn too_large() -> Response<SimBody> {
    let mut status = status(504, "Timeout", "Timeout: Too large resource version");
    status["details"] = json!({"causes": [
        {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"},
    ], "retryAfterSeconds": 1});
    json_response(504, status.to_string().into())
}

/// Returns the response to a request that a webhook of another owner denies.
pub(super) fn denied() -> Response<SimBody> {
    let message = "admission webhook \"policy.sim.evenkeel.dev\" denied the request: not now";
    json_response(403, status(403, "Forbidden", message).to_string().into())
}

/// Returns the response of a server without streaming lists.
pub(super) fn no_streaming_lists() -> Response<SimBody> {
    let message = "ListOptions.meta.k8s.io \"\" is invalid: sendInitialEvents: Forbidden: \
        sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled";
    json_response(422, status(422, "Invalid", message).to_string().into())
}

/// Returns the response of a server that rejects a request without effect.
pub(super) fn rejection(code: u16) -> Response<SimBody> {
    let (reason, message) = match code {
        401 => ("Unauthorized", "Unauthorized"),
        403 => ("Forbidden", "the request is forbidden by the simulation"),
        409 => ("Conflict", "the object has been modified; please apply your changes again"),
        429 => ("TooManyRequests", "too many requests, please try again later"),
        503 => ("ServiceUnavailable", "the server is currently unable to handle the request"),
        504 => ("Timeout", "the server did not respond in time"),
        _ => ("InternalError", "an error on the server"),
    };
    let mut response = json_response(code, status(code, reason, message).to_string().into());
    if code == 429 {
        let seconds = http::HeaderValue::from_static("1");
        response.headers_mut().insert(http::header::RETRY_AFTER, seconds);
    }
    response
}
