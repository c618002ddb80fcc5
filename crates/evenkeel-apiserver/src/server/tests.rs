//! Limits of requests through a socket. The tests hold the permits and slots.

use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use tokio::time::timeout;

use super::*;
use crate::authz::Attributes;
use crate::context::{Remote, RequestContext};
use crate::offload::{self, Cancellation};
use crate::pipeline::encode;
use crate::request::negotiate;
use crate::request::route::Verb;
use crate::status::Status;
use crate::storage::Key;
use crate::throttle::User;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const TIMEOUT: Duration = Duration::from_secs(30);

struct Fixture {
    server: ApiServer,
    handle: ServerHandle,
    client: kube::Client,
    admin: User,
}

impl Fixture {
    async fn new(change: impl FnOnce(&mut Limits)) -> Self {
        let mut limits = Limits { heavy_in_flight: 1, ..Limits::default() };
        change(&mut limits);
        let server = ApiServer::builder().limits(limits).build().await.unwrap();
        let handle = server.serve(([127, 0, 0, 1], 0).into()).await.unwrap();
        let kubeconfig = Kubeconfig::from_yaml(handle.kubeconfig()).unwrap();
        let options = KubeConfigOptions::default();
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
        // The tests expect rejections.
        config.default_retry = false;
        let client = kube::Client::try_from(config).unwrap();
        Self { server, handle, client, admin: User::of(&Identity::admin()) }
    }

    async fn send(&self, method: &str, path: &str, body: String) -> (u16, http::HeaderMap, String) {
        self.send_as(None, method, path, body).await
    }

    async fn send_as(
        &self,
        user: Option<&str>,
        method: &str,
        path: &str,
        body: String,
    ) -> (u16, http::HeaderMap, String) {
        let mut request = Request::builder().method(method).uri(path);
        if let Some(user) = user {
            request = request.header("impersonate-user", user);
        }
        let request = request.body(kube::client::Body::from(body.into_bytes())).unwrap();
        let (parts, body) = self.client.send(request).await.unwrap().into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        (parts.status.as_u16(), parts.headers, String::from_utf8_lossy(&body).into_owned())
    }

