//! The gate: every request of the operator and every watch event for it passes here, and the faults
//! of the plan act here.

mod call;

mod faults;

mod stream;

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use evenkeel::BoxError;
use evenkeel_cluster::Cluster;
use evenkeel_types::watch;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use http_body_util::combinators::UnsyncBoxBody;
use kube::client::Body;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::time::Instant;

pub(crate) use call::{Call, is_auxiliary};
use faults::{Faults, Hold};

use crate::plan::{Effect, Fault};
use crate::state::{self, controller_of};
use crate::trace::{Lane, Recorder};
use crate::user::User;

/// Requests of one step, beyond which the operator counts as out of control.
const MAX_REQUESTS: usize = 1_000;

/// Commands that wait for the driver; each incarnation sends at most one.
const COMMANDS: usize = 64;

/// How long a server lags behind that a restarted operator connects to.
const STALE: Duration = Duration::from_secs(10);

pub(crate) type SimBody = UnsyncBoxBody<Bytes, BoxError>;

/// What the driver of the run has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// The incarnation has crashed.
    Crash(u32),
    /// Stop the incarnation in order and start the next one.
    Restart(u32),
}

/// A write of the operator that reached the server.
#[derive(Clone, Debug)]
pub(crate) struct Write {
    pub(crate) call: Call,
    pub(crate) nth: u32,
    pub(crate) code: u16,
    /// The name of the object in the response.
    pub(crate) name: String,
    /// The revision of the write; `None` if it changed nothing.
    pub(crate) revision: Option<u64>,
    /// The index of the step of the workload.
    pub(crate) step: usize,
    /// The uid of the controller of the object, before a deletion.
    pub(crate) controller: Option<String>,
}

impl Write {
    /// Returns `resource namespace/name`.
    pub(crate) fn object(&self) -> String {
        state::path(&self.call.resource, &self.call.namespace, &self.name)
    }
}

/// What the operator requested in a run.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    pub(crate) writes: Vec<Write>,
    /// Watch events by resource.
    pub(crate) events: BTreeMap<String, u32>,
    /// Watch requests by resource.
    pub(crate) watches: BTreeMap<String, u32>,
    pub(crate) count: usize,
}

struct State {
    faults: Faults,
    requests: Requests,
    /// The incarnation that may send requests.
    incarnation: u32,
    step: usize,
    /// The revision at the start of the step, for stale lists.
    step_revision: u64,
    /// Resources whose next list is stale.
    stale_lists: Option<StaleLists>,
    /// Until when the server is unreachable.
    outage: Option<Instant>,
}

impl State {
    /// Lets the next incarnation connect to a server that lags behind.
    fn become_stale(&mut self) {
        let revision = self.step_revision;
        self.stale_lists = Some(StaleLists { revision, listed: Vec::new() });
        let hold = Hold { until: Instant::now() + STALE, until_write: None };
        for resource in self.requests.watches.keys() {
            self.faults.hold(resource, hold);
        }
    }
}

/// The first lists of an incarnation are served at a revision.
struct StaleLists {
    revision: u64,
    listed: Vec<String>,
}

pub(crate) struct Gate {
    cluster: Arc<Cluster>,
    user: User,
    recorder: Recorder,
    state: Mutex<State>,
    commands: mpsc::Sender<Command>,
    /// Writes of the operator so far, for events that are held until the next one.
    written: watch::Sender<u64>,
}

impl Gate {
    pub(crate) fn new(
        cluster: Arc<Cluster>,
        recorder: Recorder,
        faults: &[Fault],
    ) -> (Arc<Self>, mpsc::Receiver<Command>) {
        let (commands, received) = mpsc::channel(COMMANDS);
        let state = State {
            faults: Faults::new(faults),
            requests: Requests::default(),
            incarnation: 0,
            step: 0,
            step_revision: cluster.server().revision(),
            stale_lists: None,
            outage: None,
        };
        let gate = Self {
            user: User::new(cluster.server().service()),
            cluster,
            recorder,
            state: Mutex::new(state),
            commands,
            written: watch::Sender::new(0),
        };
        (Arc::new(gate), received)
    }

