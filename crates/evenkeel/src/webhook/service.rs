//! The webhooks of a manager as a tower service, for an API server in the same process.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;

use super::endpoint::Endpoint;
use super::registry::Webhooks;
use crate::error::BoxError;
use crate::serve::{self, Handler as _};

/// The webhooks of a manager, called without a socket or a certificate; see
/// [`Manager::webhook_service`](crate::Manager::webhook_service).
#[derive(Clone)]
pub struct WebhookService(pub(crate) Arc<Webhooks>);

impl WebhookService {
    /// Returns namespace, name and port of the Service that the webhooks are reached by; `None` if
    /// there are no webhooks, or if they have a URL.
    #[must_use]
    pub fn service(&self) -> Option<(String, String, u16)> {
        match self.0.endpoint() {
            Endpoint::Service { namespace, name, port } if !self.0.is_empty() => {
                Some((namespace, name, port))
            }
            _ => None,
        }
    }

    /// Returns the address that the webhook server listens on, once it does.
    #[must_use]
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.0.state.borrow().address
    }

    /// Returns the names of the CRDs with a conversion.
    #[must_use]
    pub fn converted_crds(&self) -> Vec<String> {
        self.0.conversions.all().iter().map(|one| one.crd_name()).collect()
    }
}

impl<B> tower::Service<Request<B>> for WebhookService
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let webhooks = self.0.clone();
        Box::pin(async move { Ok(webhooks.handle(request.map(serve::boxed)).await) })
    }
}

impl std::fmt::Debug for WebhookService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("WebhookService")
    }
}
