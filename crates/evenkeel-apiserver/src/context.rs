//! The context of one request on one resource: what verbs and stages need to know of it.

mod admission;

mod components;

mod core;

mod hooks;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::HeaderMap;
use http::header::USER_AGENT;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::audit::AuditTrail;
use crate::commits::Commits;
use crate::flow_control::{Flow, Seats};
use crate::identity::Identity;
use crate::offload::{self, Cancellation};
use crate::registry::resource::Resource;
use crate::request::query::Query;
use crate::request::route::Verb;
use crate::status::Status;
use crate::storage::Key;
use crate::throttle::User;

pub(crate) use self::admission::{Attributes, Chain, Operation, Plugin, Reserved};
pub(crate) use self::components::Components;
pub(crate) use self::core::Core;
pub(crate) use self::hooks::{
    Deletion, FailedPrecondition, HookFuture, HookTable, Hooks, Reservation,
};

/// An authorized request on a resource.
pub(crate) struct RequestContext {
    pub(crate) core: Arc<Core>,
    pub(crate) resource: Arc<Resource>,
    /// The behaviour of the resource's kind.
    pub(crate) hooks: Arc<dyn Hooks>,
    pub(crate) verb: Verb,
    /// Empty for cluster-scoped resources and across namespaces.
    pub(crate) namespace: String,
    pub(crate) name: Option<String>,
    pub(crate) subresource: Option<String>,
    /// The path after the subresource with its leading slash; empty if there is none.
    pub(crate) subpath: String,
    pub(crate) query: Query,
    pub(crate) headers: HeaderMap,
    pub(crate) identity: Identity,
    pub(crate) warnings: Warnings,
    pub(crate) audit: AuditTrail,
    /// The parts of the request that are not cancelled with it.
    pub(crate) commits: Commits,
    /// When webhooks must have responded.
    pub(crate) deadline: Instant,
    /// Set for requests through a socket.
    pub(crate) shutdown_signal: Option<ShutdownSignal>,
    /// Set for requests through a socket.
    pub(crate) remote: Option<Arc<Remote>>,
}

/// The limits of a request through a socket.
#[derive(Debug)]
pub(crate) struct Remote {
    /// The user the request is accounted to.
    pub(crate) user: User,
    pub(crate) cancellation: Cancellation,
    /// Set by classification; not for streams other than watches.
    pub(crate) flow: OnceLock<Flow>,
    /// How long the request waits for its seats.
    queue_wait: Duration,
    seats: Mutex<Option<Seats>>,
}

/// A signal that becomes true when the listener of the request stops, so that watches end.
#[derive(Clone)]
pub(crate) struct ShutdownSignal(pub(crate) watch::Receiver<bool>);

/// Warnings for the client, sent as `Warning` headers. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Warnings(Arc<Mutex<Vec<String>>>);

/// How long a request may wait for webhooks in total, as upstream limits it.
const WEBHOOK_TIMEOUT: Duration = Duration::from_secs(34);

/// Returns the time at which webhooks of a request that begins now must have responded.
pub(crate) fn webhook_deadline() -> Instant {
    Instant::now() + WEBHOOK_TIMEOUT
}

impl RequestContext {
    /// Creates a request of the server itself, through the same pipeline and with its own identity.
    pub(crate) fn internal(
        core: &Arc<Core>,
        resource: &Arc<Resource>,
        verb: Verb,
        key: &Key,
        subresource: Option<&str>,
    ) -> Self {
        let mut headers = HeaderMap::new();
        headers.insert(USER_AGENT, http::HeaderValue::from_static("kube-apiserver"));
        Self {
            core: core.clone(),
            resource: resource.clone(),
            hooks: core.hooks.of(resource),
            verb,
            namespace: key.namespace().to_owned(),
            name: (!key.name().is_empty()).then(|| key.name().to_owned()),
            subresource: subresource.map(str::to_owned),
            subpath: String::new(),
            query: Query::default(),
            headers,
            identity: Identity::apiserver(),
            warnings: Warnings::default(),
            audit: AuditTrail::default(),
            commits: Commits::default(),
            deadline: webhook_deadline(),
            shutdown_signal: None,
            remote: None,
        }
    }

