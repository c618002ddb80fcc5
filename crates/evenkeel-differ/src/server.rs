//! A server to send steps to: the embedded one without a socket, or a real one over TLS.

use std::sync::Arc;

use bytes::Bytes;
use evenkeel_apiserver::{ApiServer, Service};
use evenkeel_upstream::client::{Client, ClientError};
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use tower_service::Service as _;

/// What a response body may fail with.
pub(crate) type BodyError = Box<dyn std::error::Error + Send + Sync>;

/// The body of a response, from wherever.
pub(crate) type ResponseBody = UnsyncBoxBody<Bytes, BodyError>;

/// Where requests go.
#[derive(Clone)]
#[non_exhaustive]
pub enum Server {
    /// The embedded server.
    Ours(Service),
    /// A server behind TLS.
    Remote(Arc<Client>),
}

impl Server {
    /// The embedded server, reached without a socket.
    pub fn ours(server: &ApiServer) -> Self {
        Self::Ours(server.service())
    }

    /// A server behind TLS.
    pub fn remote(client: Client) -> Self {
        Self::Remote(Arc::new(client))
    }

    pub(crate) async fn send(
        &self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<ResponseBody>, ClientError> {
        match self {
            Self::Ours(service) => {
                let Ok(response) = service.clone().call(request).await;
                Ok(response.map(|body| body.map_err(|never| match never {}).boxed_unsync()))
            }
            Self::Remote(client) => {
                let response = client.send(request).await?;
                Ok(response.map(|body| body.map_err(Into::into).boxed_unsync()))
            }
        }
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Ours(_) => "Ours",
            Self::Remote(_) => "Remote",
        })
    }
}
