//! The transport of the runtime's own requests.
//!
//! `kube::Client` sends each request through a `tower::Buffer` task: two task switches per request,
//! each of which waits for a processor on a busy machine. If the runtime created the connection, it
//! calls the service directly.
//!
//! The transport of leader-bound work is fenced: it refuses requests, also those of its `kube`
//! client, unless this process is the leader.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::{Request, Response};
use http_body_util::BodyExt as _;
use kube::client::Body;
use tower::Service;

use super::{ConfigError, Observer, Reloading, ResponseBody};
use crate::error::BoxError;
use crate::fence::{Fence, FencedBody, NotLeader};

/// Sends requests to one API server. Clones share the connections.
#[derive(Clone)]
pub(crate) struct Transport {
    /// The client for requests of others.
    client: kube::Client,
    route: Route,
    fence: Option<Fence>,
}

#[derive(Clone)]
enum Route {
    Direct(Reloading),
    /// The service behind the client is not known, so its requests are observed here.
    Buffered(kube::Client, Option<Observer>),
}

impl Transport {
    /// Creates a transport that calls `service` without the buffer of `kube`.
    pub(super) fn direct(service: Reloading, namespace: &str) -> Self {
        let client = kube::Client::new(service.clone(), namespace);
        Self { client, route: Route::Direct(service), fence: None }
    }

    /// Creates a transport over `client` whose requests are observed.
    pub(crate) fn observed(client: kube::Client, observer: Observer) -> Self {
        Self { route: Route::Buffered(client.clone(), Some(observer)), client, fence: None }
    }

    /// Returns the same transport for leader-bound work.
    pub(crate) fn fenced(&self, fence: &Fence) -> Self {
        let fenced = Self { fence: Some(fence.clone()), ..self.clone() };
        let namespace = self.client.default_namespace();
        let client = kube::Client::new(fenced.clone(), namespace);
        Self { client, ..fenced }
    }

    /// Returns a transport for requests that must not wait for others: without their rate limit, and
    /// with its own connections if the runtime creates them. A dead one is replaced after one timeout.
    pub(crate) async fn separate(&self) -> Result<Self, ConfigError> {
        match &self.route {
            Route::Direct(service) => Ok(match service.separate().await? {
                Some(service) => Self::direct(service, self.client.default_namespace()),
                None => self.clone(),
            }),
            Route::Buffered(client, observer) => {
                let observer = observer.as_ref().map(Observer::unlimited);
                Ok(Self { route: Route::Buffered(client.clone(), observer), ..self.clone() })
            }
        }
    }

    /// Returns the `kube` client, for other requests.
    pub(crate) fn client(&self) -> &kube::Client {
        &self.client
    }

    /// Returns whether a request may be sent now.
    pub(crate) fn check(&self) -> Result<(), NotLeader> {
        match &self.fence {
            Some(fence) => fence.term().map(drop),
            None => Ok(()),
        }
    }

    /// Sends a request; returns the response when its head is received.
    pub(crate) async fn send(
        &self,
        mut request: Request<Body>,
    ) -> Result<Response<ResponseBody>, kube::Error> {
        let Some(fence) = &self.fence else { return self.route(request).await };
        let refused = |error: NotLeader| kube::Error::Service(error.into());
        let term = fence.term().map_err(refused)?;
        request.extensions_mut().insert(term.clone());
        let response = term.guard(self.route(request)).await.map_err(refused)??;
        Ok(response.map(|body| FencedBody::new(body, Some(term)).boxed_unsync()))
    }

    async fn route(&self, request: Request<Body>) -> Result<Response<ResponseBody>, kube::Error> {
        match &self.route {
            Route::Direct(service) => service.send(request).await.map_err(error),
            Route::Buffered(client, Some(observer)) => {
                observer.send(request, |it| send_by_client(client, it)).await
            }
            Route::Buffered(client, None) => send_by_client(client, request).await,
        }
    }
}

/// The service of the `kube` client of leader-bound work.
impl Service<Request<Body>> for Transport {
    type Response = Response<ResponseBody>;
    type Error = kube::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, kube::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), kube::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let transport = self.clone();
        Box::pin(async move { transport.send(request).await })
    }
}

impl From<kube::Client> for Transport {
    fn from(client: kube::Client) -> Self {
        Self { route: Route::Buffered(client.clone(), None), client, fence: None }
    }
}

async fn send_by_client(
    client: &kube::Client,
    request: Request<Body>,
) -> Result<Response<ResponseBody>, kube::Error> {
    let response = client.send(request).await?;
    Ok(response.map(|body| body.map_err(BoxError::from).boxed_unsync()))
}

/// Converts the error as `kube::Client` does.
fn error(error: BoxError) -> kube::Error {
    error.downcast().map_or_else(kube::Error::Service, |error| *error)
}
