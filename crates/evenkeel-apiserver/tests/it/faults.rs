//! The faults of a plan, as clients see them.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use evenkeel_apiserver::faults::{Plan, Reset};
use evenkeel_apiserver::identity::token_file::TokenFile;
use evenkeel_apiserver::listen::Abort;
use evenkeel_apiserver::{ApiServer, FaultyBody, ListenerService};
use futures_util::FutureExt as _;
use http::{Method, Response};
use http_body_util::BodyExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tower_service::Service as _;

use crate::harness::{CONFIG_MAPS, TIMEOUT, config_map, request, text, version};

const WATCH: &str = "/api/v1/namespaces/default/configmaps?watch=true";
const NODE: &str = "system:node:n1";

/// A server with a plan, whose clients authenticate with tokens.
struct Faulty {
    service: ListenerService,
    log: Log,
    _running: watch::Sender<bool>,
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// Returns the logged lines.
    fn lines(&self) -> Vec<Value> {
        let bytes = self.0.lock();
        bytes
            .split_inclusive(|it| *it == b'\n')
            .map(|it| serde_json::from_slice(it).unwrap())
            .collect()
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Faulty {
    async fn new(plan: &str) -> Self {
        let log = Log::default();
        let (running, stops) = watch::channel(false);
        let tokens = format!("admin,admin,1,system:masters\nnode,{NODE},2,system:masters");
        let server = ApiServer::builder()
            .seed(1)
            .tokens(TokenFile::parse("tokens", &tokens).unwrap())
            .faults(Plan::parse(plan).unwrap(), log.clone())
            .stop_with(stops);
        let service = server.build().await.unwrap().into_service();
        Self { service, log, _running: running }
    }

    async fn send_as(
        &self,
        token: &str,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Response<FaultyBody> {
        let bearer = format!("Bearer {token}");
        let headers = [&[("authorization", &*bearer)], headers].concat();
        let request = request(method, path, &headers, body);
        self.service.clone().call(request).await.unwrap()
    }

    async fn send(&self, method: Method, path: &str, body: Value) -> Response<FaultyBody> {
        let json = [("content-type", "application/json")];
        self.send_as("admin", method, path, &json, body.to_string()).await
    }

    /// Creates a ConfigMap and returns its version.
    async fn create(&self, name: &str) -> u64 {
        let response = self.send(Method::POST, CONFIG_MAPS, config_map(name, json!({}))).await;
        version(&body(response, 201).await)
    }

    async fn get(&self, path: &str) -> Response<FaultyBody> {
        self.send(Method::GET, path, Value::Null).await
    }

    async fn watch(&self, query: &str) -> Events {
        let response = self.get(&format!("{WATCH}{query}")).await;
        assert_eq!(response.status(), 200);
        Events { body: response.into_body(), read: Vec::new() }
    }

    /// Returns what was injected, in words.
    fn injected(&self) -> Vec<String> {
        self.log.lines().iter().map(|line| text(&line["message"])).collect()
    }
}

/// The events of a watch.
struct Events {
    body: FaultyBody,
    read: Vec<u8>,
}

impl Events {
    async fn next(&mut self) -> Option<Result<Value, Reset>> {
        loop {
            if let Some(end) = self.read.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.read.drain(..=end).collect();
                return Some(Ok(serde_json::from_slice(&line).unwrap()));
            }
            match self.body.frame().await? {
                Ok(frame) => self.read.extend_from_slice(&frame.into_data().unwrap()),
                Err(error) => return Some(Err(error)),
            }
        }
    }

    /// Returns type and name of the next event.
    async fn event(&mut self) -> (String, String) {
        let event = timeout(TIMEOUT, self.next()).await.unwrap().unwrap().unwrap();
        (text(&event["type"]), text(&event["object"]["metadata"]["name"]))
    }
}

async fn body(response: Response<FaultyBody>, code: u16) -> Value {
    let status = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(status, code, "{bytes:?}");
    serde_json::from_slice(&bytes).unwrap_or_default()
}

fn is_aborted(response: &Response<FaultyBody>) -> bool {
    response.extensions().get::<Abort>().is_some()
}

fn added(name: &str) -> (String, String) {
    ("ADDED".to_owned(), name.to_owned())
}

#[tokio::test(start_paused = true)]
async fn named_requests_are_rejected_or_lost_before_or_after_the_commit() {
    let server = Faulty::new(
        "
faults:
- {at: {verb: create, resource: configmaps, nth: 2}, effect: loseResponse}
- {at: {verb: create, resource: configmaps, nth: 3}, effect: loseRequest}
- {at: {verb: update, resource: configmaps, object: default/b}, effect: {reject: 409}}
- {at: {verb: get, resource: configmaps, object: default/b, nth: 2}, effect: {reject: 429}}
- {at: {verb: apply, resource: deployments.apps}, effect: {reject: 503}}
- {at: {verb: delete, resource: secrets}, effect: loseResponse}
",
    )
    .await;
    server.create("a").await;
    let [b, c] = ["b", "c"].map(|name| config_map(name, json!({})));
    assert!(is_aborted(&server.send(Method::POST, CONFIG_MAPS, b.clone()).await));
    assert!(is_aborted(&server.send(Method::POST, CONFIG_MAPS, c).await));
    let path = format!("{CONFIG_MAPS}/b");
    body(server.get(&path).await, 200).await;
    body(server.get(&format!("{CONFIG_MAPS}/c")).await, 404).await;
    // The object of the fault, not the first update.
    let a = config_map("a", json!({}));
    body(server.send(Method::PUT, &format!("{CONFIG_MAPS}/a"), a).await, 200).await;
    let conflict = body(server.send(Method::PUT, &path, b.clone()).await, 409).await;
    assert_eq!(
        text(&conflict["message"]),
        "Operation cannot be fulfilled on configmaps \"b\": the object has been modified; please \
         apply your changes to the latest version and try again"
    );
    body(server.send(Method::PUT, &path, b).await, 200).await;
    let limited = server.get(&path).await;
    assert_eq!(limited.status(), 429);
    assert_eq!(limited.headers()["retry-after"], "1");
    let apply = [("content-type", "application/apply-patch+yaml")];
    let deployment = "/apis/apps/v1/namespaces/default/deployments/x?fieldManager=m";
    let applied = server.send_as("admin", Method::PATCH, deployment, &apply, "{}").await;
    assert_eq!(text(&body(applied, 503).await["reason"]), "ServiceUnavailable");
    assert_eq!(
        server.injected(),
        [
            "create configmaps (request 2 of this kind) of admin is committed and its response lost",
            "the connection is lost before create configmaps (request 3 of this kind) of admin is \
             processed",
            "update configmaps default/b of admin is rejected with 409",
            "get configmaps default/b (request 2 of this kind) of admin is rejected with 429",
            "apply deployments.apps default/x of admin is rejected with 503",
        ]
    );
    let log = server.log.clone();
    drop(server);
    let unused = log.lines().pop().unwrap();
    assert_eq!(unused["unused"]["at"]["resource"], "secrets");
}

#[tokio::test(start_paused = true)]
async fn watches_are_cut_reset_and_expired_at_an_event() {
    let server = Faulty::new(
        "
faults:
- {at: {verb: event, resource: configmaps, nth: 2}, effect: cut}
- {at: {verb: event, resource: configmaps, nth: 3}, effect: reset}
- {at: {verb: event, resource: configmaps, nth: 4}, effect: expire}
",
    )
    .await;
    let start = server.create("a").await - 1;
    server.create("b").await;
    let from = format!("&resourceVersion={start}");
    let mut cut = server.watch(&from).await;
    assert_eq!(cut.event().await, added("a"));
    assert_eq!(cut.next().await, None);
    // The watch can be resumed: the event was not delivered.
    let mut reset = server.watch(&from).await;
    assert!(matches!(reset.next().await, Some(Err(Reset { .. }))));
    let mut expired = server.watch(&from).await;
    let error = expired.next().await.unwrap().unwrap();
    assert_eq!((text(&error["type"]), &error["object"]["code"]), ("ERROR".into(), &json!(410)));
    assert_eq!(expired.next().await, None);
    let mut resumed = server.watch(&from).await;
    assert_eq!([resumed.event().await, resumed.event().await], [added("a"), added("b")]);
    assert_eq!(server.injected().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn watches_and_pages_expire_only_if_they_depend_on_a_version() {
    let server = Faulty::new(
        "
faults:
- {at: {verb: watch, resource: configmaps}, effect: expire}
- {at: {verb: list, resource: configmaps}, effect: expire}
- {at: {verb: watch, resource: configmaps, nth: 3}, effect: endEmpty}
",
    )
    .await;
    for name in ["a", "b", "c"] {
        server.create(name).await;
    }
    let mut first = server.watch("").await;
    assert_eq!(first.event().await.0, "ADDED");
    let resumed = format!("{WATCH}&resourceVersion=2");
    let expired = body(server.get(&resumed).await, 410).await;
    assert_eq!(text(&expired["reason"]), "Expired");
    let mut empty = server.watch("&resourceVersion=2").await;
    assert_eq!(empty.next().await, None);

    let page = body(server.get(&format!("{CONFIG_MAPS}?limit=1")).await, 200).await;
    let next = |list: &Value| {
        let token = text(&list["metadata"]["continue"]);
        format!("{CONFIG_MAPS}?limit=5&continue={token}")
    };
    let expired = body(server.get(&next(&page)).await, 410).await;
    assert_eq!(text(&expired["reason"]), "Expired");
    // The token of the error continues at the latest version.
    let rest = body(server.get(&next(&expired)).await, 200).await;
    assert_eq!(rest["items"].as_array().unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn gap_is_unreachable_and_then_expired() {
    let server = Faulty::new("{faults: [{at: {verb: event}, effect: gap}]}").await;
    let start = server.create("a").await - 1;
    let resumed = format!("{WATCH}&resourceVersion={start}");
    assert_eq!(server.watch(&format!("&resourceVersion={start}")).await.next().await, None);
    assert!(is_aborted(&server.get(&resumed).await));
    assert!(is_aborted(&server.get(CONFIG_MAPS).await));
    body(server.get("/api/v1/namespaces").await, 200).await;
    tokio::time::advance(Duration::from_secs(5)).await;
    body(server.get(&resumed).await, 410).await;
    body(server.get(CONFIG_MAPS).await, 200).await;
    let mut watch = server.watch(&format!("&resourceVersion={start}")).await;
    assert_eq!(watch.event().await, added("a"));
}

#[tokio::test(start_paused = true)]
async fn events_and_bookmarks_are_late_missing_or_held_until_the_watch_ends() {
    let server = Faulty::new(
        "
faults:
- {at: {verb: event, nth: 2}, effect: {lag: 7}}
- {at: {verb: watch, nth: 2}, effect: {lateBookmarks: 9}}
- {at: {verb: watch, nth: 3}, effect: noBookmarks}
- {at: {verb: watch, nth: 4}, effect: freeze}
",
    )
    .await;
    let start = server.create("a").await - 1;
    server.create("b").await;
    let begin = Instant::now();
    let mut lags = server.watch(&format!("&resourceVersion={start}")).await;
    assert_eq!((lags.event().await, begin.elapsed()), (added("a"), Duration::ZERO));
    assert_eq!(lags.event().await, added("b"));
    assert_eq!(begin.elapsed().as_secs(), 7);

    let initial = "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan\
         &allowWatchBookmarks=true&timeoutSeconds=300";
    let begin = Instant::now();
    let mut late = server.watch(initial).await;
    assert_eq!([late.event().await.1, late.event().await.1], ["a", "b"]);
    assert_eq!(late.next().await.unwrap().unwrap()["type"], "BOOKMARK");
    assert_eq!(begin.elapsed().as_secs(), 9);

    let mut none = server.watch(initial).await;
    let mut types = Vec::new();
    while let Some(event) = none.next().await {
        types.push(text(&event.unwrap()["type"]));
    }
    assert_eq!(types, ["ADDED", "ADDED", "BOOKMARK"], "only the end of the initial events");

    let mut frozen = server.watch("&timeoutSeconds=60").await;
    assert!(frozen.next().now_or_never().is_none());
    let begin = Instant::now();
    assert_eq!(frozen.next().await, None);
    assert!(begin.elapsed() >= Duration::from_secs(59));
}

#[tokio::test(start_paused = true)]
async fn random_faults_follow_from_the_seed_and_the_order_of_requests() {
    let run = async |seed: u64| {
        let plan = format!(
            "
seed: {seed}
random:
- {{at: {{resource: configmaps}}, rate: 0.2, effects: [loseRequest, {{reject: 500}}, cut], limit: 9}}
"
        );
        let server = Faulty::new(&plan).await;
        for step in 0..100 {
            let path = format!("{CONFIG_MAPS}/{}", step % 7);
            drop(server.get(&path).await);
        }
        server.injected()
    };
    let first = run(1).await;
    assert_eq!(first.len(), 9, "{first:?}");
    assert!(first.iter().any(|it| it.contains("500")), "{first:?}");
    assert!(first.iter().any(|it| it.contains("lost")), "{first:?}");
    assert_eq!(first, run(1).await);
    assert_ne!(first, run(2).await);
}

#[tokio::test(start_paused = true)]
async fn injected_random_faults_are_repeated_by_their_log() {
    let requests = async |server: &Faulty| {
        for step in 0..60 {
            drop(server.get(&format!("{CONFIG_MAPS}/{}", step % 3)).await);
            let object = config_map(&format!("x{step}"), json!({}));
            drop(server.send(Method::POST, CONFIG_MAPS, object).await);
        }
    };
    let random =
        Faulty::new("{random: [{rate: 0.1, effects: [{reject: 503}, loseResponse]}]}").await;
    requests(&random).await;
    let lines = random.log.lines();
    assert!(lines.len() > 5, "{lines:?}");
    let faults: Vec<&Value> = lines.iter().map(|line| &line["injected"]).collect();
    let named = Faulty::new(&json!({"faults": faults}).to_string()).await;
    requests(&named).await;
    assert_eq!(named.injected(), random.injected());
}

#[tokio::test(start_paused = true)]
async fn health_checks_and_unnamed_components_are_exempt() {
    let always = "{random: [{rate: 1, effects: [loseRequest]}]}";
    let server = Faulty::new(always).await;
    for path in ["/healthz", "/readyz", "/version", "/api/v1", "/openapi/v2"] {
        body(server.get(path).await, 200).await;
    }
    assert!(is_aborted(&server.get(CONFIG_MAPS).await));
    let as_node = server.send_as("node", Method::GET, CONFIG_MAPS, &[], "").await;
    body(as_node, 200).await;
    let named = format!(
        "{{faults: [{{at: {{user: '{NODE}', userAgent: kubelet}}, effect: loseRequest}}]}}"
    );
    let server = Faulty::new(&named).await;
    let agent = [("user-agent", "kubelet/v1.36.0 (linux/amd64)")];
    body(server.send_as("node", Method::GET, CONFIG_MAPS, &[], "").await, 200).await;
    body(server.send_as("admin", Method::GET, CONFIG_MAPS, &agent, "").await, 200).await;
    assert!(is_aborted(&server.send_as("node", Method::GET, CONFIG_MAPS, &agent, "").await));
}

#[tokio::test]
async fn lost_response_is_a_connection_error_of_the_client() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let log = Log::default();
    let plan = "{faults: [{at: {verb: create, resource: configmaps}, effect: loseResponse}]}";
    let builder = ApiServer::builder().faults(Plan::parse(plan).unwrap(), log.clone());
    let server = builder.build().await.unwrap();
    let serving = server.serve(([127, 0, 0, 1], 0).into()).await.unwrap();
    let kubeconfig = Kubeconfig::from_yaml(serving.kubeconfig()).unwrap();
    let options = KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
    let maps: Api<ConfigMap> = Api::default_namespaced(config.try_into().unwrap());
    let object: ConfigMap = serde_json::from_value(config_map("x", json!({}))).unwrap();
    let error = maps.create(&PostParams::default(), &object).await.unwrap_err();
    assert!(!matches!(error, kube::Error::Api(_)), "{error}");
    assert_eq!(maps.get("x").await.unwrap().metadata.name.as_deref(), Some("x"));
    assert_eq!(log.lines().len(), 1);
    serving.stop().await;
}
