//! The gate: every request of the operator and every watch event for it passes here, and the faults
//! of the plan act here.

mod call;

mod application;

mod service;

mod faults;

mod conditions;

mod other_client;

mod leases;

mod held;

mod stream;

mod taken;

mod webhooks;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::thread::{self, ThreadId};
use std::time::Duration;

use bytes::Bytes;
use evenkeel::BoxError;
use evenkeel_apiserver::Service;
use evenkeel_cluster::Cluster;
use evenkeel_types::watch;
use http_body_util::combinators::UnsyncBoxBody;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use tokio::time::Instant;

pub(crate) use call::{Call, is_auxiliary};
use conditions::Conditions;
use faults::{Faults, Hold};
use held::Held;
pub(crate) use leases::{Breach, Replica};
use service::OperatorService;
use taken::Taken;
pub(crate) use webhooks::Reviews;

use crate::application::Stub;
use crate::plan::{At, Fault};
use crate::state;
use crate::trace::{Lane, Recorder};
use crate::user::User;

/// Requests of one step, beyond which the operator counts as out of control.
const MAX_REQUESTS: usize = 1_000;

/// Requests that it may send besides in each second of a step: operators poll.
const MAX_REQUESTS_PER_SECOND: usize = 2;

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
    /// Stop the incarnation gracefully and start the next one.
    Restart(u32),
}

/// A write of the operator that reached the server.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Write {
    pub(crate) call: Call,
    pub(crate) nth: u32,
    pub(crate) code: u16,
    /// The name of the object in the response.
    pub(crate) name: String,
    /// The revision of the server before the write.
    pub(crate) before: u64,
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
#[derive(Debug, Default, Deserialize, Serialize)]
pub(crate) struct Requests {
    pub(crate) writes: Vec<Write>,
    /// Watch events by resource.
    pub(crate) events: BTreeMap<String, u32>,
    /// The writes of the operator before each of them.
    pub(crate) writes_before_events: BTreeMap<String, Vec<usize>>,
    /// Those before the workload, by resource.
    pub(crate) events_before: BTreeMap<String, u32>,
    /// Watch requests by resource.
    pub(crate) watches: BTreeMap<String, u32>,
    /// Resources that were read or watched.
    pub(crate) read: BTreeSet<String>,
    /// Reviews by the operator's webhooks, by resource.
    pub(crate) reviews: BTreeMap<String, u32>,
    /// Calls of the application.
    pub(crate) calls: Vec<At>,
    /// Objects whose last write by the operator was rejected by its own webhook, and why.
    pub(crate) blocked: BTreeMap<String, String>,
    /// Writes to objects of other clients whose names the operator wanted to use.
    pub(crate) trespasses: Vec<String>,
    /// Writes of replicas that were not the leader any more.
    pub(crate) breaches: Vec<Breach>,
    /// Requests from other threads, and from tasks of an incarnation that has ended.
    pub(crate) escaped: BTreeSet<String>,
    /// Requests for a poisoned object when attempts must have become rare.
    pub(crate) late_attempts: usize,
    pub(crate) count: usize,
}

struct State {
    faults: Faults,
    requests: Requests,
    conditions: Conditions,
    /// The number of incarnations so far.
    incarnations: u32,
    /// Those that may send requests.
    open: BTreeSet<u32>,
    /// Those whose manager has ended.
    ended: BTreeSet<u32>,
    /// Those that compete for the lease.
    replicas: BTreeMap<u32, Replica>,
    /// The replicas that have written an object, and whether as the leader.
    writers: BTreeMap<String, BTreeSet<(u32, bool)>>,
    /// The number of watches so far.
    watches: u64,
    /// The watches that are open, by resource.
    open_watches: BTreeMap<String, usize>,
    /// The replica that holds the lease.
    holder: String,
    step: usize,
    /// When the step began.
    step_start: Instant,
    /// The revision at the start of the step, for stale lists.
    step_revision: u64,
    /// Resources whose next list is stale.
    stale_lists: Option<StaleLists>,
    /// Deliveries that wait to be released by hand.
    held: Held,
    /// Data of Secrets, and the Events in which it was found.
    canaries: BTreeSet<String>,
    exposed: Vec<String>,
    /// Events that were delivered, by resource.
    delivered: BTreeMap<String, u64>,
    /// Objects of other clients with names that the operator wants to use.
    taken: Vec<Taken>,
}