    async fn create(&self, name: &str, size: usize) -> u16 {
        let body =
            format!(r#"{{"metadata":{{"name":"{name}"}},"data":{{"a":"{}"}}}}"#, "x".repeat(size));
        self.send("POST", MAPS, body).await.0
    }

    async fn table(&self, query: &str) -> Response<kube::client::Body> {
        let request = Request::get(format!("{MAPS}{query}")).header("accept", TABLE);
        self.client.send(request.body(kube::client::Body::empty()).unwrap()).await.unwrap()
    }

    fn count(&self) -> usize {
        self.server.core.registry.snapshot().resource("", "v1", "configmaps").unwrap().table.len()
    }
}

/// Polls `pending` until `other` is done, and fails if `pending` completes first.
async fn while_pending<T>(
    pending: &mut (impl Future + Unpin),
    other: impl Future<Output = T>,
) -> T {
    tokio::select! {
        biased;
        done = other => done,
        _ = pending => panic!("completed instead of waiting"),
    }
}

#[tokio::test]
async fn request_beyond_the_in_flight_limit_gets_429_with_retry_after() {
    let test = Fixture::new(|limits| {
        limits.reads_in_flight = 100;
        limits.writes_in_flight = 0;
        limits.queue_wait = Duration::from_millis(10);
    })
    .await;
    let core = &test.server.core;
    let bob = Identity::authenticated("bob", ["dev"]);
    let request = Attributes { user: &bob, verb: "get", path: "/version", resource: None };
    let flow = core.flow_control.classify(&request).unwrap();
    let mut held = Vec::new();
    while let Some(Ok(seats)) = core.flow_control.acquire(&flow, None, TIMEOUT, 0).now_or_never() {
        held.push(seats);
    }

    let (code, headers, body) = test.send_as(Some("bob"), "POST", MAPS, "{}".into()).await;
    assert_eq!((code, headers["retry-after"].to_str().unwrap()), (429, "1"));
    assert!(headers.contains_key("x-kubernetes-pf-flowschema-uid"));
    assert_eq!(body, "Too many requests, please try again later.\n");
    let watch = format!("{MAPS}?watch=true");
    assert_eq!(test.send_as(Some("bob"), "GET", &watch, String::new()).await.0, 429);
    assert_eq!(test.send_as(Some("bob"), "GET", "/readyz", String::new()).await.0, 200);
    assert_eq!(test.send("GET", MAPS, String::new()).await.0, 200, "administrators are exempt");
    let account = "system:serviceaccount:default:default";
    assert_eq!(test.send_as(Some(account), "GET", MAPS, String::new()).await.0, 200, "its level");
    let inside = Request::post(MAPS).body(http_body_util::Full::new(Bytes::from("{}"))).unwrap();
    let inside = tower_service::Service::call(&mut test.server.service(), inside).await.unwrap();
    assert_eq!(inside.status(), StatusCode::UNPROCESSABLE_ENTITY, "no limits in process");

    drop(held);
    assert_eq!(test.send_as(Some("bob"), "GET", MAPS, String::new()).await.0, 200);
    test.handle.stop().await;
}

#[tokio::test]
async fn heavy_requests_queue_and_small_ones_do_not_wait() {
    let test = Fixture::new(|limits| limits.writes_in_flight = 1).await;
    let slot = test.server.core.throttle.heavy_slot(&test.admin).await.unwrap();

    let mut large = Box::pin(test.create("large", 100 << 10));
    let small = async {
        for n in 0..10 {
            assert_eq!(test.create(&n.to_string(), 1).await, 201);
        }
    };
    while_pending(&mut large, timeout(TIMEOUT, small)).await.unwrap();
    drop(slot);
    assert_eq!(timeout(TIMEOUT, large).await.unwrap(), 201);

    // From now on the stored object is large, whatever the size of a patch.
    let slot = test.server.core.throttle.heavy_slot(&test.admin).await.unwrap();
    let mut table = Box::pin(test.table(""));
    let list = test.send("GET", MAPS, String::new());
    assert_eq!(while_pending(&mut table, timeout(TIMEOUT, list)).await.unwrap().0, 200);
    drop(slot);
    assert_eq!(timeout(TIMEOUT, table).await.unwrap().status(), 200);
    test.handle.stop().await;
}

#[tokio::test]
async fn queued_work_is_not_started_after_the_client_disconnects() {
    let test = Fixture::new(|_| {}).await;
    for n in 0..5 {
        assert_eq!(test.create(&n.to_string(), 1).await, 201);
    }
    let before = test.count();
    let slot = test.server.core.throttle.heavy_slot(&test.admin).await.unwrap();
    {
        let mut deletion = Box::pin(test.send("DELETE", MAPS, String::new()));
        // The server has the request once it has served a later one.
        let later = test.send("GET", MAPS, String::new());
        assert_eq!(while_pending(&mut deletion, later).await.0, 200);
    }
    // The client has reset the stream once a later request has a response.
    assert_eq!(test.send("GET", MAPS, String::new()).await.0, 200);
    drop(slot);
    test.server.core.throttle.idle().await;
    assert_eq!(test.count(), before);
    test.handle.stop().await;
}

#[tokio::test]
async fn running_work_is_cancelled_when_the_client_disconnects() {
    let test = Fixture::new(|_| {}).await;
    let (throttle, cancellation) = (&test.server.core.throttle, Cancellation::default());
    let guard = cancellation.drop_guard();
    let (started, start) = tokio::sync::oneshot::channel();
    let token = cancellation.clone();
    let mut busy = Box::pin(offload::run(throttle, &test.admin, &cancellation, async move {
        let _ = started.send(());
        while token.check().is_ok() {
            std::hint::spin_loop();
        }
        Ok(())
    }));
    while_pending(&mut busy, start).await.unwrap();
    drop((busy, guard));
    timeout(TIMEOUT, throttle.idle()).await.expect("work was not cancelled");

    let waiting = offload::run(throttle, &test.admin, &cancellation, std::future::pending());
    let outcome: Result<(), Status> =
        timeout(TIMEOUT, waiting).await.expect("work was not cancelled");
    assert_eq!(outcome.unwrap_err().code(), 504);
    test.handle.stop().await;
}

#[tokio::test]
async fn list_is_not_encoded_after_the_client_disconnects() {
    let test = Fixture::new(|_| {}).await;
    assert_eq!(test.create("a", 1).await, 201);
    let core = &test.server.core;
    let maps = core.registry.snapshot().resource("", "v1", "configmaps").unwrap().clone();
    let encode = |remote: Option<Remote>| {
        let mut cx =
            RequestContext::internal(core, &maps, Verb::List, &Key::new("default", ""), None);
        cx.headers.insert(http::header::ACCEPT, http::HeaderValue::from_static(TABLE));
        cx.remote = remote.map(Arc::new);
        let output = negotiate::output(&cx.headers, &cx.query, true)?;
        let records = vec![maps.table.get(&Key::new("default", "a")).unwrap()];
        let list = encode::List::new(maps.clone(), records, None, None, None);
        encode::respond(&cx, output, encode::Reply::List(list))
    };
    assert_eq!(encode(None).unwrap().status(), 200);
    let gone = Remote::new(test.admin.clone(), Duration::ZERO);
    drop(gone.cancellation.drop_guard());
    assert_eq!(encode(Some(gone)).unwrap_err().code(), 504);
    test.handle.stop().await;
}

#[tokio::test]
async fn request_beyond_its_timeout_gets_504() {
    let test = Fixture::new(|limits| limits.request_timeout = Duration::from_millis(20)).await;
    let slot = test.server.core.throttle.heavy_slot(&test.admin).await.unwrap();
    let (code, _, body) = test.send("DELETE", MAPS, String::new()).await;
    drop(slot);
    assert_eq!(code, 504);
    assert!(body.contains("request did not complete within the allotted timeout"), "{body}");
    test.handle.stop().await;
}

#[tokio::test]
async fn response_bytes_are_reserved_until_sent() {
    let test = Fixture::new(|limits| limits.response_bytes = 1 << 20).await;
    assert_eq!(test.create("large", 700 << 10).await, 201);
    let table = || test.table("?includeObject=Object");
    // The flow control window is smaller, so most of it stays in the server.
    let unread = table().await;
    let mut second = Box::pin(table());
    let read = async { unread.into_body().collect().await.unwrap().to_bytes().len() };
    tokio::select! {
        biased;
        _ = &mut second => panic!("the second response exceeds the limit"),
        length = read => assert!(length > 700 << 10),
    }
    assert_eq!(timeout(TIMEOUT, second).await.unwrap().status(), 200);
    test.handle.stop().await;
}
