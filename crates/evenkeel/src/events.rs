//! Kubernetes events: what `kubectl describe` shows of what an operator did.
//!
//! A reconciler never waits for them. They go through a bounded queue to one task that merges
//! repeats into series, keeps an object that is announced over and over from flooding the cluster,
//! and gives up on what cannot be written: events are for people, not for decisions.

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
use crate::controller::Context;
use crate::key::Key;
use crate::kind::{Kind, Object};
use crate::random::Random;
use series::Series;

/// How many events may wait to be written; as many as in client-go.
const WAITING: usize = 1000;

/// How long the last events may take when the operator ends.
const FAREWELL: Duration = Duration::from_secs(5);

/// The longest note and the longest reason the API server takes.
const LONGEST: usize = 1024;
const LONGEST_REASON: usize = 128;

/// One event on its way.
#[derive(Clone, Debug, PartialEq)]
struct Announcement {
    controller: Arc<str>,
    regarding: ObjectReference,
    warning: bool,
    reason: String,
    note: String,
}

/// Tells people of things by Kubernetes events, in the name of one component; see
/// [`Manager::announcer`](crate::Manager::announcer).
///
/// A reconciler speaks of its own object by [`Context::announce`].
#[derive(Clone)]
pub struct Announcer {
    controller: Arc<str>,
    counter: Counter,
}

/// Where events are handed in.
#[derive(Clone)]
pub(crate) struct Counter {
    sender: mpsc::Sender<Announcement>,
    dropped: Arc<AtomicU64>,
}

/// The other end, until somebody runs it.
pub(crate) struct Office {
    receiver: Mutex<mpsc::Receiver<Announcement>>,
}

pub(crate) fn channel() -> (Counter, Office) {
    let (sender, receiver) = mpsc::channel(WAITING);
    (Counter { sender, dropped: Arc::default() }, Office { receiver: Mutex::new(receiver) })
}

/// What an event is about.
#[derive(Clone, Debug, PartialEq)]
pub struct About(ObjectReference);

impl About {
    /// An object.
    #[must_use]
    pub fn object<K: Object>(object: &K) -> Self {
        let ObjectMeta { uid, resource_version, .. } = object.meta();
        Self::new(&Kind::of::<K>(), &Key::of(object), uid.clone(), resource_version.clone())
    }

    /// Names the part of the object that the event is about, such as `spec.containers{app}`.
    #[must_use]
    pub fn field(mut self, path: &str) -> Self {
        self.0.field_path = Some(path.to_owned());
        self
    }

    /// An object as the cache has it, of whatever type.
    #[must_use]
    pub fn entry(entry: &Entry) -> Self {
        let meta = entry.meta();
        let (uid, version) = (meta.uid().to_string(), meta.version().to_string());
        Self::new(entry.kind(), meta.key(), Some(uid), Some(version))
    }

    fn new(kind: &Kind, key: &Key, uid: Option<String>, version: Option<String>) -> Self {
        Self(ObjectReference {
            api_version: Some(kind.api_version()),
            kind: Some(kind.kind().to_owned()),
            name: Some(key.name().to_owned()),
            namespace: key.namespace().map(str::to_owned),
            uid,
            resource_version: version,
            field_path: None,
        })
    }
}

impl Counter {
    pub(crate) fn announcer(&self, controller: &str) -> Announcer {
        Announcer { controller: controller.into(), counter: self.clone() }
    }

    fn hand_in(&self, announcement: Announcement) {
        if self.sender.try_send(announcement).is_err() {
            let dropped = self.dropped.fetch_add(1, Ordering::Relaxed) + 1;
            if dropped.is_power_of_two() {
                tracing::warn!(dropped, "events are dropped: too many wait to be written");
            }
        }
    }
}

impl Announcer {
    /// Tells that something was done.
    ///
    /// `reason` is one word in CamelCase, `message` a sentence. Repeats are merged. Nothing waits
    /// for it and nothing fails with it.
    pub fn announce(&self, about: &About, reason: &str, message: &str) {
        self.tell(about.clone(), false, reason, message);
    }

    /// As [`announce`](Announcer::announce), for what people should look into.
    pub fn warn(&self, about: &About, reason: &str, message: &str) {
        self.tell(about.clone(), true, reason, message);
    }

    fn tell(&self, About(regarding): About, warning: bool, reason: &str, message: &str) {
        self.counter.hand_in(Announcement {
            controller: self.controller.clone(),
            regarding,
            warning,
            reason: reason[..reason.floor_char_boundary(LONGEST_REASON)].to_owned(),
            note: shorten(message),
        });
    }
}

impl fmt::Debug for Announcer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "announcer of {}", self.controller)
    }
}

impl Office {
    /// Writes events until `stop`, then what is left for a short while.
    pub(crate) async fn run(
        &self,
        client: Client,
        clock: Clock,
        random: Random,
        stop: CancellationToken,
    ) {
        let mut receiver = self.receiver.lock().await;
        let mut series = Series::new(client, clock, random);
        let told = async {
            loop {
                let next = tokio::select! {
                    biased;
                    next = receiver.recv() => next,
                    () = stop.cancelled() => None,
                };
                match next {
                    Some(announcement) => series.write(announcement).await,
                    None => return,
                }
            }
        };
        let late = async {
            stop.cancelled().await;
            tokio::time::sleep(FAREWELL).await;
        };
        // What cannot be told by then is not told.
        tokio::select! {
            biased;
            () = told => {}
            () = late => {}
        }
    }
}

impl<K: Object> Context<K> {
    /// Tells people, by a Kubernetes event about the object, that something was done.
    ///
    /// `reason` is one word in CamelCase, `message` a sentence. Repeats are merged. Nothing waits
    /// for it and nothing fails with it.
    pub fn announce(&self, reason: &str, message: &str) {
        self.tell(false, reason, message);
    }

    /// As [`announce`](Context::announce), for what people should look into.
    pub fn warn(&self, reason: &str, message: &str) {
        self.tell(true, reason, message);
    }

    fn tell(&self, warning: bool, reason: &str, message: &str) {
        let about = match &self.object {
            Some(object) => About::object(&**object),
            None => About::new(&Kind::of::<K>(), &self.key, None, None),
        };
        self.announcer.tell(about, warning, reason, message);
    }
}

fn shorten(text: &str) -> String {
    if text.len() <= LONGEST {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(LONGEST - '…'.len_utf8());
    format!("{}…", &text[..end])
}