impl State {
    /// Lets the next incarnation connect to a server that lags behind.
    fn become_stale(&mut self) {
        let revision = self.step_revision;
        self.stale_lists = Some(StaleLists { revision, listed: Vec::new() });
        let hold = Hold::until(Instant::now() + STALE);
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
    /// The API server with the identity of the operator.
    server: Service,
    user: User,
    /// What the operator manages besides objects of the API server.
    application: Option<Arc<dyn Stub>>,
    recorder: Recorder,
    /// The only thread of the run.
    thread: ThreadId,
    state: Mutex<State>,
    commands: mpsc::Sender<Command>,
    /// Writes of the operator so far, for events that are held until the next one.
    written: watch::Sender<u64>,
}

impl Gate {
    pub(crate) fn new(
        cluster: Arc<Cluster>,
        server: Service,
        application: Option<Arc<dyn Stub>>,
        recorder: Recorder,
        faults: &[Fault],
        user: User,
    ) -> (Arc<Self>, mpsc::Receiver<Command>) {
        let (commands, received) = mpsc::channel(COMMANDS);
        let state = State {
            faults: Faults::new(faults),
            requests: Requests::default(),
            conditions: Conditions::default(),
            incarnations: 0,
            open: BTreeSet::new(),
            ended: BTreeSet::new(),
            replicas: BTreeMap::new(),
            writers: BTreeMap::new(),
            watches: 0,
            open_watches: BTreeMap::new(),
            holder: String::new(),
            step: 0,
            step_start: Instant::now(),
            step_revision: cluster.server().revision(),
            stale_lists: None,
            held: Held::default(),
            canaries: BTreeSet::new(),
            exposed: Vec::new(),
            delivered: BTreeMap::new(),
            taken: Vec::new(),
        };
        let gate = Self {
            user,
            cluster,
            server,
            application,
            recorder,
            thread: thread::current().id(),
            state: Mutex::new(state),
            commands,
            written: watch::Sender::new(0),
        };
        (Arc::new(gate), received)
    }

    /// Returns a client for the next incarnation.
    pub(crate) fn admit(self: &Arc<Self>) -> (u32, kube::Client) {
        let mut state = self.state.lock();
        state.incarnations += 1;
        let incarnation = state.incarnations;
        state.open.insert(incarnation);
        let service = OperatorService { gate: self.clone(), incarnation };
        (incarnation, kube::Client::new(service, "default"))
    }

    /// Lets the incarnation send nothing any more.
    pub(crate) fn close(&self, incarnation: u32) {
        let mut state = self.state.lock();
        state.open.remove(&incarnation);
        state.replicas.remove(&incarnation);
    }

    /// Notes that the manager of the incarnation has ended: nothing may run any more.
    pub(crate) fn end(&self, incarnation: u32) {
        self.close(incarnation);
        self.state.lock().ended.insert(incarnation);
    }

    pub(crate) fn begin_step(&self, step: usize) {
        let mut state = self.state.lock();
        state.step = step;
        state.step_start = Instant::now();
        state.requests.count = 0;
        state.step_revision = self.cluster.server().revision();
    }

    /// Notes that the workload begins.
    pub(crate) fn begin_workload(&self) {
        let requests = &mut self.state.lock().requests;
        requests.events_before = requests.events.clone();
    }

    /// Returns the faults that have not happened.
    pub(crate) fn unused_faults(&self) -> Vec<Fault> {
        self.state.lock().faults.unused()
    }

