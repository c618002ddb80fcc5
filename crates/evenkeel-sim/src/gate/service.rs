//! The API server as one incarnation of the operator reaches it: each request passes here, and the
//! faults of the plan act on it.

use std::borrow::Cow;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use evenkeel::BoxError;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use tokio::time::Instant;

use super::conditions::Refusal;
use super::other_client::OtherWrite;
use super::{Call, Command, Gate, SimBody, Write, connection_refused, faults, stream};
use crate::plan::Effect;
use crate::state::controller_of;
use crate::trace::Lane;

/// How long a restart of the server takes.
const SERVER_RESTART: u32 = 2;

/// The client of one incarnation.
#[derive(Clone)]
pub(crate) struct OperatorService {
    pub(super) gate: Arc<Gate>,
    pub(super) incarnation: u32,
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
        this.gate.note_thread(format_args!("{} {}", request.method(), request.uri().path()));
        Box::pin(async move {
            let response = this.pass(request).await;
            this.gate.until_resumed(this.incarnation).await;
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
        let line = format!("{} {}", request.method(), request.uri().path());
        gate.note_escape(self.incarnation, line);
        if !gate.is_open(self.incarnation) {
            std::future::pending::<()>().await;
        }
        gate.until_resumed(self.incarnation).await;
        let Some(call) = Call::parse(&request) else { return self.forward(request).await };
        if call.is_lease() {
            return self.pass_lease(call, request).await;
        }
        if let Some(target) = call.proxied()
            && let Some(application) = gate.application()
        {
            return self.pass_proxied(&call, &target, application, request).await;
        }
        let (nth, effect, refusal) = {
            let mut state = gate.state.lock();
            state.requests.count += 1;
            let query = request.uri().query().unwrap_or_default();
            let refusal = state.conditions.refusal(&call, query);
            if refusal == Some(Refusal::NoConnection) {
                return Err(connection_refused());
            }
            if !call.is_write() && !state.requests.read.contains(call.main_resource()) {
                state.requests.read.insert(call.main_resource().to_owned());
            }
            if call.verb == "watch" {
                *state.requests.watches.entry(call.resource.clone()).or_default() += 1;
            }
            let (nth, effect) = state.faults.at_request(&call);
            (nth, effect, refusal)
        };
        gate.slow_down().await;
        match refusal {
            Some(Refusal::Rejected(code)) => return Ok(faults::rejection(code)),
            Some(Refusal::TooLarge) => return Ok(faults::too_large()),
            Some(Refusal::Expired) => {
                let text = format!("the second page of {} has expired", call.resource);
                gate.recorder.fault(Lane::Cache, text);
                return Ok(faults::expired());
            }
            Some(Refusal::NoConnection) | None => {}
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

    /// Passes a request for the lease of the operator.
    async fn pass_lease(
        &self,
        call: Call,
        request: Request<Body>,
    ) -> Result<Response<SimBody>, BoxError> {
        let (effect, partitioned, delay, outage) = {
            let mut state = self.gate.state.lock();
            let (_, effect) = state.faults.at_request(&call);
            let conditions = &state.conditions;
            let partitioned = conditions.partitioned_until(self.incarnation);
            (effect, partitioned, conditions.lease_delay(self.incarnation), conditions.is_outage())
        };
        if outage {
            return Err(connection_refused());
        }
        if let Some(until) = partitioned {
            tokio::time::sleep_until(until).await;
            return Err(connection_refused());
        }
        if let Some(effect) = effect {
            return self.inject(call, 1, effect, request).await;
        }
        let response = match call.verb {
            "watch" => self.watch(call, request).await,
            _ => {
                let writes = call.is_write();
                let response = self.forward(request).await?;
                if writes { self.gate.note_holder(response).await } else { Ok(response) }
            }
        };
        if let Some(delay) = delay {
            tokio::time::sleep(delay).await;
        }
        response
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
        let query = request.uri().query().unwrap_or_default();
        let streams = call.verb == "watch" && query.contains("sendInitialEvents=true");
        if state.conditions.is_paged(&call.resource) {
            if streams {
                return Some(Ok(faults::no_streaming_lists()));
            }
            // Without a limit, there are no pages.
            if call.verb == "list" && query.split('&').any(|it| it.starts_with("limit=")) {
                // An exact number of objects needs a current list.
                let kept = query
                    .split('&')
                    .filter(|it| !it.starts_with("limit=") && *it != "resourceVersion=0");
                let query: Vec<&str> = kept.chain(["limit=1"]).collect();
                let uri = format!("{}?{}", request.uri().path(), query.join("&"));
                if let Ok(uri) = uri.parse() {
                    *request.uri_mut() = uri;
                }
            }
            return None;
        }
        let stale = state.stale_lists.as_mut()?;
        if streams {
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
            Effect::DeleteObject => {
                self.written_then(&call, nth, request, OtherWrite::Delete).await
            }
            Effect::RecreateObject => {
                self.written_then(&call, nth, request, OtherWrite::Recreate).await
            }
            Effect::EditObject => self.written_then(&call, nth, request, OtherWrite::Edit).await,
            Effect::EvictPod => self.written_then(&call, nth, request, OtherWrite::Evict).await,
            Effect::TakeName(seconds) => {
                let request = self.take_name(&call, seconds, request).await?;
                self.write(&call, nth, request, true).await
            }
            Effect::Restart => {
                let response = self.write(&call, nth, request, true).await;
                gate.recorder.fault(Lane::Operator, text("is stopped after"));
                let _ = gate.commands.try_send(Command::Restart(self.incarnation));
                response
            }
            Effect::Pause(seconds) => {
                gate.state.lock().conditions.pause(self.incarnation, seconds);
                gate.recorder.fault(Lane::Operator, text("is paused before"));
                gate.until_resumed(self.incarnation).await;
                self.send(&call, nth, request, true).await
            }
            _ if call.verb == "watch" => self.inject_watch(call, effect, request).await,
            _ => match self.begin(&call, effect) {
                Some(refused) => refused,
                None => self.send(&call, nth, request, true).await,
            },
        }
    }

    /// Begins a condition; returns the response, unless the request is sent.
    fn begin(&self, call: &Call, effect: Effect) -> Option<Result<Response<SimBody>, BoxError>> {
        let gate = &self.gate;
        let mut state = gate.state.lock();
        let conditions = &mut state.conditions;
        let text = format!("{} {} {}", call.verb, call.resource, call.object());
        let server = |text: String| gate.recorder.fault(Lane::Server, text);
        match effect {
            Effect::Reject(code) => {
                server(format!("rejects {text} with {code}"));
                return Some(Ok(faults::rejection(code)));
            }
            Effect::Deny => {
                server(format!("denies {text}"));
                return Some(Ok(faults::denied()));
            }
            Effect::Forbid(seconds) => {
                conditions.forbid(call, seconds);
                server(format!("forbids {} {} for {seconds} s", call.verb, call.resource));
                return Some(Ok(faults::rejection(403)));
            }
            Effect::Unauthorize(seconds) => {
                conditions.unauthorize(seconds);
                server(format!("rejects every request with 401 for {seconds} s"));
                return Some(Ok(faults::rejection(401)));
            }
            Effect::Poison(seconds) => {
                conditions.poison(call, seconds);
                server(format!("fails requests like {text} for {seconds} s"));
                return Some(Ok(faults::rejection(500)));
            }
            Effect::Untrust(seconds) => {
                conditions.untrust(seconds);
                server(format!("is not trusted for {seconds} s"));
                return Some(Err(connection_refused()));
            }
            Effect::Outage(seconds) => {
                conditions.start_outage(seconds);
                server(format!("is unreachable for {seconds} s"));
            }
            Effect::RestartServer => {
                conditions.start_outage(SERVER_RESTART);
                server("restarts".to_owned());
                let watched: Vec<String> = state.requests.watches.keys().cloned().collect();
                for resource in watched {
                    state.faults.open_gap(&resource);
                }
            }
            Effect::Restore(seconds) => {
                let watched: Vec<String> = state.requests.watches.keys().cloned().collect();
                state.conditions.restore(watched, seconds);
                server("is restored".to_owned());
            }
            Effect::PartitionLease(seconds) => {
                conditions.partition(self.incarnation, seconds);
                let text = format!("the lease is unreachable for {seconds} s");
                gate.recorder.fault(Lane::Leader, text);
                return None;
            }
            Effect::SlowRenew(seconds) => {
                conditions.slow_lease(self.incarnation, seconds);
                let text = format!("responses for the lease are {seconds} s late");
                gate.recorder.fault(Lane::Leader, text);
                return None;
            }
            Effect::ClockRate(percent) => {
                let rate = f64::from(percent) / 100.0;
                for (incarnation, replica) in &state.replicas {
                    if *incarnation != self.incarnation {
                        replica.clock.set_rate(rate);
                    }
                }
                drop(state);
                let text = format!("the clocks of the others run at {percent} %");
                gate.recorder.fault(Lane::Leader, text);
                return None;
            }
            Effect::Mutate => {
                conditions.mutate(call.main_resource());
                server(format!("a webhook changes {} from now on", call.main_resource()));
                return None;
            }
            _ => return None,
        }
        drop(state);
        // Wakes the watches, which end.
        gate.written.send_modify(|_| {});
        Some(Err(connection_refused()))
    }

    async fn inject_watch(
        &self,
        call: Call,
        effect: Effect,
        request: Request<Body>,
    ) -> Result<Response<SimBody>, BoxError> {
        let gate = &self.gate;
        match effect {
            Effect::Expire => {
                gate.recorder.fault(Lane::Cache, format!("watch of {}: 410", call.resource));
                Ok(faults::expired())
            }
            Effect::EndEmpty => {
                gate.recorder.fault(Lane::Cache, format!("watch of {} ends", call.resource));
                Ok(faults::empty())
            }
            Effect::Freeze => {
                gate.recorder.fault(Lane::Cache, format!("watch of {} is silent", call.resource));
                Ok(stream::silent())
            }
            Effect::ExpireContinue => {
                gate.state.lock().conditions.page(&call.resource);
                let text = format!("{} is listed in pages of one object", call.resource);
                gate.recorder.fault(Lane::Cache, text);
                match streams(&request) {
                    true => Ok(faults::no_streaming_lists()),
                    false => Ok(faults::expired()),
                }
            }
            effect => match self.begin(&call, effect) {
                Some(refused) => refused,
                None => self.watch(call, request).await,
            },
        }
    }

    pub(super) async fn forward(
        &self,
        request: Request<Body>,
    ) -> Result<Response<SimBody>, BoxError> {
        let mut server = self.gate.server.clone();
        let Ok(response) = tower_service::Service::call(&mut server, request).await;
        Ok(response.map(|body| body.map_err(|never| match never {}).boxed_unsync()))
    }

    async fn watch(
        &self,
        call: Call,
        request: Request<Body>,
    ) -> Result<Response<SimBody>, BoxError> {
        let streams = streams(&request);
        let query = request.uri().query().unwrap_or_default();
        let bookmarks = query.contains("allowWatchBookmarks=true");
        let response = self.forward(request).await?;
        if !response.status().is_success() {
            return Ok(response);
        }
        let (gate, incarnation) = (self.gate.clone(), self.incarnation);
        let number = gate.open_watch(&call.resource);
        let resource = call.resource;
        let watch = stream::Watch { gate, incarnation, resource, number, streams, bookmarks };
        Ok(response.map(|body| stream::watched(watch, body)))
    }

    /// Sends a request that is not a watch.
    async fn send(
        &self,
        call: &Call,
        nth: u32,
        request: Request<Body>,
        fault: bool,
    ) -> Result<Response<SimBody>, BoxError> {
        match call.is_write() {
            true => self.write(call, nth, request, fault).await,
            false => self.forward(request).await,
        }
    }

    /// Sends a write, and lets another client act on the object.
    async fn written_then(
        &self,
        call: &Call,
        nth: u32,
        request: Request<Body>,
        other_write: OtherWrite,
    ) -> Result<Response<SimBody>, BoxError> {
        let (parts, body) = request.into_parts();
        let bytes = body.collect().await?.to_bytes();
        let sent: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        let request = Request::from_parts(parts, Body::from(bytes.to_vec()));
        let response = self.write(call, nth, request, true).await;
        self.write_as_other_client(call, &sent, other_write).await;
        response
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
        let led = gate.leads(self.incarnation);
        let response = self.forward(request).await?;
        if !gate.is_open(self.incarnation) {
            std::future::pending::<()>().await;
        }
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await?.to_bytes();
        let code = parts.status.as_u16();
        let written: Written<'_> = serde_json::from_slice(&bytes).unwrap_or_default();
        let Metadata { resource_version, name, uid, .. } = &written.metadata;
        let revision = resource_version.parse().ok().filter(|it| *it > before);
        // The response to the removal of the last finalizer has the version before the deletion.
        let deletes = call.verb == "delete" || written.metadata.is_gone();
        let deleted = deletes && gate.cluster.server().revision() > before;
        let revision = match (code, deleted) {
            (200..300, true) => Some(gate.cluster.server().revision()),
            (200..300, false) => revision,
            _ => None,
        };
        if revision.is_some() {
            // The response to a deletion may be a Status, with the uid in its details.
            let uid = if uid.is_empty() { written.details.uid } else { uid };
            gate.check_taken(call, uid);
        }
        let name = if name.is_empty() { call.name.clone() } else { name.clone().into_owned() };
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
            let object = {
                let mut state = gate.state.lock();
                let step = state.step;
                let call = call.clone();
                let name = name.clone();
                if revision.is_some() {
                    state.conditions.note_write();
                }
                let write = Write { call, nth, code, name, before, revision, step, controller };
                let object = write.object();
                state.requests.writes.push(write);
                object
            };
            if revision.is_some() {
                gate.check_lease(self.incarnation, led, &object).await;
            }
            gate.written.send_modify(|count| *count += 1);
        } else if call.main_resource().starts_with("events") {
            gate.search(&bytes, &name);
        }
        Ok(Response::from_parts(parts, faults::full(bytes)))
    }
}

/// What the gate needs of the response of a write: an object, or a Status.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Written<'a> {
    #[serde(borrow)]
    metadata: Metadata<'a>,
    #[serde(borrow)]
    details: Details<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Details<'a> {
    uid: &'a str,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Metadata<'a> {
    resource_version: &'a str,
    uid: &'a str,
    #[serde(borrow)]
    name: Cow<'a, str>,
    deletion_timestamp: Option<IgnoredAny>,
    deletion_grace_period_seconds: Option<u64>,
    finalizers: Vec<IgnoredAny>,
}

impl Metadata<'_> {
    /// Whether nothing delays the deletion of the object any more.
    fn is_gone(&self) -> bool {
        self.deletion_timestamp.is_some()
            && self.finalizers.is_empty()
            && self.deletion_grace_period_seconds.unwrap_or_default() == 0
    }
}

/// Whether the watch begins with a list.
fn streams(request: &Request<Body>) -> bool {
    request.uri().query().unwrap_or_default().contains("sendInitialEvents=true")
}

impl Gate {
    /// Lets virtual time pass while the operator is out of control, so that the run ends.
    pub(super) async fn slow_down(&self) {
        if self.is_out_of_control() {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }

    /// Waits while the process of an incarnation is paused.
    pub(super) async fn until_resumed(&self, incarnation: u32) {
        loop {
            let until = self.state.lock().conditions.paused_until(incarnation);
            match until {
                Some(until) => tokio::time::sleep_until(until.max(Instant::now())).await,
                None => return,
            }
        }
    }
}
