//! A server with scripted responses, and a sink that records its calls.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body::Frame;
use kube::Client;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::{Instant, Sleep, sleep};

use super::super::{Error, Health, History, Reflector, ReflectorOptions, Scope, Sink};
use crate::random::Random;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The scripted response to a request.
pub(crate) struct ScriptedResponse {
    status: Option<StatusCode>,
    headers: HeaderMap,
    error: Option<std::io::ErrorKind>,
    steps: Vec<Step>,
}

/// A step of a response body.
pub(crate) enum Step {
    Send(Bytes),
    Wait(Duration),
    Break,
    Hang,
}

/// Returns an object with this name and version.
pub(crate) fn object(name: &str, version: &str) -> Value {
    json!({"metadata": {"name": name, "resourceVersion": version}})
}

/// Returns a list of objects given as `name@version`.
pub(crate) fn list(version: &str, token: &str, objects: &[&str]) -> ScriptedResponse {
    let items: Vec<_> = objects.iter().map(|text| parse(text)).collect();
    let metadata = json!({"resourceVersion": version, "continue": token});
    body(&json!({"kind": "ConfigMapList", "metadata": metadata, "items": items}).to_string())
}

/// Returns a successful response with this body.
pub(crate) fn body(text: &str) -> ScriptedResponse {
    ScriptedResponse::new(StatusCode::OK).send(text)
}

/// Returns an open watch without events.
pub(crate) fn open() -> ScriptedResponse {
    ScriptedResponse::new(StatusCode::OK)
}

/// Returns a connection error.
pub(crate) fn unreachable(kind: std::io::ErrorKind) -> ScriptedResponse {
    ScriptedResponse { error: Some(kind), ..open() }
}

/// Returns no response.
pub(crate) fn silent() -> ScriptedResponse {
    ScriptedResponse { status: None, ..open() }
}

/// Returns an error response.
pub(crate) fn failure(code: u16, reason: &str) -> ScriptedResponse {
    let status = StatusCode::from_u16(code).unwrap();
    ScriptedResponse::new(status).send(&status_text(code, reason))
}

/// Returns the error for a version in the future of the server.
pub(crate) fn too_large() -> ScriptedResponse {
    let status = json!({
        "kind": "Status", "status": "Failure", "code": 504, "reason": "Timeout",
        "message": "Timeout: Too large resource version: 20, current: 10",
        "details": {"causes": [{"reason": "ResourceVersionTooLarge", "message": "…"}]},
    });
    ScriptedResponse::new(StatusCode::GATEWAY_TIMEOUT).send(&status.to_string())
}

fn status_text(code: u16, reason: &str) -> String {
    let message = format!("{reason} from the script");
    json!({"kind": "Status", "status": "Failure", "code": code, "reason": reason,
        "message": message})
    .to_string()
}

fn parse(text: &str) -> Value {
    let (name, version) = text.split_once('@').unwrap();
    object(name, version)
}

fn show(raw: &[u8]) -> String {
    let object: Value = serde_json::from_slice(raw).unwrap();
    let meta = &object["metadata"];
    format!("{}@{}", meta["name"].as_str().unwrap(), meta["resourceVersion"].as_str().unwrap())
}

impl ScriptedResponse {
    fn new(status: StatusCode) -> Self {
        Self { status: Some(status), headers: HeaderMap::new(), error: None, steps: Vec::new() }
    }

    pub(crate) fn header(mut self, name: &'static str, value: &'static str) -> Self {
        self.headers.insert(name, value.parse().unwrap());
        self
    }

    pub(crate) fn send(mut self, text: &str) -> Self {
        self.steps.push(Step::Send(Bytes::copy_from_slice(text.as_bytes())));
        self
    }

    fn event(self, kind: &str, object: &Value) -> Self {
        // In the field order of the server, which `json!` does not keep.
        self.send(&format!("{{\"type\":{},\"object\":{object}}}\n", json!(kind)))
    }

