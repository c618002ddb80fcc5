//! An HTTP service with fixed responses, for health checks.

use std::{
    convert::Infallible,
    future::{Ready, ready},
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header::CONTENT_TYPE};
use http_body_util::Full;
use hyper::body::Incoming;
use tower_service::Service;

/// Responds to GET on the listed paths, and with 404 elsewhere.
#[derive(Clone, Copy, Debug)]
pub struct StaticResponses(pub &'static [StaticResponse]);

/// The response for one path.
#[derive(Clone, Copy, Debug)]
pub struct StaticResponse {
    /// The full path.
    pub path: &'static str,
    /// The media type of `body`.
    pub content_type: &'static str,
    /// The response body.
    pub body: &'static str,
}

impl StaticResponses {
    fn respond(self, method: &Method, path: &str) -> Response<Full<Bytes>> {
        const TEXT: &str = "text/plain; charset=utf-8";
        let (status, content_type, body) =
            match self.0.iter().find(|response| response.path == path) {
                None => (StatusCode::NOT_FOUND, TEXT, "404 page not found\n"),
                Some(_) if method != Method::GET => {
                    (StatusCode::METHOD_NOT_ALLOWED, TEXT, "Method Not Allowed\n")
                }
                Some(response) => (StatusCode::OK, response.content_type, response.body),
            };
        let mut response = Response::new(Full::new(Bytes::from_static(body.as_bytes())));
        *response.status_mut() = status;
        response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static(content_type));
        response
    }
}

impl Service<Request<Incoming>> for StaticResponses {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Incoming>) -> Self::Future {
        ready(Ok(self.respond(request.method(), request.uri().path())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_get_on_a_listed_path_returns_200() {
        let responses = StaticResponses(&[StaticResponse {
            path: "/health",
            content_type: "text/plain",
            body: "up",
        }]);
        for (method, path, status) in [
            (Method::GET, "/health", 200),
            (Method::POST, "/health", 405),
            (Method::GET, "/health/", 404),
            (Method::GET, "/", 404),
        ] {
            assert_eq!(responses.respond(&method, path).status(), status, "{method} {path}");
        }
    }
}
