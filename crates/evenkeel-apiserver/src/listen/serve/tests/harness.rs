//! A server with a scripted service, and clients.

use evenkeel_pki::certificates::{Authority, KeyedCertificate};
use std::{
    convert::Infallible,
    fmt, io,
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame};
use http_body_util::{BodyExt as _, Empty};
use hyper::{
    body::Incoming,
    client::conn::{http1, http2},
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::{
    ClientConfig, HandshakeKind, RootCertStore, SignatureScheme,
    client::ResolvesClientCert,
    crypto::ring,
    pki_types::{ServerName, UnixTime},
    sign::CertifiedKey,
    time_provider::TimeProvider,
};
use tokio::{
    net::TcpStream,
    sync::{oneshot, watch},
    task::JoinSet,
};
use tokio_rustls::{TlsConnector, client::TlsStream};
use tower_service::Service;

use super::{ListenOptions, Listener, Stopped, Tls};
pub(super) use crate::listen::test_support::NOW;
use crate::{
    identity::MASTERS,
    listen::{Peer, PeerIdentity},
};

type AnyError = Box<dyn std::error::Error + Send + Sync>;

/// An authority and the certificates of one server.
pub(super) struct Pki {
    authority: Authority,
    pub(super) serving: KeyedCertificate,
    pub(super) admin: KeyedCertificate,
}

/// A running server; dropping it drops `serve`.
pub(super) struct Server {
    pub(super) address: SocketAddr,
    stop: oneshot::Sender<()>,
    shutdown_signal: watch::Sender<bool>,
    hanging: watch::Sender<usize>,
    task: JoinSet<Stopped>,
}

/// A service by path: `/whoami`, `/watch` (ends on shutdown), `/endless`, `/hang`, `/panic`.
#[derive(Clone)]
pub(super) struct TestService {
    shutdown_signal: watch::Receiver<bool>,
    hanging: watch::Sender<usize>,
}

/// The number of `/hang` calls in progress.
pub(super) struct Hanging(watch::Receiver<usize>);

pub(super) enum TestBody {
    Text(Option<Bytes>),
    Stream { first: Option<Bytes>, end: Pin<Box<dyn Future<Output = ()> + Send>> },
}

#[derive(Clone, Copy)]
pub(super) enum Credentials<'a> {
    None,
    Issued(&'a KeyedCertificate),
    /// Presents one certificate and signs with the key of another.
    Stolen {
        certificate: &'a KeyedCertificate,
        key: &'a KeyedCertificate,
    },
}

pub(super) struct Client(TlsConnector);

#[derive(Debug)]
pub(super) struct Reply {
    pub(super) body: String,
    pub(super) version: String,
    pub(super) handshake: Option<HandshakeKind>,
}

/// A response whose first frame has arrived.
pub(super) struct Open {
    body: Incoming,
    _driver: JoinSet<()>,
}

// === impl Pki ===

impl Pki {
    pub(super) fn new() -> Self {
        let authority = Authority::generate("kubernetes", NOW).unwrap();
        let serving = authority.issue_serving([]).unwrap();
        let admin = authority.issue_client("admin", Some(MASTERS)).unwrap();
        Self { authority, serving, admin }
    }

    /// Starts a server that reads the time from `clock`.
    pub(super) fn serve_at(&self, clock: Arc<AtomicU64>) -> Server {
        let authorities = [self.authority.certificate()];
        let now = move || clock.load(Ordering::Relaxed);
        Server::start_with(
            Tls::new(&self.serving, &authorities, now).unwrap(),
            ListenOptions::default(),
        )
    }

    /// Issues a client certificate by the same authority that expired ten years ago.
    pub(super) fn issued_in_the_past(&self) -> KeyedCertificate {
        self.authority.issue_client_at("admin", None, NOW - 10 * 365 * 86_400).unwrap()
    }
}

// === impl Server ===

impl Server {
    pub(super) fn start(pki: &Pki, options: ListenOptions) -> Self {
        let authorities = [pki.authority.certificate()];
        Self::start_with(Tls::new(&pki.serving, &authorities, || NOW).unwrap(), options)
    }

    pub(super) fn start_with(tls: Tls, options: ListenOptions) -> Self {
        Self::run(Listener::bind("127.0.0.1:0".parse().unwrap(), tls, options).unwrap())
    }

    pub(super) fn start_plain() -> Self {
        let address = "127.0.0.1:0".parse().unwrap();
        Self::run(Listener::bind_plain(address, ListenOptions::default()).unwrap())
    }

    fn run(listener: Listener) -> Self {
        let address = listener.local_addr();
        let (stop, stopped) = oneshot::channel();
        let (shutdown_signal, _) = watch::channel(false);
        let (hanging, _) = watch::channel(0);
        let service =
            TestService { shutdown_signal: shutdown_signal.subscribe(), hanging: hanging.clone() };
        let mut task = JoinSet::new();
        task.spawn(listener.serve(service, async {
            // A dropped sender stops the server, too.
            let _ = stopped.await;
        }));
        Self { address, stop, shutdown_signal, hanging, task }
    }

    pub(super) fn hanging_calls(&self) -> Hanging {
        Hanging(self.hanging.subscribe())
    }

    pub(super) async fn stop(mut self) -> Stopped {
        self.shutdown_signal.send_replace(true);
        self.stop.send(()).unwrap();
        self.task.join_next().await.unwrap().unwrap()
    }
}

impl Hanging {
    pub(super) async fn wait_for(&self, count: usize) {
        self.0.clone().wait_for(|now| *now == count).await.unwrap();
    }

    pub(super) fn now(&self) -> usize {
        *self.0.borrow()
    }
}

// === impl TestService ===

impl Service<Request<Incoming>> for TestService {
    type Response = Response<TestBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Incoming>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move { Ok(Response::new(service.respond(&request).await)) })
    }
}

