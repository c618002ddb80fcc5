//! The servers of a manager: which clients may read `/metrics`, health probes, and a scan of all ports.

#[cfg(target_os = "linux")]
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;

use evenkeel::k8s_openapi::api::core::v1::ConfigMap;
use evenkeel::kube::Client;
use evenkeel::kube::client::Body;
use evenkeel::manager::{ManagerBuilder, RegisterError};
use evenkeel::metrics::text::parse;
use evenkeel::prelude::*;
#[cfg(target_os = "linux")]
use evenkeel::webhook::{AdmissionRequest, Warnings, WebhookOptions};
use evenkeel_apiserver::ApiServer;
use evenkeel_pki::tls::client_config;
use http::Request;
use http_body_util::BodyExt as _;
use rustls::pki_types::ServerName;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tower_service::Service as _;

use crate::harness::{Fault, Running, World, each, start, stop, until};
#[cfg(target_os = "linux")]
use crate::signals::{Operator, ROLE};

/// Sends a request over one connection; returns the status and the body.
async fn exchange(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    path: &str,
    token: Option<&str>,
) -> (u16, String) {
    let token = token.map(|token| format!("authorization: Bearer {token}\r\n")).unwrap_or_default();
    let request = format!("GET {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n{token}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    // A server may close without a TLS close notification.
    let _ = stream.read_to_end(&mut answer).await;
    let answer = String::from_utf8(answer).unwrap();
    let status = answer.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
    let body = answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned());
    (status, body.unwrap_or_default())
}

async fn over_tls(address: SocketAddr, path: &str, token: Option<&str>) -> (u16, String) {
    // The test is about what is behind TLS.
    let config = client_config(|_| Ok(())).unwrap();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    exchange(connector.connect(name, stream).await.unwrap(), path, token).await
}

async fn over_tcp(address: SocketAddr, path: &str, token: Option<&str>) -> (u16, String) {
    exchange(TcpStream::connect(address).await.unwrap(), path, token).await
}

/// A manager with metrics and health on free ports of all addresses.
fn builder() -> ManagerBuilder {
    Manager::builder("observed")
        .seed(1)
        .metrics_bind_address(":0".parse().unwrap())
        .health_probe_bind_address(":0".parse().unwrap())
}

fn manager(client: Client) -> Manager {
    builder().build(client)
}

/// Runs a manager; returns the addresses of metrics and health.
async fn serving(manager: &Manager) -> (Running, SocketAddr, SocketAddr) {
    let running = start(manager);
    until(|| manager.metrics_address().is_some() && manager.health_probe_address().is_some()).await;
    let local =
        |address: Option<SocketAddr>| SocketAddr::from(([127, 0, 0, 1], address.unwrap().port()));
    (running, local(manager.metrics_address()), local(manager.health_probe_address()))
}

async fn create(server: &ApiServer, path: &str, object: serde_json::Value) -> serde_json::Value {
    let body = Body::from(object.to_string().into_bytes());
    let request = Request::post(path).header("content-type", "application/json").body(body);
    let Ok(response) = server.service().call(request.unwrap()).await;
    let status = response.status();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    assert!(status.is_success(), "{path}: {status} {}", String::from_utf8_lossy(&bytes));
    serde_json::from_slice(&bytes).unwrap()
}

