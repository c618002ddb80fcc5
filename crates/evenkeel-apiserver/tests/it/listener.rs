//! The server on a socket: TLS, certificates, HTTP/1.1 and HTTP/2, and stop.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use evenkeel_apiserver::listen::BindError;
use evenkeel_apiserver::{ApiServer, ServeError, ServerHandle};
use futures_util::{StreamExt as _, TryStreamExt as _};
use http::{Request, Version};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{Api, ListParams, PostParams, WatchEvent, WatchParams};
use kube::client::ConfigExt as _;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config, ResourceExt as _};
use rustls::pki_types::ServerName;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;

use crate::harness::{Cluster, TIMEOUT};

const ANY_PORT: ([u8; 4], u16) = ([127, 0, 0, 1], 0);

async fn serve() -> (ApiServer, ServerHandle) {
    let server = ApiServer::builder().build().await.unwrap();
    let serving = server.serve(ANY_PORT.into()).await.unwrap();
    (server, serving)
}

/// Returns the client configuration from the server's kubeconfig.
async fn config(serving: &ServerHandle) -> Config {
    // rustls needs an explicit default if several crypto providers are linked.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let kubeconfig = Kubeconfig::from_yaml(serving.kubeconfig()).unwrap();
    Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap()
}

/// Like [`config`], without client credentials.
async fn stranger(serving: &ServerHandle) -> Config {
    let mut config = config(serving).await;
    config.auth_info = kube::config::AuthInfo::default();
    config
}

/// Sends one request over a new connection.
async fn get(config: &Config, address: SocketAddr, protocol: &str, path: &str) -> Reply {
    let mut tls = config.rustls_client_config().unwrap();
    tls.alpn_protocols = vec![protocol.as_bytes().to_vec()];
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::from(address.ip());
    let stream = TlsConnector::from(Arc::new(tls)).connect(name, stream).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(protocol.as_bytes()));
    let io = TokioIo::new(stream);
    let request = Request::get(format!("https://{address}{path}"));
    let request = request.header("host", address.to_string()).body(Empty::<Bytes>::new()).unwrap();
    let mut connections = JoinSet::new();
    let response = if protocol == "h2" {
        let (mut sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
        connections.spawn(connection);
        sender.send_request(request).await.unwrap()
    } else {
        let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
        connections.spawn(connection);
        sender.send_request(request).await.unwrap()
    };
    Reply::read(response).await
}

struct Reply {
    status: u16,
    version: Version,
    body: Bytes,
}

