//! The watch stream: initial state, committed changes, bookmarks, the end.
//!
//! A stream buffers no events: it reads them from the table's window when the client is ready. A
//! client too slow for the window gets 410 and lists again.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use evenkeel_kinds::strategy;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::body::Chunks;
use crate::codec;
use crate::context::Core;
use crate::context::{RequestContext, ShutdownSignal};
use crate::conversion;
use crate::json;
use crate::pipeline::encode::{self, Include};
use crate::registry::resource::{Resource, TypeInfo};
use crate::request::negotiate::{Output, View};
use crate::selector::Filter;
use crate::status::Status;
use crate::storage::{Compacted, Event, Record, Watcher};

/// The start of a watch.
pub(crate) enum Start {
    /// The state at `revision`, as added objects.
    State { items: Vec<Arc<Record>>, revision: u64, mark_end: bool },
    /// The events after a revision.
    After(u64),
    /// An error, which is sent in the stream.
    Failed(Status),
}

/// A running watch, as the chunks of a response body.
pub(crate) struct Events {
    core: Arc<Core>,
    resource: Arc<Resource>,
    namespace: Option<String>,
    output: Output,
    include: Include,
    filter: Filter,
    phase: Phase,
    bookmarks: bool,
    next_bookmark: Instant,
    deadline: Instant,
    /// Whether a table has been sent; later tables omit the column definitions.
    columns_sent: bool,
    stopping: tokio::sync::watch::Receiver<bool>,
    /// Closed when the resource is no longer served or has changed.
    served: Option<evenkeel_types::watch::Receiver<()>>,
}

enum Phase {
    Initial { items: VecDeque<Arc<Record>>, revision: u64, mark_end: bool },
    Live(Watcher),
    Failed(Status),
    Ended,
}

const BOOKMARK_INTERVAL: Duration = Duration::from_secs(60);
/// The last bookmark is sent this long before the end, so that the client resumes from it.
const LAST_BOOKMARK: Duration = Duration::from_secs(2);

/// The approximate size of a chunk of the initial state, in bytes.
const CHUNK_BYTES: usize = 32 * 1024;

impl Events {
    pub(crate) fn new(
        cx: &RequestContext,
        output: Output,
        include: Include,
        filter: Filter,
        start: Start,
        bookmarks: bool,
        timeout: Duration,
    ) -> Self {
        let now = Instant::now();
        let deadline = now + timeout;
        let namespace = (!cx.namespace.is_empty()).then(|| cx.namespace.clone());
        let phase = match start {
            Start::State { items, revision, mark_end } => {
                Phase::Initial { items: items.into(), revision, mark_end: mark_end && bookmarks }
            }
            Start::Failed(status) => Phase::Failed(status),
            Start::After(revision) => follow(&cx.resource, namespace.as_deref(), revision),
        };
        Self {
            core: cx.core.clone(),
            resource: cx.resource.clone(),
            namespace,
            output,
            include,
            filter,
            phase,
            bookmarks,
            next_bookmark: first_bookmark(now, deadline),
            deadline,
            columns_sent: false,
            stopping: match &cx.shutdown_signal {
                Some(ShutdownSignal(shutdown_signal)) => shutdown_signal.clone(),
                None => cx.core.stopping.clone(),
            },
            served: cx.resource.custom().map(|custom| custom.lifetime.clone()),
        }
    }

    /// Returns a chunk of the initial state; after the last one, the watch follows events.
    fn initial(&mut self) -> Option<Bytes> {
        let Phase::Initial { items, revision, mark_end } = &mut self.phase else { return None };
        let (revision, mark_end) = (*revision, *mark_end);
        let mut batch = Vec::new();
        let mut size = 0;
        while size < CHUNK_BYTES {
            let Some(record) = items.pop_front() else { break };
            size += record.body.len();
            batch.push(record);
        }
        let last = items.is_empty();
        let mut out = Vec::with_capacity(size + 64 * batch.len());
        for record in &batch {
            out.extend_from_slice(&self.frame_of("ADDED", record, record.revision));
        }
        if last {
            if mark_end {
                out.extend_from_slice(&self.bookmark(revision, true));
            }
            self.phase = follow(&self.resource, self.namespace.as_deref(), revision);
        }
        Some(out.into())
    }

