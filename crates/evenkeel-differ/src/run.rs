//! Runs a sequence on one server.
//!
//! Only the end of an idle watch depends on time. kube-apiserver runs first and has
//! [`IDLE_TIMEOUT`] since the last request, or longer to confirm a difference; the other server is then expected to send the same
//! number of events, so that only a missing event takes time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use evenkeel_types::protobuf;
use evenkeel_upstream::StartError;
use evenkeel_upstream::client::ClientError;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt as _, Full};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use crate::facts;
use crate::generate::shared;
use crate::layout::Layout;
use crate::sequence::{Sequence, Step, Variables, expand, expand_text, set_at, unset_at};
use crate::server::{ResponseBody, Server};
use crate::webhooks::WebhookAddress;

/// A watch is complete after this long without an event.
const IDLE_TIMEOUT: Duration = Duration::from_millis(500);

/// The idle timeout of a run that confirms a difference: a busy kube-apiserver sends events late.
const CONFIRMING_IDLE_TIMEOUT: Duration = Duration::from_millis(2500);

/// Timeout for one more event than expected.
const EXTRA_EVENT_TIMEOUT: Duration = Duration::from_millis(5);

/// Timeout for events that the other server sent, or for the end of its stream.
const EXPECTED_EVENT_TIMEOUT: Duration = Duration::from_secs(4);

/// Timeout for the end of a stream. A busy kube-apiserver is seconds late.
const END_TIMEOUT: Duration = Duration::from_secs(60);

/// Timeout of an `until`. kube-apiserver checks only every five seconds whether a deleted CRD has
/// custom resources left.
const UNTIL_TIMEOUT: Duration = Duration::from_secs(60);

/// Timeout of an `until` on the embedded server, which does everything as part of the write.
const EMBEDDED_UNTIL_TIMEOUT: Duration = Duration::from_millis(300);

/// Response headers that affect clients.
const HEADERS: [&str; 7] =
    ["content-type", "warning", "etag", "retry-after", "allow", "location", "content-encoding"];

/// The response to one step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepResponse {
    /// The status code; 0 for steps that are not requests.
    #[serde(rename = "s", default, skip_serializing_if = "is_zero")]
    pub status: u16,
    /// The headers that affect clients.
    #[serde(rename = "h", default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// The body: JSON, text, or the events of a stream.
    #[serde(rename = "b", default, skip_serializing_if = "Value::is_null")]
    pub body: Value,
    /// The layout of a JSON body. It is not part of a transcript.
    #[serde(skip)]
    pub layout: Option<Layout>,
}

/// Returns whether kube-apiserver is still initializing the handler of a CRD.
fn is_initializing(response: &StepResponse) -> bool {
    response.status == 429 && response.body.to_string().contains("initializing")
}

fn is_zero(status: &u16) -> bool {
    *status == 0
}

/// Why a sequence could not be run. Unexpected responses are not errors, unless a step waits for one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The connection failed.
    #[error("step {step}: the connection failed")]
    Connection {
        /// Number of the step, starting at one.
        step: usize,
        /// The cause.
        source: ClientError,
    },
    /// The server failed to compact or restart.
    #[error("the server failed to compact or restart")]
    Compact(#[from] StartError),
    /// Another sequence that compacts together with this one failed.
    #[error("abandoned because the server failed to compact")]
    Abandoned,
    /// kube-apiserver never gave the response that the step waits for, so the steps after it would not
    /// test what they are meant to.
    #[error("step {step}: no response matched within {} s", UNTIL_TIMEOUT.as_secs())]
    Unmatched {
        /// Number of the step, starting at one.
        step: usize,
    },
    /// The step is not a valid request.
    #[error("step {step}: not a request")]
    Step {
        /// Number of the step, starting at one.
        step: usize,
        /// The cause.
        source: http::Error,
    },
}

/// Options of a run.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// The namespace of the sequence, which is created first.
    pub namespace: String,
    /// The responses of the server that ran first.
    pub expected: Option<Vec<StepResponse>>,
    /// Whether the run confirms a difference, and waits longer for events.
    pub confirms: bool,
    /// The webhooks that the sequence may configure.
    pub webhooks: WebhookAddress,
}

/// Runs all steps and returns the response to each.
///
/// # Errors
///
/// If a connection to the server fails.
pub async fn run(
    server: &Server,
    sequence: &Sequence,
    options: RunOptions,
) -> Result<Vec<StepResponse>, RunError> {
    let mut session = Session::begin(server, Arc::new(sequence.clone()), options).await?;
    while session.advance().await? {
        compact_and_wait(server).await?;
    }
    Ok(session.finish().await)
}

