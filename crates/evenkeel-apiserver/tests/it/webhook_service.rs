//! Webhooks for tests: a tower service in process, and a server over TLS that writes raw HTTP.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use evenkeel_apiserver::Body;
use evenkeel_pki::certificates::{Authority, KeyedCertificate};
use http::{Request, Response};
use http_body_util::BodyExt as _;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::harness::Cluster;

pub(crate) const MUTATING: &str =
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
pub(crate) const VALIDATING: &str =
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";

type Answer = Pin<Box<dyn Future<Output = (u16, String)> + Send>>;

/// A service that records the reviews it receives.
#[derive(Clone)]
pub(crate) struct Webhook {
    seen: Arc<Mutex<Vec<Value>>>,
    answer: Arc<dyn Fn(Value) -> Answer + Send + Sync>,
}

impl Webhook {
    /// Responds with the review that `answer` makes of the request of a review.
    pub(crate) fn new(answer: impl Fn(&Value) -> Value + Send + Sync + 'static) -> Self {
        Self::raw(move |review| (200, answer(&review["request"]).to_string()))
    }

    /// Responds with a code and a body.
    pub(crate) fn raw(answer: impl Fn(&Value) -> (u16, String) + Send + Sync + 'static) -> Self {
        Self::awaiting(move |review| {
            let answer = answer(&review);
            Box::pin(async move { answer })
        })
    }

    pub(crate) fn awaiting(answer: impl Fn(Value) -> Answer + Send + Sync + 'static) -> Self {
        Self { seen: Arc::default(), answer: Arc::new(answer) }
    }

    /// Registers the service as `default/<name>` and returns the reference to it.
    pub(crate) fn register(&self, cluster: &Cluster, name: &str) -> Value {
        cluster.server.register_webhook_service("default", name, 443, self.clone());
        json!({"service": {"namespace": "default", "name": name, "path": "/review"}})
    }

    /// Returns the requests of the reviews since the last call.
    pub(crate) fn take(&self) -> Vec<Value> {
        let reviews = std::mem::take(&mut *self.seen.lock());
        reviews.into_iter().map(|mut review| review["request"].take()).collect()
    }

    /// Returns the reviews since the last call.
    pub(crate) fn take_reviews(&self) -> Vec<Value> {
        std::mem::take(&mut *self.seen.lock())
    }
}

impl tower_service::Service<Request<Body>> for Webhook {
    type Response = Response<String>;
    type Error = std::convert::Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<String>, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let webhook = self.clone();
        Box::pin(async move {
            let body = request.into_body().collect().await.unwrap().to_bytes();
            let review: Value = serde_json::from_slice(&body).unwrap();
            webhook.seen.lock().push(review.clone());
            let (code, body) = (webhook.answer)(review).await;
            Ok(Response::builder().status(code).body(body).unwrap())
        })
    }
}

/// Returns a review with a response.
pub(crate) fn response(request: &Value, mut response: Value) -> Value {
    response["uid"] = request["uid"].clone();
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})
}

pub(crate) fn allow(request: &Value) -> Value {
    response(request, json!({"allowed": true}))
}

pub(crate) fn deny(request: &Value, message: &str) -> Value {
    response(request, json!({"allowed": false, "status": {"message": message}}))
}

/// Returns a review that allows a request with a patch.
pub(crate) fn patched(request: &Value, patch: Value) -> Value {
    let patch = STANDARD.encode(patch.to_string());
    response(request, json!({"allowed": true, "patch": patch, "patchType": "JSONPatch"}))
}

/// Returns a webhook for writes of `resources` in all groups.
pub(crate) fn hook(name: &str, client: &Value, resources: Value) -> Value {
    json!({
        "name": name, "admissionReviewVersions": ["v1"], "sideEffects": "None",
        "clientConfig": client,
        "rules": [{
            "operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": resources,
        }],
    })
}

pub(crate) fn configuration(path: &str, name: &str, hooks: Value) -> Value {
    let mutating = path == MUTATING;
    let kind =
        if mutating { "MutatingWebhookConfiguration" } else { "ValidatingWebhookConfiguration" };
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
        "metadata": {"name": name}, "webhooks": hooks,
    })
}

