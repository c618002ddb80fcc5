//! A fake provider in this process, for tests and demos: HTTP without a socket.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::DuplexStream;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Returns a connection, and the task that responds to its requests; an error closes it.
pub(crate) fn accept<F>(
    respond: impl Fn(Parts, Bytes) -> F + Send + Sync + 'static,
) -> (DuplexStream, impl Future<Output = ()> + Send)
where
    F: Future<Output = io::Result<Response<Full<Bytes>>>> + Send + 'static,
{
    let (near, far) = tokio::io::duplex(64 * 1024);
    let respond = Arc::new(respond);
    let service = service_fn(move |request: Request<Incoming>| {
        let respond = respond.clone();
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
            respond(head, body).await
        }
    });
    let connection = async move {
        // An error means that the connection was closed.
        let _ = http1::Builder::new().serve_connection(TokioIo::new(far), service).await;
    };
    (near, connection)
}

/// A storage provider with one vault, `vault`. An account gets its identity after a delay.
#[derive(Clone)]
pub(crate) struct FakeProvider(Arc<Mutex<State>>);

struct State {
    identity_after: Duration,
    accounts: BTreeMap<String, (Instant, Option<String>)>,
    access: BTreeSet<String>,
    /// Faults to inject into the next requests.
    faults: VecDeque<Fault>,
    calls: Vec<String>,
    connections: JoinSet<()>,
}

/// A fault to inject.
#[cfg_attr(not(test), expect(dead_code, reason = "only tests inject faults"))]
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// The connection is refused.
    Down,
    /// 429 with this `Retry-After` in seconds.
    Busy(u64),
    /// The same, for the next DELETE.
    BusyOnDelete(u64),
}

impl FakeProvider {
    pub(crate) fn new(identity_after: Duration) -> Self {
        Self(Arc::new(Mutex::new(State {
            identity_after,
            accounts: BTreeMap::new(),
            access: BTreeSet::new(),
            faults: VecDeque::new(),
            calls: Vec::new(),
            connections: JoinSet::new(),
        })))
    }

    /// Opens a connection to it.
    pub(crate) fn connect(&self) -> io::Result<DuplexStream> {
        let mut state = self.0.lock();
        if let Some(Fault::Down) = state.faults.front() {
            state.faults.pop_front();
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let this = self.clone();
        let (near, connection) = accept(move |head, body| {
            let response = this.respond(&head, &body);
            async { Ok(response) }
        });
        while state.connections.try_join_next().is_some() {}
        state.connections.spawn(connection);
        Ok(near)
    }

    /// Responds to a request.
    pub(crate) fn respond(&self, head: &Parts, body: &[u8]) -> Response<Full<Bytes>> {
        let path = head.uri.path();
        let mut state = self.0.lock();
        state.calls.push(format!("{} {path}", head.method));
        let busy = match state.faults.front() {
            Some(Fault::Busy(seconds)) => Some(*seconds),
            Some(Fault::BusyOnDelete(seconds)) if head.method == Method::DELETE => Some(*seconds),
            _ => None,
        };
        if let Some(seconds) = busy {
            state.faults.pop_front();
            let mut response = respond(StatusCode::TOO_MANY_REQUESTS, "slow down");
            response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
            return response;
        }
        let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        match (&head.method, &parts[..]) {
            (&Method::PUT, ["accounts", name]) => state.account(name),
            (&Method::PUT, ["accounts", name, "encryption"]) => state.encrypt(name, body),
            (&Method::PUT, ["vaults", "vault", "access", principal]) => {
                state.access.insert((*principal).to_owned());
                respond(StatusCode::OK, "")
            }
            (&Method::PUT, ["vaults", name, "access", _]) => {
                respond(StatusCode::NOT_FOUND, &format!("there is no vault {name}"))
            }
            (&Method::DELETE, ["accounts", name]) => match state.accounts.remove(*name) {
                Some(_) => respond(StatusCode::OK, ""),
                None => respond(StatusCode::NOT_FOUND, "no such account"),
            },
            _ => respond(StatusCode::NOT_FOUND, "no such path"),
        }
    }
}

impl State {
    fn account(&mut self, name: &str) -> Response<Full<Bytes>> {
        let now = Instant::now();
        let (since, key) = self.accounts.entry(name.to_owned()).or_insert((now, None));
        let known = now.duration_since(*since) >= self.identity_after;
        let principal = known.then(|| format!("id-of-{name}"));
        respond(StatusCode::OK, &json!({ "principal": principal, "key": key }).to_string())
    }

    fn encrypt(&mut self, name: &str, body: &[u8]) -> Response<Full<Bytes>> {
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        if !self.access.contains(&format!("id-of-{name}")) {
            return respond(StatusCode::FORBIDDEN, "the account may not use the key");
        }
        match self.accounts.get_mut(name) {
            Some((_, key)) => {
                *key = body["key"].as_str().map(str::to_owned);
                respond(StatusCode::OK, "")
            }
            None => respond(StatusCode::NOT_FOUND, "no such account"),
        }
    }
}

fn respond(status: StatusCode, text: &str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(text.to_owned()));
    *response.status_mut() = status;
    response
}

#[cfg(test)]
impl FakeProvider {
    /// Queues a fault for the next request.
    pub(crate) fn fail(&self, fault: Fault) {
        self.0.lock().faults.push_back(fault);
    }

    /// Returns the accounts and their encryption keys.
    pub(crate) fn accounts(&self) -> BTreeMap<String, Option<String>> {
        let state = self.0.lock();
        state.accounts.iter().map(|(name, (_, key))| (name.clone(), key.clone())).collect()
    }

    /// Returns the received requests.
    pub(crate) fn calls(&self) -> Vec<String> {
        self.0.lock().calls.clone()
    }
}