    /// Returns a client for the next incarnation. The one before can send nothing any more.
    pub(crate) fn admit(self: &Arc<Self>) -> (u32, kube::Client) {
        let mut state = self.state.lock();
        state.incarnation += 1;
        let service = OperatorService { gate: self.clone(), incarnation: state.incarnation };
        (state.incarnation, kube::Client::new(service, "default"))
    }

    /// Lets the incarnation send nothing any more.
    pub(crate) fn close(&self) {
        self.state.lock().incarnation += 1;
    }

    pub(crate) fn begin_step(&self, step: usize) {
        let mut state = self.state.lock();
        state.step = step;
        state.requests.count = 0;
        state.step_revision = self.cluster.server().revision();
    }

    /// Returns the faults that have not happened.
    pub(crate) fn unused_faults(&self) -> Vec<Fault> {
        self.state.lock().faults.unused()
    }

    pub(crate) fn writes_so_far(&self) -> usize {
        self.state.lock().requests.writes.len()
    }

    pub(crate) fn is_out_of_control(&self) -> bool {
        self.state.lock().requests.count > MAX_REQUESTS
    }

    pub(crate) fn take_requests(&self) -> Requests {
        std::mem::take(&mut self.state.lock().requests)
    }

    fn is_open(&self, incarnation: u32) -> bool {
        self.state.lock().incarnation == incarnation
    }

    /// Never completes: the incarnation has crashed.
    async fn crash(&self, incarnation: u32, text: String) -> ! {
        if self.is_open(incarnation) {
            self.close();
            self.recorder.fault(Lane::Operator, text);
            let _ = self.commands.try_send(Command::Crash(incarnation));
        }
        std::future::pending::<std::convert::Infallible>().await;
        unreachable!()
    }
}

/// The API server as one incarnation of the operator reaches it.
#[derive(Clone)]
pub(crate) struct OperatorService {
    gate: Arc<Gate>,
    incarnation: u32,
}

impl tower_service::Service<Request<Body>> for OperatorService {
    type Response = Response<SimBody>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<SimBody>, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let this = self.clone();
        Box::pin(async move {
            let response = this.pass(request).await;
            if !this.gate.is_open(this.incarnation) {
                std::future::pending::<()>().await;
            }
            response
        })
    }
}

