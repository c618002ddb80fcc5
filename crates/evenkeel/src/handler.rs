//! From an event to the keys it concerns.

use std::fmt;
use std::sync::Arc;

use crate::cache::{Cache, Entry, Query, ReadError};
use crate::key::Key;
use crate::kind::{Kind, Object};
use crate::object_event::ObjectEvent;

/// Tells which keys an event concerns; each is queued once per event.
#[derive(Clone)]
pub struct Handler(Sort);

type Map = dyn Fn(&Entry) -> Vec<Key> + Send + Sync;

#[derive(Clone)]
enum Sort {
    Object,
    Owner { owner: Kind, every: bool, cache: Option<Cache> },
    Map(Arc<Map>),
}

impl Handler {
    /// The object itself.
    #[must_use]
    pub fn object() -> Self {
        Self(Sort::Object)
    }

    /// The object of type `owner` that controls it, or with `every` each that owns it.
    ///
    /// Both the owners before and after a change are concerned.
    #[must_use]
    pub fn owner(owner: Kind, every: bool) -> Self {
        Self(Sort::Owner { owner, every, cache: None })
    }

    /// What `map` says, for the object before and for the object after a change.
    pub fn map(map: impl Fn(&Entry) -> Vec<Key> + Send + Sync + 'static) -> Self {
        Self(Sort::Map(Arc::new(map)))
    }

    /// Lets owners be checked by uid: a child of a former object of the same name is not the
    /// present one's concern.
    pub(crate) fn checking(self, cache: &Cache) -> Self {
        match self.0 {
            Sort::Owner { owner, every, .. } => {
                Self(Sort::Owner { owner, every, cache: Some(cache.clone()) })
            }
            sort => Self(sort),
        }
    }

    /// The keys `event` concerns, without repeats, in the order they were found.
    #[must_use]
    pub fn keys(&self, event: &ObjectEvent) -> Vec<Key> {
        let mut keys = Vec::new();
        match &self.0 {
            Sort::Object => keys.push(event.object().meta().key().clone()),
            Sort::Owner { owner, every, cache } => {
                for entry in both(event) {
                    owners(entry, owner, *every, cache.as_ref(), &mut keys);
                }
            }
            Sort::Map(map) => {
                for entry in both(event) {
                    for key in map(entry) {
                        push(&mut keys, key);
                    }
                }
            }
        }
        keys
    }
}

fn both(event: &ObjectEvent) -> impl Iterator<Item = &Arc<Entry>> {
    let same = matches!(event, ObjectEvent::Resynced { .. });
    event.old().into_iter().chain(event.new().filter(|_| !same))
}

fn owners(entry: &Entry, kind: &Kind, every: bool, cache: Option<&Cache>, keys: &mut Vec<Key>) {
    for owner in entry.meta().owners() {
        if !kind.is(&owner.group, &owner.kind) || !(owner.controller || every) {
            continue;
        }
        // An owner lives in its child's namespace, unless its type has none.
        let namespace = entry.meta().key().namespace().filter(|_| kind.namespaced());
        let key = Key::new(namespace, &owner.name);
        let present = cache.and_then(|cache| cache.peek(kind, &key));
        if present.is_some_and(|present| *present.meta().uid() != owner.uid) {
            continue;
        }
        push(keys, key);
    }
}

fn push(keys: &mut Vec<Key>, key: Key) {
    if !keys.contains(&key) {
        keys.push(key);
    }
}

impl fmt::Debug for Handler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Sort::Object => f.write_str("the object itself"),
            Sort::Owner { owner, every: true, .. } => write!(f, "every owning {owner}"),
            Sort::Owner { owner, .. } => write!(f, "the controlling {owner}"),
            Sort::Map(_) => f.write_str("a map function"),
        }
    }
}

/// What a map function may look things up in.
#[derive(Clone)]
pub struct MapContext {
    cache: Cache,
}

impl MapContext {
    pub(crate) fn new(cache: Cache) -> Self {
        Self { cache }
    }

    /// The keys of the objects of type `K` that the index `name` files under `value`.
    ///
    /// This is how an object that many refer to finds those who refer to it. A type that is not
    /// cached, or not yet, has none: once it is, its own events bring every object up.
    #[must_use]
    pub fn indexed<K: Object>(&self, name: &str, value: &str) -> Vec<Key> {
        self.keys::<K>(&Query { index: Some((name, value)), ..Query::default() })
    }

    /// The keys of the objects of type `K` that match.
    #[must_use]
    pub fn keys<K: Object>(&self, query: &Query<'_>) -> Vec<Key> {
        let kind = Kind::of::<K>();
        let entries = match self.cache.list(&kind, query) {
            Ok(entries) => entries,
            // What a write of ours made of an object does not keep the event from its neighbours.
            Err(ReadError::Uncertain { .. }) => self.cache.peek_list(&kind, query),
            Err(ReadError::NotSynced { .. }) => Vec::new(),
            Err(error) => {
                tracing::warn!(%error, "a map function cannot look up");
                Vec::new()
            }
        };
        entries.iter().map(|entry| entry.meta().key().clone()).collect()
    }
}
