//! An HTTP client of the provider's API, and its errors.

use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::fake::FakeProvider;

/// The request timeout, so that a hanging provider does not block a worker forever.
const DEADLINE: Duration = Duration::from_secs(10);

/// A storage account, as returned by the provider.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Account {
    /// The identity of the account, assigned some time after its creation.
    pub(crate) principal: Option<String>,
    /// The encryption key, as `vault/key`.
    pub(crate) key: Option<String>,
}

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProviderError {
    /// No response; a retry may succeed.
    #[error("the storage provider is unreachable")]
    Unreachable(#[source] io::Error),
    /// The provider throttles requests.
    #[error("the storage provider is busy")]
    Busy {
        /// The value of `Retry-After`, if present.
        retry: Option<Duration>,
    },
    /// The provider rejected the request; a retry fails until the cause is fixed.
    #[error("the storage provider rejected the request: {status}: {message}")]
    Rejected { status: StatusCode, message: String },
}

/// A connection: TCP or in memory.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

type Dialed = Pin<Box<dyn Future<Output = io::Result<Box<dyn Stream>>> + Send>>;

/// A client of the provider. It opens a connection per request, because requests are rare.
#[derive(Clone)]
pub(crate) struct Provider {
    dial: Arc<dyn Fn() -> Dialed + Send + Sync>,
}

impl Provider {
    /// Creates a client of the provider at `host:port`.
    pub(crate) fn at(address: &str) -> Self {
        let address = address.to_owned();
        let dial = move || -> Dialed {
            let address = address.clone();
            Box::pin(async move { Ok(Box::new(TcpStream::connect(address).await?) as _) })
        };
        Self { dial: Arc::new(dial) }
    }

    /// Creates a client of a fake provider in this process.
    pub(crate) fn fake(fake: &FakeProvider) -> Self {
        let fake = fake.clone();
        Self::connected(move || fake.connect())
    }

    /// Creates a client whose connections `connect` opens.
    pub(crate) fn connected(
        connect: impl Fn() -> io::Result<DuplexStream> + Send + Sync + 'static,
    ) -> Self {
        let dial = move || -> Dialed {
            let stream = connect();
            Box::pin(async move { stream.map(|stream| Box::new(stream) as _) })
        };
        Self { dial: Arc::new(dial) }
    }

    /// Returns the account, and creates it if absent.
    pub(crate) async fn ensure_account(&self, name: &str) -> Result<Account, ProviderError> {
        let body = self.send(Method::PUT, &format!("/accounts/{name}"), Value::Null).await?;
        serde_json::from_slice(&body)
            .map_err(|error| ProviderError::Unreachable(io::Error::other(error)))
    }

    /// Grants the identity access to the keys of the vault.
    pub(crate) async fn ensure_access(
        &self,
        vault: &str,
        principal: &str,
    ) -> Result<(), ProviderError> {
        let path = format!("/vaults/{vault}/access/{principal}");
        self.send(Method::PUT, &path, Value::Null).await.map(drop)
    }

    /// Encrypts the account's data with `key`.
    pub(crate) async fn enable_encryption(
        &self,
        name: &str,
        key: &str,
    ) -> Result<(), ProviderError> {
        let path = format!("/accounts/{name}/encryption");
        self.send(Method::PUT, &path, json!({ "key": key })).await.map(drop)
    }

    /// Removes the account. Idempotent.
    pub(crate) async fn remove_account(&self, name: &str) -> Result<(), ProviderError> {
        match self.send(Method::DELETE, &format!("/accounts/{name}"), Value::Null).await {
            Err(ProviderError::Rejected { status: StatusCode::NOT_FOUND, .. }) => Ok(()),
            outcome => outcome.map(drop),
        }
    }

    async fn send(&self, method: Method, path: &str, body: Value) -> Result<Bytes, ProviderError> {
        let broken = |error: hyper::Error| ProviderError::Unreachable(io::Error::other(error));
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, "storage")
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::<Bytes>::from(body.to_string()))
            .map_err(|error| ProviderError::Unreachable(io::Error::other(error)))?;
        let exchange = async {
            let stream = (self.dial)().await.map_err(ProviderError::Unreachable)?;
            let (mut sender, connection) =
                http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
            let mut response = pin!(async move {
                let (head, body) = sender.send_request(request).await?.into_parts();
                Ok((head, body.collect().await?.to_bytes()))
            });
            let response = tokio::select! {
                biased;
                result = &mut response => result,
                // The connection may end with the last byte of the response.
                _ = connection => response.await,
            };
            response.map_err(broken)
        };
        let silent = |_| ProviderError::Unreachable(io::ErrorKind::TimedOut.into());
        let (head, body) = timeout(DEADLINE, exchange).await.map_err(silent)??;
        match head.status {
            status if status.is_success() => Ok(body),
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
                let retry = head.headers.get(header::RETRY_AFTER);
                let retry = retry.and_then(|value| value.to_str().ok()?.parse().ok());
                Err(ProviderError::Busy { retry: retry.map(Duration::from_secs) })
            }
            status if status.is_server_error() => {
                Err(ProviderError::Unreachable(io::Error::other(status.to_string())))
            }
            status => {
                let message = String::from_utf8_lossy(&body).into_owned();
                Err(ProviderError::Rejected { status, message })
            }
        }
    }
}
