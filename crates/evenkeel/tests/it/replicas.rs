//! Replicas of an operator, each with a connection and a clock of its own.
//!
//! A request that was sent arrives, whatever happens to its sender: that is how a network behaves,
//! and why a former leader can do harm. Each connection checks on its own, from the requests that
//! pass it, that its replica sends nothing after its deadline.

use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use bytes::Bytes;
use evenkeel::k8s_openapi::api::coordination::v1::Lease;
use evenkeel::k8s_openapi::api::core::v1::ConfigMap;
use evenkeel::kube::api::{Patch, PatchParams};
use evenkeel::kube::client::Body;
use evenkeel::kube::{Api, Client};
use evenkeel::leader::{LeaderElection, MonotonicClock};
use evenkeel::manager::{RunError, Stop};
use evenkeel::prelude::*;
use evenkeel_apiserver::ApiServer;
use http::{Method, Request, Response};
use http_body::Frame;
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::sleep;
use tower_service::Service;

use crate::harness::map;

pub(crate) const LEASE: &str = "operator";

/// A server, the messages on their way to it, and what it has committed.
#[derive(Clone)]
pub(crate) struct Network(Arc<NetworkInner>);

struct NetworkInner {
    server: ApiServer,
    start: evenkeel::jiff::Timestamp,
    begun: tokio::time::Instant,
    messages: Mutex<JoinSet<()>>,
    commits: watch::Sender<Commits>,
    random: Mutex<u64>,
}

/// What the server has committed, in its order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Commits {
    /// The holder of the lease.
    pub(crate) holder: String,
    /// When the holder changed last, in virtual time.
    pub(crate) since: Duration,
    /// The identity of the last writer, and how many of its writes were committed.
    pub(crate) writer: String,
    pub(crate) writes: usize,
    /// Writes of processes that did not hold the lease.
    pub(crate) foreign: Vec<String>,
}

impl Network {
    pub(crate) async fn new(seed: u64) -> Self {
        let server = crate::harness::start_server(seed).await;
        let (begun, start) = (tokio::time::Instant::now(), "2026-01-01T00:00:00Z".parse().unwrap());
        let (messages, commits) = (Mutex::default(), watch::Sender::default());
        let random = Mutex::new(seed);
        let network =
            Self(Arc::new(NetworkInner { server, start, begun, messages, commits, random }));
        let maps: Api<ConfigMap> = Api::namespaced(network.admin(), "default");
        maps.create(&Default::default(), &map("state")).await.unwrap();
        network
    }

    /// Returns a client without faults.
    pub(crate) fn admin(&self) -> Client {
        Client::new(self.0.server.service(), "default")
    }

    pub(crate) fn leases(&self) -> Api<Lease> {
        Api::namespaced(self.admin(), "default")
    }

    pub(crate) fn commits(&self) -> Commits {
        self.0.commits.borrow().clone()
    }

    /// Waits until a commit for which `holds` returns true.
    pub(crate) async fn until(&self, what: &str, holds: impl Fn(&Commits) -> bool) -> Commits {
        let mut commits = self.0.commits.subscribe();
        let found = commits.wait_for(|commits| holds(commits));
        match tokio::time::timeout(Duration::from_secs(600), found).await {
            Ok(found) => found.unwrap().clone(),
            Err(_) => panic!("{what} did not happen within the timeout: {:?}", self.commits()),
        }
    }

    /// Returns a random number below `limit`.
    pub(crate) fn random(&self, limit: u64) -> u64 {
        let mut state = self.0.random.lock();
        *state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*state >> 33) % limit.max(1)
    }

    fn random_delay(&self, limit: Duration) -> Duration {
        let micros = self.random(u64::try_from(limit.as_micros()).unwrap() + 1);
        Duration::from_micros(micros)
    }

    fn elapsed(&self) -> Duration {
        self.0.begun.elapsed()
    }

    /// Records a successful write.
    fn record(&self, path: &str, body: &Value) {
        self.0.commits.send_modify(|commits| {
            if path.contains("/leases") {
                let holder = body["spec"]["holderIdentity"].as_str().unwrap_or_default();
                if commits.holder != holder {
                    (commits.holder, commits.since) = (holder.to_owned(), self.elapsed());
                }
                return;
            }
            let writer = body["data"]["writer"].as_str().unwrap_or_default();
            if commits.holder != writer {
                let text = format!("{writer} while {:?} holds the lease", commits.holder);
                commits.foreign.push(text);
            }
            if commits.writer != writer {
                (commits.writer, commits.writes) = (writer.to_owned(), 0);
            }
            commits.writes += 1;
        });
    }
}

/// The connection of one process.
#[derive(Clone)]
pub(crate) struct Link(Arc<LinkInner>);

