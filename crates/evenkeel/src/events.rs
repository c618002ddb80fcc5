//! Kubernetes events: what `kubectl describe` shows about an object.
//!
//! Recording never blocks a reconciler. Events go through a bounded queue to one writer task, which
//! merges repeats into series, limits the events per object, and drops what cannot be written:
//! events inform users, nothing depends on them.

mod series;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use tokio::sync::{Mutex, mpsc};
use tokio_util::sync::CancellationToken;

use crate::cache::Entry;
use crate::client::Client;
use crate::clock::Clock;
use crate::key::Key;
use crate::kind::{Kind, Object};
use crate::random::Random;
use series::SeriesWriter;

/// The maximum number of events waiting to be written, as in client-go.
const QUEUE_LEN_MAX: usize = 1000;

/// How long the writer task may take to write the queued events after the manager has stopped.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

/// The API server's limits on the length of `note` and `reason`.
const NOTE_LEN_MAX: usize = 1024;
const REASON_LEN_MAX: usize = 128;

/// An event that has not been written yet.
#[derive(Clone, Debug, PartialEq)]
struct PendingEvent {
    reporting_controller: Arc<str>,
    regarding: ObjectReference,
    warning: bool,
    reason: String,
    note: String,
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
    sender: EventSender,
}

/// The sending end of the event queue.
#[derive(Clone)]
pub(crate) struct EventSender {
    sender: mpsc::Sender<PendingEvent>,
    dropped: Arc<AtomicU64>,
}

/// The task that writes queued events to the API server.
pub(crate) struct EventWriter {
    receiver: Mutex<mpsc::Receiver<PendingEvent>>,
}

pub(crate) fn channel() -> (EventSender, EventWriter) {
    let (sender, receiver) = mpsc::channel(QUEUE_LEN_MAX);
    (
        EventSender { sender, dropped: Arc::default() },
        EventWriter { receiver: Mutex::new(receiver) },
    )
}

/// Returns a reference to `object`, for [`EventRecorder`].
///
/// Set `field_path` to name a part of the object, such as `spec.containers{app}`.
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
    pub(crate) fn recorder(&self, component: &str) -> EventRecorder {
        EventRecorder { reporting_controller: component.into(), sender: self.clone() }
    }

    fn send(&self, event: PendingEvent) {
        if self.sender.try_send(event).is_err() {
            let dropped = self.dropped.fetch_add(1, Ordering::Relaxed) + 1;
            if dropped.is_power_of_two() {
                tracing::warn!(dropped, "event queue is full, dropping events");
            }
        }
    }
}

impl EventRecorder {
    /// Records an event of type Normal about `regarding`.
    ///
    /// `reason` is one word in CamelCase, `note` a sentence. Repeats are merged into a series. The
    /// call does not block, and a failure to write the event is only logged.
    pub fn event(&self, regarding: &ObjectReference, reason: &str, note: &str) {
        self.record(regarding.clone(), false, reason, note);
    }

    /// Records an event of type Warning; otherwise as [`event`](EventRecorder::event).
    pub fn warning_event(&self, regarding: &ObjectReference, reason: &str, note: &str) {
        self.record(regarding.clone(), true, reason, note);
    }

    pub(crate) fn record(
        &self,
        regarding: ObjectReference,
        warning: bool,
        reason: &str,
        note: &str,
    ) {
        self.sender.send(PendingEvent {
            reporting_controller: self.reporting_controller.clone(),
            regarding,
            warning,
            reason: reason[..reason.floor_char_boundary(REASON_LEN_MAX)].to_owned(),
            note: shorten(note),
        });
    }
}

impl fmt::Debug for EventRecorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "event recorder of {}", self.reporting_controller)
    }
}

impl EventWriter {
    /// Writes events until `stop` is cancelled, then flushes the queue within [`FLUSH_TIMEOUT`].
    pub(crate) async fn run(
        &self,
        client: Client,
        clock: Clock,
        random: Random,
        stop: CancellationToken,
    ) {
        let mut receiver = self.receiver.lock().await;
        let mut series = SeriesWriter::new(client, clock, random);
        let write = async {
            loop {
                let next = tokio::select! {
                    biased;
                    next = receiver.recv() => next,
                    () = stop.cancelled() => None,
                };
                match next {
                    Some(event) => series.write(event).await,
                    None => return,
                }
            }
        };
        let flush_timeout = async {
            stop.cancelled().await;
            tokio::time::sleep(FLUSH_TIMEOUT).await;
        };
        // Events that are still queued after the timeout are dropped.
        tokio::select! {
            biased;
            () = write => {}
            () = flush_timeout => {}
        }
    }
}

fn shorten(text: &str) -> String {
    if text.len() <= NOTE_LEN_MAX {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(NOTE_LEN_MAX - '…'.len_utf8());
    format!("{}…", &text[..end])
}