/// Creates a configuration with one webhook, named `<name>.example.com`.
pub(crate) async fn install(
    cluster: &Cluster,
    path: &str,
    name: &str,
    client: &Value,
    change: impl FnOnce(&mut Value),
) {
    let mut hook = hook(&format!("{name}.example.com"), client, json!(["configmaps"]));
    change(&mut hook);
    cluster.post(path, configuration(path, name, json!([hook]))).await.expect(201);
}

/// Creates a mutating webhook that patches every object.
pub(crate) async fn install_patch(
    cluster: &Cluster,
    name: &str,
    patch: Value,
    change: impl FnOnce(&mut Value),
) {
    let webhook = Webhook::new(move |request| patched(request, patch.clone()));
    let client = webhook.register(cluster, name);
    install(cluster, MUTATING, name, &client, change).await;
}

/// A server over TLS that answers each request with the bytes a function returns.
pub(crate) struct TlsServer {
    pub(crate) address: SocketAddr,
    authority: Authority,
    certificate: KeyedCertificate,
    /// The number of accepted connections.
    accepted: Arc<AtomicUsize>,
    _tasks: JoinSet<()>,
}

/// What a raw server does with a request.
pub(crate) enum Raw {
    /// Writes these bytes and waits for the next request.
    Send(Vec<u8>),
    /// Closes the connection.
    Close,
    /// Does not respond.
    Hang,
}

impl TlsServer {
    pub(crate) async fn start(answer: impl Fn(&Value) -> Raw + Send + Sync + 'static) -> Self {
        let now = jiff::Timestamp::now().as_second().unsigned_abs();
        let authority = Authority::generate("webhooks", now).unwrap();
        let certificate = authority.issue_serving([]).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(certificate.chain().to_vec(), certificate.key().clone_key())
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let accepted = Arc::new(AtomicUsize::new(0));
        let count = accepted.clone();
        let answer = Arc::new(answer);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                count.fetch_add(1, Ordering::SeqCst);
                let (acceptor, answer) = (acceptor.clone(), answer.clone());
                connections.spawn(async move {
                    let Ok(mut stream) = acceptor.accept(stream).await else { return };
                    let mut read = Vec::new();
                    while let Some(review) = next_request(&mut stream, &mut read).await {
                        match answer(&review) {
                            Raw::Send(bytes) => {
                                if stream.write_all(&bytes).await.is_err() {
                                    return;
                                }
                                stream.flush().await.unwrap();
                            }
                            Raw::Close => return,
                            Raw::Hang => std::future::pending().await,
                        }
                    }
                });
            }
        });
        Self { address, authority, certificate, accepted, _tasks: tasks }
    }

    pub(crate) fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }

    pub(crate) fn ca_bundle(&self) -> String {
        STANDARD.encode(self.authority.certificate_pem())
    }

    /// Returns a bundle of the serving certificate only.
    pub(crate) fn own_bundle(&self) -> String {
        let pem = self.certificate.certificate_pem();
        let end = "-----END CERTIFICATE-----";
        STANDARD.encode(&pem[..pem.find(end).unwrap() + end.len()])
    }

    /// Returns a `clientConfig` with the URL of this server.
    pub(crate) fn url(&self) -> Value {
        json!({"url": format!("https://{}/hook", self.address), "caBundle": self.ca_bundle()})
    }
}

/// Reads a request and returns the review in its body.
async fn next_request(
    stream: &mut (impl tokio::io::AsyncRead + Unpin),
    read: &mut Vec<u8>,
) -> Option<Value> {
    loop {
        let text = String::from_utf8_lossy(read).into_owned();
        if let Some(end) = text.find("\r\n\r\n") {
            let head = text[..end].to_ascii_lowercase();
            let length = head.split("content-length: ").nth(1).unwrap();
            let length: usize = length.lines().next().unwrap().trim().parse().unwrap();
            if read.len() >= end + 4 + length {
                let review = serde_json::from_slice(&read[end + 4..end + 4 + length]).unwrap();
                read.drain(..end + 4 + length);
                return Some(review);
            }
        }
        let mut chunk = [0; 16384];
        match stream.read(&mut chunk).await {
            Ok(0) | Err(_) => return None,
            Ok(count) => read.extend_from_slice(&chunk[..count]),
        }
    }
}

/// Returns an HTTP response.
pub(crate) fn http(head: &str, body: &str) -> Raw {
    let length = body.len();
    Raw::Send(format!("HTTP/1.1 {head}\r\ncontent-length: {length}\r\n\r\n{body}").into_bytes())
}
