//! A minimal HTTPS client: HTTP/2 over a few connections, without retries.
//!
//! Comparing servers needs the unmodified bytes and headers, which client libraries hide.

use std::io::{self, BufReader};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::{HeaderValue, Request, Response, Uri};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;

/// The CA and the client certificate, in PEM format.
#[derive(Clone)]
#[non_exhaustive]
pub struct Credentials {
    /// The CA of the server certificate.
    pub authority: String,
    /// The client certificate.
    pub certificate: String,
    /// The key of the client certificate.
    pub key: String,
}

impl Credentials {
    /// Creates credentials that trust `authority` and authenticate with `certificate`.
    pub fn new(authority: String, certificate: String, key: String) -> Self {
        Self { authority, certificate, key }
    }
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials").finish_non_exhaustive()
    }
}

/// Why a request got no response.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The connection failed.
    #[error("cannot connect")]
    Connect(#[from] io::Error),
    /// The credentials cannot be parsed.
    #[error("invalid credentials: {0}")]
    Credentials(String),
    /// The connection broke.
    #[error(transparent)]
    Http(#[from] hyper::Error),
    /// The request is malformed.
    #[error("invalid request")]
    Request(#[from] http::Error),
}

/// A client of one server; its connections are used in turn.
pub struct Client {
    address: SocketAddr,
    senders: Vec<SendRequest<Full<Bytes>>>,
    next: AtomicUsize,
    /// Drives the connections; dropping it closes them.
    _connections: JoinSet<()>,
}

impl Client {
    /// Opens `connections` connections to `address`.
    ///
    /// # Errors
    ///
    /// If the connection or the TLS handshake fails.
    pub async fn connect(
        address: SocketAddr,
        credentials: &Credentials,
        connections: usize,
    ) -> Result<Self, ClientError> {
        let tls = TlsConnector::from(Arc::new(configuration(credentials)?));
        let mut tasks = JoinSet::new();
        let mut senders = Vec::with_capacity(connections);
        for _ in 0..connections.max(1) {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            let stream = tls.connect(ServerName::from(address.ip()), stream).await?;
            let (sender, connection) =
                hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
                    .await?;
            tasks.spawn(async move {
                // The pending requests return the error.
                let _ = connection.await;
            });
            senders.push(sender);
        }
        Ok(Self { address, senders, next: AtomicUsize::new(0), _connections: tasks })
    }

    /// Sends `request`, whose URI needs no scheme and host.
    ///
    /// # Errors
    ///
    /// If the connection breaks before the response.
    pub async fn send(
        &self,
        mut request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, ClientError> {
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
        let uri = Uri::builder()
            .scheme("https")
            .authority(self.address.to_string())
            .path_and_query(path)
            .build()?;
        *request.uri_mut() = uri;
        if !request.headers().contains_key(http::header::USER_AGENT) {
            let agent = HeaderValue::from_static("evenkeel-upstream");
            request.headers_mut().insert(http::header::USER_AGENT, agent);
        }
        let turn = self.next.fetch_add(1, Ordering::Relaxed) % self.senders.len();
        let mut sender = self.senders[turn].clone();
        sender.ready().await?;
        Ok(sender.send_request(request).await?)
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("address", &self.address).finish_non_exhaustive()
    }
}

fn configuration(credentials: &Credentials) -> Result<ClientConfig, ClientError> {
    let bad = |error: &dyn std::fmt::Display| ClientError::Credentials(error.to_string());
    let certificates = |text: &str| -> Result<Vec<CertificateDer<'static>>, ClientError> {
        CertificateDer::pem_reader_iter(BufReader::new(text.as_bytes()))
            .collect::<Result<_, _>>()
            .map_err(|error| bad(&error))
    };
    let mut roots = RootCertStore::empty();
    for certificate in certificates(&credentials.authority)? {
        roots.add(certificate).map_err(|error| bad(&error))?;
    }
    let key =
        PrivateKeyDer::from_pem_slice(credentials.key.as_bytes()).map_err(|error| bad(&error))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut configuration = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| bad(&error))?
        .with_root_certificates(roots)
        .with_client_auth_cert(certificates(&credentials.certificate)?, key)
        .map_err(|error| bad(&error))?;
    configuration.alpn_protocols = vec![b"h2".to_vec()];
    Ok(configuration)
}
