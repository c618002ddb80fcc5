//! An HTTP service of fixed answers: enough for whoever only asks whether we are alive.

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

/// Answers GET on a few paths, and 404 elsewhere.
#[derive(Clone, Copy, Debug)]
pub struct Answers(pub &'static [Answer]);

/// What to say on one path.
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    /// The whole path.
    pub path: &'static str,
    /// The media type of `body`.
    pub content_type: &'static str,
    /// The answer.
    pub body: &'static str,
}

impl Answers {
    fn answer(self, method: &Method, path: &str) -> Response<Full<Bytes>> {
        const TEXT: &str = "text/plain; charset=utf-8";
        let (status, content_type, body) = match self.0.iter().find(|answer| answer.path == path) {
            None => (StatusCode::NOT_FOUND, TEXT, "404 page not found\n"),
            Some(_) if method != Method::GET => {
                (StatusCode::METHOD_NOT_ALLOWED, TEXT, "Method Not Allowed\n")
            }
            Some(answer) => (StatusCode::OK, answer.content_type, answer.body),
        };
        let mut response = Response::new(Full::new(Bytes::from_static(body.as_bytes())));
        *response.status_mut() = status;
        response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static(content_type));
        response
    }
}

impl Service<Request<Incoming>> for Answers {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Incoming>) -> Self::Future {
        ready(Ok(self.answer(request.method(), request.uri().path())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_get_on_a_listed_path_is_answered() {
        let answers =
            Answers(&[Answer { path: "/health", content_type: "text/plain", body: "up" }]);
        for (method, path, status) in [
            (Method::GET, "/health", 200),
            (Method::POST, "/health", 405),
            (Method::GET, "/health/", 404),
            (Method::GET, "/", 404),
        ] {
            assert_eq!(answers.answer(&method, path).status(), status, "{method} {path}");
        }
    }
}
