//! Behaviour of the server over sockets.

use std::time::Duration;

use evenkeel_pki::certificates::{Authority, KeyedCertificate, Lifetime};
use evenkeel_pki::tls::{ServingCertificate, provider};
use http::StatusCode;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::*;
use crate::clock::Clock;

/// Answers `/wait` once `release` has a permit, and panics on `/panic`.
struct Routes {
    entered: Semaphore,
    release: Semaphore,
}

impl Handler for Routes {
    async fn handle(&self, request: Request<Body>) -> Response<Full<Bytes>> {
        match request.uri().path() {
            "/wait" => {
                self.entered.add_permits(1);
                let _released = self.release.acquire().await.unwrap();
                text(StatusCode::OK, "done")
            }
            "/panic" => panic!("a bug"),
            "/body" => match read(request.into_body(), 4).await {
                Ok(body) => text(StatusCode::OK, body),
                Err(error) => text(StatusCode::PAYLOAD_TOO_LARGE, error.to_string()),
            },
            _ => text(StatusCode::OK, "hello"),
        }
    }
}

/// A running server.
struct Running {
    address: SocketAddr,
    routes: Arc<Routes>,
    stop: CancellationToken,
    task: JoinSet<usize>,
}

impl Running {
    async fn start(tls: Option<Tls>, limits: Limits) -> Self {
        let server = Server::bind(([127, 0, 0, 1], 0).into(), tls).await.unwrap().limits(limits);
        let address = server.local_addr();
        let routes = Arc::new(Routes { entered: Semaphore::new(0), release: Semaphore::new(0) });
        let (handler, stop) = (routes.clone(), CancellationToken::new());
        let stopped = stop.clone();
        let mut task = JoinSet::new();
        task.spawn(async move { server.run(handler, stopped.cancelled()).await });
        Self { address, routes, stop, task }
    }

    async fn plain() -> Self {
        Self::start(None, Limits::default()).await
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Stops the server and returns the number of aborted connections.
    async fn stop(mut self) -> usize {
        self.stop.cancel();
        self.task.join_next().await.unwrap().unwrap()
    }
}

trait Io: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin {}
impl<T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin> Io for T {}

async fn send(stream: &mut impl Io, path: &str, body: &str) {
    let head = format!("POST {path} HTTP/1.1\r\nhost: a\r\ncontent-length: {}\r\n\r\n", body.len());
    stream.write_all((head + body).as_bytes()).await.unwrap();
}

/// Reads a response with a body: the first line and the body. `None` if the connection is closed.
async fn receive(stream: &mut impl Io) -> Option<(String, String)> {
    let mut read = Vec::new();
    loop {
        let text = String::from_utf8(read.clone()).unwrap();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if body.len() == length.unwrap().parse::<usize>().unwrap() {
                return Some((head.lines().next().unwrap().to_owned(), body.to_owned()));
            }
        }
        let mut byte = [0];
        match stream.read(&mut byte).await {
            Ok(1) => read.push(byte[0]),
            _ => return None,
        }
    }
}

async fn get(stream: &mut impl Io, path: &str) -> Option<(String, String)> {
    send(stream, path, "").await;
    receive(stream).await
}

const OK: &str = "HTTP/1.1 200 OK";
const NOW: u64 = 1_800_000_000;

fn lifetime() -> Lifetime {
    Lifetime { now_unix: NOW, duration: Duration::from_secs(3600) }
}

fn clock() -> Clock {
    Clock::starting_at(jiff::Timestamp::from_second(NOW as i64).unwrap())
}

fn issue(authority: &Authority) -> KeyedCertificate {
    authority.issue_server("test", &["localhost".to_owned()], lifetime()).unwrap()
}

