//! A plain HTTP/1.1 client over TLS: one connection, one request at a time.
//!
//! It trusts any certificate, since it measures servers on its own machine and knows neither
//! one's authority. It has no pool, no retries and no JSON, so that what is measured is the server.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context as _;
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;

/// A server and the right to use it.
#[derive(Clone)]
pub(crate) struct Endpoint {
    address: SocketAddr,
    token: String,
    tls: TlsConnector,
}

/// An open connection.
pub(crate) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    host: String,
    bearer: String,
    /// The task that moves the bytes; it ends with the connection.
    _driver: JoinSet<()>,
}

impl Endpoint {
    /// `url` names an IP address and a port.
    pub(crate) fn parse(url: &str, token: String) -> anyhow::Result<Self> {
        let address = url.strip_prefix("https://").context("not https")?;
        let address = address.trim_end_matches('/').parse().context("not an address and port")?;
        let provider = Arc::new(ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(TrustAnyone(provider)))
            .with_no_client_auth();
        Ok(Self { address, token, tls: TlsConnector::from(Arc::new(config)) })
    }

    pub(crate) fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    pub(crate) async fn connect(&self) -> anyhow::Result<Connection> {
        let socket = TcpStream::connect(self.address).await?;
        socket.set_nodelay(true)?;
        let name = ServerName::IpAddress(self.address.ip().into());
        let stream = self.tls.connect(name, socket).await?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        let mut driver = JoinSet::new();
        driver.spawn(async move {
            // The one who waits for an answer learns of a failure as well.
            let _ = connection.await;
        });
        let bearer = format!("Bearer {}", self.token);
        Ok(Connection { sender, host: self.address.to_string(), bearer, _driver: driver })
    }
}

impl Connection {
    /// Sends a request and hands out the answer as it comes in.
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
            .body(Full::new(body))?;
        self.sender.ready().await?;
        Ok(self.sender.send_request(request).await?)
    }

    /// Sends a request and reads the answer to its end; returns how long it was.
    pub(crate) async fn exchange(
        &mut self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> anyhow::Result<(StatusCode, usize)> {
        let mut response = self.send(method, path, body).await?;
        let mut length = 0;
        while let Some(frame) = response.body_mut().frame().await {
            length += frame?.data_ref().map_or(0, Bytes::len);
        }
        Ok((response.status(), length))
    }
}

#[derive(Debug)]
struct TrustAnyone(Arc<CryptoProvider>);

impl ServerCertVerifier for TrustAnyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
