//! The server as a tower service, without a socket.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};

use crate::body::Body;
use crate::context::{Core, ShutdownSignal};
use crate::handler;
use crate::identity::Identity;

/// The API server as a tower service: the same pipeline as behind the listener.
#[derive(Clone)]
pub struct Service {
    pub(super) core: Arc<Core>,
    pub(super) identity: Option<Identity>,
    pub(super) shutdown_signal: Option<ShutdownSignal>,
}

impl super::ApiServer {
    /// Returns a service that authenticates each request.
    pub fn authenticating_service(&self) -> Service {
        Service { core: self.core.clone(), identity: None, shutdown_signal: None }
    }
}

impl Service {
    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// Attaches what the stages of a request need to know about this service.
    pub(crate) fn prepare<B>(&self, mut request: Request<B>) -> Request<B> {
        if let Some(identity) = &self.identity {
            request.extensions_mut().insert(identity.clone());
        }
        if let Some(shutdown_signal) = &self.shutdown_signal {
            request.extensions_mut().insert(shutdown_signal.clone());
        }
        request
    }
}

impl<B> tower_service::Service<Request<B>> for Service
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let core = self.core.clone();
        let request = self.prepare(request);
        Box::pin(async move { Ok(handler::run(&core, request).await) })
    }
}

impl std::fmt::Debug for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Service").field("identity", &self.identity).finish_non_exhaustive()
    }
}