    /// Whether a fault still disturbs the operator.
    pub(crate) fn is_disturbed(&self) -> bool {
        self.state.lock().faults.are_active()
    }

    pub(crate) fn writes_so_far(&self) -> usize {
        self.state.lock().requests.writes.len()
    }

    pub(crate) fn is_out_of_control(&self) -> bool {
        let state = self.state.lock();
        let seconds = usize::try_from(state.step_start.elapsed().as_secs()).unwrap_or(usize::MAX);
        let most = MAX_REQUESTS.saturating_add(seconds.saturating_mul(MAX_REQUESTS_PER_SECOND));
        state.requests.count > most
    }

    pub(crate) fn take_requests(&self) -> Requests {
        let mut state = self.state.lock();
        state.requests.late_attempts = state.conditions.late_attempts();
        std::mem::take(&mut state.requests)
    }

    /// Notes a new watch; returns its number.
    fn open_watch(&self, resource: &str) -> u64 {
        let mut state = self.state.lock();
        *state.open_watches.entry(resource.to_owned()).or_default() += 1;
        state.watches += 1;
        state.watches
    }

    /// Notes the end of a watch.
    fn end_watch(&self, resource: &str) {
        if let Some(open) = self.state.lock().open_watches.get_mut(resource) {
            *open = open.saturating_sub(1);
        }
    }

    /// Returns the number of open watches by resource, except those of leases.
    pub(crate) fn open_watches(&self) -> BTreeMap<String, usize> {
        let state = self.state.lock();
        let watches = state.open_watches.iter().filter(|(resource, _)| !is_auxiliary(resource));
        watches.map(|(resource, open)| (resource.clone(), *open)).collect()
    }

    fn is_open(&self, incarnation: u32) -> bool {
        self.state.lock().open.contains(&incarnation)
    }

    /// Returns until when requests for an object fail.
    pub(crate) fn poisoned_until(&self) -> Option<Instant> {
        self.state.lock().conditions.poisoned_until()
    }

    /// Sets the texts that no Event may have.
    pub(crate) fn set_canaries(&self, canaries: BTreeSet<String>) {
        self.state.lock().canaries = canaries;
    }

    /// Returns the Events with one of the texts.
    pub(crate) fn exposed(&self) -> Vec<String> {
        self.state.lock().exposed.clone()
    }

    /// Searches an Event for the texts that it may not have.
    fn search(&self, event: &[u8], name: &str) {
        let mut state = self.state.lock();
        if state.canaries.is_empty() {
            return;
        }
        let text = String::from_utf8_lossy(event);
        if state.canaries.iter().any(|canary| text.contains(canary)) {
            state.exposed.push(format!("Event {name}"));
        }
    }

    /// Notes a request from another thread than that of the run.
    fn note_thread(&self, request: impl fmt::Display) {
        let current = thread::current();
        if current.id() != self.thread {
            let name = current.name().unwrap_or("without a name");
            let text = format!("{request} from thread {name}");
            self.state.lock().requests.escaped.insert(text);
        }
    }

    /// Notes a request of an incarnation that has ended.
    fn note_escape(&self, incarnation: u32, request: impl fmt::Display) {
        let mut state = self.state.lock();
        if state.ended.contains(&incarnation) {
            let text = format!("{request} from a task that outlived its manager");
            state.requests.escaped.insert(text);
        }
    }

    /// Never completes: the incarnation has crashed.
    async fn crash(&self, incarnation: u32, text: String) -> ! {
        if self.is_open(incarnation) {
            self.close(incarnation);
            self.recorder.fault(Lane::Operator, text);
            let _ = self.commands.try_send(Command::Crash(incarnation));
        }
        std::future::pending::<std::convert::Infallible>().await;
        unreachable!()
    }
}

pub(super) fn connection_refused() -> BoxError {
    BoxError::from(std::io::Error::from(std::io::ErrorKind::ConnectionRefused))
}
