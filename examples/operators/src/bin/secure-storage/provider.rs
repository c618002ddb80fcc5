//! The provider's API over HTTP, and the ways it can fail.

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
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::fake::FakeProvider;

/// A provider that does not answer must not hold a worker for ever.
const DEADLINE: Duration = Duration::from_secs(10);

/// A storage account, as the provider tells of it.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Account {
    /// Who it is to a vault; comes some time after the account.
    pub(crate) principal: Option<String>,
    /// The key its data are encrypted with, as `vault/key`.
    pub(crate) key: Option<String>,
}

/// What can go wrong.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProviderError {
    /// Nobody answered: the next try may meet somebody.
    #[error("the storage provider cannot be reached")]
    Unreachable(#[source] io::Error),
    /// It wants to be left alone for a while.
    #[error("the storage provider is busy")]
    Busy {
        /// For how long, if it said so.
        retry: Option<Duration>,
    },
    /// It will not do it; asking again changes nothing by itself.
    #[error("the storage provider refused: {status}: {message}")]
    Refused { status: StatusCode, message: String },
}

/// A connection, of whatever kind.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

type Dialed = Pin<Box<dyn Future<Output = io::Result<Box<dyn Stream>>> + Send>>;

/// A client of the provider. One connection per request: an operator asks rarely.
#[derive(Clone)]
pub(crate) struct Provider {
    dial: Arc<dyn Fn() -> Dialed + Send + Sync>,
}

impl Provider {
    /// The provider at `host:port`.
    pub(crate) fn at(address: &str) -> Self {
        let address = address.to_owned();
        let dial = move || -> Dialed {
            let address = address.clone();
            Box::pin(async move { Ok(Box::new(TcpStream::connect(address).await?) as _) })
        };
        Self { dial: Arc::new(dial) }
    }

    /// A stand-in in this process, reached without a socket.
    pub(crate) fn fake(fake: &FakeProvider) -> Self {
        let fake = fake.clone();
        let dial = move || -> Dialed {
            let stream = fake.connect();
            Box::pin(async move { stream.map(|stream| Box::new(stream) as _) })
        };
        Self { dial: Arc::new(dial) }
    }

    /// The account, made if it is missing.
    pub(crate) async fn ensure_account(&self, name: &str) -> Result<Account, ProviderError> {
        let body = self.send(Method::PUT, &format!("/accounts/{name}"), Value::Null).await?;
        serde_json::from_slice(&body)
            .map_err(|error| ProviderError::Unreachable(io::Error::other(error)))
    }

    /// Lets the identity use the keys of the vault.
    pub(crate) async fn ensure_access(
        &self,
        vault: &str,
        principal: &str,
    ) -> Result<(), ProviderError> {
        let path = format!("/vaults/{vault}/access/{principal}");
        self.send(Method::PUT, &path, Value::Null).await.map(drop)
    }

    /// Has the account's data encrypted with `key`.
    pub(crate) async fn enable_encryption(
        &self,
        name: &str,
        key: &str,
    ) -> Result<(), ProviderError> {
        let path = format!("/accounts/{name}/encryption");
        self.send(Method::PUT, &path, json!({ "key": key })).await.map(drop)
    }

    /// Removes the account; one that is gone already is no error.
    pub(crate) async fn remove_account(&self, name: &str) -> Result<(), ProviderError> {
        match self.send(Method::DELETE, &format!("/accounts/{name}"), Value::Null).await {
            Err(ProviderError::Refused { status: StatusCode::NOT_FOUND, .. }) => Ok(()),
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
                // The connection may end with the last byte of the answer.
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
                Err(ProviderError::Refused { status, message })
            }
        }
    }
}