struct LinkInner {
    network: Network,
    clock: MonotonicClock,
    renew_deadline: Duration,
    state: watch::Sender<State>,
    /// Until when the process may send writes, by its own clock.
    deadline: Mutex<Duration>,
    violations: Mutex<Vec<String>>,
    requests: Mutex<BTreeMap<String, usize>>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    /// The process does not run.
    pub(crate) paused: bool,
    pub(crate) dead: bool,
    /// Requests for the lease get no response.
    pub(crate) lease_cut: bool,
    /// Watching the lease is forbidden.
    pub(crate) watch_forbidden: bool,
    /// The longest time that a message of the work takes, and one of the lease, in each direction.
    pub(crate) delay: Duration,
    pub(crate) lease_delay: Duration,
}

impl Link {
    pub(crate) fn new(network: &Network, clock: &MonotonicClock, renew_deadline: Duration) -> Self {
        Self(Arc::new(LinkInner {
            network: network.clone(),
            clock: clock.clone(),
            renew_deadline,
            state: watch::Sender::default(),
            deadline: Mutex::default(),
            violations: Mutex::default(),
            requests: Mutex::default(),
        }))
    }

    pub(crate) fn set(&self, change: impl FnOnce(&mut State)) {
        self.0.state.send_modify(change);
    }

    /// Returns the requests since the last call: how many per method and resource.
    pub(crate) fn requests(&self) -> BTreeMap<String, usize> {
        std::mem::take(&mut self.0.requests.lock())
    }

    /// Returns the writes that were sent after the deadline.
    pub(crate) fn violations(&self) -> Vec<String> {
        self.0.violations.lock().clone()
    }

    async fn runs(&self) {
        let mut state = self.0.state.subscribe();
        let runs = |state: &State| !state.paused && !state.dead;
        let _ = state.wait_for(runs).await;
    }

    async fn carry(self, request: Request<Body>) -> io::Result<Response<ResponseBody>> {
        self.runs().await;
        let (head, body) = request.into_parts();
        let bytes = body.collect().await.map_err(io::Error::other)?.to_bytes();
        let path = head.uri.path().to_owned();
        let resource = path.split('/').skip_while(|part| *part != "namespaces").nth(2);
        let resource = resource.unwrap_or("other").to_owned();
        let watch = head.uri.query().is_some_and(|query| query.contains("watch=true"));
        let verb = if watch { "WATCH".to_owned() } else { head.method.to_string() };
        *self.0.requests.lock().entry(format!("{verb} {resource}")).or_default() += 1;
        let state = self.0.state.borrow().clone();
        let (lease, sent) = (resource == "leases", self.0.clock.now());
        if lease && state.lease_cut {
            return std::future::pending().await;
        }
        if lease && watch && state.watch_forbidden {
            return Ok(forbidden());
        }
        let write = head.method != Method::GET;
        let deadline = *self.0.deadline.lock();
        if write && resource == "configmaps" && sent >= deadline {
            let text = format!("sent at {sent:?}, deadline was {deadline:?}");
            self.0.violations.lock().push(text);
        }
        let network = self.0.network.clone();
        let limit = if lease { state.lease_delay } else { state.delay };
        let (there, back) = (network.random_delay(limit), network.random_delay(limit));
        let (sender, response) = oneshot::channel();
        let request = Request::from_parts(head, Body::from(bytes.clone()));
        let mut server = network.0.server.service();
        let arrives = {
            let (network, path) = (network.clone(), path.clone());
            async move {
                sleep(there).await;
                let Ok(response) = server.call(request).await;
                if write && response.status().is_success() && !path.contains("/events") {
                    let body: Value = serde_json::from_slice(&bytes).unwrap_or_default();
                    network.record(&path, &body);
                    // The sender is dropped, or paused, or gets the response.
                    sleep(back).await;
                    let _ = sender.send((response, Some(body)));
                    return;
                }
                sleep(back).await;
                let _ = sender.send((response, None));
            }
        };
        {
            let mut messages = network.0.messages.lock();
            while messages.try_join_next().is_some() {}
            messages.spawn(arrives);
        }
        let (response, committed) = response.await.map_err(io::Error::other)?;
        self.runs().await;
        if lease && self.0.state.borrow().lease_cut {
            return std::future::pending().await;
        }
        if let Some(body) = committed.filter(|_| lease) {
            let held = body["spec"]["holderIdentity"] != "";
            *self.0.deadline.lock() =
                if held { sent + self.0.renew_deadline } else { Duration::ZERO };
        }
        let link = self.clone();
        Ok(response.map(|body| {
            let body: ResponseBody = body.map_err(|never| match never {}).boxed_unsync();
            CutBody { body, link, lease }.boxed_unsync()
        }))
    }
}

fn forbidden() -> Response<ResponseBody> {
    let status = json!({ "kind": "Status", "status": "Failure", "reason": "Forbidden", "code": 403,
        "message": "leases is forbidden" });
    let body = http_body_util::Full::new(Bytes::from(status.to_string()));
    let body = body.map_err(|never| match never {}).boxed_unsync();
    Response::builder().status(403).body(body).unwrap()
}