impl TestService {
    async fn respond(mut self, request: &Request<Incoming>) -> TestBody {
        match request.uri().path() {
            "/watch" => {
                request.extensions().get::<Peer>().unwrap().long_running();
                TestBody::stream(async move {
                    let _ = self.shutdown_signal.wait_for(|shutdown_signal| *shutdown_signal).await;
                })
            }
            "/endless" => TestBody::stream(std::future::pending()),
            "/hang" => {
                struct Working(watch::Sender<usize>);
                impl Drop for Working {
                    fn drop(&mut self) {
                        self.0.send_modify(|count| *count -= 1);
                    }
                }
                self.hanging.send_modify(|count| *count += 1);
                let _working = Working(self.hanging);
                std::future::pending().await
            }
            "/panic" => panic!("requested by the test"),
            _ => {
                let peer: &Peer = request.extensions().get().unwrap();
                assert!(peer.address().ip().is_loopback());
                let identity = peer.identity();
                if let PeerIdentity::Verified(identity) = &*identity {
                    peer.authenticated(&identity.user.as_str().into());
                }
                TestBody::Text(Some(describe(&identity).into()))
            }
        }
    }
}

fn describe(identity: &PeerIdentity) -> String {
    match identity {
        PeerIdentity::Absent => "absent".to_owned(),
        PeerIdentity::Verified(identity) => {
            format!("{} [{}]", identity.user, identity.groups.join(", "))
        }
        PeerIdentity::Unverifiable(error) => format!("unverifiable: {error}"),
    }
}

impl TestBody {
    fn stream(end: impl Future<Output = ()> + Send + 'static) -> Self {
        Self::Stream { first: Some(Bytes::from_static(b"tick")), end: Box::pin(end) }
    }
}

impl Body for TestBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Self::Text(text) => Poll::Ready(text.take().map(|text| Ok(Frame::data(text)))),
            Self::Stream { first, end } => match first.take() {
                Some(first) => Poll::Ready(Some(Ok(Frame::data(first)))),
                None => end.as_mut().poll(context).map(|()| None),
            },
        }
    }
}

// === impl Client ===

impl Client {
    pub(super) fn new(pki: &Pki, protocols: &[&str], credentials: Credentials<'_>) -> Self {
        Self::with_versions(pki, rustls::DEFAULT_VERSIONS, protocols, credentials)
    }

    pub(super) fn tls12(pki: &Pki, credentials: Credentials<'_>) -> Self {
        Self::with_versions(pki, &[&rustls::version::TLS12], &["http/1.1"], credentials)
    }

