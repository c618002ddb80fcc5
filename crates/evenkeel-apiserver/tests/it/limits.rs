//! Limits on request bodies and connections, before and after authentication.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use evenkeel_apiserver::identity::token_file::TokenFile;
use evenkeel_apiserver::{ApiServer, Limits, ServerHandle};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use http::Method;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tower_service::Service as _;

use crate::harness::{CONFIG_MAPS, TIMEOUT, request};

/// A client that writes raw HTTP/1.1.
struct Raw {
    connector: TlsConnector,
    address: SocketAddr,
}

impl Raw {
    fn new(serving: &ServerHandle, with_certificate: bool) -> Self {
        let pem = |key: &str| {
            let line = serving.kubeconfig().lines().find_map(|line| line.trim().strip_prefix(key));
            STANDARD.decode(line.unwrap().trim_matches(['"', ' '])).unwrap()
        };
        let authority = pem("certificate-authority-data:");
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(&authority).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let config = if with_certificate {
            let certificate = CertificateDer::from_pem_slice(&pem("client-certificate-data:"));
            let key = PrivateKeyDer::from_pem_slice(&pem("client-key-data:")).unwrap();
            builder.with_client_auth_cert(vec![certificate.unwrap()], key).unwrap()
        } else {
            builder.with_no_client_auth()
        };
        Self { connector: Arc::new(config).into(), address: serving.address() }
    }

    async fn connect(&self) -> TlsStream<TcpStream> {
        let stream = TcpStream::connect(self.address).await.unwrap();
        self.connector.connect(ServerName::from(self.address.ip()), stream).await.unwrap()
    }