/// Compacts the server and waits until it serves the shared CRDs again.
pub(crate) async fn compact_and_wait(server: &Server) -> Result<(), RunError> {
    let state = State::new(server.clone(), "none");
    // kube-apiserver writes when it restarts. With one more write here, the last revision of a
    // sequence is compacted on both servers.
    let write = Step::call("POST", "/api/v1/namespaces/default/configmaps")
        .with_body(json!({"metadata": {"generateName": "forgotten-"}}));
    state.request(0, &write).await?;
    server.compact().await?;
    for (at, step) in shared::wait_until_served().iter().enumerate() {
        state.retry_until(at, step).await?;
    }
    Ok(())
}

/// A running sequence. It stops before each compaction, so that several sequences can compact
/// together.
pub(crate) struct Session {
    sequence: Arc<Sequence>,
    expected: Option<Vec<StepResponse>>,
    responses: Vec<StepResponse>,
    state: State,
}

impl Session {
    pub(crate) async fn begin(
        server: &Server,
        sequence: Arc<Sequence>,
        options: RunOptions,
    ) -> Result<Self, RunError> {
        let mut state = State::new(server.clone(), &options.namespace);
        let WebhookAddress { url, ca_bundle } = options.webhooks;
        state.variables.insert("webhook".to_owned(), url.into());
        state.variables.insert("ca".to_owned(), ca_bundle.into());
        if options.confirms {
            state.idle_timeout = CONFIRMING_IDLE_TIMEOUT;
        }
        let namespace = Step::call("POST", "/api/v1/namespaces")
            .with_body(json!({"metadata": {"name": options.namespace}}));
        state.request(0, &namespace).await?;
        Ok(Self { sequence, expected: options.expected, responses: Vec::new(), state })
    }

    /// Runs steps up to the end or the next compaction. Returns true if the caller has to compact.
    pub(crate) async fn advance(&mut self) -> Result<bool, RunError> {
        while let Some(step) = self.sequence.steps.get(self.responses.len()) {
            let at = self.responses.len();
            if step.compact {
                self.responses.push(StepResponse::default());
                return Ok(true);
            }
            let expected = self.expected.as_ref().and_then(|responses| responses.get(at));
            self.responses.push(self.state.step(at, step, expected).await?);
        }
        Ok(false)
    }

    pub(crate) async fn finish(mut self) -> Vec<StepResponse> {
        self.state.clean_up(&self.sequence).await;
        self.responses
    }
}

struct State {
    server: Server,
    variables: Variables,
    streams: BTreeMap<String, Stream>,
    readers: JoinSet<()>,
    /// Time of the last request that may cause watch events.
    last_request: Instant,
    idle_timeout: Duration,
}

struct Stream {
    events: mpsc::Receiver<ReceivedEvent>,
    ended: bool,
}

/// An event and the time of its arrival.
struct ReceivedEvent {
    event: Value,
    at: Instant,
}

impl State {
    fn new(server: Server, namespace: &str) -> Self {
        let variables = Variables::from([
            ("ns".to_owned(), namespace.into()),
            ("group".to_owned(), format!("{namespace}.differ.test").into()),
        ]);
        Self {
            server,
            variables,
            streams: BTreeMap::new(),
            readers: JoinSet::new(),
            last_request: Instant::now(),
            idle_timeout: IDLE_TIMEOUT,
        }
    }

    async fn step(
        &mut self,
        at: usize,
        step: &Step,
        expected: Option<&StepResponse>,
    ) -> Result<StepResponse, RunError> {
        if let Some(name) = &step.close {
            self.streams.remove(name);
            return Ok(StepResponse::default());
        }
        let response = match (&step.read, &step.until) {
            (Some(name), _) => {
                let mut response = self.read(name, step.end, expected).await;
                if let (true, Value::Object(body)) = (step.any_end, &mut response.body) {
                    body.remove("ended");
                }
                response
            }
            (None, until) => {
                let response = match until {
                    None => self.execute(at, step).await?,
                    Some(_) => self.retry_until(at, step).await?,
                };
                self.last_request = Instant::now();
                response
            }
        };
        for (name, pointer) in &step.save {
            let value = response.body.pointer(pointer).cloned().unwrap_or(Value::Null);
            self.variables.insert(name.clone(), value);
        }
        for (name, pointer) in &step.renew {
            if let Some(value) = response.body.pointer(pointer) {
                self.variables.insert(name.clone(), value.clone());
            }
        }
        Ok(response)
    }

