//! Names that are taken: another client creates an object with the name that the operator is about to
//! use, and deletes it after a while. Meanwhile the object is not the operator's to change.

use http::Request;
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::Value;
use tokio::time::Instant;

use super::conditions::after;
use super::service::OperatorService;
use super::{Call, Gate};
use crate::trace::Lane;

/// An object of another client.
pub(super) struct Taken {
    /// The path of the object, without a subresource.
    path: String,
    /// The resource and name, as in reports.
    object: String,
    uid: String,
    until: Instant,
}

impl OperatorService {
    /// Creates the object of the request as another client.
    pub(super) async fn take_name(
        &self,
        call: &Call,
        seconds: u32,
        request: Request<Body>,
    ) -> Result<Request<Body>, kube::Error> {
        let (parts, body) = request.into_parts();
        let bytes = body.collect().await?.to_bytes();
        let mut object: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.retain(|field, _| matches!(&**field, "name" | "namespace" | "labels"));
        }
        let gate = &self.gate;
        if let Ok(created) = gate.user.create(&object).await {
            let text = |field: &str| created["metadata"][field].as_str().unwrap_or_default();
            // A create has the path of the collection.
            let path = match call.name.is_empty() {
                true => format!("{}/{}", call.path, text("name")),
                false => call.path.clone(),
            };
            let object = crate::state::path(&call.resource, &call.namespace, text("name"));
            gate.recorder.fault(Lane::User, format!("another client creates {object}"));
            let taken = Taken { path, object, uid: text("uid").to_owned(), until: after(seconds) };
            gate.state.lock().taken.push(taken);
        }
        Ok(Request::from_parts(parts, Body::from(bytes.to_vec())))
    }
}

impl Gate {
    /// Notes a write of the operator to an object of another client. `uid` is that of the object in
    /// the response.
    pub(super) fn check_taken(&self, call: &Call, uid: &str) {
        let mut state = self.state.lock();
        let taken = state.taken.iter().find(|taken| taken.path == call.path && taken.uid == uid);
        if let Some(taken) = taken {
            let text = format!("{} {}", call.verb, taken.object);
            state.requests.trespasses.push(text);
        }
    }

    /// Deletes the objects of other clients whose time is over. Returns whether there are others.
    pub(crate) async fn release_names(&self) -> bool {
        let due = {
            let mut state = self.state.lock();
            let now = Instant::now();
            let all = std::mem::take(&mut state.taken).into_iter();
            let (due, kept): (Vec<_>, Vec<_>) = all.partition(|taken| taken.until <= now);
            state.taken = kept;
            due
        };
        for Taken { path, object, uid, .. } in due {
            let found = self.user.get(&path).await;
            if found.is_some_and(|found| found["metadata"]["uid"] == *uid) {
                self.recorder.fault(Lane::User, format!("another client deletes {object}"));
                let _ = self.user.delete(&path).await;
            }
        }
        !self.state.lock().taken.is_empty()
    }
}