    pub(crate) fn added(self, text: &str) -> Self {
        self.event("ADDED", &parse(text))
    }

    pub(crate) fn modified(self, text: &str) -> Self {
        self.event("MODIFIED", &parse(text))
    }

    pub(crate) fn deleted(self, text: &str) -> Self {
        self.event("DELETED", &parse(text))
    }

    pub(crate) fn bookmark(self, version: &str) -> Self {
        self.event("BOOKMARK", &json!({"metadata": {"resourceVersion": version}}))
    }

    /// Adds the bookmark that ends the initial events if `value` is `true`.
    pub(crate) fn end(self, version: &str, value: &str) -> Self {
        let annotations = json!({"k8s.io/initial-events-end": value});
        let metadata = json!({"resourceVersion": version, "annotations": annotations});
        self.event("BOOKMARK", &json!({"metadata": metadata}))
    }

    pub(crate) fn error(self, code: u16, reason: &str) -> Self {
        self.event("ERROR", &serde_json::from_str(&status_text(code, reason)).unwrap())
    }

    pub(crate) fn wait(mut self, seconds: u64) -> Self {
        self.steps.push(Step::Wait(Duration::from_secs(seconds)));
        self
    }

    pub(crate) fn cut(mut self) -> Self {
        self.steps.push(Step::Break);
        self
    }

    pub(crate) fn hang(mut self) -> Self {
        self.steps.push(Step::Hang);
        self
    }
}

/// The recorded run.
pub(crate) struct Run {
    /// The queries without timeouts.
    pub(crate) requests: Vec<String>,
    /// The time of each request since the start.
    pub(crate) times: Vec<Duration>,
    /// The timeouts of the watches.
    pub(crate) timeouts: Vec<u64>,
    /// The requests.
    pub(crate) heads: Vec<http::request::Parts>,
    /// The calls of the sink.
    pub(crate) log: Vec<String>,
    /// The reported failures and their start times.
    pub(crate) failures: Vec<(Duration, Error)>,
}

impl Run {
    /// Returns the time between a request and the one before.
    pub(crate) fn pause(&self, index: usize) -> Duration {
        self.times[index] - self.times[index - 1]
    }

    /// Returns the calls of the sink except health.
    pub(crate) fn calls(&self) -> Vec<&str> {
        let health = |line: &&str| !line.starts_with("failing") && *line != "connected";
        self.log.iter().map(String::as_str).filter(health).collect()
    }
}

/// Runs a reflector until the scripted responses are used up.
pub(crate) async fn run(
    scope: Scope,
    options: ReflectorOptions,
    responses: impl IntoIterator<Item = ScriptedResponse>,
) -> Run {
    let begun = Instant::now();
    let state = Arc::new(Mutex::new(State {
        responses: responses.into_iter().collect(),
        requests: Vec::new(),
        over: Arc::new(Notify::new()),
    }));
    let over = state.lock().over.clone();
    let client = Client::new(Server(state.clone()), "default");
    let reflector = Reflector::new(client, scope, options, History::default(), Random::new(1));
    let mut log = Diary::default();
    tokio::select! {
        biased;
        () = over.notified() => {}
        never = reflector.run(&mut log) => match never {},
    }
    let mut run = Run {
        requests: Vec::new(),
        times: Vec::new(),
        timeouts: Vec::new(),
        heads: Vec::new(),
        log: log.lines,
        failures: log.failures.into_iter().map(|(since, e)| (since - begun, e)).collect(),
    };
    for (time, head) in state.lock().requests.drain(..) {
        let query = head.uri.query().unwrap_or_default();
        run.requests.push(match query.split_once("timeoutSeconds=") {
            Some((before, seconds)) => {
                run.timeouts.push(seconds.parse().unwrap());
                before.trim_end_matches('&').to_owned()
            }
            None => query.to_owned(),
        });
        run.times.push(time - begun);
        run.heads.push(head);
    }
    run
}

