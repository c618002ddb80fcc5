//! One request to the API server: its address, its body, its answer as bytes.
//!
//! All verbs go through [`Call::send`], so that an answer that was lost is noticed in one place.

use bytes::Bytes;
use http::{Method, Request, StatusCode, header};
use http_body_util::BodyExt as _;
use kube::client::Body;
use kube::core::Status;

use super::error::{Attempt, Error, Target};
use crate::key::Key;
use crate::kind::Kind;

/// A request in the making.
pub(crate) struct Call {
    attempt: Attempt,
    method: Method,
    path: String,
    query: String,
    content_type: &'static str,
    body: Vec<u8>,
}

impl Call {
    /// A request on one object.
    pub(crate) fn on(verb: &'static str, method: Method, kind: &Kind, key: &Key) -> Self {
        let path = format!("{}/{}", kind.path(key.namespace()), key.name());
        Self::new(verb, method, kind, Target::Object(key.clone()), path)
    }

    /// A request that puts a new object into a collection.
    pub(crate) fn into(verb: &'static str, kind: &Kind, key: &Key) -> Self {
        let path = kind.path(key.namespace());
        Self::new(verb, Method::POST, kind, Target::Object(key.clone()), path)
    }

    /// A request on a collection.
    pub(crate) fn over(
        verb: &'static str,
        method: Method,
        kind: &Kind,
        namespace: Option<&str>,
    ) -> Self {
        let target = Target::All(namespace.map(str::to_owned));
        Self::new(verb, method, kind, target, kind.path(namespace))
    }

    fn new(verb: &'static str, method: Method, kind: &Kind, target: Target, path: String) -> Self {
        let attempt = Attempt { verb, kind: kind.clone(), subresource: None, target };
        let content_type = "application/json";
        Self { attempt, method, path, query: String::new(), content_type, body: Vec::new() }
    }

    pub(crate) fn subresource(mut self, name: Option<&'static str>) -> Self {
        if let Some(name) = name {
            self.path.push('/');
            self.path.push_str(name);
            self.attempt.subresource = Some(name);
        }
        self
    }

    pub(crate) fn parameter(mut self, name: &str, value: &str) -> Self {
        self.query.push(if self.query.is_empty() { '?' } else { '&' });
        self.query.push_str(name);
        self.query.push('=');
        percent_encode(value, &mut self.query);
        self
    }

    pub(crate) fn body(mut self, content_type: &'static str, body: Vec<u8>) -> Self {
        self.content_type = content_type;
        self.body = body;
        self
    }

    pub(crate) fn attempt(&self) -> &Attempt {
        &self.attempt
    }

    /// Sends it and gives the whole answer, or the server's refusal.
    pub(crate) async fn send(self, client: &kube::Client) -> Result<Bytes, Error> {
        self.check_name()?;
        let Self { attempt, method, path, query, content_type, body } = self;
        let mut request = Request::builder()
            .method(method)
            .uri(path + &query)
            .header(header::ACCEPT, "application/json");
        if !body.is_empty() {
            request = request.header(header::CONTENT_TYPE, content_type);
        }
        let request = match request.body(Body::from(body)) {
            Ok(request) => request,
            Err(error) => return Err(Error::Refused { attempt, reason: error.to_string() }),
        };
        let unanswered = |attempt, source| Error::Unanswered { attempt, source: Box::new(source) };
        let answer = match client.send(request).await {
            Ok(answer) => answer,
            Err(error) => return Err(unanswered(attempt, error)),
        };
        let code = answer.status();
        let bytes = match answer.into_body().collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) => return Err(unanswered(attempt, kube::Error::Service(error.into()))),
        };
        if code.is_success() {
            return Ok(bytes);
        }
        Err(Error::Api { attempt, status: Box::new(refusal(code, &bytes)) })
    }

    /// A name that changes the path would reach something else than it names.
    fn check_name(&self) -> Result<(), Error> {
        let Target::Object(key) = &self.attempt.target else { return Ok(()) };
        let parts = [key.namespace().unwrap_or("-"), key.name()];
        let creating = self.method == Method::POST && self.attempt.subresource.is_none();
        let bad = |part: &&str| {
            part.is_empty() && !creating
                || matches!(*part, "." | "..")
                || part.contains(['/', '%', '?', '#'])
        };
        let attempt = || self.attempt.clone();
        if parts.iter().any(bad) {
            let reason = format!("{key:?} is not the name of an object");
            return Err(Error::Refused { attempt: attempt(), reason });
        }
        if self.attempt.kind.namespaced() && key.namespace().is_none() {
            let reason = format!("{} lives in a namespace and none is given", self.attempt.kind);
            return Err(Error::Refused { attempt: attempt(), reason });
        }
        Ok(())
    }
}

/// The Status in a refusal; proxies answer in their own words.
fn refusal(code: StatusCode, bytes: &[u8]) -> Status {
    if let Ok(status) = serde_json::from_slice::<Status>(bytes)
        && (status.code != 0 || !status.message.is_empty())
    {
        return status;
    }
    let text = String::from_utf8_lossy(bytes);
    let text = match text.trim() {
        "" => code.canonical_reason().unwrap_or("no reason given"),
        text => text,
    };
    Status::failure(text, "").with_code(code.as_u16())
}

fn percent_encode(text: &str, into: &mut String) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            into.push(byte.into());
        } else {
            into.push_str(&format!("%{byte:02X}"));
        }
    }
}
