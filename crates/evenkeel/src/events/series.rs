//! Merges repeated events into series, as client-go's events broadcaster does, and writes them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::{Event, EventSeries};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::Patch;
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::limits::{REMEMBERED_MAX, Similar, TokenBuckets};
use super::{Counters, NOTE_LEN_MAX, NewEvent, PendingEvent, REASON_LEN_MAX, shorten};
use crate::client::{Client, Error};
use crate::clock::Clock;
use crate::error::chain;
use crate::key::Key;
use crate::random::Random;

/// A series ends after this time without a repeat, as in client-go.
const FINISH_TIME: Duration = Duration::from_secs(6 * 60);

/// How often the count of a long series is written, as in client-go: before the event expires on
/// the API server.
const REFRESH_TIME: Duration = Duration::from_secs(30 * 60);

/// How often a write is tried, and the longest delay between attempts, as in client-go.
const ATTEMPTS_MAX: u32 = 12;
const RETRY_DELAY: Duration = Duration::from_secs(10);

/// The part of the object's name that fits into the event's name before the random suffix.
const NAME_PREFIX_MAX: usize = 253 - 17;

/// Writes events and the counts of their series.
pub(super) struct SeriesWriter {
    clock: Clock,
    random: Random,
    counters: Arc<Counters>,
    series: BTreeMap<SeriesKey, Series>,
    similar: Similar<Group>,
    buckets: TokenBuckets,
    /// Whether a missing permission was logged.
    forbidden: bool,
}

/// What similar events have in common: everything but their note.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Group {
    reporting_controller: Arc<str>,
    regarding: String,
    related: String,
    warning: bool,
    reason: String,
    action: Option<String>,
}

/// The group and the note; none if the notes are combined.
type SeriesKey = (Group, Option<String>);

/// An event that was written, and its repeats.
struct Series {
    client: Client,
    key: Key,
    count: i32,
    /// When it last occurred, on both clocks.
    last: Instant,
    last_observed: Timestamp,
    /// The count that was written last, and when.
    written_count: i32,
    written: Instant,
}

