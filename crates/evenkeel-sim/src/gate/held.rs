//! Deliveries that are released one by one: by a test that drives the world by hand, or by a schedule.

use std::collections::{BTreeMap, BTreeSet};

use super::Gate;

/// An event that is held.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct HeldEvent {
    /// Its type and the name of the object.
    pub(crate) text: String,
    /// A hash of the object.
    pub(crate) content: u64,
}

/// Which events are held, and which may pass.
#[derive(Default)]
pub(super) struct Held {
    /// Events of all resources are held.
    all: bool,
    resources: BTreeSet<String>,
    /// How many events may pass, by resource.
    permits: BTreeMap<String, u32>,
    /// The next event of each watch, by resource and number of the watch.
    waiting: BTreeMap<String, BTreeMap<u64, HeldEvent>>,
}

impl Held {
    fn holds(&self, resource: &str) -> bool {
        self.all || self.resources.contains(resource)
    }
}

impl Gate {
    /// Holds the events of all resources.
    pub(crate) fn hold_all(&self) {
        self.state.lock().held.all = true;
    }

    /// Whether events of a resource are held.
    pub(super) fn holds(&self, resource: &str) -> bool {
        self.state.lock().held.holds(resource)
    }

    /// Holds the events of a resource.
    pub(crate) fn hold(&self, resource: &str) {
        self.state.lock().held.resources.insert(resource.to_owned());
    }

    /// Delivers the events of a resource, also those that were held.
    pub(crate) fn release(&self, resource: &str) {
        let mut state = self.state.lock();
        state.held.all = false;
        state.held.resources.remove(resource);
        state.held.permits.remove(resource);
        drop(state);
        self.written.send_modify(|_| {});
    }

    /// Delivers all events.
    pub(crate) fn release_all(&self) {
        let mut state = self.state.lock();
        state.held.all = false;
        state.held.resources.clear();
        state.held.permits.clear();
        drop(state);
        self.written.send_modify(|_| {});
    }

    /// Returns the next event of each resource that is held.
    pub(crate) fn held_events(&self) -> BTreeMap<String, HeldEvent> {
        let state = self.state.lock();
        let first = |(resource, events): (&String, &BTreeMap<u64, HeldEvent>)| {
            Some((resource.clone(), events.values().next()?.clone()))
        };
        state.held.waiting.iter().filter_map(first).collect()
    }

    /// Delivers the next event of a resource.
    pub(crate) fn deliver_next(&self, resource: &str) {
        *self.state.lock().held.permits.entry(resource.to_owned()).or_default() += 1;
        self.written.send_modify(|_| {});
    }

    /// Waits until the event may be delivered. `watch` is the number of the watch.
    pub(super) async fn until_released(&self, resource: &str, watch: u64, event: &HeldEvent) {
        let mut changed = self.written.subscribe();
        // The watch may end while it waits.
        let waiting = Waiting { gate: self, resource, watch };
        loop {
            {
                let mut state = self.state.lock();
                if !state.held.holds(resource) {
                    break;
                }
                if let Some(permits) = state.held.permits.get_mut(resource).filter(|it| **it > 0) {
                    *permits -= 1;
                    break;
                }
                let waiting = state.held.waiting.entry(resource.to_owned()).or_default();
                waiting.insert(watch, event.clone());
            }
            if changed.changed().await.is_err() {
                break;
            }
        }
        drop(waiting);
    }
}

/// Removes the event of a watch when it is delivered or the watch ends.
struct Waiting<'a> {
    gate: &'a Gate,
    resource: &'a str,
    watch: u64,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut state = self.gate.state.lock();
        if let Some(waiting) = state.held.waiting.get_mut(self.resource) {
            waiting.remove(&self.watch);
            if waiting.is_empty() {
                state.held.waiting.remove(self.resource);
            }
        }
    }
}
