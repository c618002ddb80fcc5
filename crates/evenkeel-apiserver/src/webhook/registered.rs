//! Services in this process that stand for a Service of the cluster.

use std::collections::HashMap;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use http::Request;
use parking_lot::RwLock;

use super::connection::{self, Response};
use crate::body::Body;

type Error = Box<dyn std::error::Error + Send + Sync>;
type CallFuture = Pin<Box<dyn Future<Output = Result<Response, String>> + Send>>;

/// The registered services by namespace, name and port.
#[derive(Default)]
pub(super) struct Services(RwLock<HashMap<(String, String, u16), Registered>>);

/// What is behind a service.
#[derive(Clone)]
pub(super) enum Registered {
    /// A tower service, called without TLS.
    Service(Arc<dyn Fn(Request<Body>, usize) -> CallFuture + Send + Sync>),
    /// A listener, called over TLS.
    Listener(SocketAddr),
}

impl Services {
    pub(super) fn insert(&self, namespace: &str, name: &str, port: u16, service: Registered) {
        self.0.write().insert((namespace.to_owned(), name.to_owned(), port), service);
    }

    pub(super) fn get(&self, namespace: &str, name: &str, port: u16) -> Option<Registered> {
        let services = self.0.read();
        if services.is_empty() {
            return None;
        }
        services.get(&(namespace.to_owned(), name.to_owned(), port)).cloned()
    }
}

impl Registered {
    /// Wraps a tower service; each call uses its own clone.
    pub(super) fn service<S, B>(service: S) -> Self
    where
        S: tower_service::Service<Request<Body>, Response = http::Response<B>>,
        S: Clone + Send + Sync + 'static,
        S::Future: Send,
        S::Error: Into<Error>,
        B: http_body::Body<Data = Bytes> + Send,
        B::Error: Into<Error>,
    {
        Self::Service(Arc::new(move |request, max_response| {
            let mut service = service.clone();
            Box::pin(async move {
                let failed = |error: S::Error| error.into().to_string();
                poll_fn(|cx| service.poll_ready(cx)).await.map_err(failed)?;
                let (parts, body) = service.call(request).await.map_err(failed)?.into_parts();
                let body = connection::read(body, max_response).await?;
                Ok(Response { status: parts.status, headers: parts.headers, body })
            })
        }))
    }
}