    /// Returns the event with its objects in the version of the watch.
    async fn in_version(&self, event: Arc<Event>) -> Result<Arc<Event>, Status> {
        if !conversion::by_webhook(&self.resource) {
            return Ok(event);
        }
        let records = std::iter::once(&event.record).chain(&event.previous).cloned().collect();
        let records = conversion::records(&self.core, &self.resource, records).await?;
        let mut records = records.into_iter();
        match records.next() {
            Some(record) => Ok(Arc::new(event.with_records(record, records.next()))),
            None => Ok(event),
        }
    }

    /// Encodes the event for this watcher, if it matches.
    fn frame(&mut self, event: &Event) -> Option<Bytes> {
        let before = event.previous.as_ref().is_some_and(|record| self.filter.matches(record));
        let after = !event.deleted && self.filter.matches(&event.record);
        let kind = match (before, after) {
            (false, false) => return None,
            (false, true) => "ADDED",
            (true, true) => "MODIFIED",
            (true, false) => "DELETED",
        };
        if self.output.view == View::Object && kind == event_type(event) && self.is_current(event) {
            return Some(event.frame(|event| wrap(kind, &event.record.body)));
        }
        let record = match &event.previous {
            // An object that no longer matches is sent in its last matching state.
            Some(previous) if kind == "DELETED" && !event.deleted => previous,
            _ => &event.record,
        };
        Some(self.frame_of(kind, record, event.revision()))
    }

    fn is_current(&self, event: &Event) -> bool {
        event.record.version == self.resource.api_version
            && event.record.epoch == self.resource.epoch
    }

    fn frame_of(&mut self, kind: &str, record: &Arc<Record>, revision: u64) -> Bytes {
        if self.output.view == View::Object
            && record.version == self.resource.api_version
            && record.epoch == self.resource.epoch
        {
            return wrap(kind, &record.body_at(revision));
        }
        let mut object = match codec::value(&self.resource, record) {
            Ok(object) => object,
            Err(status) => return error_frame(&status),
        };
        crate::object::set_meta(&mut object, "resourceVersion", Some(revision.to_string().into()));
        self.frame_of_value(kind, object)
    }

    fn frame_of_value(&mut self, kind: &str, object: Value) -> Bytes {
        let rendered = match self.output.view {
            View::Object => object,
            View::Metadata | View::MetadataList => {
                encode::to_metadata(self.resource.gvk(), &object)
            }
            View::Table => {
                let first = !std::mem::replace(&mut self.columns_sent, true);
                let definitions = first.then(|| encode::table_definitions(&self.resource));
                let now = self.core.clock_rng.now();
                let row = encode::to_row(&self.resource, &object, now, self.include);
                encode::table(encode::table_metadata_of(&object), definitions, vec![row])
            }
        };
        let rendered = match self.output.view {
            View::Object => rendered,
            _ => encode::in_version(self.output.beta, rendered),
        };
        let order = codec::fields_order(&self.resource);
        wrap(kind, &json::to_bytes_in_order(&rendered, order))
    }