/// Connects with TLS, trusting `authority` only at the time of the test.
async fn connect_tls(
    address: SocketAddr,
    authority: &Authority,
    protocols: &[&[u8]],
    own: Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>,
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(authority.certificate()).unwrap();
    let clock = evenkeel_pki::tls::WallClock::new(|| NOW);
    let builder = ClientConfig::builder_with_details(provider(), clock)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let mut config = match own {
        Some((chain, key)) => builder.with_client_auth_cert(chain, key).unwrap(),
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    let connector = TlsConnector::from(Arc::new(config));
    let stream = TcpStream::connect(address).await?;
    connector.connect(ServerName::try_from("localhost").unwrap(), stream).await
}

#[tokio::test]
async fn requests_in_flight_are_answered_before_the_server_stops() {
    let server = Running::plain().await;
    let (mut busy, mut idle) = (server.connect().await, server.connect().await);
    assert_eq!(get(&mut idle, "/").await, Some((OK.to_owned(), "hello".to_owned())));
    send(&mut busy, "/wait", "").await;
    server.routes.entered.acquire().await.unwrap().forget();
    server.stop.cancel();
    assert_eq!(receive(&mut idle).await, None, "an idle connection is closed at once");
    server.routes.release.add_permits(1);
    assert_eq!(receive(&mut busy).await, Some((OK.to_owned(), "done".to_owned())));
    let address = server.address;
    assert_eq!(server.stop().await, 0);
    assert!(TcpStream::connect(address).await.is_err(), "the socket is closed");
}

#[tokio::test]
async fn requests_that_do_not_end_are_aborted_after_the_drain() {
    let limits = Limits { drain: Duration::from_millis(1), ..Limits::default() };
    let server = Running::start(None, limits).await;
    let mut busy = server.connect().await;
    send(&mut busy, "/wait", "").await;
    server.routes.entered.acquire().await.unwrap().forget();
    assert_eq!(server.stop().await, 1);
    assert_eq!(receive(&mut busy).await, None);
}

#[tokio::test]
async fn beyond_the_bound_the_longest_idle_connection_is_closed() {
    let limits = Limits { connections: 2, ..Limits::default() };
    let server = Running::start(None, limits).await;
    let (mut busy, mut idle) = (server.connect().await, server.connect().await);
    send(&mut busy, "/wait", "").await;
    server.routes.entered.acquire().await.unwrap().forget();
    assert!(get(&mut idle, "/").await.is_some());
    let mut third = server.connect().await;
    send(&mut third, "/wait", "").await;
    server.routes.entered.acquire().await.unwrap().forget();
    assert_eq!(receive(&mut idle).await, None);
    // All are busy now.
    assert_eq!(receive(&mut server.connect().await).await, None);
    server.routes.release.add_permits(2);
    assert!(receive(&mut busy).await.is_some());
    assert!(receive(&mut third).await.is_some());
    server.stop().await;
}

#[tokio::test]
async fn connections_without_a_request_are_closed() {
    let limits = Limits { first_request: Duration::from_millis(1), ..Limits::default() };
    let server = Running::start(None, limits).await;
    assert_eq!(receive(&mut server.connect().await).await, None);
    server.stop().await;
}

#[tokio::test]
async fn panics_become_500_and_the_connection_continues() {
    let server = Running::plain().await;
    let mut stream = server.connect().await;
    let (status, _) = get(&mut stream, "/panic").await.unwrap();
    assert_eq!(status, "HTTP/1.1 500 Internal Server Error");
    assert_eq!(get(&mut stream, "/").await.unwrap().0, OK);
    server.stop().await;
}

#[tokio::test]
async fn bodies_are_read_up_to_the_limit() {
    let server = Running::plain().await;
    let mut stream = server.connect().await;
    send(&mut stream, "/body", "four").await;
    assert_eq!(receive(&mut stream).await, Some((OK.to_owned(), "four".to_owned())));
    send(&mut stream, "/body", "fiver").await;
    let (status, text) = receive(&mut stream).await.unwrap();
    assert_eq!(status, "HTTP/1.1 413 Payload Too Large");
    assert_eq!(text, "request body is larger than 4 bytes");
    server.stop().await;
}

#[tokio::test]
async fn replaced_certificates_are_used_by_new_handshakes() {
    let old = Authority::generate_for("old", lifetime()).unwrap();
    let new = Authority::generate_for("new", lifetime()).unwrap();
    let certificate = Arc::new(ServingCertificate::default());
    let tls = Tls::new(certificate.clone(), &[], &clock()).unwrap();
    let server = Running::start(Some(tls), Limits::default()).await;
    assert!(connect_tls(server.address, &old, &[], None).await.is_err(), "no certificate yet");

    certificate.set(&issue(&old)).unwrap();
    let mut open = connect_tls(server.address, &old, &[], None).await.unwrap();
    assert!(get(&mut open, "/").await.is_some());

    certificate.set(&issue(&new)).unwrap();
    assert!(connect_tls(server.address, &old, &[], None).await.is_err());
    let mut stream = connect_tls(server.address, &new, &[], None).await.unwrap();
    assert!(get(&mut stream, "/").await.is_some());
    assert!(get(&mut open, "/").await.is_some(), "open connections continue");
    server.stop().await;
}

#[tokio::test]
async fn http2_is_not_negotiated() {
    let authority = Authority::generate_for("test", lifetime()).unwrap();
    let certificate = Arc::new(ServingCertificate::default());
    certificate.set(&issue(&authority)).unwrap();
    let tls = Tls::new(certificate, &[], &clock()).unwrap();
    let server = Running::start(Some(tls), Limits::default()).await;
    let both = connect_tls(server.address, &authority, &[b"h2", b"http/1.1"], None).await.unwrap();
    assert_eq!(both.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
    assert!(connect_tls(server.address, &authority, &[b"h2"], None).await.is_err());
    server.stop().await;
}

#[tokio::test]
async fn client_authority_requires_a_client_certificate() {
    let authority = Authority::generate_for("test", lifetime()).unwrap();
    let clients = Authority::generate("clients", NOW).unwrap();
    let certificate = Arc::new(ServingCertificate::default());
    certificate.set(&issue(&authority)).unwrap();
    let tls = Tls::new(certificate, &[clients.certificate()], &clock()).unwrap();
    let server = Running::start(Some(tls), Limits::default()).await;
    let of = |authority: &Authority| {
        let issued = authority.issue_client("kube-apiserver", None).unwrap();
        (issued.chain().to_vec(), issued.key().clone_key())
    };
    let own = of(&clients);
    let mut known = connect_tls(server.address, &authority, &[], Some(own)).await.unwrap();
    assert!(get(&mut known, "/").await.is_some());
    for own in [None, Some(of(&Authority::generate("others", NOW).unwrap()))] {
        // In TLS 1.3 the client learns of it after its part of the handshake.
        if let Ok(mut refused) = connect_tls(server.address, &authority, &[], own).await {
            let _ = refused.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await;
            assert_eq!(receive(&mut refused).await, None);
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn self_signed_certificates_serve() {
    let tls = Tls::self_signed(&["localhost"], &clock()).unwrap();
    let server = Running::start(Some(tls), Limits::default()).await;
    let other = Authority::generate_for("other", lifetime()).unwrap();
    let error = connect_tls(server.address, &other, &[], None).await.unwrap_err();
    assert!(error.to_string().contains("UnknownIssuer"), "{error}");
    server.stop().await;
}
