//! The stream of a watch: delivers one event at a time, so that a fault can act between two.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use evenkeel::BoxError;
use futures_util::stream;
use http::Response;
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::faults::{self, Hold};
use super::held::HeldEvent;
use super::{Gate, SimBody};
use crate::plan::Effect;
use crate::trace::Lane;

/// How long events are held at most until the operator's next write.
const LAG_MAX: Duration = Duration::from_secs(30);

type Next = Option<Result<Frame<Bytes>, BoxError>>;

/// What is watched.
pub(super) struct Watch {
    pub(super) gate: Arc<Gate>,
    pub(super) incarnation: u32,
    pub(super) resource: String,
    pub(super) number: u64,
    /// Whether it begins with a list.
    pub(super) streams: bool,
    /// Whether the client accepts bookmarks.
    pub(super) bookmarks: bool,
}

struct Watched {
    gate: Arc<Gate>,
    incarnation: u32,
    resource: String,
    number: u64,
    /// Whether it still delivers the list that it begins with.
    lists: bool,
    bookmarks: bool,
    body: SimBody,
    lines: VecDeque<Bytes>,
    rest: Vec<u8>,
    ended: bool,
}

/// Returns the body of a watch.
pub(super) fn watched(watch: Watch, body: SimBody) -> SimBody {
    let Watch { gate, incarnation, resource, number, streams, bookmarks } = watch;
    let state = Watched {
        gate,
        incarnation,
        resource,
        number,
        lists: streams,
        bookmarks,
        body,
        lines: VecDeque::new(),
        rest: Vec::new(),
        ended: false,
    };
    let frames = stream::unfold(state, |mut state| async move {
        let next = state.next().await?;
        Some((next, state))
    });
    StreamBody::new(frames).boxed_unsync()
}

/// Returns a watch that delivers nothing and never ends.
pub(super) fn silent() -> Response<SimBody> {
    let frames = stream::pending::<Result<Frame<Bytes>, BoxError>>();
    Response::new(StreamBody::new(frames).boxed_unsync())
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.gate.end_watch(&self.resource);
    }
}

impl Watched {
    async fn next(&mut self) -> Next {
        if self.ended {
            return None;
        }
        let line = loop {
            match self.lines.pop_front() {
                Some(line) => break line,
                None => self.fill().await?,
            }
        };
        let event: Event<'_> = serde_json::from_slice(&line).unwrap_or_default();
        if event.kind == "BOOKMARK" {
            self.lists = false;
        } else {
            let effect = {
                let mut state = self.gate.state.lock();
                let requests = &mut state.requests;
                *requests.events.entry(self.resource.clone()).or_default() += 1;
                let writes = requests.writes.len();
                requests
                    .writes_before_events
                    .entry(self.resource.clone())
                    .or_default()
                    .push(writes);
                state.conditions.note_event();
                state.faults.at_event(&self.resource, &event.object.metadata.path())
            };
            if let Some(effect) = effect
                && let Some(end) = self.inject(effect, &event).await
            {
                return end;
            }
            if self.wait_while_held().await {
                // The server became unreachable.
                self.ended = true;
                return Some(Err(connection_reset()));
            }
            if !super::is_auxiliary(&self.resource) {
                let kind = event.kind.to_lowercase();
                let Metadata { namespace, name, .. } = &event.object.metadata;
                // The first list is delivered as a whole.
                if !self.lists && self.gate.holds(&self.resource) {
                    let held =
                        HeldEvent { text: format!("{kind} \"{name}\""), content: content(&line) };
                    self.gate.until_released(&self.resource, self.number, &held).await;
                }
                let text = format!("{kind} {} {namespace}/{name}", self.resource);
                self.gate.recorder.record(Lane::Cache, text);
            }
        }
        self.gate.until_resumed(self.incarnation).await;
        if !self.gate.is_open(self.incarnation) {
            std::future::pending::<()>().await;
        }
        self.delivered();
        Some(Ok(Frame::data(line)))
    }

    /// Counts the delivery, for events that wait for it.
    fn delivered(&self) {
        let mut state = self.gate.state.lock();
        *state.delivered.entry(self.resource.clone()).or_default() += 1;
        let awaited = state.faults.awaits_events();
        drop(state);
        if awaited {
            self.gate.written.send_modify(|_| {});
        }
    }

    /// Returns the number of events of other resources that were delivered.
    fn of_others(&self) -> u64 {
        let state = self.gate.state.lock();
        let others = state.delivered.iter().filter(|(resource, _)| **resource != self.resource);
        others.map(|(_, count)| count).sum()
    }

    /// Reads from the server; `None` at the end of the watch.
    async fn fill(&mut self) -> Option<()> {
        let mut written = self.gate.written.subscribe();
        let frame = loop {
            if self.is_interrupted() {
                self.ended = true;
                return None;
            }
            tokio::select! {
                biased;
                frame = self.body.frame() => break frame?.ok()?,
                _ = written.changed() => {}
            }
        };
        let Ok(data) = frame.into_data() else { return Some(()) };
        if self.rest.is_empty() && data.ends_with(b"\n") {
            self.split(&data);
        } else {
            self.rest.extend_from_slice(&data);
            if self.rest.ends_with(b"\n") {
                let data = std::mem::take(&mut self.rest).into();
                self.split(&data);
            }
        }
        Some(())
    }

