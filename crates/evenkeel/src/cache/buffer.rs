//! The bounded event buffer of a handler.
//!
//! Events are buffered in order. Beyond the limit, an event of a key that is already buffered is
//! merged into it, so that the handler skips intermediate states and the buffer grows by at most
//! one event per key.

use std::collections::VecDeque;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::event::ObjectEvent;
use crate::key::Key;

/// The number of buffered events beyond which events are merged.
pub(super) const LIMIT: usize = 4096;

#[derive(Debug)]
pub(super) struct Buffer {
    limit: usize,
    waiting: Mutex<Waiting>,
    ready: Notify,
}

#[derive(Debug)]
struct Waiting {
    items: VecDeque<Item>,
    /// The sequence number of the first item.
    first: u64,
    /// The sequence number of the last item of each key.
    last: HashMap<Key, u64, FixedState>,
}

#[derive(Debug)]
pub(super) enum Item {
    Event(ObjectEvent),
    /// All initial objects are before this.
    Synced,
}

impl Buffer {
    pub(super) fn new(limit: usize) -> Self {
        let last = HashMap::with_hasher(FixedState::default());
        let waiting = Waiting { items: VecDeque::new(), first: 0, last };
        Self { limit, waiting: Mutex::new(waiting), ready: Notify::new() }
    }

    /// Adds an event.
    pub(super) fn push(&self, event: ObjectEvent) {
        self.waiting.lock().push(event, self.limit);
        self.ready.notify_one();
    }

    /// Adds events, and the sync marker if `synced`.
    pub(super) fn extend(&self, events: impl IntoIterator<Item = ObjectEvent>, synced: bool) {
        let mut waiting = self.waiting.lock();
        events.into_iter().for_each(|event| waiting.push(event, self.limit));
        if synced {
            waiting.items.push_back(Item::Synced);
        }
        drop(waiting);
        self.ready.notify_one();
    }

    /// Waits for the next item.
    pub(super) async fn next(&self) -> Item {
        loop {
            if let Some(item) = self.waiting.lock().pop() {
                return item;
            }
            self.ready.notified().await;
        }
    }

    /// Returns the number of buffered items.
    pub(super) fn len(&self) -> usize {
        self.waiting.lock().items.len()
    }
}

impl Waiting {
    fn push(&mut self, event: ObjectEvent, limit: usize) {
        let key = event.object().meta().key();
        if self.items.len() >= limit
            && let Some(number) = self.last.get(key)
            && let Ok(at) = usize::try_from(number - self.first)
            && let Some(Item::Event(waiting)) = self.items.get_mut(at)
        {
            merge(waiting, event);
            return;
        }
        let number = self.first + self.items.len() as u64;
        self.last.insert(key.clone(), number);
        self.items.push_back(Item::Event(event));
    }

    fn pop(&mut self) -> Option<Item> {
        let item = self.items.pop_front()?;
        if let Item::Event(event) = &item {
            let key = event.object().meta().key();
            if self.last.get(key) == Some(&self.first) {
                self.last.remove(key);
            }
        }
        self.first += 1;
        if self.items.is_empty() {
            // Releases memory after a burst.
            self.items.shrink_to(64);
            self.last.shrink_to(64);
        }
        Some(item)
    }
}