type ResponseBody = UnsyncBoxBody<Bytes, io::Error>;

impl Service<Request<Body>> for Link {
    type Response = Response<ResponseBody>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Response<ResponseBody>>> + Send>>;

    fn poll_ready(&mut self, _: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.clone().carry(request))
    }
}

/// A response body that breaks off with the connection.
struct CutBody {
    body: ResponseBody,
    link: Link,
    lease: bool,
}

impl http_body::Body for CutBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut TaskContext<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let state = self.link.0.state.borrow().clone();
        if state.dead || self.lease && state.lease_cut {
            return Poll::Ready(Some(Err(io::ErrorKind::ConnectionReset.into())));
        }
        Pin::new(&mut self.body).poll_frame(cx)
    }
}

/// One process of the operator.
pub(crate) struct Replica {
    pub(crate) identity: String,
    pub(crate) manager: Manager,
    pub(crate) link: Link,
    clock: MonotonicClock,
    rate: f64,
    running: JoinSet<Result<(), RunError>>,
}

/// What replicas do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    /// The interval of writes.
    pub(crate) interval: Duration,
    /// How long the work needs to end.
    pub(crate) drain: Duration,
}

impl Default for Work {
    fn default() -> Self {
        Self { interval: Duration::from_millis(500), drain: Duration::ZERO }
    }
}

impl Replica {
    /// Creates a process that writes to a ConfigMap while it leads, with a raw `kube::Api`.
    pub(crate) fn new(
        network: &Network,
        identity: &str,
        options: LeaderElection,
        renew_deadline: Duration,
        work: Work,
    ) -> Self {
        let replica = Self::idle(network, identity, options, renew_deadline);
        let client = replica.manager.leader_client().kube().clone();
        let maps: Api<ConfigMap> = Api::namespaced(client, "default");
        let patch = Patch::Merge(json!({ "data": { "writer": identity } }));
        let run = move |stop: Stop| {
            let (maps, patch) = (maps.clone(), patch.clone());
            async move {
                let mut ending = false;
                loop {
                    // An error is what a former leader gets.
                    let _ = maps.patch("state", &PatchParams::default(), &patch).await;
                    if ending {
                        return Ok(());
                    }
                    tokio::select! {
                        biased;
                        () = stop.requested() => {
                            sleep(work.drain).await;
                            ending = true;
                        }
                        () = sleep(work.interval) => {}
                    }
                }
            }
        };
        replica.manager.spawn_each_term("writer", run).unwrap();
        replica
    }

    /// Creates a process without work.
    pub(crate) fn idle(
        network: &Network,
        identity: &str,
        options: LeaderElection,
        renew_deadline: Duration,
    ) -> Self {
        let clock = MonotonicClock::tokio();
        let link = Link::new(network, &clock, renew_deadline);
        let options = options.id(LEASE).namespace("default").identity(identity);
        let now = network.0.start + network.elapsed();
        let manager = Manager::builder("operator")
            .deterministic(network.random(u64::MAX), now)
            .leader_election(options.clock(clock.clone()))
            .build(Client::new(link.clone(), "default"));
        let (identity, running) = (identity.to_owned(), JoinSet::new());
        Self { identity, manager, link, clock, rate: 1.0, running }
    }

    pub(crate) fn start(&mut self) {
        self.running.spawn(self.manager.clone().run_until(std::future::pending()));
    }

    /// Sets how fast its clock runs.
    pub(crate) fn set_rate(&mut self, rate: f64) {
        self.rate = rate;
        self.clock.set_rate(rate);
    }

    /// Returns whether the process has ended by itself.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.running.try_join_next().is_some()
    }

    pub(crate) fn is_leader(&self) -> bool {
        self.manager.leader_elections()[0].is_leader()
    }

    /// Ends the process at once: its tasks are gone, the messages that it sent are not.
    pub(crate) async fn kill(&mut self) {
        self.link.set(|state| state.dead = true);
        self.running.shutdown().await;
    }

    /// Pauses the process for `time`; its clock stands still and then jumps.
    pub(crate) async fn pause(&self, time: Duration) {
        self.link.set(|state| state.paused = true);
        // Slow enough to stand still.
        self.clock.set_rate(1e-9);
        sleep(time).await;
        self.clock.advance(time.mul_f64(self.rate));
        self.clock.set_rate(self.rate);
        self.link.set(|state| state.paused = false);
    }

    /// Waits until the process ends.
    pub(crate) async fn ended(&mut self) -> Result<(), RunError> {
        let ended = tokio::time::timeout(Duration::from_secs(600), self.running.join_next());
        ended.await.expect("the process does not end").unwrap().unwrap()
    }

    /// Stops the process gracefully.
    pub(crate) async fn stop(&mut self) -> Result<(), RunError> {
        self.manager.stop();
        self.ended().await
    }
}