    /// Encodes a bookmark: an empty object with the revision.
    fn bookmark(&mut self, revision: u64, ends_initial: bool) -> Bytes {
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        if ends_initial {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let mut object = json!({
            "kind": &*self.resource.kind,
            "apiVersion": &*self.resource.api_version,
            "metadata": metadata,
        });
        if let TypeInfo::Builtin(builtin) = &self.resource.type_info {
            // Typed objects have required fields: `"spec": {"containers": null}`.
            if let Err(why) = evenkeel_types::conform(builtin.ty, &mut object) {
                tracing::error!(%why, kind = &*self.resource.kind, "cannot build a bookmark");
            }
            strategy::complete_bookmark(self.resource.gvk(), &mut object);
        }
        self.frame_of_value("BOOKMARK", object)
    }
}

impl Chunks for Events {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            match &mut self.phase {
                Phase::Initial { .. } => {
                    let chunk = self.initial()?;
                    if !chunk.is_empty() {
                        return Some(chunk);
                    }
                }
                Phase::Ended => return None,
                Phase::Failed(status) => {
                    let frame = error_frame(status);
                    self.phase = Phase::Ended;
                    return Some(frame);
                }
                Phase::Live(watcher) => {
                    let wake = if self.bookmarks {
                        self.deadline.min(self.next_bookmark)
                    } else {
                        self.deadline
                    };
                    let woken = tokio::select! {
                        biased;
                        // An error means that the server was dropped.
                        _ = self.stopping.wait_for(|stopping| *stopping) => Woken::Stop,
                        event = watcher.next() => Woken::Event(event),
                        // Only after all earlier events have been sent.
                        () = withdrawn(&mut self.served) => Woken::Stop,
                        () = tokio::time::sleep_until(wake) => Woken::Timer(watcher.synced_revision()),
                    };
                    match woken {
                        Woken::Stop => self.phase = Phase::Ended,
                        Woken::Event(Ok(event)) => match self.in_version(event).await {
                            Ok(event) => {
                                if let Some(frame) = self.frame(&event) {
                                    return Some(frame);
                                }
                            }
                            Err(status) => self.phase = Phase::Failed(status),
                        },
                        Woken::Timer(_) if Instant::now() >= self.deadline => {
                            self.phase = Phase::Ended;
                        }
                        Woken::Timer(Ok(synced)) => {
                            self.next_bookmark = first_bookmark(Instant::now(), self.deadline);
                            if let Some(revision) = synced {
                                return Some(self.bookmark(revision, false));
                            }
                        }
                        Woken::Event(Err(compacted)) | Woken::Timer(Err(compacted)) => {
                            self.phase = expired(compacted);
                        }
                    }
                }
            }
        }
    }
}

/// What wakes a waiting watch.
enum Woken {
    Stop,
    Event(Result<Arc<Event>, Compacted>),
    Timer(Result<Option<u64>, Compacted>),
}

/// Waits until the resource is withdrawn; built-in resources never are.
async fn withdrawn(served: &mut Option<evenkeel_types::watch::Receiver<()>>) {
    match served {
        Some(lifetime) => while lifetime.changed().await.is_ok() {},
        None => std::future::pending().await,
    }
}

/// Ends the watch of a client that is too slow for the window.
fn expired(compacted: Compacted) -> Phase {
    let (oldest, newest) = (compacted.compacted, compacted.current);
    Phase::Failed(Status::expired(format!("too old resource version: {oldest} ({newest})")))
}

fn first_bookmark(now: Instant, deadline: Instant) -> Instant {
    let last = deadline.checked_sub(LAST_BOOKMARK).filter(|last| *last > now);
    let regular = now + BOOKMARK_INTERVAL;
    match last {
        Some(last) => regular.min(last),
        None if regular < deadline => regular,
        // No further bookmark is due.
        None => deadline + BOOKMARK_INTERVAL,
    }
}

fn follow(resource: &Resource, namespace: Option<&str>, revision: u64) -> Phase {
    match resource.table.watch(namespace, revision) {
        Ok(watcher) => Phase::Live(watcher),
        Err(compacted) => Phase::Failed(Status::expired(format!(
            "too old resource version: {revision} ({})",
            compacted.compacted
        ))),
    }
}

fn event_type(event: &Event) -> &'static str {
    match (event.deleted, &event.previous) {
        (true, _) => "DELETED",
        (false, None) => "ADDED",
        (false, Some(_)) => "MODIFIED",
    }
}

fn wrap(kind: &str, object: &[u8]) -> Bytes {
    const OPEN: &[u8] = b"{\"type\":\"";
    const OBJECT: &[u8] = b"\",\"object\":";
    let mut frame = Vec::with_capacity(object.len() + kind.len() + 24);
    for part in [OPEN, kind.as_bytes(), OBJECT, object, b"}\n"] {
        frame.extend_from_slice(part);
    }
    frame.into()
}

fn error_frame(status: &Status) -> Bytes {
    wrap("ERROR", &json::to_bytes(&status.to_value()))
}