/// Merges two events of one object into one from the state before the first to the state after the
/// second.
fn merge(waiting: &mut ObjectEvent, next: ObjectEvent) {
    use ObjectEvent::{Added, Deleted, Resynced, Updated};
    let merged = match (&*waiting, next) {
        (Added { initial, .. }, Updated { new, .. } | Resynced { object: new }) => {
            Added { new, initial: *initial }
        }
        (Updated { old, .. }, Updated { new, .. } | Resynced { object: new })
        | (Deleted { old, .. }, Added { new, .. }) => Updated { old: old.clone(), new },
        // Otherwise the second event is sufficient: an add, a deletion, or the first change after a
        // resync.
        (_, next) => next,
    };
    *waiting = merged;
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::cache::decode::EntryDecoder;
    use crate::cache::entry::Entry;
    use crate::cache::options::TypeOptions;
    use crate::kind::Kind;

    fn entry(name: &str, version: u64) -> Arc<Entry> {
        let kind = Kind::of::<k8s_openapi::api::core::v1::ConfigMap>();
        let decoder = EntryDecoder::new(kind, TypeOptions::new());
        let raw = format!(r#"{{"metadata":{{"name":"{name}","resourceVersion":"{version}"}}}}"#);
        Arc::new(decoder.entry(raw.as_bytes()).unwrap())
    }

    fn added(name: &str, version: u64) -> ObjectEvent {
        ObjectEvent::Added { new: entry(name, version), initial: true }
    }

    fn updated(name: &str, old: u64, new: u64) -> ObjectEvent {
        ObjectEvent::Updated { old: entry(name, old), new: entry(name, new) }
    }

    fn deleted(name: &str, version: u64) -> ObjectEvent {
        ObjectEvent::Deleted { old: entry(name, version), state_unknown: false }
    }

    fn shown(item: Item) -> String {
        let Item::Event(event) = item else { return "synced".to_owned() };
        let version = |entry: &Arc<Entry>| entry.meta().version();
        let what = match &event {
            ObjectEvent::Added { new, initial } => format!("+{} {initial}", version(new)),
            ObjectEvent::Updated { old, new } => format!("{}→{}", version(old), version(new)),
            ObjectEvent::Resynced { object } => format!("={}", version(object)),
            ObjectEvent::Deleted { old, .. } => format!("-{}", version(old)),
        };
        format!("{} {what}", event.object().meta().key())
    }

    fn drain(buffer: &Buffer) -> Vec<String> {
        std::iter::from_fn(|| buffer.waiting.lock().pop()).map(shown).collect()
    }

    #[test]
    fn beyond_the_limit_events_of_a_key_are_merged_into_the_first() {
        for (events, merged) in [
            (vec![added("a", 1), updated("a", 1, 2)], "a +2 true"),
            (vec![updated("a", 1, 2), updated("a", 2, 3)], "a 1→3"),
            (vec![updated("a", 1, 2), deleted("a", 2)], "a -2"),
            (vec![added("a", 1), deleted("a", 1)], "a -1"),
            (vec![deleted("a", 1), added("a", 5)], "a 1→5"),
            (vec![ObjectEvent::Resynced { object: entry("a", 1) }, updated("a", 1, 2)], "a 1→2"),
            (vec![updated("a", 1, 2), ObjectEvent::Resynced { object: entry("a", 2) }], "a 1→2"),
            (vec![added("a", 2), ObjectEvent::Resynced { object: entry("a", 2) }], "a +2 true"),
        ] {
            let buffer = Buffer::new(0);
            let mut events = events.into_iter();
            buffer.push(events.next().unwrap());
            buffer.push(added("b", 1));
            events.for_each(|event| buffer.push(event));
            assert_eq!(drain(&buffer), [merged, "b +1 true"]);
            assert!(buffer.waiting.lock().last.is_empty());
        }
    }

    #[test]
    fn within_the_limit_every_state_is_delivered() {
        let buffer = Buffer::new(8);
        buffer.extend([added("a", 1), updated("a", 1, 2)], true);
        buffer.push(updated("a", 2, 3));
        assert_eq!(drain(&buffer), ["a +1 true", "a 1→2", "synced", "a 2→3"]);
    }

    #[test]
    fn buffered_events_are_bounded_by_the_number_of_keys() {
        let buffer = Buffer::new(4);
        for round in 1..1000 {
            buffer.push(updated("a", round, round + 1));
            buffer.push(updated("b", round, round + 1));
        }
        assert_eq!(buffer.len(), 4);
        assert_eq!(drain(&buffer), ["a 1→2", "b 1→2", "a 2→1000", "b 2→1000"]);
    }
}
