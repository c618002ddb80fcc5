//! The round trip of an admission review to a webhook of the runtime: in process and over TLS.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use evenkeel::Manager;
use evenkeel::webhook::{AdmissionRequest, Warnings, WebhookOptions};
use evenkeel_apiserver::ApiServer;
use http::Request;
use http::header::{CONTENT_TYPE, HOST};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::Api;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::json;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use tower_service::Service as _;

use crate::figure::{Figure, Report, Target};
use crate::probe::{Stopwatch, median};

const IN_PROCESS: usize = 20_000;
const OVER_TLS: usize = 5_000;

/// Sends reviews of a pod one after the other to a defaulter.
pub(crate) async fn review(report: &mut Report) -> anyhow::Result<()> {
    let server = ApiServer::builder().build().await?;
    let client = kube::Client::new(server.service(), "default");
    let options = WebhookOptions::new()
        .bind_address(Ipv4Addr::LOCALHOST.into())
        .port(0)
        .url("https://127.0.0.1:0");
    let manager = Manager::builder("bench").webhooks(options).build(client.clone());
    let webhook = manager.webhook::<Pod>().defaulter(default).validator(validate);
    webhook.register()?;
    let body = body();

    let mut service = manager.webhook_service();
    let mut times = Vec::with_capacity(IN_PROCESS);
    for _ in 0..IN_PROCESS {
        let watch = Stopwatch::start();
        let Ok(response) = service.call(request(&body)?).await;
        let answer = response.into_body().collect().await?.to_bytes();
        times.push(watch.elapsed());
        check(&answer)?;
    }
    add(report, "review to a webhook, in process", times, 100.0);

    let mut running = JoinSet::new();
    running.spawn(manager.clone().run_until(std::future::pending()));
    manager.wait_until_synced().await?;
    let address = manager.webhook_service().local_addr().context("the webhook does not listen")?;
    let secrets: Api<Secret> = Api::namespaced(client, "default");
    let secret = secrets.get("bench-webhook-ca").await?;
    let bundle = secret.data.unwrap_or_default().remove("ca.crt").context("no ca.crt")?;
    let mut roots = RootCertStore::empty();
    for authority in CertificateDer::pem_slice_iter(&bundle.0) {
        roots.add(authority?)?;
    }
    let provider = evenkeel_pki::tls::provider();
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let connector = TlsConnector::from(Arc::new(config));
    let stream = connector.connect(ServerName::from(address.ip()), stream).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let mut connections = JoinSet::new();
    connections.spawn(connection);
    let mut times = Vec::with_capacity(OVER_TLS);
    for _ in 0..OVER_TLS {
        let watch = Stopwatch::start();
        sender.ready().await?;
        let response = sender.send_request(request(&body)?).await?;
        let answer = response.into_body().collect().await?.to_bytes();
        times.push(watch.elapsed());
        check(&answer)?;
    }
    add(report, "review to a webhook, over TLS", times, 1000.0);
    manager.stop();
    drop(sender);
    while let Some(ended) = running.join_next().await {
        ended??;
    }
    Ok(())
}

fn add(report: &mut Report, what: &'static str, times: Vec<Duration>, most: f64) {
    let ours = median(times).as_secs_f64() * 1e6;
    report.add(&Figure { what, unit: "us", ours, target: Some(Target::AtMost(most)), rival: None });
}

fn default(pod: &mut Pod, _: &AdmissionRequest) -> evenkeel::Result<()> {
    let labels = pod.metadata.labels.get_or_insert_default();
    labels.entry("team".to_owned()).or_insert_with(|| "none".to_owned());
    Ok(())
}

fn validate(_: &Pod, _: &AdmissionRequest) -> evenkeel::Result<Warnings> {
    Ok(Warnings::new())
}

fn request(body: &Bytes) -> anyhow::Result<Request<Full<Bytes>>> {
    let request = Request::post("/mutate--v1-pod")
        .header(HOST, "bench")
        .header(CONTENT_TYPE, "application/json");
    Ok(request.body(Full::new(body.clone()))?)
}

fn check(answer: &[u8]) -> anyhow::Result<()> {
    let patched = answer.windows(11).any(|part| part == b"\"patchType\"");
    anyhow::ensure!(patched, "no patch: {}", String::from_utf8_lossy(answer));
    Ok(())
}

/// Returns a review of a pod of about 3 kB.
fn body() -> Bytes {
    let env: Vec<_> = (0..30)
        .map(|at| json!({"name": format!("VARIABLE_{at}"), "value": "a value of some length"}))
        .collect();
    let container = |name: &str| json!({"name": name, "image": "registry/app:1", "env": env});
    let object = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "web", "namespace": "default", "labels": {"app": "web"}},
        "spec": {"containers": [container("app")], "restartPolicy": "Always"},
    });
    let review = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "0c9a8d74-9cb7-44dd-b98e-09fd62def2f4", "operation": "CREATE",
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "name": "web", "namespace": "default", "userInfo": {"username": "ada"},
            "object": object, "oldObject": null, "dryRun": false,
        },
    });
    review.to_string().into()
}