    fn with_versions(
        pki: &Pki,
        versions: &[&'static rustls::SupportedProtocolVersion],
        protocols: &[&str],
        credentials: Credentials<'_>,
    ) -> Self {
        let mut roots = RootCertStore::empty();
        roots.add(pki.authority.certificate()).unwrap();
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_details(provider.clone(), Arc::new(Now))
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(roots);
        let resolver = match credentials {
            Credentials::None => None,
            Credentials::Issued(own) => Some((own, own)),
            Credentials::Stolen { certificate, key } => Some((certificate, key)),
        };
        let mut config = match resolver {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let key = provider.key_provider.load_private_key(key.key().clone_key()).unwrap();
                let key = CertifiedKey::new(certificate.chain().to_vec(), key);
                builder.with_client_cert_resolver(Arc::new(Always(Arc::new(key))))
            }
        };
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        Self(Arc::new(config).into())
    }

    pub(super) async fn connect(&self, address: SocketAddr) -> io::Result<TlsStream<TcpStream>> {
        let stream = TcpStream::connect(address).await?;
        self.0.connect(ServerName::from(address.ip()), stream).await
    }

    pub(super) async fn get(&self, address: SocketAddr, path: &str) -> Result<Reply, AnyError> {
        let stream = self.connect(address).await?;
        let (response, _driver, handshake) = self.send(stream, path).await?;
        let version = format!("{:?}", response.version());
        let body = text(response.into_body()).await?;
        Ok(Reply { body, version, handshake })
    }

    pub(super) async fn open(&self, address: SocketAddr, path: &str) -> Open {
        let stream = self.connect(address).await.unwrap();
        let (response, _driver, _) = self.send(stream, path).await.unwrap();
        Open { body: first_frame(response.into_body()).await, _driver }
    }

    async fn send(
        &self,
        stream: TlsStream<TcpStream>,
        path: &str,
    ) -> Result<(Response<Incoming>, JoinSet<()>, Option<HandshakeKind>), AnyError> {
        let connection = stream.get_ref().1;
        let handshake = connection.handshake_kind();
        if connection.alpn_protocol() == Some(b"h2") {
            let (mut sender, driver) = http2(stream).await;
            Ok((sender.send_request(request(path)).await?, driver, handshake))
        } else {
            let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
            let driver = drive(connection);
            Ok((sender.send_request(request(path)).await?, driver, handshake))
        }
    }
}

impl Open {
    pub(super) async fn ends_cleanly(mut self) -> bool {
        loop {
            match self.body.frame().await {
                None => return true,
                Some(Ok(_)) => {}
                Some(Err(_)) => return false,
            }
        }
    }
}

/// A resolver that sends the certificate regardless of the authorities in the server's request.
#[derive(Debug)]
struct Always(Arc<CertifiedKey>);

impl ResolvesClientCert for Always {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(self.0.clone())
    }

    fn has_certs(&self) -> bool {
        true
    }
}

#[derive(Debug)]
struct Now;

impl TimeProvider for Now {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(std::time::Duration::from_secs(NOW)))
    }
}

pub(super) async fn http2(
    stream: TlsStream<TcpStream>,
) -> (http2::SendRequest<Empty<Bytes>>, JoinSet<()>) {
    let handshake = http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
    let (sender, connection) = handshake.await.unwrap();
    (sender, drive(connection))
}

/// Drives the client's half of a connection until the set is dropped; its errors appear in the
/// requests.
fn drive<E: fmt::Debug>(
    connection: impl Future<Output = Result<(), E>> + Send + 'static,
) -> JoinSet<()> {
    let mut driver = JoinSet::new();
    driver.spawn(async {
        let _ = connection.await;
    });
    driver
}

pub(super) fn request(path: &str) -> Request<Empty<Bytes>> {
    Request::get(format!("https://127.0.0.1{path}"))
        .header("host", "127.0.0.1")
        .body(Empty::new())
        .unwrap()
}

pub(super) async fn text(body: Incoming) -> Result<String, AnyError> {
    Ok(String::from_utf8(body.collect().await?.to_bytes().to_vec())?)
}

/// Returns the body after its first frame, which shows that the stream is open.
pub(super) async fn first_frame(mut body: Incoming) -> Incoming {
    let frame = body.frame().await.unwrap().unwrap();
    assert_eq!(frame.into_data().unwrap(), "tick");
    body
}
