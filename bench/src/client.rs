//! A minimal HTTP/1.1 client over TLS: one connection, one request at a time.
//!
//! It accepts any server certificate, because it measures local servers whose CA it does not know.
//! It has no pool, no retries and no JSON decoding, so that the server dominates the measurement.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context as _;
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// A server and a bearer token.
#[derive(Clone)]
pub(crate) struct Endpoint {
    address: SocketAddr,
    token: String,
    tls: TlsConnector,
}

/// An open connection.
pub(crate) struct Connection {
    /// The `Accept` header.
    pub(crate) accept: &'static str,
    sender: SendRequest<Full<Bytes>>,
    host: String,
    bearer: String,
    /// Drives the connection.
    _driver: JoinSet<()>,
}

impl Endpoint {
    /// Parses a URL of an IP address and a port.
    pub(crate) fn parse(url: &str, token: String) -> anyhow::Result<Self> {
        let address = url.strip_prefix("https://").context("not https")?;
        let address = address.trim_end_matches('/').parse().context("not an address and port")?;
        let config = evenkeel_pki::tls::client_config(|_| Ok(()))?;
        Ok(Self { address, token, tls: TlsConnector::from(Arc::new(config)) })
    }

    pub(crate) fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) async fn connect(&self) -> anyhow::Result<Connection> {
        let stream = self.tls_handshake().await?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        let mut driver = JoinSet::new();
        driver.spawn(async move {
            // The pending request returns the error.
            let _ = connection.await;
        });
        Ok(Connection {
            accept: "application/json",
            sender,
            host: self.address.to_string(),
            bearer: self.bearer(),
            _driver: driver,
        })
    }

    /// Opens a TLS connection without sending a request.
    pub(crate) async fn tls_handshake(&self) -> anyhow::Result<TlsStream<TcpStream>> {
        let socket = TcpStream::connect(self.address).await?;
        socket.set_nodelay(true)?;
        let name = ServerName::IpAddress(self.address.ip().into());
        Ok(self.tls.connect(name, socket).await?)
    }

    /// Sends `count` requests with bodies that never end over one HTTP/2 connection; returns when
    /// all have a response or the connection is closed.
    pub(crate) async fn send_endless_bodies(
        &self,
        with_credentials: bool,
        count: usize,
    ) -> anyhow::Result<()> {
        let mut config = rustls::ClientConfig::clone(self.tls.config());
        config.alpn_protocols = vec![b"h2".to_vec()];
        let http2 = Self { tls: TlsConnector::from(Arc::new(config)), ..self.clone() };
        let stream = TokioIo::new(http2.tls_handshake().await?);
        let (sender, connection) = http2::handshake(TokioExecutor::new(), stream).await?;
        let chunk = Bytes::from(vec![b' '; 64 << 10]);
        let mut requests = JoinSet::new();
        requests.spawn(async move {
            let _ = connection.await;
        });
        for _ in 0..count {
            let mut sender = sender.clone();
            let sent = stream::iter(vec![chunk.clone(); 46]).chain(stream::pending());
            let body = StreamBody::new(sent.map(|chunk| Ok::<_, Infallible>(Frame::data(chunk))));
            let mut request = Request::post(format!("{}/api/v1/namespaces", self.url()))
                .header(CONTENT_TYPE, "application/json");
            if with_credentials {
                request = request.header(AUTHORIZATION, self.bearer());
            }
            let request = request.body(Box::pin(body))?;
            requests.spawn(async move {
                if sender.ready().await.is_ok() {
                    let _ = sender.send_request(request).await;
                }
            });
        }
        drop(sender);
        while requests.join_next().await.is_some() {}
        Ok(())
    }

    fn bearer(&self) -> String {
        format!("Bearer {}", self.token)
    }
}

impl Connection {
    /// Sends a request and returns the response as a stream.
    pub(crate) async fn send(
        &mut self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> anyhow::Result<Response<Incoming>> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, &self.host)
            .header(AUTHORIZATION, &self.bearer)
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, self.accept)
            .body(Full::new(body))?;
        self.sender.ready().await?;
        Ok(self.sender.send_request(request).await?)
    }

    /// Gets `path` in the accepted media type and returns the length of the body.
    pub(crate) async fn get(&mut self, path: &str) -> anyhow::Result<(StatusCode, usize)> {
        let response = self.send(Method::GET, path, Bytes::new()).await?;
        let accept = self.accept;
        let media = response.headers().get(CONTENT_TYPE).and_then(|media| media.to_str().ok());
        let wanted = accept.split(';').next().unwrap_or(accept);
        anyhow::ensure!(media == Some(wanted), "{path} returned {media:?} for {accept}");
        length(response).await
    }

    /// Sends a request, reads the whole response and returns the length of the body.
    pub(crate) async fn exchange(
        &mut self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> anyhow::Result<(StatusCode, usize)> {
        length(self.send(method, path, body).await?).await
    }
}

/// Reads the whole response and returns the length of the body.
async fn length(mut response: Response<Incoming>) -> anyhow::Result<(StatusCode, usize)> {
    let mut length = 0;
    while let Some(frame) = response.body_mut().frame().await {
        length += frame?.data_ref().map_or(0, Bytes::len);
    }
    Ok((response.status(), length))
}
