//! Requests to the API server.
//!
//! All verbs use [`ApiRequest::send`], so that lost responses are detected in one place.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Limited};
use kube::client::Body;
use kube::core::Status;
use kube::core::response::StatusDetails;
use tracing::Instrument as _;
use tracing::field::Empty;

use super::Client;
use super::error::{Error, ErrorKind};
use super::withhold::withhold;
use crate::connect::ResponseBody;
use crate::error::{BoxError, chain};
use crate::key::Key;
use crate::kind::Kind;
use crate::nulls;
use crate::query::Query;
use crate::request_info::{RequestInfo, Target};

/// The timeout of a request. The API server's own timeout is one minute, so a response that has not
/// arrived by then is lost; this also bounds the wait on a dead connection.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(90);

/// The largest response that is read: a page of 500 objects of the largest size that etcd stores,
/// 1.5 MB each, and a third more. Watches and the lists of the cache are read object by object, with a
/// limit per object.
const RESPONSE_SIZE_MAX: usize = 1 << 30;

/// A request to the API server.
pub(crate) struct ApiRequest {
    request_info: RequestInfo,
    method: Method,
    path: String,
    query: Query,
    content_type: &'static str,
    body: Vec<u8>,
}

impl ApiRequest {
    /// Creates a request on one object.
    pub(crate) fn object(verb: &'static str, method: Method, kind: &Kind, key: &Key) -> Self {
        let path = format!("{}/{}", kind.path(key.namespace()), key.name());
        Self::new(verb, method, kind, Target::Object(key.clone()), path)
    }

    /// Creates a request that creates an object.
    pub(crate) fn create(verb: &'static str, kind: &Kind, key: &Key) -> Self {
        let path = kind.path(key.namespace());
        Self::new(verb, Method::POST, kind, Target::Object(key.clone()), path)
    }

    /// Creates a request on a collection.
    pub(crate) fn collection(
        verb: &'static str,
        method: Method,
        kind: &Kind,
        namespace: Option<&str>,
    ) -> Self {
        let target = Target::Collection(namespace.map(str::to_owned));
        Self::new(verb, method, kind, target, kind.path(namespace))
    }

    /// Creates a request for the resources of the kind's group and version.
    pub(crate) fn discovery(kind: &Kind) -> Self {
        let path = kind.group_version_path();
        Self::new("discover", Method::GET, kind, Target::Collection(None), path)
    }

    fn new(verb: &'static str, method: Method, kind: &Kind, target: Target, path: String) -> Self {
        let request_info = RequestInfo { verb, kind: kind.clone(), subresource: None, target };
        let content_type = "application/json";
        Self { request_info, method, path, query: Query::default(), content_type, body: Vec::new() }
    }

    pub(crate) fn subresource(mut self, name: Option<&'static str>) -> Self {
        if let Some(name) = name {
            self.path.push('/');
            self.path.push_str(name);
            self.request_info.subresource = Some(name);
        }
        self
    }

    pub(crate) fn parameter(mut self, name: &str, value: &str) -> Self {
        self.query.add(name, value);
        self
    }

    pub(crate) fn body(mut self, content_type: &'static str, body: Vec<u8>) -> Self {
        self.content_type = content_type;
        self.body = body;
        self
    }

    pub(crate) fn request_info(&self) -> &RequestInfo {
        &self.request_info
    }

    /// Sends the request; returns the response body, or the Status of an error.
    pub(crate) async fn send(self, client: &Client) -> Result<Bytes, Error> {
        self.check()?;
        if let Err(error) = client.shared.http.check() {
            let (request_info, reason) = (self.request_info, error.to_string());
            return Err(ErrorKind::NotSent { request_info, reason }.into());
        }
        let Self { request_info, method, path, query, content_type, body } = self;
        let mut request = Request::builder()
            .method(method)
            .uri(path + query.as_str())
            .header(header::ACCEPT, "application/json")
            .extension(client.requestor.clone());
        if !body.is_empty() {
            request = request.header(header::CONTENT_TYPE, content_type);
        }
        let request = match request.body(Body::from(body)) {
            Ok(request) => request,
            Err(error) => {
                let reason = error.to_string();
                return Err(ErrorKind::NotSent { request_info, reason }.into());
            }
        };
        let exchange = async {
            let (head, body) = client.shared.http.send(request).await?.into_parts();
            Ok::<_, BoxError>((head, read(body).await?))
        };
        let late = |_| {
            let problem = format!("no response within {} seconds", REQUEST_TIMEOUT.as_secs());
            Err(io::Error::new(io::ErrorKind::TimedOut, problem).into())
        };
        let span = tracing::debug_span!(
            "request",
            request = %request_info,
            requestor = %client.requestor.0,
            code = Empty,
            error = Empty,
        );
        let exchange = tokio::time::timeout(REQUEST_TIMEOUT, exchange).instrument(span.clone());
        match exchange.await.unwrap_or_else(late) {
            Ok((head, bytes)) => {
                client.shared.warnings.log(&request_info, &head.headers);
                span.record("code", head.status.as_u16());
                if head.status.is_success() {
                    return Ok(bytes);
                }
                let status = error_status(head.status, &head.headers, &bytes);
                let status = Box::new(withhold(&request_info.kind, status));
                Err(ErrorKind::Api { request_info, status }.into())
            }
            Err(source) => {
                span.record("error", chain(&*source));
                Err(ErrorKind::NoResponse { request_info, source }.into())
            }
        }
    }

