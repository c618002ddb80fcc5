//! What an admission webhook adds to a create: in process, and over TLS on loopback.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use evenkeel_apiserver::{ApiServer, Body};
use evenkeel_pki::certificates::Authority;
use http::header::CONTENT_TYPE;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tower_service::Service as _;

use crate::figure::{Figure, Report, Target};
use crate::load;
use crate::probe::Stopwatch;

const IN_PROCESS: usize = 20_000;
const OVER_TLS: usize = 5_000;

/// Creates objects one after the other, without and with a validating webhook.
pub(crate) async fn webhook(report: &mut Report) -> anyhow::Result<()> {
    // The first creates build what later ones share.
    creates(None, 1_000).await?;
    let without = creates(None, IN_PROCESS).await?;
    let service = json!({"service": {"namespace": "default", "name": "bench"}});
    let in_process = creates(Some(service), IN_PROCESS).await?;
    report.add(&Figure {
        what: "webhook, in process, added to a create",
        unit: "us",
        ours: in_process - without,
        target: Some(Target::AtMost(50.0)),
        rival: None,
    });
    let over_tls = creates(Some(serve()?), OVER_TLS).await?;
    report.add(&Figure {
        what: "webhook, over TLS, added to a create",
        unit: "us",
        ours: over_tls - without,
        target: Some(Target::AtMost(500.0)),
        rival: None,
    });
    Ok(())
}

/// Returns the microseconds of a create, with a webhook if there is a `clientConfig`.
async fn creates(client: Option<Value>, count: usize) -> anyhow::Result<f64> {
    let server = ApiServer::builder().build().await?;
    server.register_webhook_service("default", "bench", 443, Allow);
    let mut service = server.service();
    if let Some(client) = client {
        let configuration = json!({
            "metadata": {"name": "bench"},
            "webhooks": [{
                "name": "bench.example.com", "admissionReviewVersions": ["v1"],
                "sideEffects": "None", "clientConfig": client,
                "rules": [{
                    "operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"],
                    "resources": ["configmaps"],
                }],
            }],
        });
        let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
        let request = Request::post(path)
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(configuration.to_string())))?;
        let Ok(response) = service.call(request).await;
        anyhow::ensure!(response.status() == 201, "configuration: {}", response.status());
    }
    let path = load::path("default");
    load::create(&mut service, &path, "first").await?;
    let watch = Stopwatch::start();
    for at in 0..count {
        load::create(&mut service, &path, &format!("object-{at:07}")).await?;
    }
    Ok(watch.elapsed().as_secs_f64() * 1e6 / count as f64)
}

/// Returns a review that allows the request of `review`.
fn allow(review: &[u8]) -> String {
    let review: Value = serde_json::from_slice(review).unwrap_or_default();
    let response = json!({"uid": review["request"]["uid"], "allowed": true});
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})
        .to_string()
}

/// A webhook in this process.
#[derive(Clone)]
struct Allow;

impl tower_service::Service<Request<Body>> for Allow {
    type Response = Response<String>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<String>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(async move {
            let body = request.into_body().collect().await?.to_bytes();
            Ok(Response::new(allow(&body)))
        })
    }
}

/// Serves a webhook on its own thread until the process ends; returns its `clientConfig`.
fn serve() -> anyhow::Result<Value> {
    #[expect(clippy::disallowed_methods, reason = "a benchmark runs in real time")]
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_secs();
    let authority = Authority::generate("bench", now)?;
    let certificate = authority.issue_serving([])?;
    let config = rustls::ServerConfig::builder_with_provider(Arc::new(
        rustls::crypto::ring::default_provider(),
    ))
    .with_safe_default_protocol_versions()?
    .with_no_client_auth()
    .with_single_cert(certificate.chain().to_vec(), certificate.key().clone_key())?;
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0))?;
    listener.set_nonblocking(true)?;
    let url = format!("https://{}/", listener.local_addr()?);
    std::thread::Builder::new().name("webhook".to_owned()).spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let listener = TcpListener::from_std(listener)?;
            let acceptor = TlsAcceptor::from(Arc::new(config));
            loop {
                let (stream, _) = listener.accept().await?;
                stream.set_nodelay(true)?;
                let stream = acceptor.accept(stream).await?;
                let service = service_fn(async |request: Request<hyper::body::Incoming>| {
                    let body = request.into_body().collect().await?.to_bytes();
                    let body = Full::new(Bytes::from(allow(&body)));
                    Ok::<_, hyper::Error>(Response::new(body))
                });
                let connection = http1::Builder::new();
                connection
                    .serve_connection(TokioIo::new(stream), service)
                    .await
                    .context("connection of a webhook")?;
            }
            #[expect(unreachable_code, reason = "the type of the block")]
            anyhow::Ok(())
        })
    })?;
    let ca_bundle = STANDARD.encode(authority.certificate_pem());
    Ok(json!({"url": url, "caBundle": ca_bundle}))
}
