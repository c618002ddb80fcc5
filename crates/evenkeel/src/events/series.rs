//! Repeats of one event become one event that counts, and no object floods the cluster.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::{Event, EventSeries};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::Patch;
use serde_json::json;
use tokio::time::Instant;

use super::Announcement;
use crate::client::Client;
use crate::clock::Clock;
use crate::key::Key;
use crate::random::Random;

/// A repeat within this time belongs to the same series, as in client-go.
const OPEN: Duration = Duration::from_secs(6 * 60);

/// How often the count of a long series is written.
const REFRESH: Duration = Duration::from_secs(30);

/// How many series are remembered.
const REMEMBERED: usize = 4096;

/// Events about one object: this many at once, then one each [`REFILL`], as in client-go.
const BURST: u32 = 25;
const REFILL: Duration = Duration::from_secs(300);

/// As much of an object's name as leaves room for what makes the event's own.
const LONGEST_NAME: usize = 253 - 17;

/// Writes events.
pub(super) struct Series {
    client: Client,
    clock: Clock,
    random: Random,
    known: BTreeMap<Id, Known>,
    objects: BTreeMap<String, Allowance>,
    refused: bool,
}

type Id = (String, bool, String, String);

struct Known {
    key: Key,
    count: i32,
    last: Instant,
    written: Instant,
}

struct Allowance {
    left: u32,
    filled: Instant,
}

impl Series {
    pub(super) fn new(client: Client, clock: Clock, random: Random) -> Self {
        let (known, objects) = Default::default();
        Self { client, clock, random, known, objects, refused: false }
    }

    pub(super) async fn write(&mut self, announcement: Announcement) {
        let now = Instant::now();
        self.forget(now);
        let object = identity(&announcement.regarding);
        let id = (
            object.clone(),
            announcement.warning,
            announcement.reason.clone(),
            announcement.note.clone(),
        );
        let open = |known: &Known| now.duration_since(known.last) < OPEN;
        if let Some(known) = self.known.get_mut(&id).filter(|known| open(known)) {
            known.count = known.count.saturating_add(1);
            known.last = now;
            // The second is news; a long series is not.
            if known.count > 2 && now.duration_since(known.written) < REFRESH {
                return;
            }
            known.written = now;
            let (key, count) = (known.key.clone(), known.count);
            if self.count(&key, count).await {
                return;
            }
            // Somebody removed the event: it is told anew.
            self.known.remove(&id);
        }
        if !self.allowed(object, now) {
            return;
        }
        if let Some(key) = self.create(announcement).await {
            self.known.insert(id, Known { key, count: 1, last: now, written: now });
        }
    }

    async fn create(&mut self, announcement: Announcement) -> Option<Key> {
        let Announcement { controller, regarding, warning, reason, note } = announcement;
        let mut event = Event::default();
        let name = regarding.name.as_deref().unwrap_or_default();
        let end = name.floor_char_boundary(LONGEST_NAME);
        event.metadata.name = Some(format!("{}.{:016x}", &name[..end], self.random.next()));
        event.metadata.namespace =
            Some(regarding.namespace.clone().unwrap_or_else(|| "default".to_owned()));
        event.event_time = Some(MicroTime(self.clock.now()));
        event.reporting_controller = Some(controller.to_string());
        event.reporting_instance = Some(self.client.owner().to_owned());
        event.action = Some(reason.clone());
        event.reason = Some(reason);
        event.regarding = Some(regarding);
        event.note = Some(note);
        event.type_ = Some(if warning { "Warning" } else { "Normal" }.to_owned());
        match self.client.create(&event).await {
            Ok(created) => Some(Key::of(&*created)),
            Err(error) => {
                // Once is enough: an operator that may not write events says so with each.
                if error.is_forbidden() && !self.refused {
                    self.refused = true;
                    tracing::warn!(%error, "events cannot be written");
                } else {
                    tracing::debug!(%error, "an event is lost");
                }
                None
            }
        }
    }

    /// Writes how often it happened; false when the event is gone.
    async fn count(&mut self, key: &Key, count: i32) -> bool {
        let series = EventSeries { count, last_observed_time: MicroTime(self.clock.now()) };
        let patch = Patch::Merge(json!({ "series": series }));
        match self.client.patch::<Event>(key, &patch).await {
            Ok(_) => true,
            Err(error) => !error.is_not_found(),
        }
    }

    fn allowed(&mut self, object: String, now: Instant) -> bool {
        let allowance =
            self.objects.entry(object).or_insert(Allowance { left: BURST, filled: now });
        let earned = now.duration_since(allowance.filled).as_secs() / REFILL.as_secs();
        if earned > 0 {
            let earned = u32::try_from(earned).unwrap_or(BURST);
            allowance.left = allowance.left.saturating_add(earned).min(BURST);
            allowance.filled = now;
        }
        let allowed = allowance.left > 0;
        allowance.left = allowance.left.saturating_sub(1);
        allowed
    }

    /// Ends old series, and bounds what is remembered.
    fn forget(&mut self, now: Instant) {
        if self.known.len() >= REMEMBERED {
            self.known.retain(|_, known| now.duration_since(known.last) < OPEN);
            self.objects.retain(|_, object| now.duration_since(object.filled) < REFILL * BURST);
        }
        while self.known.len() >= REMEMBERED {
            self.known.pop_first();
        }
        while self.objects.len() >= REMEMBERED {
            self.objects.pop_first();
        }
    }
}

fn identity(regarding: &ObjectReference) -> String {
    let part = |part: &Option<String>| part.clone().unwrap_or_default();
    format!(
        "{}/{}/{}/{}",
        part(&regarding.kind),
        part(&regarding.namespace),
        part(&regarding.name),
        part(&regarding.uid)
    )
}
