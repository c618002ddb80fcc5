//! AdmissionReviews: from the bytes of a request to the bytes of the response.
//!
//! The response is always a review with the version and the uid of the request; errors are codes
//! inside of it. A request that cannot be decoded is denied, with its uid as far as it can be read.

use bytes::Bytes;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::{Value, json};

use super::typed::{self, Handle};
use super::{AdmissionRequest, AdmissionResponse};
use crate::metrics::Counter;

/// The largest admission review: twice the largest object, its old version, and the rest.
pub(super) const LIMIT: usize = 7 << 20;

const V1: &str = "admission.k8s.io/v1";
const V1BETA1: &str = "admission.k8s.io/v1beta1";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Review {
    api_version: String,
    kind: String,
    request: Option<AdmissionRequest>,
}

/// Responds to the review in `body`.
pub(super) async fn respond(handle: &Handle, body: &[u8], panics: &Counter) -> Bytes {
    match decode(body) {
        Ok((version, request)) => {
            let response = typed::call(handle, &request, panics).await;
            encode(version, &request.uid, response)
        }
        Err(message) => refused(body, 400, message),
    }
}

/// Denies a review that is not passed to a handler. `body` may be incomplete.
pub(super) fn refused(body: &[u8], code: u16, message: impl Into<String>) -> Bytes {
    let head = Head::read(body);
    let version = match head.api_version.as_deref() {
        Some(V1BETA1) => V1BETA1,
        _ => V1,
    };
    let uid = head.uid.unwrap_or_default();
    encode(version, &uid, AdmissionResponse::errored(code, message))
}

fn decode(body: &[u8]) -> Result<(&'static str, AdmissionRequest), String> {
    if body.is_empty() {
        return Err("request body is empty".to_owned());
    }
    let review: Review = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    let version = match (review.api_version.as_str(), review.kind.as_str()) {
        (V1, "AdmissionReview") => V1,
        (V1BETA1, "AdmissionReview") => V1BETA1,
        (version, kind) => return Err(format!("no kind {kind:?} is registered for {version:?}")),
    };
    let request = review.request.ok_or("got an AdmissionReview without a request")?;
    Ok((version, request))
}

fn encode(version: &str, uid: &str, response: AdmissionResponse) -> Bytes {
    let response: Value = response.encode(uid);
    let review = json!({"kind": "AdmissionReview", "apiVersion": version, "response": response});
    review.to_string().into()
}

/// What is needed to respond to a review that does not decode.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) api_version: Option<String>,
    pub(super) uid: Option<String>,
}

impl Head {
    /// Reads what it can, up to the first error.
    pub(super) fn read(body: &[u8]) -> Self {
        let mut head = Self::default();
        let mut json = serde_json::Deserializer::from_slice(body);
        // The error of an incomplete or malformed review does not matter here.
        let _ = Fields { head: &mut head, nested: false }.deserialize(&mut json);
        head
    }
}

/// Reads the fields of a review, or of its request.
struct Fields<'a> {
    head: &'a mut Head,
    nested: bool,
}

impl<'de> DeserializeSeed<'de> for Fields<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Fields<'_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key::<String>()? {
            match (name.as_str(), self.nested) {
                ("apiVersion", false) => self.head.api_version = Some(map.next_value()?),
                ("uid", true) => self.head.uid = Some(map.next_value()?),
                ("request", false) => {
                    map.next_value_seed(Fields { head: self.head, nested: true })?;
                }
                _ => _ = map.next_value::<IgnoredAny>()?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(text: &str) -> (Option<String>, Option<String>) {
        let Head { api_version, uid } = Head::read(text.as_bytes());
        (api_version, uid)
    }

    #[test]
    fn the_uid_of_an_incomplete_review_is_read() {
        let text = r#"{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1beta1","request":
            {"uid":"u1","kind":{"kind":"Pod"},"object":{"spec":"#;
        assert_eq!(head(text), (Some(V1BETA1.to_owned()), Some("u1".to_owned())));
        assert_eq!(head(""), (None, None));
        assert_eq!(head(r#"{"request":{"uid":7}}"#), (None, None));
    }
}