    /// Sends a POST with content length `length`, and `sent` bytes of the body.
    async fn post(&self, headers: &str, length: usize, sent: usize) -> TlsStream<TcpStream> {
        let mut stream = self.connect().await;
        let head = format!(
            "POST {CONFIG_MAPS} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n\
             {headers}Content-Length: {length}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(&vec![b' '; sent]).await.unwrap();
        stream.flush().await.unwrap();
        stream
    }
}

/// Reads the status code of the response, without sending the rest of the body.
async fn code(stream: &mut TlsStream<TcpStream>) -> u16 {
    let mut head = [0; 12];
    timeout(TIMEOUT, stream.read_exact(&mut head)).await.expect("no response").unwrap();
    String::from_utf8_lossy(&head)[9..].parse().unwrap()
}

async fn served(limits: Limits) -> (ApiServer, ServerHandle) {
    let tokens = TokenFile::parse("tokens", "secret,bob,1,dev").unwrap();
    let server = ApiServer::builder().limits(limits).tokens(tokens).build().await.unwrap();
    let serving = server.serve(([127, 0, 0, 1], 0).into()).await.unwrap();
    (server, serving)
}

#[tokio::test]
async fn body_is_not_read_before_authentication() {
    let (_server, serving) = served(Limits::default()).await;
    let stranger = Raw::new(&serving, false);
    for (headers, expected) in
        [("", 403), ("Authorization: Bearer wrong\r\n", 401), ("Authorization: Basic x\r\n", 403)]
    {
        let mut stream = stranger.post(headers, 1 << 20, 0).await;
        assert_eq!(code(&mut stream).await, expected, "{headers:?}");
    }
    serving.stop().await;
}

#[tokio::test]
async fn body_with_too_large_content_length_is_rejected_unread() {
    let (_server, serving) = served(Limits::default()).await;
    let admin = Raw::new(&serving, true);
    let mut stream = admin.post("", (3 << 20) + 1, 0).await;
    assert_eq!(code(&mut stream).await, 413);
    serving.stop().await;
}

#[tokio::test]
async fn body_of_a_request_to_an_unknown_path_is_not_read() {
    let (_server, serving) = served(Limits::default()).await;
    let mut stream = Raw::new(&serving, true).connect().await;
    let head = "POST /apis/none.example/v1/things HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    assert_eq!(code(&mut stream).await, 404);
    serving.stop().await;
}

#[tokio::test]
async fn body_that_stalls_times_out() {
    let mut limits = Limits::default();
    limits.body_stall_timeout = Duration::from_millis(20);
    let (_server, serving) = served(limits).await;
    let mut stream = Raw::new(&serving, true).post("", 100, 1).await;
    assert_eq!(code(&mut stream).await, 504);
    serving.stop().await;
}

#[tokio::test]
async fn body_budget_is_limited_per_user() {
    let mut limits = Limits::default();
    limits.body_bytes = 1 << 20;
    let (_server, serving) = served(limits).await;
    let admin = Raw::new(&serving, true);
    let mut responses = FuturesUnordered::new();
    for _ in 0..4 {
        // Each uses more than half of the budget of one user.
        let mut stream = admin.post("", 1 << 20, 500 << 10).await;
        responses.push(async move { code(&mut stream).await });
    }
    for _ in 0..3 {
        assert_eq!(responses.next().await, Some(429));
    }
    let body = r#"{"metadata":{"name":"a"}}"#;
    let other = Raw::new(&serving, false);
    let mut stream = other.post("Authorization: Bearer secret\r\n", body.len(), 0).await;
    stream.write_all(body.as_bytes()).await.unwrap();
    assert_eq!(code(&mut stream).await, 201);

    // Dropping the fourth request releases its budget.
    drop(responses);
    loop {
        let mut stream = admin.post("", 700 << 10, 700 << 10).await;
        match code(&mut stream).await {
            429 => continue,
            // Blanks are not a valid object.
            other => break assert_eq!(other, 400),
        }
    }
    serving.stop().await;
}

#[tokio::test]
async fn slow_clients_hold_no_seat() {
    let mut limits = Limits::default();
    // Five of these are for the level of other users.
    (limits.reads_in_flight, limits.writes_in_flight) = (40, 20);
    // Shorter than the slow clients are waited for, longer than a request takes.
    limits.queue_wait = Duration::from_secs(10);
    limits.body_stall_timeout = Duration::from_secs(3600);
    let (server, serving) = served(limits).await;
    for name in ["a", "b"] {
        let map = json!({"metadata": {"name": name}, "data": {"k": "v".repeat(1_000_000)}});
        let request = request(Method::POST, CONFIG_MAPS, &[], map.to_string());
        assert_eq!(server.service().call(request).await.unwrap().status(), 201);
    }
    let client = Raw::new(&serving, false);
    let bob = "Authorization: Bearer secret\r\n";
    let get = async || {
        let mut stream = client.connect().await;
        let head = format!("GET {CONFIG_MAPS} HTTP/1.1\r\nHost: x\r\n{bob}\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let code = code(&mut stream).await;
        (code, stream)
    };
    let mut slow = Vec::new();
    for _ in 0..20 {
        // The server waits for the body.
        let headers = format!("{bob}Expect: 100-continue\r\n");
        let mut stream = client.post(&headers, 100, 0).await;
        assert_eq!(code(&mut stream).await, 100);
        slow.push(stream);
    }
    for _ in 0..20 {
        // The client does not read the body.
        let (code, stream) = get().await;
        assert_eq!(code, 200);
        slow.push(stream);
    }
    assert_eq!(get().await.0, 200);
    drop(slow);
    serving.stop().await;
}

#[tokio::test]
async fn http2_connection_closes_after_an_unauthenticated_request() {
    let (_server, serving) = served(Limits::default()).await;
    let stranger = Raw::new(&serving, false);
    let mut config = ClientConfig::clone(stranger.connector.config());
    config.alpn_protocols = vec![b"h2".to_vec()];
    let stranger = Raw { connector: Arc::new(config).into(), ..stranger };
    let io = hyper_util::rt::TokioIo::new(stranger.connect().await);
    let executor = hyper_util::rt::TokioExecutor::new();
    let handshake = hyper::client::conn::http2::handshake(executor, io);
    let (mut sender, connection) = handshake.await.unwrap();
    let request = http::Request::get(format!("{}/readyz", serving.url()));
    let request = request.body(http_body_util::Empty::<bytes::Bytes>::new()).unwrap();
    let exchange = async { sender.send_request(request).await.unwrap().status() };
    let (status, ended) = timeout(TIMEOUT, async { tokio::join!(exchange, connection) })
        .await
        .expect("the connection stays open");
    assert_eq!(status, 200);
    ended.unwrap();
    serving.stop().await;
}