impl SeriesWriter {
    pub(super) fn new(clock: Clock, random: Random, counters: Arc<Counters>) -> Self {
        Self {
            clock,
            random,
            counters,
            series: BTreeMap::new(),
            similar: Similar::new(),
            buckets: TokenBuckets::default(),
            forbidden: false,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.series.is_empty()
    }

    /// Writes an event, or counts it as a repeat.
    pub(super) async fn write(&mut self, mut pending: PendingEvent) {
        let now = Instant::now();
        let group = Group::of(&pending);
        let mut note = Some(pending.event.note.clone());
        if self.similar.combine(&group, &pending.event.note, now) {
            let combined = format!("(combined from similar events): {}", pending.event.note);
            pending.event.note = shorten(&combined, NOTE_LEN_MAX);
            note = None;
        }
        let id = (group, note);
        if let Some(series) = self.series.get_mut(&id) {
            if now.duration_since(series.last) < FINISH_TIME {
                series.count = series.count.saturating_add(1);
                series.last = now;
                series.last_observed = self.clock.now();
                count(&self.counters.merged);
                // The first repeat starts the series; later counts are written at intervals.
                if series.count == 2 {
                    self.write_count(&id).await;
                }
                return;
            }
            self.finish(&id).await;
        }
        let object = format!("{}/{}", id.0.reporting_controller, id.0.regarding);
        if !self.buckets.take(object, now) {
            count(&self.counters.dropped);
            return;
        }
        self.make_room().await;
        let client = pending.client.clone();
        if let Some(key) = self.create(pending).await {
            count(&self.counters.written);
            let series = Series {
                client,
                key,
                count: 1,
                last: now,
                last_observed: self.clock.now(),
                written_count: 1,
                written: now,
            };
            self.series.insert(id, series);
        } else {
            count(&self.counters.dropped);
        }
    }

    /// Ends series without repeats, and writes the counts of long ones.
    pub(super) async fn check(&mut self) {
        let now = Instant::now();
        let ids: Vec<SeriesKey> = self.series.keys().cloned().collect();
        for id in ids {
            let Some(series) = self.series.get(&id) else { continue };
            if now.duration_since(series.last) >= FINISH_TIME {
                self.finish(&id).await;
            } else if now.duration_since(series.written) >= REFRESH_TIME {
                self.write_count(&id).await;
            }
        }
    }

    /// Writes the counts of all series.
    pub(super) async fn flush(&mut self) {
        while let Some(id) = self.series.keys().next().cloned() {
            self.finish(&id).await;
        }
    }

    /// Ends the series with the oldest repeat if there are too many.
    async fn make_room(&mut self) {
        if self.series.len() < REMEMBERED_MAX {
            return;
        }
        let oldest = self.series.iter().min_by_key(|(_, series)| series.last);
        if let Some(id) = oldest.map(|(id, _)| id.clone()) {
            self.finish(&id).await;
        }
    }

    async fn finish(&mut self, id: &SeriesKey) {
        self.write_count(id).await;
        self.series.remove(id);
    }

    /// Writes the count of a series if it has changed. If the event was deleted, the series ends, and
    /// the next repeat is a new event.
    async fn write_count(&mut self, id: &SeriesKey) {
        let Some(series) = self.series.get_mut(id) else { return };
        if series.count == series.written_count {
            return;
        }
        series.written = Instant::now();
        series.written_count = series.count;
        let observed = MicroTime(series.last_observed);
        let body = EventSeries { count: series.count, last_observed_time: observed };
        let patch = Patch::Merge(json!({ "series": body }));
        let (client, key) = (series.client.clone(), series.key.clone());
        let mut attempts = 0;
        while let Err(error) = client.patch::<Event>(&key, &patch).await {
            if self.wait_to_retry(&error, &mut attempts).await {
                continue;
            }
            if error.is_not_found() {
                self.series.remove(id);
            } else {
                tracing::debug!(error = chain(&error), "failed to write the series of an event");
            }
            return;
        }
    }

    async fn create(&mut self, pending: PendingEvent) -> Option<Key> {
        let client = pending.client.clone();
        let event = self.event(pending);
        let key = Key::of(&event);
        let mut attempts = 0;
        let error = loop {
            let error = match client.create(&event).await {
                Ok(_) => return Some(key),
                // The response to an earlier attempt was lost: the name is unique.
                Err(error) if error.is_already_exists() => return Some(key),
                Err(error) => error,
            };
            if !self.wait_to_retry(&error, &mut attempts).await {
                break error;
            }
        };
        // Without the permission every write fails: logged once.
        if error.is_forbidden() && !is_terminating(&error) && !self.forbidden {
            self.forbidden = true;
            tracing::warn!(error = chain(&error), "not permitted to write events");
        } else {
            tracing::debug!(error = chain(&error), "failed to write event");
        }
        None
    }

    /// Waits before the next attempt of a request that failed with `error`; returns false if there is
    /// none.
    async fn wait_to_retry(&mut self, error: &Error, attempts: &mut u32) -> bool {
        *attempts += 1;
        if !error.is_retryable() || *attempts == ATTEMPTS_MAX {
            return false;
        }
        let delay = self.random.range(RETRY_DELAY / 2, RETRY_DELAY);
        sleep(error.retry_after().unwrap_or(delay)).await;
        true
    }

    fn event(&mut self, pending: PendingEvent) -> Event {
        let PendingEvent { reporting_controller, reporting_instance, regarding, event, .. } =
            pending;
        let NewEvent { warning, reason, note, action, related } = event;
        let mut event = Event::default();
        let name = regarding.name.as_deref().unwrap_or_default();
        let end = name.floor_char_boundary(NAME_PREFIX_MAX);
        event.metadata.name = Some(format!("{}.{:016x}", &name[..end], self.random.next()));
        event.metadata.namespace =
            Some(regarding.namespace.clone().unwrap_or_else(|| "default".to_owned()));
        event.event_time = Some(MicroTime(self.clock.now()));
        event.reporting_controller = Some(reporting_controller.to_string());
        event.reporting_instance = Some(shorten(&reporting_instance, REASON_LEN_MAX));
        event.action = Some(action.unwrap_or_else(|| reason.clone()));
        event.reason = Some(reason);
        event.regarding = Some(regarding);
        event.related = related;
        event.note = Some(note);
        event.type_ = Some(if warning { "Warning" } else { "Normal" }.to_owned());
        event
    }
}

impl Group {
    fn of(pending: &PendingEvent) -> Self {
        let NewEvent { warning, reason, action, related, .. } = &pending.event;
        Self {
            reporting_controller: pending.reporting_controller.clone(),
            regarding: object_id(&pending.regarding),
            related: related.as_ref().map(object_id).unwrap_or_default(),
            warning: *warning,
            reason: reason.clone(),
            action: action.clone(),
        }
    }
}

fn is_terminating(error: &Error) -> bool {
    let details = error.status().and_then(|status| status.details.as_ref());
    let causes = details.into_iter().flat_map(|details| &details.causes);
    causes.into_iter().any(|cause| cause.reason == "NamespaceTerminating")
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// Identifies an object, but no version of it.
fn object_id(reference: &ObjectReference) -> String {
    let ObjectReference { api_version, kind, namespace, name, uid, field_path, .. } = reference;
    let parts = [api_version, kind, namespace, name, uid, field_path];
    parts.map(|part| part.as_deref().unwrap_or_default()).join("/")
}
