//! What the cache tells of itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::error::Trouble;
use super::ingest::Rejected;
use crate::kind::Kind;

/// How many rejected objects are remembered by name.
const REMEMBERED: usize = 100;

/// The whole cache at one moment.
#[derive(Clone, Debug)]
pub struct Stats {
    /// Each type that is watched, in order.
    pub types: Vec<TypeStats>,
    /// Bytes of typed objects that nobody holds, about.
    pub hot_bytes: usize,
}

/// One type at one moment.
#[derive(Clone, Debug)]
pub struct TypeStats {
    /// The type.
    pub kind: Kind,
    /// How many objects there are.
    pub objects: usize,
    /// The bytes they take, typed forms aside.
    pub bytes: usize,
    /// How many of our own writes are shown before the watch told of them.
    pub overlaid: usize,
    /// How many handlers are subscribed.
    pub handlers: usize,
    /// How many events wait for handlers.
    pub waiting: usize,
    /// How often a handler panicked.
    pub handler_panics: u64,
    /// How many objects could not be taken in, ever.
    pub rejections: u64,
    /// Those that are left out now, and why; at most a hundred.
    pub rejected: BTreeMap<String, Arc<str>>,
}

/// How it goes with one type.
#[derive(Clone, Debug)]
pub struct Health {
    /// The type.
    pub kind: Kind,
    /// Whether it has been listed.
    pub synced: bool,
    /// What is wrong, unless a watch is open.
    pub trouble: Option<Trouble>,
    /// Whether the type is optional and the server does not have it.
    pub absent: bool,
}

impl Health {
    /// Whether reads are answered, and from a state that follows the server.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.synced && self.trouble.is_none()
    }
}

/// The objects that could not be taken in.
#[derive(Debug, Default)]
pub(super) struct Rejections(Mutex<(u64, BTreeMap<String, Arc<str>>)>);

impl Rejections {
    pub(super) fn add(&self, kind: &Kind, rejected: &Rejected) {
        let key = rejected.key().map_or("(unknown)", |key| key.as_str());
        let problem = &*rejected.problem;
        tracing::error!(%kind, key, problem, "object is left out of the cache");
        let mut known = self.0.lock();
        known.0 += 1;
        if known.1.len() < REMEMBERED || known.1.contains_key(key) {
            known.1.insert(key.to_owned(), problem.into());
        }
    }

    /// The object came in after all, or is gone.
    pub(super) fn clear(&self, key: &str) {
        let mut known = self.0.lock();
        if !known.1.is_empty() {
            known.1.remove(key);
        }
    }

    /// All that is there is looked at anew.
    pub(super) fn start_over(&self, namespace: Option<&str>) {
        let within = |key: &str| {
            namespace.is_none_or(|name| key.split_once('/').is_none_or(|(other, _)| other == name))
        };
        self.0.lock().1.retain(|key, _| !within(key));
    }

    pub(super) fn get(&self) -> (u64, BTreeMap<String, Arc<str>>) {
        self.0.lock().clone()
    }
}
