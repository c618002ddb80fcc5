//! A server to run steps on: the embedded one without a socket, or kube-apiserver over TLS.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use evenkeel_apiserver::ApiServer;
use evenkeel_upstream::client::{Client, ClientError};
use evenkeel_upstream::{Cluster, StartError};
use http::{Request, Response};
use http_body::Body;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use tokio::sync::RwLock;
use tower_service::Service;

/// Error of a response body.
pub(crate) type BodyError = Box<dyn std::error::Error + Send + Sync>;

/// The body of a response of either server.
pub(crate) type ResponseBody = UnsyncBoxBody<Bytes, BodyError>;

/// A server that receives requests.
#[derive(Clone)]
#[non_exhaustive]
pub enum Server {
    /// The embedded server.
    Ours(Arc<ApiServer>, InProcess),
    /// An upstream control plane, over TLS.
    Real(Arc<RwLock<Real>>),
}

/// A service in this process.
#[derive(Clone)]
pub struct InProcess(Arc<Call>);

type Call = dyn Fn(Request<Full<Bytes>>) -> CallFuture + Send + Sync;

type CallFuture = Pin<Box<dyn Future<Output = Response<ResponseBody>> + Send>>;

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
        Self::ours_through(server, service)
    }

    /// Like [`ours`](Self::ours); requests are sent to `service`, which may wrap that of `server`.
    pub fn ours_through<S, B>(server: ApiServer, service: S) -> Self
    where
        S: Service<Request<Full<Bytes>>, Response = Response<B>, Error = Infallible>,
        S: Clone + Send + Sync + 'static,
        S::Future: Send,
        B: Body<Data = Bytes, Error = Infallible> + Send + 'static,
    {
        let call = move |request| -> CallFuture {
            let mut service = service.clone();
            Box::pin(async move {
                let Ok(response) = service.call(request).await;
                response.map(|body| body.map_err(|never| match never {}).boxed_unsync())
            })
        };
        Self::Ours(Arc::new(server), InProcess(Arc::new(call)))
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
            Self::Ours(_, service) => Ok((service.0)(request).await),
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

impl std::fmt::Debug for InProcess {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("InProcess")
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Ours(..) => "Ours",
            Self::Real(_) => "Real",
        })
    }
}
