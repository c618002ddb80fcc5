//! Generated sequences find a bug planted in front of the embedded server and shrink it to its core;
//! a late event is not a bug.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use evenkeel_apiserver::{ApiServer, Service};
use evenkeel_differ::generate::{self, shared};
use evenkeel_differ::{KnownDifferences, Pair, Sequence, Server, render_report, shrink};
use http::{Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use serde_json::Value;
use tower_service::Service as _;

type Body = UnsyncBoxBody<Bytes, Infallible>;

/// A service with a bug: an update that changes nothing returns a new resourceVersion.
#[derive(Clone)]
struct BumpNoOpUpdates(Service);

impl tower_service::Service<Request<Full<Bytes>>> for BumpNoOpUpdates {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Full<Bytes>>) -> Self::Future {
        let mut service = self.0.clone();
        Box::pin(async move {
            let updates = matches!(*request.method(), Method::PUT | Method::PATCH);
            let path = request.uri().path().to_owned();
            let before = if updates { version(&mut service, &path).await } else { None };
            let Ok(response) = service.call(request).await;
            let Some(before) = before.filter(|_| response.status() == StatusCode::OK) else {
                return Ok(response.map(|body| body.boxed_unsync()));
            };
            let (parts, body) = response.into_parts();
            let mut bytes = body.collect().await?.to_bytes();
            if let Ok(mut object) = serde_json::from_slice::<Value>(&bytes)
                && object["metadata"]["resourceVersion"] == before
            {
                object["metadata"]["resourceVersion"] = format!("{before}1").into();
                bytes = object.to_string().into();
            }
            Ok(Response::from_parts(parts, Full::new(bytes).boxed_unsync()))
        })
    }
}

/// Returns the resourceVersion of the object at `path`.
async fn version(service: &mut Service, path: &str) -> Option<String> {
    let get = Request::get(path).body(Full::new(Bytes::new())).ok()?;
    let Ok(response) = service.call(get).await;
    let body = response.into_body().collect().await.ok()?.to_bytes();
    let object: Value = serde_json::from_slice(&body).ok()?;
    Some(object["metadata"]["resourceVersion"].as_str()?.to_owned())
}

#[tokio::test(start_paused = true)]
async fn resource_version_bumped_by_no_op_update_is_found_and_shrunk() {
    let good = ApiServer::builder().seed(1).build().await.unwrap();
    let bad = ApiServer::builder().seed(1).build().await.unwrap();
    let layer = BumpNoOpUpdates(bad.service());
    let (good, bad) = (Server::ours(good), Server::ours_through(bad, layer));
    shared::create(&good).await.unwrap();
    shared::create(&bad).await.unwrap();
    let pair = Pair::new(good, bad, "planted");
    let known = KnownDifferences::default();
    for number in 0..50 {
        let sequence = generate::sequence(1, number);
        let finding = pair.compare(&sequence, &known).await.unwrap();
        let Some(first) = finding.unexplained.first() else { continue };
        let short = shrink(&pair, &known, &sequence, first).await;
        let finding = pair.compare(&short, &known).await.unwrap();
        let text = render_report(&short, &finding);
        assert!(short.steps.len() <= 3, "{text}");
        assert!(text.contains("resourceVersion"), "{text}");
        return;
    }
    panic!("fifty sequences did not reproduce the bug");
}

/// A service whose watches are a second late.
#[derive(Clone)]
struct LateWatches(Service);

impl tower_service::Service<Request<Full<Bytes>>> for LateWatches {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Full<Bytes>>) -> Self::Future {
        let mut service = self.0.clone();
        Box::pin(async move {
            let watches = request.uri().query().is_some_and(|query| query.contains("watch=1"));
            let Ok(response) = service.call(request).await;
            Ok(response.map(|body| match watches {
                true => Late { wait: Box::pin(tokio::time::sleep(LATE)), body }.boxed_unsync(),
                false => body.boxed_unsync(),
            }))
        })
    }
}

const LATE: Duration = Duration::from_secs(1);

/// A body that starts after a delay.
struct Late<B> {
    wait: Pin<Box<tokio::time::Sleep>>,
    body: B,
}

impl<B: http_body::Body + Unpin> http_body::Body for Late<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<B::Data>, B::Error>>> {
        std::task::ready!(self.wait.as_mut().poll(cx));
        Pin::new(&mut self.body).poll_frame(cx)
    }
}

#[tokio::test(start_paused = true)]
async fn event_that_kube_apiserver_sends_late_is_not_confirmed_as_a_difference() {
    let busy = ApiServer::builder().seed(1).build().await.unwrap();
    let ours = ApiServer::builder().seed(1).build().await.unwrap();
    let layer = LateWatches(busy.service());
    let pair = Pair::new(Server::ours_through(busy, layer), Server::ours(ours), "late");
    let known = KnownDifferences::default();
    let path = "/api/v1/namespaces/${ns}/configmaps";
    let sequence = format!(
        "about: one event\nsteps:\n\
         - {{do: 'GET {path}?watch=1', watch: w}}\n\
         - {{do: 'POST {path}', body: {{metadata: {{name: a}}}}}}\n\
         - {{read: w}}\n"
    );
    let sequence = Sequence::parse("late", &sequence).unwrap();
    assert!(!pair.compare(&sequence, &known).await.unwrap().unexplained.is_empty());
    let confirmed = pair.confirm(&sequence, &known).await.unwrap();
    assert!(confirmed.unexplained.is_empty(), "{}", render_report(&sequence, &confirmed));
}
