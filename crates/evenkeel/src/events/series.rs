//! Merges repeated events into series and limits the events per object, as client-go does.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::{Event, EventSeries};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::Patch;
use serde_json::json;
use tokio::time::Instant;

use super::PendingEvent;
use crate::client::Client;
use crate::clock::Clock;
use crate::error::chain;
use crate::key::Key;
use crate::random::Random;

/// A repeat within this time belongs to the same series, as in client-go.
const SERIES_TIMEOUT: Duration = Duration::from_secs(6 * 60);

/// How often the count of a long series is written.
const REFRESH_INTERVAL: Duration = Duration::from_secs(30);

/// The maximum number of series, and of objects, that are remembered.
const SERIES_MAX: usize = 4096;

/// Token bucket of events per object: a burst, then one every [`REFILL`], as in client-go.
const BURST: u32 = 25;
const REFILL: Duration = Duration::from_secs(300);

/// The part of the object's name that fits into the event's name before the random suffix.
const NAME_PREFIX_MAX: usize = 253 - 17;

/// Writes events and the counts of their series.
pub(super) struct SeriesWriter {
    client: Client,
    clock: Clock,
    random: Random,
    series: BTreeMap<SeriesKey, Series>,
    objects: BTreeMap<String, TokenBucket>,
    /// Whether a forbidden write was logged.
    forbidden: bool,
}

/// Object, whether it is a warning, reason, note.
type SeriesKey = (String, bool, String, String);

struct Series {
    key: Key,
    count: i32,
    last: Instant,
    written: Instant,
}

struct TokenBucket {
    tokens: u32,
    refilled: Instant,
}

impl SeriesWriter {
    pub(super) fn new(client: Client, clock: Clock, random: Random) -> Self {
        let (series, objects) = Default::default();
        Self { client, clock, random, series, objects, forbidden: false }
    }

    pub(super) async fn write(&mut self, event: PendingEvent) {
        let now = Instant::now();
        self.evict(now);
        let object = object_id(&event.regarding);
        let id = (object.clone(), event.warning, event.reason.clone(), event.note.clone());
        let open = |series: &Series| now.duration_since(series.last) < SERIES_TIMEOUT;
        if let Some(series) = self.series.get_mut(&id).filter(|series| open(series)) {
            series.count = series.count.saturating_add(1);
            series.last = now;
            // The first repeat starts the series; later counts are written at intervals.
            if series.count > 2 && now.duration_since(series.written) < REFRESH_INTERVAL {
                return;
            }
            series.written = now;
            let (key, count) = (series.key.clone(), series.count);
            if self.patch_count(&key, count).await {
                return;
            }
            // The event was deleted: a new one is created.
            self.series.remove(&id);
        }
        if !self.take_token(object, now) {
            return;
        }
        if let Some(key) = self.create(event).await {
            self.series.insert(id, Series { key, count: 1, last: now, written: now });
        }
    }

    async fn create(&mut self, event: PendingEvent) -> Option<Key> {
        let PendingEvent { reporting_controller, regarding, warning, reason, note } = event;
        let mut event = Event::default();
        let name = regarding.name.as_deref().unwrap_or_default();
        let end = name.floor_char_boundary(NAME_PREFIX_MAX);
        event.metadata.name = Some(format!("{}.{:016x}", &name[..end], self.random.next()));
        event.metadata.namespace =
            Some(regarding.namespace.clone().unwrap_or_else(|| "default".to_owned()));
        event.event_time = Some(MicroTime(self.clock.now()));
        event.reporting_controller = Some(reporting_controller.to_string());
        event.reporting_instance = Some(self.client.field_manager().to_owned());
        event.action = Some(reason.clone());
        event.reason = Some(reason);
        event.regarding = Some(regarding);
        event.note = Some(note);
        event.type_ = Some(if warning { "Warning" } else { "Normal" }.to_owned());
        match self.client.create(&event).await {
            Ok(created) => Some(Key::of(&*created)),
            Err(error) => {
                // Without the permission every write fails: logged once.
                if error.is_forbidden() && !self.forbidden {
                    self.forbidden = true;
                    tracing::warn!(error = chain(&error), "not permitted to write events");
                } else {
                    tracing::debug!(error = chain(&error), "failed to write event");
                }
                None
            }
        }
    }

    /// Writes the count of a series; returns false if the event was deleted.
    async fn patch_count(&mut self, key: &Key, count: i32) -> bool {
        let series = EventSeries { count, last_observed_time: MicroTime(self.clock.now()) };
        let patch = Patch::Merge(json!({ "series": series }));
        match self.client.patch::<Event>(key, &patch).await {
            Ok(_) => true,
            Err(error) => !error.is_not_found(),
        }
    }

    /// Takes a token from the object's bucket; returns false if it is empty.
    fn take_token(&mut self, object: String, now: Instant) -> bool {
        let bucket =
            self.objects.entry(object).or_insert(TokenBucket { tokens: BURST, refilled: now });
        let refill = now.duration_since(bucket.refilled).as_secs() / REFILL.as_secs();
        if refill > 0 {
            let refill = u32::try_from(refill).unwrap_or(BURST);
            bucket.tokens = bucket.tokens.saturating_add(refill).min(BURST);
            bucket.refilled = now;
        }
        let taken = bucket.tokens > 0;
        bucket.tokens = bucket.tokens.saturating_sub(1);
        taken
    }

    /// Removes expired series and refilled buckets, then the first ones beyond the limit.
    fn evict(&mut self, now: Instant) {
        if self.series.len() >= SERIES_MAX {
            self.series.retain(|_, series| now.duration_since(series.last) < SERIES_TIMEOUT);
            self.objects.retain(|_, object| now.duration_since(object.refilled) < REFILL * BURST);
        }
        while self.series.len() >= SERIES_MAX {
            self.series.pop_first();
        }
        while self.objects.len() >= SERIES_MAX {
            self.objects.pop_first();
        }
    }
}

fn object_id(regarding: &ObjectReference) -> String {
    let part = |part: &Option<String>| part.clone().unwrap_or_default();
    format!(
        "{}/{}/{}/{}",
        part(&regarding.kind),
        part(&regarding.namespace),
        part(&regarding.name),
        part(&regarding.uid)
    )
}