#[tokio::test]
async fn metrics_need_a_token_whose_user_may_get_them() {
    let server = ApiServer::builder().seed(1).rbac().build().await.unwrap();
    for name in ["prometheus", "other"] {
        let account = json!({ "metadata": { "name": name } });
        create(&server, "/api/v1/namespaces/default/serviceaccounts", account).await;
    }
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    create(
        &server,
        &format!("{rbac}/clusterroles"),
        json!({
            "metadata": { "name": "metrics-reader" },
            "rules": [{ "nonResourceURLs": ["/metrics"], "verbs": ["get"] }],
        }),
    )
    .await;
    create(&server, &format!("{rbac}/clusterrolebindings"), json!({
        "metadata": { "name": "metrics-reader" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "metrics-reader" },
        "subjects": [{ "kind": "ServiceAccount", "name": "prometheus", "namespace": "default" }],
    }))
    .await;
    let mut tokens = Vec::new();
    for name in ["prometheus", "other"] {
        let path = format!("/api/v1/namespaces/default/serviceaccounts/{name}/token");
        let token = create(&server, &path, json!({ "spec": {} })).await;
        tokens.push(token["status"]["token"].as_str().unwrap().to_owned());
    }
    let manager = manager(Client::new(server.service(), "default"));
    let (running, metrics, _) = serving(&manager).await;

    let (status, text) = over_tls(metrics, "/metrics", Some(&tokens[0])).await;
    assert_eq!(status, 200, "{text}");
    let families = parse(&text).unwrap();
    assert!(families.iter().any(|family| family.name == "rest_client_requests_total"));
    assert_eq!(over_tls(metrics, "/metrics", Some(&tokens[1])).await.0, 403);
    assert_eq!(over_tls(metrics, "/other", Some(&tokens[0])).await.0, 403);
    assert_eq!(over_tls(metrics, "/metrics", Some("invented")).await.0, 401);
    assert_eq!(over_tls(metrics, "/metrics", None).await.0, 401);
    assert_ne!(over_tcp(metrics, "/metrics", Some(&tokens[0])).await.0, 200, "no plain HTTP");
    // Decisions are cached: more scrapes cause no more reviews.
    let reviews = |manager: &Manager| {
        let families = parse(&manager.metrics().encode()).unwrap();
        let requests = families.iter().find(|it| it.name == "rest_client_requests_total").unwrap();
        let posts = requests.samples.iter().filter(|it| it.label("method") == Some("POST"));
        posts.map(|sample| sample.value).sum::<f64>()
    };
    let before = reviews(&manager);
    for _ in 0..3 {
        assert_eq!(over_tls(metrics, "/metrics", Some(&tokens[0])).await.0, 200);
        assert_eq!(over_tls(metrics, "/metrics", Some("invented")).await.0, 401);
    }
    assert_eq!(reviews(&manager), before);
    stop(&manager, running).await;
}

#[tokio::test]
async fn metrics_stay_closed_if_the_server_answers_no_reviews() {
    let world = World::new().await;
    world.rule(|request| match request.uri().path().ends_with("reviews") {
        true => Fault::Respond(404, "404 page not found"),
        false => Fault::None,
    });
    let manager = manager(world.client());
    let (running, metrics, _) = serving(&manager).await;
    assert_eq!(over_tls(metrics, "/metrics", Some("any")).await.0, 401);
    stop(&manager, running).await;
}

#[tokio::test]
async fn metrics_are_plain_on_loopback_and_on_request() {
    for (address, secure) in [("127.0.0.1:0", None), (":0", Some(false))] {
        let world = World::new().await;
        let mut builder =
            Manager::builder("test").seed(1).metrics_bind_address(address.parse().unwrap());
        if let Some(secure) = secure {
            builder = builder.metrics_secure(secure);
        }
        let manager = builder.build(world.client());
        let running = start(&manager);
        until(|| manager.metrics_address().is_some()).await;
        let port = manager.metrics_address().unwrap().port();
        let (status, text) = over_tcp(([127, 0, 0, 1], port).into(), "/metrics", None).await;
        assert_eq!(status, 200);
        parse(&text).unwrap();
        stop(&manager, running).await;
    }
}

#[tokio::test]
async fn health_probes_name_what_fails() {
    let world = World::new().await;
    world.create_map("a").await;
    let manager = manager(world.client());
    let reconciler = each::<ConfigMap, _, _>(|_, _, _| async { Ok(Action::done()) });
    manager.controller(reconciler).named("maps").register().unwrap();
    manager.add_readyz_check("licence", || async { Err("expired".into()) }).unwrap();
    let taken = manager.add_readyz_check("licence", || async { Ok(()) }).unwrap_err();
    assert!(matches!(taken, RegisterError::CheckTaken(name) if name == "licence"));
    manager.add_healthz_check("disk", || async { Ok(()) }).unwrap();
    let (running, _, health) = serving(&manager).await;
    manager.wait_until_synced().await.unwrap();

    assert_eq!(over_tcp(health, "/healthz", None).await, (200, "ok".to_owned()));
    let verbose = "[+]disk ok\n[+]ping ok\n[+]workers ok\nhealthz check passed\n".to_owned();
    assert_eq!(over_tcp(health, "/healthz?verbose", None).await, (200, verbose));
    let failed = "[+]controller/maps ok\n[+]informer/ConfigMap ok\n[-]licence failed: reason \
                  withheld\n[+]ping ok\nreadyz check failed\n"
        .to_owned();
    assert_eq!(over_tcp(health, "/readyz", None).await, (500, failed));
    let reason = "internal server error: expired\n".to_owned();
    assert_eq!(over_tcp(health, "/readyz/licence", None).await, (500, reason));
    assert_eq!(over_tcp(health, "/readyz?exclude=licence", None).await, (200, "ok".to_owned()));
    assert_eq!(over_tcp(health, "/metrics", None).await.0, 404);
    stop(&manager, running).await;
}