impl OperatorService {
    async fn pass(&self, mut request: Request<Body>) -> Result<Response<SimBody>, BoxError> {
        let gate = &self.gate;
        if !gate.is_open(self.incarnation) {
            std::future::pending::<()>().await;
        }
        let Some(call) = Call::parse(&request) else { return self.forward(request).await };
        let (nth, effect) = {
            let mut state = gate.state.lock();
            state.requests.count += 1;
            if state.outage.is_some_and(|until| Instant::now() < until) {
                return Err(connection_refused());
            }
            if call.verb == "watch" {
                *state.requests.watches.entry(call.resource.clone()).or_default() += 1;
            }
            state.faults.at_request(&call)
        };
        if gate.is_out_of_control() {
            // Lets virtual time pass, so that the run ends.
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        if let Some(refused) = self.unavailable(&call, &mut request) {
            return refused;
        }
        match effect {
            Some(effect) => self.inject(call, nth, effect, request).await,
            None if call.verb == "watch" => self.watch(call, request).await,
            None if call.is_write() => self.write(&call, nth, request, false).await,
            None => self.forward(request).await,
        }
    }

    /// Applies what an earlier fault does to lists and watches of a resource.
    fn unavailable(
        &self,
        call: &Call,
        request: &mut Request<Body>,
    ) -> Option<Result<Response<SimBody>, BoxError>> {
        if !matches!(call.verb, "list" | "watch") {
            return None;
        }
        let mut state = self.gate.state.lock();
        match state.faults.gap(&call.resource) {
            Some(true) => return Some(Err(connection_refused())),
            Some(false) if call.verb == "watch" => return Some(Ok(faults::expired())),
            _ => {}
        }
        let stale = state.stale_lists.as_mut()?;
        let query = request.uri().query().unwrap_or_default();
        if call.verb == "watch" && query.contains("sendInitialEvents=true") {
            // A server without streaming lists; the client falls back to a list.
            let listed = stale.listed.contains(&call.resource);
            return (!listed).then(|| Ok(faults::no_streaming_lists()));
        }
        let any = query.split('&').any(|it| it == "resourceVersion=0");
        if call.verb == "list" && any && !stale.listed.contains(&call.resource) {
            stale.listed.push(call.resource.clone());
            let exact = format!("resourceVersion={}&resourceVersionMatch=Exact", stale.revision);
            let uri = request.uri().to_string().replace("resourceVersion=0", &exact);
            if let Ok(uri) = uri.parse() {
                *request.uri_mut() = uri;
                let text = format!("{} is listed as of revision {}", call.resource, stale.revision);
                self.gate.recorder.fault(Lane::Cache, text);
            }
        }
        None
    }

    async fn inject(
        &self,
        call: Call,
        nth: u32,
        effect: Effect,
        request: Request<Body>,
    ) -> Result<Response<SimBody>, BoxError> {
        let gate = &self.gate;
        let text = |what: &str| format!("{what} {} {} {}", call.verb, call.resource, call.object());
        match effect {
            Effect::CrashBefore => gate.crash(self.incarnation, text("crashes before")).await,
            Effect::CrashAfter | Effect::StaleRestart => {
                let _ = self.write(&call, nth, request, true).await;
                if effect == Effect::StaleRestart {
                    gate.state.lock().become_stale();
                }
                gate.crash(self.incarnation, text("crashes after")).await
            }
            Effect::LoseResponse => {
                let _ = self.write(&call, nth, request, true).await;
                gate.recorder.fault(Lane::Operator, text("the response is lost:"));
                Err(BoxError::from(std::io::Error::from(std::io::ErrorKind::ConnectionReset)))
            }
            Effect::Touch => {
                self.touch(&call).await;
                self.write(&call, nth, request, true).await
            }
            Effect::DeleteObject | Effect::RecreateObject => {
                let response = self.write(&call, nth, request, true).await;
                self.interfere(&call, effect == Effect::RecreateObject).await;
                response
            }
            Effect::Reject(code) => {
                let text = format!("{} {} {}", call.verb, call.resource, call.object());
                gate.recorder.fault(Lane::Server, format!("rejects {text} with {code}"));
                Ok(faults::rejection(code))
            }
            Effect::Outage(seconds) => {
                let until = Instant::now() + Duration::from_secs(seconds.into());
                gate.state.lock().outage = Some(until);
                // Wakes the watches, which end.
                gate.written.send_modify(|_| {});
                gate.recorder.fault(Lane::Server, format!("is unreachable for {seconds} s"));
                Err(connection_refused())
            }
            Effect::Restart => {
                let response = self.write(&call, nth, request, true).await;
                gate.recorder.fault(Lane::Operator, text("is stopped after"));
                let _ = gate.commands.try_send(Command::Restart(self.incarnation));
                response
            }
            Effect::Expire if call.verb == "watch" => {
                gate.recorder.fault(Lane::Cache, format!("watch of {}: 410", call.resource));
                Ok(faults::expired())
            }
            Effect::EndEmpty if call.verb == "watch" => {
                gate.recorder.fault(Lane::Cache, format!("watch of {} ends", call.resource));
                Ok(faults::empty())
            }
            Effect::Freeze if call.verb == "watch" => {
                gate.recorder.fault(Lane::Cache, format!("watch of {} is silent", call.resource));
                Ok(stream::silent())
            }
            _ if call.verb == "watch" => self.watch(call, request).await,
            _ => self.write(&call, nth, request, false).await,
        }
    }

    async fn forward(&self, request: Request<Body>) -> Result<Response<SimBody>, BoxError> {
        let mut server = self.gate.cluster.server().service();
        let Ok(response) = tower_service::Service::call(&mut server, request).await;
        Ok(response.map(|body| body.map_err(|never| match never {}).boxed_unsync()))
    }

    async fn watch(
        &self,
        call: Call,
        request: Request<Body>,
    ) -> Result<Response<SimBody>, BoxError> {
        let response = self.forward(request).await?;
        if !response.status().is_success() {
            return Ok(response);
        }
        let (gate, incarnation) = (self.gate.clone(), self.incarnation);
        Ok(response.map(|body| stream::watched(gate, incarnation, call.resource, body)))
    }

    /// Sends a write and records it.
    async fn write(
        &self,
        call: &Call,
        nth: u32,
        request: Request<Body>,
        fault: bool,
    ) -> Result<Response<SimBody>, BoxError> {
        let gate = &self.gate;
        let before = gate.cluster.server().revision();
        let controller = match call.verb {
            "delete" => {
                let object = gate.user.get(&call.path).await.unwrap_or_default();
                controller_of(&object).map(str::to_owned)
            }
            _ => None,
        };
        let response = self.forward(request).await?;
        if !gate.is_open(self.incarnation) {
            std::future::pending::<()>().await;
        }
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await?.to_bytes();
        let code = parts.status.as_u16();
        let value: serde_json::Value = serde_json::from_slice(&bytes).unwrap_or_default();
        let version = value["metadata"]["resourceVersion"].as_str();
        let revision = version.and_then(|it| it.parse().ok()).filter(|it| *it > before);
        let deleted = call.verb == "delete" && gate.cluster.server().revision() > before;
        let revision = match (code, deleted) {
            (200..300, true) => Some(gate.cluster.server().revision()),
            (200..300, false) => revision,
            _ => None,
        };
        let name = value["metadata"]["name"].as_str().unwrap_or(&call.name).to_owned();
        if !call.is_auxiliary() {
            let changed = if revision.is_some() || code >= 300 { "" } else { ", unchanged" };
            let text = format!(
                "{} {} {}/{name} → {code}{changed}",
                call.verb, call.resource, call.namespace
            );
            match fault {
                true => gate.recorder.fault(Lane::Operator, text),
                false => gate.recorder.record(Lane::Operator, text),
            }
            let mut state = gate.state.lock();
            let step = state.step;
            state.requests.writes.push(Write {
                call: call.clone(),
                nth,
                code,
                name,
                revision,
                step,
                controller,
            });
            drop(state);
            gate.written.send_modify(|count| *count += 1);
        }
        Ok(Response::from_parts(parts, faults::full(bytes)))
    }

    /// Changes the object as another client.
    async fn touch(&self, call: &Call) {
        if call.name.is_empty() {
            return;
        }
        let value = self.gate.cluster.server().revision().to_string();
        let patch = serde_json::json!({"metadata": {"annotations": {state::TOUCHED: value}}});
        if self.gate.user.merge(&call.path, &patch).await.is_ok() {
            let text = format!("another client touches {} {}", call.resource, call.object());
            self.gate.recorder.fault(Lane::User, text);
        }
    }

    /// Deletes the object as another client, and creates it again.
    async fn interfere(&self, call: &Call, recreate: bool) {
        let last = self.gate.state.lock().requests.writes.last().cloned();
        let Some(write) = last else { return };
        let path = match call.name.is_empty() {
            true => format!("{}/{}", call.path, write.name),
            false => call.path.clone(),
        };
        let Some(mut object) = self.gate.user.get(&path).await else { return };
        if self.gate.user.delete(&path).await.is_err() {
            return;
        }
        let name = write.object();
        self.gate.recorder.fault(Lane::User, format!("another client deletes {name}"));
        if recreate {
            if let Some(metadata) = object["metadata"].as_object_mut() {
                metadata.retain(|field, _| matches!(&**field, "name" | "namespace" | "labels"));
            }
            if self.gate.user.create(&object).await.is_ok() {
                self.gate.recorder.fault(Lane::User, format!("another client creates {name}"));
            }
        }
    }
}

fn connection_refused() -> BoxError {
    BoxError::from(std::io::Error::from(std::io::ErrorKind::ConnectionRefused))
}