    /// Repeats a request until the response matches, cannot match any more, or the timeout expires.
    async fn retry_until(&self, at: usize, step: &Step) -> Result<StepResponse, RunError> {
        let until = step.until.clone().unwrap_or_default();
        let cannot_match = until
            .unless_null
            .as_ref()
            .is_some_and(|name| self.variables.get(name).is_none_or(Value::is_null));
        let is_real = matches!(self.server, Server::Real(_));
        let timeout = if is_real { UNTIL_TIMEOUT } else { EMBEDDED_UNTIL_TIMEOUT };
        let deadline = Instant::now() + timeout;
        loop {
            let response = self.response_or_facts(at, step).await?;
            let mut texts = until.contains.iter().chain(&until.contains_all);
            let matched = until.status.is_none_or(|status| status == response.status)
                && texts.all(|text| {
                    response.body.to_string().contains(&expand_text(text, &self.variables))
                });
            let expired = Instant::now() >= deadline;
            if expired && is_real && !matched && !until.may_time_out {
                return Err(RunError::Unmatched { step: at + 1 });
            }
            if matched || cannot_match || expired {
                return Ok(response);
            }
            tokio::time::sleep(Duration::from_millis(15)).await;
        }
    }

    async fn execute(&mut self, at: usize, step: &Step) -> Result<StepResponse, RunError> {
        let Some(name) = &step.watch else { return self.response_or_facts(at, step).await };
        let response = self.send(at, step).await?;
        if response.status().as_u16() != 200 {
            let response = read_response(response).await;
            if !is_initializing(&response) {
                return Ok(response);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
            return Box::pin(self.execute(at, step)).await;
        }
        let headers = headers_of(response.headers());
        let (sender, events) = mpsc::channel(1024);
        self.readers.spawn(read_stream(response, sender));
        self.streams.insert(name.clone(), Stream { events, ended: false });
        Ok(StepResponse { status: 200, headers, ..StepResponse::default() })
    }

    /// Returns the response, with the body reduced to facts if the step requests it.
    async fn response_or_facts(&self, at: usize, step: &Step) -> Result<StepResponse, RunError> {
        let mut response = self.request(at, step).await?;
        if let Some(scope) = step.facts {
            response.body = facts::extract(&response.body, scope, self.variables["group"].as_str());
            response.layout = None;
        }
        Ok(response)
    }

    /// Sends a request. Retries while kube-apiserver initializes the handler of a new CRD.
    async fn request(&self, at: usize, step: &Step) -> Result<StepResponse, RunError> {
        let deadline = Instant::now() + UNTIL_TIMEOUT;
        loop {
            let response = read_response(self.send(at, step).await?).await;
            if !is_initializing(&response) || Instant::now() >= deadline {
                return Ok(response);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn send(&self, at: usize, step: &Step) -> Result<Response<ResponseBody>, RunError> {
        let request = self.build(step).map_err(|source| RunError::Step { step: at + 1, source })?;
        let failed = |source| RunError::Connection { step: at + 1, source };
        self.server.send(request).await.map_err(failed)
    }

    fn build(&self, step: &Step) -> Result<Request<Full<Bytes>>, http::Error> {
        let (method, path) = step.method_and_path();
        let body = self.body(step);
        let mut request = Request::builder()
            .method(method)
            .uri(expand_text(path, &self.variables))
            .header("user-agent", "differ/1.0");
        let has = |name: &str| step.headers.keys().any(|header| header.eq_ignore_ascii_case(name));
        if !has("accept") {
            request = request.header("accept", "application/json");
        }
        if body.is_some() && !has("content-type") {
            let content_type = step.content_type.as_deref().unwrap_or("application/json");
            if !content_type.is_empty() {
                request = request.header("content-type", content_type);
            }
        }
        for (name, value) in &step.headers {
            request = request.header(name, expand_text(value, &self.variables));
        }
        request.body(Full::new(body.unwrap_or_default()))
    }

    fn body(&self, step: &Step) -> Option<Bytes> {
        if let Some(raw) = &step.raw {
            return Some(expand_text(raw, &self.variables).into());
        }
        let mut body = match (&step.from, &step.body) {
            (Some(name), _) => self.variables.get(name).cloned().unwrap_or(Value::Null),
            (None, Some(body)) => expand(body, &self.variables),
            (None, None) => return None,
        };
        for (pointer, value) in &step.set {
            set_at(&mut body, pointer, expand(value, &self.variables));
        }
        for (pointer, size) in &step.fill {
            set_at(&mut body, pointer, "x".repeat(*size).into());
        }
        for pointer in &step.unset {
            unset_at(&mut body, pointer);
        }
        for (pointer, depth) in &step.nest {
            set_at(&mut body, pointer, format!("${{nest {depth}}}").into());
        }
        if let (Some(times), Value::Array(items)) = (step.repeat, &mut body) {
            *items = items.iter().cycle().take(items.len() * times).cloned().collect();
        }
        let mut text = body.to_string();
        // Nested objects are inserted as text: dropping such a `Value` would overflow the stack.
        for depth in step.nest.values() {
            let levels = format!("{}1{}", "{\"a\":".repeat(*depth), "}".repeat(*depth));
            text = text.replace(&format!("\"${{nest {depth}}}\""), &levels);
        }
        Some(text.into())
    }

    async fn read(
        &mut self,
        name: &str,
        to_the_end: bool,
        expected: Option<&StepResponse>,
    ) -> StepResponse {
        let Some(stream) = self.streams.get_mut(name) else { return StepResponse::default() };
        let expected = expected.and_then(|response| {
            let count = response.body["events"].as_array()?.len();
            Some((count, response.body["ended"] == true))
        });
        let mut events = Vec::new();
        let mut last_event = self.last_request;
        while !stream.ended {
            let now = Instant::now();
            let until = match expected {
                _ if to_the_end => now + END_TIMEOUT,
                Some((count, ends)) if events.len() < count || ends => now + EXPECTED_EVENT_TIMEOUT,
                Some(_) => now + EXTRA_EVENT_TIMEOUT,
                None => last_event + self.idle_timeout,
            };
            match timeout_at(until, stream.events.recv()).await {
                Ok(Some(ReceivedEvent { event, .. })) if is_periodic_bookmark(&event) => {}
                Ok(Some(ReceivedEvent { event, at })) => {
                    events.push(event);
                    last_event = last_event.max(at);
                }
                Ok(None) => stream.ended = true,
                Err(_) => break,
            }
        }
        StepResponse {
            body: json!({"events": events, "ended": stream.ended}),
            ..StepResponse::default()
        }
    }

    /// Deletes the CRDs of the sequence, which are expensive for kube-apiserver. Other objects are
    /// left.
    async fn clean_up(&mut self, sequence: &Sequence) {
        self.streams.clear();
        let group = expand_text("${group}", &self.variables);
        for step in &sequence.steps {
            let create_crd = "POST /apis/apiextensions.k8s.io/v1/customresourcedefinitions";
            if !step.call.starts_with(create_crd) {
                continue;
            }
            let plural = step.body.as_ref().and_then(|body| body.pointer("/spec/names/plural"));
            if let Some(Value::String(plural)) = plural {
                let path = format!(
                    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{plural}.{group}"
                );
                let _ = self.request(0, &Step::call("DELETE", path)).await;
            }
        }
    }
}

async fn read_response(response: Response<ResponseBody>) -> StepResponse {
    let status = response.status().as_u16();
    let headers = headers_of(response.headers());
    let kind = headers.get("content-type").map_or("", String::as_str);
    let mut layout = None;
    let body = match response.into_body().collect().await {
        // YAML is compared by value: serializers quote differently.
        Ok(body) if kind.contains("yaml") => {
            let text = String::from_utf8_lossy(&body.to_bytes()).into_owned();
            serde_saphyr::from_str(&text).unwrap_or(Value::String(text))
        }
        Ok(body) if kind == "application/vnd.kubernetes.protobuf" => {
            match protobuf::decode(&body.to_bytes()) {
                Ok(decoded) => decoded.object,
                Err(why) => Value::String(format!("<no object in protobuf: {why}>")),
            }
        }
        Ok(body) => {
            let bytes = body.to_bytes();
            layout = Layout::of(&bytes);
            parse(&bytes)
        }
        Err(error) => Value::String(format!("<incomplete response: {error}>")),
    };
    StepResponse { status, headers, body, layout }
}

async fn read_stream(response: Response<ResponseBody>, sender: mpsc::Sender<ReceivedEvent>) {
    let received = |line: &[u8]| ReceivedEvent { event: parse(line), at: Instant::now() };
    let mut body = response.into_body();
    let mut pending = Vec::new();
    while let Some(Ok(frame)) = body.frame().await {
        let Ok(data) = frame.into_data() else { continue };
        pending.extend_from_slice(&data);
        while let Some(end) = pending.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = pending.drain(..=end).collect();
            if sender.send(received(line.trim_ascii())).await.is_err() {
                return;
            }
        }
    }
    if !pending.trim_ascii().is_empty() {
        let _ = sender.send(received(&pending)).await;
    }
}

/// Bookmarks are sent periodically, except the one that ends the initial events.
fn is_periodic_bookmark(event: &Value) -> bool {
    event["type"] == "BOOKMARK"
        && event.pointer("/object/metadata/annotations/k8s.io~1initial-events-end").is_none()
}

fn parse(bytes: &[u8]) -> Value {
    if bytes.is_empty() {
        return Value::Null;
    }
    serde_json::from_slice(bytes)
        .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(bytes).into_owned()))
}

fn headers_of(headers: &HeaderMap) -> BTreeMap<String, String> {
    let mut kept = BTreeMap::new();
    for name in HEADERS {
        let values: Vec<_> =
            headers.get_all(name).iter().map(|v| String::from_utf8_lossy(v.as_bytes())).collect();
        if !values.is_empty() {
            kept.insert(name.to_owned(), values.join(" ; "));
        }
    }
    kept
}