impl Reply {
    async fn read(response: http::Response<Incoming>) -> Self {
        let (status, version) = (response.status().as_u16(), response.version());
        let body = timeout(TIMEOUT, response.into_body().collect()).await.unwrap().unwrap();
        Self { status, version, body: body.to_bytes() }
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

#[tokio::test]
async fn client_connects_with_the_kubeconfig() {
    let (_server, serving) = serve().await;
    let client = Client::try_from(config(&serving).await).unwrap();
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let list = namespaces.list(&ListParams::default()).await.unwrap();
    assert_eq!(list.items.len(), 4);

    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let request = Request::post("/apis/authentication.k8s.io/v1/selfsubjectreviews")
        .header("content-type", "application/json")
        .body(review.to_string().into_bytes())
        .unwrap();
    let actual: Value = client.request(request).await.unwrap();
    let user = &actual["status"]["userInfo"];
    assert_eq!(user["username"], "admin", "the user is that of the client certificate");
    assert_eq!(user["groups"], json!(["system:masters", "system:authenticated"]));
    serving.stop().await;
}

#[tokio::test]
async fn http1_and_http2_are_served() {
    let (_server, serving) = serve().await;
    let config = config(&serving).await;
    let cases = [("http/1.1", Version::HTTP_11), ("h2", Version::HTTP_2)];
    for (protocol, version) in cases {
        let reply = get(&config, serving.address(), protocol, "/api/v1/namespaces").await;
        assert_eq!((reply.status, reply.version), (200, version));
        assert_eq!(reply.json()["kind"], "NamespaceList");
    }
    serving.stop().await;
}

#[tokio::test]
async fn anonymous_clients_may_only_read_health_endpoints() {
    let (_server, serving) = serve().await;
    let config = stranger(&serving).await;
    for path in ["/healthz", "/livez", "/readyz", "/version"] {
        let reply = get(&config, serving.address(), "http/1.1", path).await;
        assert_eq!(reply.status, 200, "{path}");
    }
    for path in ["/api/v1/namespaces", "/apis", "/metrics", "/"] {
        let reply = get(&config, serving.address(), "h2", path).await;
        assert_eq!(reply.status, 403, "{path}");
        assert_eq!(reply.json()["reason"], "Forbidden", "{path}");
    }
    serving.stop().await;
}

#[tokio::test]
async fn non_loopback_addresses_are_rejected_unless_allowed() {
    let server = ApiServer::builder().build().await.unwrap();
    let refused = server.serve(([0, 0, 0, 0], 0).into()).await.unwrap_err();
    assert!(matches!(refused, ServeError::Bind(BindError::NonLoopback(_))), "{refused}");
    assert!(refused.to_string().contains("not a loopback address"), "{refused}");
}

#[tokio::test]
async fn stop_does_not_wait_for_watches() {
    let (server, serving) = serve().await;
    let client = Client::try_from(config(&serving).await).unwrap();
    let api: Api<ConfigMap> = Api::default_namespaced(client);
    let from = server.revision().to_string();
    let mut watches = Vec::new();
    for _ in 0..10 {
        watches.push(api.watch(&WatchParams::default(), &from).await.unwrap().boxed());
    }
    let map = ConfigMap {
        metadata: kube::api::ObjectMeta { name: Some("a".to_owned()), ..Default::default() },
        ..ConfigMap::default()
    };
    api.create(&PostParams::default(), &map).await.unwrap();
    for watch in &mut watches {
        let event = timeout(TIMEOUT, watch.try_next()).await.unwrap().unwrap().unwrap();
        assert!(matches!(&event, WatchEvent::Added(map) if map.name_any() == "a"), "{event:?}");
    }

    let begun = Instant::now();
    server.stop();
    timeout(TIMEOUT, serving.stop()).await.unwrap();
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    for watch in &mut watches {
        let end = timeout(TIMEOUT, watch.try_next()).await.unwrap();
        assert!(!matches!(end, Ok(Some(_))), "the watch should end: {end:?}");
    }
}

#[tokio::test]
async fn closing_the_listener_leaves_the_server_usable() {
    let (server, serving) = serve().await;
    let address = serving.address();
    serving.stop().await;
    assert!(TcpStream::connect(address).await.is_err());
    let again = server.serve(address).await.unwrap();
    let reply = get(&config(&again).await, address, "http/1.1", "/healthz").await;
    assert_eq!((reply.status, &*reply.body), (200, &b"ok"[..]));
    again.stop().await;
}

#[tokio::test]
async fn large_list_is_complete_over_http1_and_http2() {
    let (server, serving) = serve().await;
    let client = Client::new(server.service(), "default");
    let api: Api<ConfigMap> = Api::default_namespaced(client);
    let value = "x".repeat(20_000);
    for n in 0..50 {
        let map = ConfigMap {
            metadata: kube::api::ObjectMeta {
                name: Some(format!("m{n:02}")),
                ..Default::default()
            },
            data: Some([("k".to_owned(), value.clone())].into()),
            ..ConfigMap::default()
        };
        api.create(&PostParams::default(), &map).await.unwrap();
    }
    let config = config(&serving).await;
    for protocol in ["http/1.1", "h2"] {
        let path = "/api/v1/namespaces/default/configmaps";
        let reply = get(&config, serving.address(), protocol, path).await;
        let list = reply.json();
        assert_eq!(list["items"].as_array().unwrap().len(), 50);
        assert!(reply.body.len() > 1_000_000);
    }
    serving.stop().await;
}

#[tokio::test(start_paused = true)]
async fn kubernetes_service_endpoints_are_the_server_address() {
    let cluster = Cluster::new().await;
    let default = "/api/v1/namespaces/default";
    let slice = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes";
    for port in [6443, 7443] {
        cluster.server.advertise(([192, 0, 2, 7], port).into()).await;
        let service = cluster.get(&format!("{default}/services/kubernetes")).await.expect(200);
        assert_eq!(service["spec"]["ports"][0]["targetPort"], port);
        let ports = json!([{"name": "https", "port": port, "protocol": "TCP"}]);
        let endpoints = cluster.get(&format!("{default}/endpoints/kubernetes")).await.expect(200);
        let addresses = json!([{"ip": "192.0.2.7"}]);
        assert_eq!(endpoints["subsets"], json!([{"addresses": addresses, "ports": ports}]));
        let slice = cluster.get(slice).await.expect(200);
        let ready = json!({"ready": true});
        assert_eq!(slice["ports"], ports);
        assert_eq!(slice["endpoints"], json!([{"addresses": ["192.0.2.7"], "conditions": ready}]));
    }
}
