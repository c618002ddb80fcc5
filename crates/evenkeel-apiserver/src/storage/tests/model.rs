//! Compares the store with a naive model that keeps every version.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

const TABLES: [&str; 2] = ["pods", "nodes"];
const NAMESPACES: [&str; 3] = ["a", "a-b", "b"];

#[derive(Clone, Debug)]
enum Step {
    /// Create, update or delete, depending on `operation` and on whether the object exists.
    Write { table: usize, key: Key, operation: u8 },
    /// Compact below a fraction of the history.
    Compact(u8),
    /// List at a fraction of the history, in pages of this size.
    List { table: usize, namespace: Option<usize>, at: u8, page: usize },
    /// Start a watch at a fraction of the history.
    Watch { table: usize, namespace: Option<usize>, at: u8 },
    /// Let one of the watchers read some events.
    Read { watcher: usize, events: usize },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let table = 0..TABLES.len();
    let namespace = prop::option::of(0..NAMESPACES.len());
    let key = (0..NAMESPACES.len(), 0..4u8)
        .prop_map(|(namespace, name)| Key::new(NAMESPACES[namespace], &name.to_string()));
    let write = (table.clone(), key, 0..4u8).prop_map(|(table, key, operation)| Step::Write {
        table,
        key,
        operation,
    });
    let list = (table.clone(), namespace.clone(), any::<u8>(), 1..5usize)
        .prop_map(|(table, namespace, at, page)| Step::List { table, namespace, at, page });
    let watch = (table, namespace, any::<u8>()).prop_map(|(table, namespace, at)| Step::Watch {
        table,
        namespace,
        at,
    });
    let read = (0..8usize, 1..9usize).prop_map(|(watcher, events)| Step::Read { watcher, events });
    let compact = any::<u8>().prop_map(Step::Compact);
    let step = prop_oneof![12 => write, 1 => compact, 3 => list, 2 => watch, 4 => read];
    prop::collection::vec(step, 1..200)
}

/// The objects and the revision of their last write.
type Objects = BTreeMap<Key, u64>;

/// The history of one table: its state after each event, oldest first.
struct Past {
    states: Vec<(u64, Objects)>,
    /// All events, by revision.
    events: Vec<(u64, Key)>,
    compacted: u64,
}

struct Follower {
    table: usize,
    namespace: Option<usize>,
    watcher: Watcher,
    /// The model's state at the start of the watch, updated by each event.
    objects: Objects,
    cursor: u64,
    lost: bool,
}

impl Past {
    fn at(&self, revision: u64, namespace: Option<usize>) -> Objects {
        let state = self.states.iter().rev().find(|(made, _)| *made <= revision);
        let objects = state.map(|(_, objects)| objects.clone()).unwrap_or_default();
        objects.into_iter().filter(|(key, _)| inside(key, namespace)).collect()
    }

    fn write(&mut self, revision: u64, key: Key, deleted: bool, window: usize) {
        let mut objects = self.at(revision, None);
        if deleted {
            objects.remove(&key);
        } else {
            objects.insert(key.clone(), revision);
        }
        self.states.push((revision, objects));
        self.events.push((revision, key));
        if let Some(kept) = self.events.len().checked_sub(window + 1) {
            self.compact(self.events[kept].0);
        }
    }

    fn compact(&mut self, revision: u64) {
        self.compacted = self.compacted.max(revision);
    }

    /// Returns the first event after `cursor` and after `kept` that a watcher should receive.
    fn next(&self, cursor: u64, namespace: Option<usize>, kept: u64) -> Option<u64> {
        let seen = cursor.max(kept);
        let mut events = self.events.iter();
        events.find(|(made, key)| *made > seen && inside(key, namespace)).map(|(made, _)| *made)
    }
}

fn inside(key: &Key, namespace: Option<usize>) -> bool {
    namespace.is_none_or(|namespace| key.namespace() == NAMESPACES[namespace])
}

fn objects(page: &Page) -> Objects {
    page.items.iter().map(|record| (record.key.clone(), record.revision)).collect()
}

struct Run {
    store: Store,
    window: usize,
    past: Vec<Past>,
    followers: Vec<Follower>,
}

impl Run {
    fn new(window: usize) -> Self {
        let past = |_| Past { states: Vec::new(), events: Vec::new(), compacted: 1 };
        Self {
            store: store(window),
            window,
            past: TABLES.iter().map(past).collect(),
            followers: vec![],
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Write { table, key, operation } => self.write(table, key, operation),
            Step::Compact(at) => {
                let revision = self.revision_at_fraction(at);
                self.store.compact(revision);
                self.past.iter_mut().for_each(|past| past.compact(revision));
            }
            Step::List { table, namespace, at, page } => {
                self.list(table, namespace, self.revision_at_fraction(at), page);
            }
            Step::Watch { table, namespace, at } => {
                self.watch(table, namespace, self.revision_at_fraction(at));
            }
            Step::Read { watcher, events } => {
                if !self.followers.is_empty() {
                    let watcher = watcher % self.followers.len();
                    (0..events).for_each(|_| self.read(watcher));
                }
            }
        }
    }

    fn revision_at_fraction(&self, fraction: u8) -> u64 {
        self.store.revision() * u64::from(fraction) / 255
    }