    /// Adds complete lines.
    fn split(&mut self, data: &Bytes) {
        let lines = data.split_inclusive(|byte| *byte == b'\n');
        self.lines.extend(lines.map(|line| data.slice_ref(line)));
    }

    /// Returns how the watch ends, if it does.
    async fn inject(&mut self, effect: Effect, event: &Event<'_>) -> Option<Next> {
        let gate = self.gate.clone();
        let record = |what: &str| {
            gate.recorder.fault(Lane::Cache, format!("watch of {}: {what}", self.resource));
        };
        match effect {
            // A bookmark never interrupts a list.
            Effect::Bookmark if !self.lists && self.bookmarks => {
                record("bookmark, then cut");
                self.ended = true;
                return Some(Some(Ok(Frame::data(bookmark(event)))));
            }
            Effect::Cut | Effect::EndEmpty | Effect::Bookmark => record("cut"),
            Effect::Gap => {
                record("cut, events are missed");
                gate.state.lock().faults.open_gap(&self.resource);
            }
            Effect::Reset => {
                record("connection reset");
                self.ended = true;
                return Some(Some(Err(connection_reset())));
            }
            Effect::Expire | Effect::ExpireContinue => {
                record("error event 410");
                if effect == Effect::ExpireContinue {
                    gate.state.lock().conditions.page(&self.resource);
                }
                self.ended = true;
                let error = json!({"type": "ERROR", "object": faults::expired_status()});
                return Some(Some(Ok(Frame::data(format!("{error}\n").into()))));
            }
            Effect::Freeze => {
                record("silent from now on");
                std::future::pending::<()>().await;
            }
            Effect::Lag(seconds) => {
                record(&format!("lags {seconds} s"));
                let until = Instant::now() + Duration::from_secs(seconds.into());
                let hold = Hold::until(until);
                gate.state.lock().faults.hold(&self.resource, hold);
                return None;
            }
            Effect::LagUntilWrite => {
                record("lags until the operator's next write");
                let until_write = Some(*gate.written.borrow() + 1);
                let hold = Hold { until_write, ..Hold::until(Instant::now() + LAG_MAX) };
                gate.state.lock().faults.hold(&self.resource, hold);
                return None;
            }
            Effect::Reorder => {
                record("waits for an event of another resource");
                let until_event = Some(self.of_others() + 1);
                let hold = Hold { until_event, ..Hold::until(Instant::now() + LAG_MAX) };
                gate.state.lock().faults.hold(&self.resource, hold);
                return None;
            }
            _ => return None,
        }
        self.ended = true;
        Some(None)
    }

    /// Whether the connection to the server is lost.
    fn is_interrupted(&self) -> bool {
        let state = self.gate.state.lock();
        state.conditions.is_outage() || state.conditions.is_restored(&self.resource)
    }

    /// Waits while events of the resource are held; returns whether the server has become
    /// unreachable.
    async fn wait_while_held(&mut self) -> bool {
        let mut written = self.gate.written.subscribe();
        loop {
            let count = *written.borrow_and_update();
            if self.is_interrupted() {
                return true;
            }
            let others = self.of_others();
            let hold = self.gate.state.lock().faults.held(&self.resource, count, others);
            let Some(hold) = hold else { return false };
            tokio::select! {
                biased;
                _ = written.changed() => {}
                () = tokio::time::sleep_until(hold.until) => {}
            }
        }
    }
}

/// What the gate needs of an event.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Event<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(borrow)]
    object: Object<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Object<'a> {
    api_version: &'a str,
    kind: &'a str,
    #[serde(borrow)]
    metadata: Metadata<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Metadata<'a> {
    namespace: &'a str,
    name: &'a str,
    resource_version: &'a str,
}

impl Metadata<'_> {
    /// Returns `namespace/name`, or the name of a cluster-scoped object.
    fn path(&self) -> String {
        match self.namespace {
            "" => self.name.to_owned(),
            namespace => format!("{namespace}/{}", self.name),
        }
    }
}

/// Returns a hash of the object of an event without what differs between equal objects of two runs.
fn content(event: &[u8]) -> u64 {
    let mut event: Value = serde_json::from_slice(event).unwrap_or_default();
    let object = &mut event["object"];
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata
            .retain(|name, _| matches!(&**name, "labels" | "annotations" | "deletionTimestamp"));
        if let Some(deleted) = metadata.get_mut("deletionTimestamp") {
            *deleted = Value::Bool(true);
        }
    }
    let mut hasher = DefaultHasher::new();
    object.to_string().hash(&mut hasher);
    hasher.finish()
}

/// Returns a bookmark with the version before an event.
fn bookmark(event: &Event<'_>) -> Bytes {
    let Object { api_version, kind, metadata } = &event.object;
    let version: u64 = metadata.resource_version.parse().unwrap_or_default();
    let version = version.saturating_sub(1).to_string();
    let object = json!({
        "apiVersion": api_version, "kind": kind, "metadata": {"resourceVersion": version},
    });
    format!("{}\n", json!({"type": "BOOKMARK", "object": object})).into()
}

fn connection_reset() -> BoxError {
    BoxError::from(std::io::Error::from(std::io::ErrorKind::ConnectionReset))
}
