//! The transport of the runtime's own requests.
//!
//! `kube::Client` sends each request through a `tower::Buffer` task: two task switches per request,
//! each of which waits for a processor on a busy machine. If the runtime created the connection, it
//! calls the service directly.

use http::{Request, Response};
use http_body_util::BodyExt as _;
use kube::client::Body;

use super::{Observer, Reloading, ResponseBody};
use crate::error::BoxError;

/// Sends requests to one API server. Clones share the connections.
#[derive(Clone)]
pub(crate) struct Transport {
    client: kube::Client,
    /// The service behind the client, if it is known.
    service: Option<Reloading>,
    /// Observes the requests if the service is not known; a known one has its own.
    observer: Option<Observer>,
}

impl Transport {
    /// Creates a transport that calls `service` without the buffer of `kube`.
    pub(super) fn direct(service: Reloading, namespace: String) -> Self {
        let client = kube::Client::new(service.clone(), namespace);
        Self { client, service: Some(service), observer: None }
    }

    /// Creates a transport over `client` whose requests are observed.
    pub(crate) fn observed(client: kube::Client, observer: Observer) -> Self {
        Self { client, service: None, observer: Some(observer) }
    }

    /// Returns the `kube` client, for other requests.
    pub(crate) fn client(&self) -> &kube::Client {
        &self.client
    }

    /// Sends a request; returns the response when its head is received.
    pub(crate) async fn send(
        &self,
        request: Request<Body>,
    ) -> Result<Response<ResponseBody>, kube::Error> {
        match (&self.service, &self.observer) {
            (Some(service), _) => service.send(request).await.map_err(error),
            (None, Some(observer)) => observer.send(request, |it| self.send_by_client(it)).await,
            (None, None) => self.send_by_client(request).await,
        }
    }

    async fn send_by_client(
        &self,
        request: Request<Body>,
    ) -> Result<Response<ResponseBody>, kube::Error> {
        let response = self.client.send(request).await?;
        Ok(response.map(|body| body.map_err(BoxError::from).boxed_unsync()))
    }
}

impl From<kube::Client> for Transport {
    fn from(client: kube::Client) -> Self {
        Self { client, service: None, observer: None }
    }
}

/// Converts the error as `kube::Client` does.
fn error(error: BoxError) -> kube::Error {
    error.downcast().map_or_else(kube::Error::Service, |error| *error)
}