struct State {
    responses: VecDeque<ScriptedResponse>,
    requests: Vec<(Instant, http::request::Parts)>,
    over: Arc<Notify>,
}

struct Server(Arc<Mutex<State>>);

impl tower_service::Service<Request<kube::client::Body>> for Server {
    type Response = Response<Steps>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<kube::client::Body>) -> Self::Future {
        let mut state = self.0.lock();
        state.requests.push((Instant::now(), request.into_parts().0));
        let Some(scripted) = state.responses.pop_front() else {
            state.over.notify_one();
            return Box::pin(std::future::pending());
        };
        Box::pin(async move {
            if let Some(kind) = scripted.error {
                return Err(std::io::Error::from(kind).into());
            }
            let Some(status) = scripted.status else { return std::future::pending().await };
            let mut response = Response::new(Steps { steps: scripted.steps.into(), sleep: None });
            *response.status_mut() = status;
            *response.headers_mut() = scripted.headers;
            Ok(response)
        })
    }
}

/// A scripted response body.
pub(crate) struct Steps {
    steps: VecDeque<Step>,
    sleep: Option<Pin<Box<Sleep>>>,
}

impl http_body::Body for Steps {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        loop {
            if let Some(sleep) = &mut self.sleep {
                std::task::ready!(sleep.as_mut().poll(cx));
                self.sleep = None;
            }
            return match self.steps.pop_front() {
                None => Poll::Ready(None),
                Some(Step::Send(bytes)) => Poll::Ready(Some(Ok(Frame::data(bytes)))),
                Some(Step::Break) => Poll::Ready(Some(Err("connection reset".into()))),
                Some(Step::Hang) => {
                    self.steps.push_front(Step::Hang);
                    Poll::Pending
                }
                Some(Step::Wait(time)) => {
                    self.sleep = Some(Box::pin(sleep(time)));
                    continue;
                }
            };
        }
    }
}

/// A sink that records its calls and checks their order.
#[derive(Default)]
pub(crate) struct Diary {
    lines: Vec<String>,
    failures: Vec<(Instant, Error)>,
}

impl Diary {
    fn within_state(&self) -> bool {
        let marks = ["begin", "commit", "abandon"];
        let last =
            self.lines.iter().rev().find(|line| marks.iter().any(|mark| line.starts_with(mark)));
        last.is_some_and(|line| line.starts_with("begin"))
    }

    fn note(&mut self, within_state: bool, line: String) {
        assert_eq!(self.within_state(), within_state, "{line} after {:?}", self.lines);
        self.lines.push(line);
    }
}

impl Sink for Diary {
    fn begin(&mut self, reset: bool) {
        self.note(false, if reset { "begin anew" } else { "begin" }.to_owned());
    }
    fn listed(&mut self, raw: &[u8]) {
        self.note(true, format!("listed {}", show(raw)));
    }
    fn unlisted(&mut self, raw: &[u8]) {
        self.note(true, format!("unlisted {}", show(raw)));
    }
    fn commit(&mut self, version: &str) {
        self.note(true, format!("commit {version}"));
    }
    fn abandon(&mut self) {
        self.note(true, "abandon".to_owned());
    }
    fn changed(&mut self, raw: &[u8]) {
        self.note(false, format!("changed {}", show(raw)));
    }
    fn deleted(&mut self, raw: &[u8]) {
        self.note(false, format!("deleted {}", show(raw)));
    }
    fn bookmark(&mut self, version: &str) {
        self.note(false, format!("bookmark {version}"));
    }
    fn matches_first(&mut self, _: Option<&[u8]>) -> bool {
        true
    }
    fn health(&mut self, health: &Health) {
        match health {
            Health::Connected => self.note(false, "connected".to_owned()),
            Health::Failing { since, error } => {
                self.failures.push((*since, error.clone()));
                self.note(false, format!("failing: {error}"));
            }
        }
    }
}
