//! A server to run steps on: the embedded one without a socket, or kube-apiserver over TLS.

use std::sync::Arc;

use bytes::Bytes;
use evenkeel_apiserver::{ApiServer, Service};
use evenkeel_upstream::client::{Client, ClientError};
use evenkeel_upstream::{Cluster, StartError};
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use tokio::sync::RwLock;
use tower_service::Service as _;

/// Error of a response body.
pub(crate) type BodyError = Box<dyn std::error::Error + Send + Sync>;

/// The body of a response of either server.
pub(crate) type ResponseBody = UnsyncBoxBody<Bytes, BodyError>;

/// A server that receives requests.
#[derive(Clone)]
#[non_exhaustive]
pub enum Server {
    /// The embedded server.
    Ours(Arc<ApiServer>, Service),
    /// An upstream control plane, over TLS.
    Real(Arc<RwLock<Real>>),
}

/// An upstream control plane and the connections to it.
#[derive(Debug)]
pub struct Real {
    cluster: Cluster,
    client: Arc<Client>,
}

/// Number of connections to kube-apiserver; each carries up to 250 watches.
const CONNECTIONS: usize = 8;

impl Server {
    /// Wraps the embedded server, which is called without a socket.
    pub fn ours(server: ApiServer) -> Self {
        let service = server.service();
        Self::Ours(Arc::new(server), service)
    }

    /// Connects to an upstream control plane, which stops with the last clone of this value.
    ///
    /// # Errors
    ///
    /// If the connection fails.
    pub async fn real(cluster: Cluster) -> Result<Self, ClientError> {
        let client = Arc::new(connect(&cluster).await?);
        Ok(Self::Real(Arc::new(RwLock::new(Real { cluster, client }))))
    }

    pub(crate) async fn send(
        &self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<ResponseBody>, ClientError> {
        match self {
            Self::Ours(_, service) => {
                let Ok(response) = service.clone().call(request).await;
                Ok(response.map(|body| body.map_err(|never| match never {}).boxed_unsync()))
            }
            Self::Real(real) => {
                let client = real.read().await.client.clone();
                let response = client.send(request).await?;
                Ok(response.map(|body| body.map_err(Into::into).boxed_unsync()))
            }
        }
    }

    /// Compacts the server to the current revision.
    pub(crate) async fn compact(&self) -> Result<(), StartError> {
        match self {
            Self::Ours(server, _) => server.compact(),
            Self::Real(real) => {
                let mut real = real.write().await;
                real.cluster.compact().await?;
                real.client = Arc::new(connect(&real.cluster).await?);
            }
        }
        Ok(())
    }
}

async fn connect(cluster: &Cluster) -> Result<Client, ClientError> {
    Client::connect(cluster.address(), cluster.credentials(), CONNECTIONS).await
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Ours(..) => "Ours",
            Self::Real(_) => "Real",
        })
    }
}
