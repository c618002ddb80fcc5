//! One connection to a webhook: HTTP/1.1 over TLS, kept open between calls.
//!
//! No task drives it: a call drives its own connection, and an idle one needs no attention until
//! its next use.

use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::task::{Context, Waker};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::tls;

/// A connection for one call at a time.
pub(super) struct Connection {
    sender: http1::SendRequest<Full<Bytes>>,
    driver: Pin<Box<Driver>>,
    closed: bool,
}

type Driver = http1::Connection<TokioIo<TlsStream<TcpStream>>, Full<Bytes>>;

/// A complete response.
pub(super) struct Response {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

/// Why there is no response.
pub(super) enum Failure {
    /// The webhook closed the connection before the request was sent; another one may work.
    Closed(String),
    Other(String),
}

impl Connection {
    pub(super) async fn open(
        address: SocketAddr,
        connector: &TlsConnector,
        server_name: String,
    ) -> Result<Self, String> {
        let name = ServerName::try_from(server_name)
            .map_err(|_| "tls: the host is not a valid server name".to_owned())?;
        let stream = TcpStream::connect(address).await.map_err(|error| {
            let why = match error.kind() {
                std::io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
                _ => error.to_string(),
            };
            format!("dial tcp {address}: connect: {why}")
        })?;
        // Small requests are written at once.
        let _ = stream.set_nodelay(true);
        let stream =
            connector.connect(name, stream).await.map_err(|error| tls::handshake_error(&error))?;
        let (sender, driver) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|error| reason(&error))?;
        Ok(Self { sender, driver: Box::pin(driver), closed: false })
    }

    /// Returns whether an idle connection can be used again.
    pub(super) fn is_open(&mut self) -> bool {
        if !self.closed {
            let mut cx = Context::from_waker(Waker::noop());
            self.closed = self.driver.as_mut().poll(&mut cx).is_ready();
        }
        !self.closed && !self.sender.is_closed()
    }

    /// Sends a request and reads its response of at most `max_response` bytes.
    pub(super) async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
        max_response: usize,
    ) -> Result<Response, Failure> {
        let Self { sender, driver, closed } = self;
        let exchange = async {
            sender.ready().await.map_err(|error| Failure::Closed(reason(&error)))?;
            let response = sender.send_request(request).await.map_err(|error| {
                let why = reason(&error);
                // Sent but not answered, it may have been processed.
                if error.is_canceled() { Failure::Closed(why) } else { Failure::Other(why) }
            })?;
            let (parts, body) = response.into_parts();
            let body = read(body, max_response).await.map_err(Failure::Other)?;
            Ok(Response { status: parts.status, headers: parts.headers, body })
        };
        let mut exchange = pin!(exchange);
        tokio::select! {
            biased;
            outcome = &mut exchange => outcome,
            _ = driver.as_mut() => {
                // What was received before the end of the connection is still there.
                *closed = true;
                exchange.await
            }
        }
    }
}

/// Reads a body of at most `limit` bytes. The error is the reason only.
pub(super) async fn read<B>(body: B, limit: usize) -> Result<Bytes, String>
where
    B: http_body::Body<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let mut body = pin!(body);
    let mut whole = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            let error = error.into();
            format!(
                "unexpected error when reading response body. Please retry. Original error: {error}"
            )
        })?;
        let Ok(data) = frame.into_data() else { continue };
        if whole.len() + data.len() > limit {
            return Err(format!("the response is larger than {limit} bytes"));
        }
        whole.extend_from_slice(&data);
    }
    Ok(whole.freeze())
}

/// Returns why a request failed: `EOF` if the connection was closed, as Go's client does.
fn reason(error: &hyper::Error) -> String {
    if error.is_canceled() || error.is_closed() || is_end(error) {
        return "EOF".to_owned();
    }
    let source = std::error::Error::source(error);
    source.map_or_else(|| error.to_string(), ToString::to_string)
}

/// Returns whether the connection ended without a complete response.
fn is_end(error: &hyper::Error) -> bool {
    let source = std::error::Error::source(error);
    let io = source.and_then(|source| source.downcast_ref::<std::io::Error>());
    error.is_incomplete_message()
        || io.is_some_and(|io| io.kind() == std::io::ErrorKind::UnexpectedEof)
}
