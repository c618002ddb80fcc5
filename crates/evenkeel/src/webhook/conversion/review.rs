//! ConversionReviews: from the bytes of a request to the bytes of the response.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::RwLock;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Versions;
use crate::controller::message;
use crate::error::Result;
use crate::metrics::Counter;

/// The largest conversion review: an API server converts lists in chunks, which are larger than
/// single objects.
pub(in crate::webhook) const LIMIT: usize = 128 << 20;

const VERSIONS: [&str; 2] = ["apiextensions.k8s.io/v1", "apiextensions.k8s.io/v1beta1"];

/// The conversions behind a path, by group and kind.
#[derive(Default)]
pub(in crate::webhook) struct Conversions(RwLock<BTreeMap<(String, String), Arc<Versions>>>);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Review {
    api_version: String,
    kind: String,
    request: Option<Request>,
}

#[derive(Deserialize)]
struct Request {
    uid: String,
    #[serde(rename = "desiredAPIVersion")]
    desired_api_version: String,
    #[serde(default)]
    objects: Vec<Value>,
}

impl Conversions {
    /// Adds a resource; returns false if it is there already.
    pub(in crate::webhook) fn add(&self, versions: Arc<Versions>) -> bool {
        let key = (versions.group().to_owned(), versions.kind().to_owned());
        let mut all = self.0.write();
        if all.contains_key(&key) {
            return false;
        }
        all.insert(key, versions);
        true
    }

    /// Returns the resources.
    pub(in crate::webhook) fn all(&self) -> Vec<Arc<Versions>> {
        self.0.read().values().cloned().collect()
    }

    /// Responds to the review in `body`.
    pub(in crate::webhook) fn respond(&self, body: &[u8], panics: &Counter) -> Bytes {
        let review: Review = match serde_json::from_slice(body) {
            Ok(review) => review,
            Err(error) => return refused(&error.to_string()),
        };
        let known = VERSIONS.into_iter().find(|version| *version == review.api_version);
        let Some(version) = known.filter(|_| review.kind == "ConversionReview") else {
            let Review { kind, api_version, .. } = review;
            return refused(&format!("no kind {kind:?} is registered for {api_version:?}"));
        };
        let Some(Request { uid, desired_api_version, objects }) = review.request else {
            return refused("conversion request is nil");
        };
        let converted = catch_unwind(AssertUnwindSafe(|| {
            objects.iter().map(|object| self.convert(object, &desired_api_version)).collect()
        }));
        let converted: Result<Vec<Value>> = converted.unwrap_or_else(|panic| {
            panics.inc();
            let panic = message(&*panic);
            tracing::error!(panic, "conversion panicked");
            Err(format!("panic: {panic} [recovered]").into())
        });
        match converted {
            Ok(objects) => {
                let result = json!({"metadata": {}, "status": "Success"});
                let response = json!({"uid": uid, "convertedObjects": objects, "result": result});
                encode(version, response)
            }
            Err(error) => {
                let message = format!("{error:#}");
                tracing::error!(uid, error = message, "failed to convert");
                encode(version, failed(&uid, &message))
            }
        }
    }

    fn convert(&self, object: &Value, to: &str) -> Result<Value> {
        let api_version = object["apiVersion"].as_str().unwrap_or_default();
        let kind = object["kind"].as_str().unwrap_or_default();
        let (group, _) = api_version.split_once('/').unwrap_or(("", api_version));
        let versions = self.0.read().get(&(group.to_owned(), kind.to_owned())).cloned();
        let versions = versions
            .ok_or_else(|| format!("{api_version}, Kind={kind} has no registered conversion"))?;
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        versions
            .convert(object, to)
            .map_err(|error| format!("failed to convert {kind} {name:?} to {to}: {error:#}").into())
    }
}

/// Responds to a review that cannot be processed.
pub(in crate::webhook) fn refused(message: &str) -> Bytes {
    encode(VERSIONS[0], failed("", message))
}

fn failed(uid: &str, message: &str) -> Value {
    let result = json!({"metadata": {}, "status": "Failure", "message": message});
    json!({"uid": uid, "convertedObjects": [], "result": result})
}

#[expect(clippy::needless_pass_by_value, reason = "moved into the review")]
fn encode(version: &str, response: Value) -> Bytes {
    let review = json!({"kind": "ConversionReview", "apiVersion": version, "response": response});
    review.to_string().into()
}