    fn write(&mut self, table: usize, key: Key, operation: u8) {
        let expected = self.past[table].at(u64::MAX, None).get(&key).copied();
        let handle = self.store.table(TABLES[table]);
        assert_eq!(handle.get(&key).map(|record| record.revision), expected);
        let before = self.store.revision();
        let (done, deleted) = match (operation, expected) {
            (0, Some(expected)) => (now(handle.delete(key.clone(), expected, None)), true),
            (1, Some(expected)) => {
                (now(handle.update(key.clone(), expected - 1, unsaved(0))), false)
            }
            (_, Some(expected)) => (now(handle.update(key.clone(), expected, unsaved(0))), false),
            (0, None) => (now(handle.delete(key.clone(), before, None)), true),
            (_, None) => (now(handle.create(key.clone(), unsaved(0))), false),
        };
        let possible = !matches!((operation, expected), (1, Some(_)) | (0, None));
        match done {
            Ok(record) => {
                assert!(possible);
                assert_eq!(record.revision, before + 1);
                assert_eq!(record.body, format!(r#"{{"v":0,"rv":"{}"}}"#, record.revision));
                self.past[table].write(record.revision, key, deleted, self.window);
            }
            Err(WriteError::Conflict(found)) => {
                assert!(!possible);
                assert_eq!(found.map(|record| record.revision), expected);
                assert_eq!(self.store.revision(), before);
            }
            Err(other) => panic!("{other}"),
        }
    }

    fn list(&self, table: usize, namespace: Option<usize>, at: u64, limit: usize) {
        let past = &self.past[table];
        let handle = self.store.table(TABLES[table]);
        let whole = Range { namespace: namespace.map(|n| NAMESPACES[n]), ..Range::default() };
        let expected = past.at(at, namespace);
        let page = match handle.list(whole, Some(at)) {
            Ok(page) => page,
            Err(ReadError::Compacted(error)) => {
                assert!(at < past.compacted);
                assert_eq!(error.compacted, past.compacted);
                return;
            }
            Err(other) => panic!("{other}"),
        };
        assert!(at >= past.compacted);
        assert_eq!(objects(&page), expected);
        assert!(page.items.is_sorted_by_key(|record| &record.key));
        let mut after = None;
        let mut pieces = Vec::new();
        loop {
            let range = Range { after: after.as_ref(), limit: Some(limit), ..whole };
            let piece = handle.list(range, Some(at)).unwrap();
            let rest = expected.len() - pieces.len();
            assert_eq!(handle.count(range, Some(at)).unwrap(), rest);
            assert_eq!(piece.items.len(), rest.min(limit));
            assert_eq!(piece.next.is_some(), rest > limit);
            pieces.extend(piece.items);
            after = piece.next;
            if after.is_none() {
                break;
            }
        }
        let same = pieces.iter().zip(&page.items).all(|(left, right)| Arc::ptr_eq(left, right));
        assert!(same && pieces.len() == page.items.len());
    }

    fn watch(&mut self, table: usize, namespace: Option<usize>, at: u64) {
        let past = &self.past[table];
        let handle = self.store.table(TABLES[table]);
        match handle.watch(namespace.map(|n| NAMESPACES[n]), at) {
            Ok(watcher) => {
                assert!(at >= past.compacted);
                let objects = past.at(at, namespace);
                let cursor = at;
                self.followers.push(Follower {
                    table,
                    namespace,
                    watcher,
                    objects,
                    cursor,
                    lost: false,
                });
            }
            Err(error) => {
                assert!(at < past.compacted);
                assert_eq!(error.compacted, past.compacted);
            }
        }
    }

    /// Reads one event of one follower. It may have a batch, so a follower that has missed events
    /// in the model may still deliver; but only correct events, and once it reports the loss it
    /// must be true.
    fn read(&mut self, watcher: usize) {
        let follower = &mut self.followers[watcher];
        let past = &self.past[follower.table];
        let expected = past.next(follower.cursor, follower.namespace, past.compacted);
        match follower.watcher.try_next() {
            Ok(Some(event)) => {
                assert!(!follower.lost && event.revision() > follower.cursor);
                if event.revision() > past.compacted {
                    assert_eq!(expected, Some(event.revision()));
                }
                follower.cursor = event.revision();
                if event.deleted {
                    follower.objects.remove(&event.record.key);
                } else {
                    follower.objects.insert(event.record.key.clone(), event.revision());
                }
                // Replaying the watch over its initial list gives the list at any revision.
                assert_eq!(follower.objects, past.at(event.revision(), follower.namespace));
                let synced = follower.watcher.synced_revision();
                assert!(
                    synced.is_err() || synced.is_ok_and(|synced| synced >= Some(follower.cursor))
                );
            }
            Ok(None) => {
                assert!(expected.is_none());
                assert_eq!(follower.objects, past.at(u64::MAX, follower.namespace));
                let synced = follower.watcher.synced_revision();
                assert_eq!(synced, Ok(Some(self.store.revision())));
            }
            Err(error) => {
                assert_eq!(error.compacted, past.compacted);
                let unseen = past.next(follower.cursor, follower.namespace, 0);
                assert!(unseen.is_some_and(|made| made <= past.compacted), "an event was lost");
                follower.lost = true;
            }
        }
    }
}

proptest! {
    #[test]
    fn store_matches_a_model_that_keeps_every_version(
        window in prop_oneof![1..8usize, Just(1000)],
        steps in steps(),
    ) {
        let mut run = Run::new(window);
        for step in steps {
            run.step(step);
        }
        for table in 0..TABLES.len() {
            run.list(table, None, run.store.revision(), 3);
        }
        for watcher in 0..run.followers.len() {
            (0..300).for_each(|_| run.read(watcher));
        }
    }
}
