//! How the runtime's own requests reach the API server.
//!
//! `kube::Client` hands each request to a task, which calls the service behind it and hands the
//! future back: two task switches that the exchange itself does not need, and on a busy machine each
//! one waits for a processor. Where the runtime has made the connection it calls that service itself.

use http::{Request, Response};
use http_body_util::BodyExt as _;
use kube::client::Body;

use super::{Answer, Reloading};
use crate::error::BoxError;

/// Sends requests to one API server. A clone uses the same connections.
#[derive(Clone)]
pub(crate) struct Transport {
    client: kube::Client,
    /// The service behind the client, if it is known.
    service: Option<Reloading>,
}

impl Transport {
    /// Sends requests with `service`, past the queue that `kube` puts before it.
    pub(super) fn direct(service: Reloading, namespace: String) -> Self {
        let client = kube::Client::new(service.clone(), namespace);
        Self { client, service: Some(service) }
    }

    /// The client, for requests that are not the runtime's own.
    pub(crate) fn client(&self) -> &kube::Client {
        &self.client
    }

    /// Sends a request and returns the answer as soon as its head is there.
    pub(crate) async fn send(
        &self,
        request: Request<Body>,
    ) -> Result<Response<Answer>, kube::Error> {
        match &self.service {
            Some(service) => service.send(request).await.map_err(error),
            None => {
                let answer = self.client.send(request).await?;
                Ok(answer.map(|body| body.map_err(BoxError::from).boxed_unsync()))
            }
        }
    }
}

impl From<kube::Client> for Transport {
    fn from(client: kube::Client) -> Self {
        Self { client, service: None }
    }
}

/// The error as `kube::Client` returns it: its own layers fail with `kube::Error`.
fn error(error: BoxError) -> kube::Error {
    error.downcast().map_or_else(kube::Error::Service, |error| *error)
}
