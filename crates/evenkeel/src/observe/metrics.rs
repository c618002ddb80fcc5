//! Serves `/metrics`.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::Full;

use super::authorize::{Authorizer, Refusal};
use crate::metrics::{CONTENT_TYPE, Metrics};
use crate::serve::{Body, Handler, text};

/// Responds to scrapes.
pub(crate) struct MetricsHandler {
    pub(crate) metrics: Arc<Metrics>,
    /// `None` serves all clients.
    pub(crate) authorizer: Option<Authorizer>,
}

impl Handler for MetricsHandler {
    async fn handle(&self, request: Request<Body>) -> Response<Full<Bytes>> {
        let (method, path) = (request.method(), request.uri().path());
        // First, so that a client without credentials does not learn which paths exist.
        if let Some(authorizer) = &self.authorizer {
            let refused = authorizer.check(request.headers(), method, path).await.err();
            match refused {
                None => {}
                Some(Refusal::Unauthenticated) => {
                    let mut response = text(StatusCode::UNAUTHORIZED, "Unauthorized\n");
                    let scheme = HeaderValue::from_static("Bearer");
                    response.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
                    return response;
                }
                Some(Refusal::Forbidden) => return text(StatusCode::FORBIDDEN, "Forbidden\n"),
            }
        }
        if path != "/metrics" {
            return text(StatusCode::NOT_FOUND, "404 page not found\n");
        }
        if !matches!(*method, Method::GET | Method::HEAD) {
            return text(StatusCode::METHOD_NOT_ALLOWED, "405 method not allowed\n");
        }
        let mut response = text(StatusCode::OK, self.metrics.registry.encode());
        let kind = HeaderValue::from_static(CONTENT_TYPE);
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        response
    }
}
