//! Kubernetes events: what `kubectl describe` shows about an object.
//!
//! Recording never blocks a reconciler. Events go through a bounded queue to one writer task
//! (`writer.rs`), which merges repeats into series (`series.rs`), combines similar events and limits
//! the events per object (`limits.rs`). What cannot be written is dropped and counted: events inform
//! users, nothing depends on them.

mod limits;

mod series;

mod writer;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use tokio::sync::{Mutex, mpsc};

use crate::cache::Entry;
use crate::client::Client;
use crate::key::Key;
use crate::kind::{Kind, Object};
pub(crate) use writer::EventWriter;

/// The maximum number of events waiting to be written, as in client-go.
const QUEUE_LEN_MAX: usize = 1000;

/// The API server's limits on the length of `note`, and of `reason` and `action`.
const NOTE_LEN_MAX: usize = 1024;
const REASON_LEN_MAX: usize = 128;

/// An event to record with [`EventRecorder::record`] or [`Context::record_event`].
///
/// ```
/// use evenkeel::NewEvent;
/// use evenkeel::k8s_openapi::api::core::v1::ObjectReference;
///
/// fn evicted(node: ObjectReference) -> NewEvent {
///     NewEvent::warning("Evicted", "The node was low on memory").action("Evict").related(node)
/// }
/// ```
///
/// [`Context::record_event`]: crate::Context::record_event
#[derive(Clone, Debug, PartialEq)]
#[must_use = "an event is recorded by a recorder"]
pub struct NewEvent {
    warning: bool,
    reason: String,
    note: String,
    action: Option<String>,
    related: Option<ObjectReference>,
}

impl NewEvent {
    /// Creates an event of type Normal. `reason` is one word in CamelCase, `note` a sentence.
    pub fn normal(reason: &str, note: &str) -> Self {
        Self::new(false, reason, note)
    }

    /// Creates an event of type Warning; otherwise as [`normal`](Self::normal).
    pub fn warning(reason: &str, note: &str) -> Self {
        Self::new(true, reason, note)
    }

    pub(crate) fn new(warning: bool, reason: &str, note: &str) -> Self {
        let (reason, note) = (shorten(reason, REASON_LEN_MAX), shorten(note, NOTE_LEN_MAX));
        Self { warning, reason, note, action: None, related: None }
    }

    /// Sets the action that was taken or failed, one word in CamelCase; the reason unless set.
    pub fn action(mut self, action: &str) -> Self {
        self.action = Some(shorten(action, REASON_LEN_MAX));
        self
    }

    /// Sets a second object, which the action involves besides the one that the event regards.
    pub fn related(mut self, related: ObjectReference) -> Self {
        self.related = Some(related);
        self
    }
}

/// Records Kubernetes events as one component; see
/// [`Manager::event_recorder`](crate::Manager::event_recorder).
///
/// A reconciler records events about its own object with [`Context::event`](crate::Context::event).
///
/// ```no_run
/// use evenkeel::k8s_openapi::api::core::v1::Node;
/// use evenkeel::{Manager, object_reference};
///
/// # fn example(manager: &Manager, node: &Node) {
/// let recorder = manager.event_recorder("node-checker");
/// recorder.warning_event(&object_reference(node), "DiskSlow", "Writes take over a second");
/// # }
/// ```
#[derive(Clone)]
pub struct EventRecorder {
    reporting_controller: Arc<str>,
    /// Of the cluster that the events are written to.
    client: Client,
    sender: EventSender,
}

/// Counts of events since the manager was built, of all its recorders.
///
/// ```no_run
/// # fn example(manager: &evenkeel::Manager) {
/// let counts = manager.event_recorder("greeter").counts();
/// println!("{} written, {} repeats, {} dropped", counts.written, counts.merged, counts.dropped);
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EventCounts {
    /// Events that were written.
    pub written: u64,
    /// Repeats that were counted in the series of an earlier event.
    pub merged: u64,
    /// Events that were dropped: the queue was full, the object had too many events, or the API
    /// server rejected the event.
    pub dropped: u64,
}

#[derive(Debug, Default)]
struct Counters {
    written: AtomicU64,
    merged: AtomicU64,
    dropped: AtomicU64,
}

/// An event that has not been written yet.
struct PendingEvent {
    client: Client,
    reporting_controller: Arc<str>,
    reporting_instance: Arc<str>,
    regarding: ObjectReference,
    event: NewEvent,
}

/// The sending end of the event queue.
#[derive(Clone)]
pub(crate) struct EventSender {
    sender: mpsc::Sender<PendingEvent>,
    enabled: bool,
    reporting_instance: Arc<str>,
    counters: Arc<Counters>,
}