    /// Rejects names that would change the path of the request.
    fn check(&self) -> Result<(), Error> {
        let creating = self.method == Method::POST && self.request_info.subresource.is_none();
        let kind = &self.request_info.kind;
        let reason = match &self.request_info.target {
            Target::Object(key) if key.name().is_empty() && !creating => {
                Some(format!("{key:?} is not a valid object name"))
            }
            Target::Object(key) if [key.namespace().unwrap_or("-"), key.name()].iter().any(bad) => {
                Some(format!("{key:?} is not a valid object name"))
            }
            Target::Object(key) if kind.namespaced() && key.namespace().is_none() => {
                Some(format!("{kind} is namespaced and no namespace is given"))
            }
            Target::Collection(Some(namespace))
                if namespace.is_empty() || bad(&namespace.as_str()) =>
            {
                Some(format!("{namespace:?} is not a valid namespace"))
            }
            Target::Object(_) | Target::Collection(_) => None,
        };
        match reason {
            Some(reason) => {
                let request_info = self.request_info.clone();
                Err(ErrorKind::NotSent { request_info, reason }.into())
            }
            None => Ok(()),
        }
    }
}

fn bad(part: &&str) -> bool {
    matches!(*part, "." | "..") || part.contains(['/', '%', '?', '#'])
}

/// Reads a response, unless it is larger than [`RESPONSE_SIZE_MAX`].
async fn read(body: ResponseBody) -> Result<Bytes, BoxError> {
    let body: ResponseBody = Limited::new(body, RESPONSE_SIZE_MAX).boxed_unsync();
    Ok(body.collect().await?.to_bytes())
}

/// Parses the Status of an error response; proxies, and the API server when it limits requests, send
/// another body.
fn error_status(code: StatusCode, headers: &HeaderMap, bytes: &[u8]) -> Status {
    let mut status = body_status(code, bytes);
    let after = headers.get(header::RETRY_AFTER).and_then(|value| value.to_str().ok());
    if let Some(after) = after.and_then(|seconds| seconds.parse().ok()) {
        let details = status.details.get_or_insert_with(|| StatusDetails {
            name: String::new(),
            group: String::new(),
            kind: String::new(),
            uid: String::new(),
            causes: Vec::new(),
            retry_after_seconds: 0,
        });
        if details.retry_after_seconds == 0 {
            details.retry_after_seconds = after;
        }
    }
    status
}

fn body_status(code: StatusCode, bytes: &[u8]) -> Status {
    if let Ok(mut status) = nulls::decode::<Status>(bytes)
        && (status.code != 0 || !status.message.is_empty())
    {
        if status.code == 0 {
            status.code = code.as_u16();
        }
        return status;
    }
    let text = String::from_utf8_lossy(bytes);
    let text = match text.trim() {
        "" => code.canonical_reason().unwrap_or("no reason given"),
        text => text,
    };
    Status::failure(text, "").with_code(code.as_u16())
}

#[cfg(test)]
mod tests {
    use futures_util::stream;
    use http_body::Frame;
    use http_body_util::{Full, LengthLimitError, StreamBody};

    use super::*;

    #[tokio::test]
    async fn a_response_without_an_end_is_an_error() {
        // The frames share their bytes, so that the test needs the memory of one of them.
        let megabyte = Bytes::from(vec![0; 1 << 20]);
        let frame = move || Ok::<_, BoxError>(Frame::data(megabyte.clone()));
        let endless = StreamBody::new(stream::repeat_with(frame)).boxed_unsync();
        let error = read(endless).await.unwrap_err();
        assert!(error.is::<LengthLimitError>(), "{error}");
        let short = Full::new(Bytes::from_static(b"{}")).map_err(Into::into).boxed_unsync();
        assert_eq!(read(short).await.unwrap(), "{}");
    }

    #[test]
    fn retry_after_is_read_from_the_header_if_the_body_lacks_it() {
        let mut headers = HeaderMap::new();
        let seconds = |headers: &HeaderMap, body: &[u8]| {
            let status = error_status(StatusCode::TOO_MANY_REQUESTS, headers, body);
            status.details.map(|details| details.retry_after_seconds)
        };
        let text = b"Too many requests, please try again later.";
        assert_eq!(seconds(&headers, text), None);
        headers.insert(header::RETRY_AFTER, "7".parse().unwrap());
        assert_eq!(seconds(&headers, text), Some(7));
        let body = br#"{"code":429,"message":"slow","details":{"retryAfterSeconds":3}}"#;
        assert_eq!(seconds(&headers, body), Some(3));
        headers.insert(header::RETRY_AFTER, "Fri, 31 Dec 1999 23:59:59 GMT".parse().unwrap());
        assert_eq!(seconds(&headers, text), None);
    }
}