/// A process with metrics, health and webhooks has no other port. Without credentials metrics answer
/// 401, webhooks do not answer but to reviews, and neither answers plain HTTP. Only health is open.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn scan_finds_no_open_port_but_health() {
    if std::env::var_os(ROLE).is_some() {
        let world = World::new().await;
        let options = WebhookOptions::new().port(0).service_namespace("default");
        let manager = builder().webhooks(options).build(world.client());
        let accept = |_: &ConfigMap, _: &AdmissionRequest| Ok(Warnings::new());
        manager.webhook::<ConfigMap>().validator(accept).register().unwrap();
        let (running, ..) = serving(&manager).await;
        manager.wait_until_synced().await.unwrap();
        eprintln!("serving");
        return running.ended().await.unwrap();
    }
    let operator = Operator::start("observe::scan_finds_no_open_port_but_health");
    operator.expect_output("serving");
    let ports = listening_ports(operator.id());
    assert_eq!(ports.len(), 3, "{ports:?}");
    let paths =
        ["/", "/metrics", "/debug/pprof/", "/healthz", "/readyz", "/../metrics", "//metrics"];
    let (mut open, mut refused) = (Vec::new(), Vec::new());
    for port in ports {
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let mut answered = Vec::new();
        for path in paths {
            // 500 is what a health check answers that fails.
            if matches!(over_tcp(address, path, None).await.0, 200..400 | 500) {
                answered.push(path);
            }
        }
        if answered.is_empty() {
            let mut answers = BTreeSet::new();
            for path in paths {
                answers.insert(over_tls(address, path, None).await.0);
                answers.insert(over_tls(address, path, Some("invented")).await.0);
            }
            refused.extend(answers);
        }
        open.push(answered);
    }
    open.sort();
    assert_eq!(open, [vec![], vec![], vec!["/healthz", "/readyz"]]);
    refused.sort();
    assert_eq!(refused, [401, 404], "metrics and webhooks");
}

/// Returns the ports that a process listens on.
#[cfg(target_os = "linux")]
fn listening_ports(process: u32) -> BTreeSet<u16> {
    let inodes: BTreeSet<String> = std::fs::read_dir(format!("/proc/{process}/fd"))
        .unwrap()
        .filter_map(|file| std::fs::read_link(file.unwrap().path()).ok())
        .filter_map(|link| {
            let link = link.to_string_lossy().into_owned();
            Some(link.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned())
        })
        .collect();
    let mut ports = BTreeSet::new();
    for table in ["tcp", "tcp6"] {
        let path = format!("/proc/{process}/net/{table}");
        for line in std::fs::read_to_string(path).unwrap_or_default().lines().skip(1) {
            let fields: Vec<&str> = line.split_whitespace().collect();
            // 0A is LISTEN; the tenth field is the inode.
            if fields[3] == "0A" && inodes.contains(fields[9]) {
                let port = fields[1].rsplit_once(':').unwrap().1;
                ports.insert(u16::from_str_radix(port, 16).unwrap());
            }
        }
    }
    ports
}

#[tokio::test]
async fn an_address_in_use_ends_the_run_with_its_name() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let world = World::new().await;
    let manager =
        Manager::builder("test").health_probe_bind_address(address.into()).build(world.client());
    let error = start(&manager).ended().await.unwrap_err();
    let text = evenkeel::chain(&error);
    assert!(
        text.starts_with(&format!("health probe server failed: cannot bind {address}: ")),
        "{text}"
    );
}