/// Creates the event queue of a manager; `instance` names the process. Events are discarded unless
/// `enabled`.
pub(crate) fn channel(instance: &str, enabled: bool) -> (EventSender, EventWriter) {
    let (sender, receiver) = mpsc::channel(QUEUE_LEN_MAX);
    let counters = Arc::<Counters>::default();
    let writer = EventWriter { receiver: Mutex::new(receiver), counters: counters.clone() };
    (EventSender { sender, enabled, reporting_instance: instance.into(), counters }, writer)
}

/// Returns a reference to `object`, for [`EventRecorder`].
///
/// Set `field_path` to name a part of the object, such as `spec.containers{app}`.
///
/// ```
/// use evenkeel::k8s_openapi::api::core::v1::Node;
/// use evenkeel::object_reference;
///
/// let mut node = Node::default();
/// node.metadata.name = Some("worker-1".to_owned());
/// let reference = object_reference(&node);
/// assert_eq!((reference.kind.as_deref(), reference.name.as_deref()), (Some("Node"), Some("worker-1")));
/// ```
#[must_use]
pub fn object_reference<K: Object>(object: &K) -> ObjectReference {
    let ObjectMeta { uid, resource_version, .. } = object.meta();
    reference(&Kind::of::<K>(), &Key::of(object), uid.clone(), resource_version.clone())
}

impl Entry {
    /// Returns a reference to the cached object, for [`EventRecorder`].
    #[must_use]
    pub fn object_reference(&self) -> ObjectReference {
        let meta = self.meta();
        let (uid, version) = (meta.uid().to_string(), meta.version().to_string());
        reference(self.kind(), meta.key(), Some(uid), Some(version))
    }
}

pub(crate) fn reference(
    kind: &Kind,
    key: &Key,
    uid: Option<String>,
    resource_version: Option<String>,
) -> ObjectReference {
    ObjectReference {
        api_version: Some(kind.api_version()),
        kind: Some(kind.kind().to_owned()),
        name: Some(key.name().to_owned()),
        namespace: key.namespace().map(str::to_owned),
        uid,
        resource_version,
        field_path: None,
    }
}

impl EventSender {
    pub(crate) fn counts(&self) -> EventCounts {
        let Counters { written, merged, dropped } = &*self.counters;
        EventCounts {
            written: written.load(Ordering::Relaxed),
            merged: merged.load(Ordering::Relaxed),
            dropped: dropped.load(Ordering::Relaxed),
        }
    }

    /// Returns a recorder of events as `component`, which are written with `client`.
    pub(crate) fn recorder(&self, component: &str, client: Client) -> EventRecorder {
        EventRecorder { reporting_controller: component.into(), client, sender: self.clone() }
    }

    fn send(&self, event: PendingEvent) {
        if self.sender.try_send(event).is_err() {
            let dropped = self.counters.dropped.fetch_add(1, Ordering::Relaxed) + 1;
            if dropped.is_power_of_two() {
                tracing::warn!(dropped, "event queue is full, dropping events");
            }
        }
    }
}

impl EventRecorder {
    /// Returns a recorder that writes with another client.
    pub(crate) fn with_client(&self, client: Client) -> Self {
        Self { client, ..self.clone() }
    }

    /// Records an event of type Normal about `regarding`.
    ///
    /// `reason` is one word in CamelCase, `note` a sentence. Repeats are merged into a series. The
    /// call does not block, and a failure to write the event is only logged.
    pub fn event(&self, regarding: &ObjectReference, reason: &str, note: &str) {
        self.record(regarding, NewEvent::normal(reason, note));
    }

    /// Records an event of type Warning; otherwise as [`event`](EventRecorder::event).
    pub fn warning_event(&self, regarding: &ObjectReference, reason: &str, note: &str) {
        self.record(regarding, NewEvent::warning(reason, note));
    }

    /// Records an event with an action or a related object; otherwise as
    /// [`event`](EventRecorder::event).
    pub fn record(&self, regarding: &ObjectReference, event: NewEvent) {
        if !self.sender.enabled {
            return;
        }
        self.sender.send(PendingEvent {
            client: self.client.clone(),
            reporting_controller: self.reporting_controller.clone(),
            reporting_instance: self.sender.reporting_instance.clone(),
            regarding: regarding.clone(),
            event,
        });
    }

    /// Returns the counts of all recorders of the manager.
    #[must_use]
    pub fn counts(&self) -> EventCounts {
        self.sender.counts()
    }
}

impl fmt::Debug for EventRecorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "event recorder of {}", self.reporting_controller)
    }
}

/// Returns `text` with at most `max` bytes.
fn shorten(text: &str, max: usize) -> String {
    if text.len() <= max {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(max - '…'.len_utf8());
    format!("{}…", &text[..end])
}