    /// Returns the same request, restricted to one namespace.
    pub(crate) fn in_namespace(&self, namespace: &str) -> Self {
        Self {
            core: self.core.clone(),
            resource: self.resource.clone(),
            hooks: self.hooks.clone(),
            verb: self.verb,
            namespace: namespace.to_owned(),
            name: self.name.clone(),
            subresource: self.subresource.clone(),
            subpath: self.subpath.clone(),
            query: self.query.clone(),
            headers: self.headers.clone(),
            identity: self.identity.clone(),
            warnings: self.warnings.clone(),
            audit: self.audit.clone(),
            commits: self.commits.clone(),
            deadline: self.deadline,
            shutdown_signal: self.shutdown_signal.clone(),
            remote: self.remote.clone(),
        }
    }

    /// Returns the same request on another resource.
    pub(crate) fn on_resource(mut self, resource: Arc<Resource>) -> Self {
        self.hooks = self.core.hooks.of(&resource);
        self.resource = resource;
        self
    }

    /// Fails once the request is cancelled. For loops over many objects.
    pub(crate) fn check_cancelled(&self) -> Result<(), Status> {
        self.remote.as_ref().map_or(Ok(()), |remote| remote.cancellation.check())
    }

    /// Runs `work` for this request, on its own thread if the request came through a socket.
    pub(crate) async fn offload<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, Status>> + Send + 'static,
    ) -> Result<T, Status> {
        match &self.remote {
            None => work.await,
            Some(remote) => {
                // Otherwise small requests would wait for requests that are queued.
                remote.release_seats();
                offload::run(&self.core.throttle, &remote.user, &remote.cancellation, work).await
            }
        }
    }

    /// Returns the key of the named object.
    pub(crate) fn key(&self, name: &str) -> Key {
        Key::new(&self.namespace, name)
    }

    /// Returns whether the request is a dry run.
    pub(crate) fn is_dry_run(&self) -> bool {
        self.query.get("dryRun").is_some_and(|value| !value.is_empty())
    }

    pub(crate) fn name(&self) -> &str {
        self.name.as_deref().unwrap_or("")
    }

    /// Returns the field manager recorded for the fields that this request sets.
    pub(crate) fn field_manager(&self, given: Option<&str>) -> String {
        if let Some(given) = given {
            return given.to_owned();
        }
        let agent = self.headers.get(USER_AGENT).and_then(|v| v.to_str().ok()).unwrap_or("");
        let name = agent.split('/').next().unwrap_or("");
        let printable: String = name.chars().filter(|c| !c.is_control()).take(128).collect();
        if printable.is_empty() { "unknown".into() } else { printable }
    }
}

impl Remote {
    /// Creates the limits of a request of `user` that waits for its seats at most for `queue_wait`.
    pub(crate) fn new(user: User, queue_wait: Duration) -> Self {
        Self {
            user,
            cancellation: Cancellation::default(),
            flow: OnceLock::new(),
            queue_wait,
            seats: Mutex::default(),
        }
    }

    /// Waits for seats of the request's priority level and holds them. A list that processes
    /// `list_bytes` needs more than one.
    pub(crate) async fn acquire_seats(
        &self,
        core: &Core,
        list_bytes: Option<usize>,
    ) -> Result<(), Status> {
        let Some(flow) = self.flow.get() else { return Ok(()) };
        let now = core.clock_rng.now().as_second();
        let acquired = core.flow_control.acquire(flow, list_bytes, self.queue_wait, now).await;
        let seats = acquired.map_err(Status::overloaded_for)?;
        *self.seats.lock() = seats;
        Ok(())
    }

    /// Returns the seats before the request ends: a watch occupies them until it is initialized.
    pub(crate) fn release_seats(&self) {
        *self.seats.lock() = None;
    }
}

impl Warnings {
    /// Adds a warning, once; an empty one is not sent. Control characters are not valid in a header.
    pub(crate) fn add(&self, text: impl Into<String>) {
        let mut all = self.0.lock();
        let text = text.into();
        if !text.is_empty() && !all.contains(&text) {
            all.push(text);
        }
    }

    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock())
    }
}
