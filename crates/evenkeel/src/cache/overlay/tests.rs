//! The overlay and the store, compared with the history of the server.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::Expression;
use proptest::prelude::*;
use serde_json::json;

use std::collections::BTreeSet;

use super::{HIDDEN_TIMEOUT, Uid, UnknownOutcome};
use crate::cache::decode::EntryDecoder;
use crate::cache::entry::Entry;
use crate::cache::tests::{TestCache, raw};
use crate::cache::{ReadError, TypeOptions};
use crate::key::Key;
use crate::kind::Kind;
use crate::watch::Sink as _;

fn key(name: &str) -> Key {
    Key::namespaced("default", name)
}

fn version(test: &TestCache, name: &str) -> Option<u64> {
    test.get(name).map(|entry| entry.meta().version().0)
}

#[tokio::test(start_paused = true)]
async fn write_is_read_back_until_the_watch_has_caught_up() {
    let mut test = TestCache::new(TypeOptions::new());
    test.list(5, [&*raw("a", "u1", 1, "1")]);
    let kind = Kind::of::<ConfigMap>();
    test.cache.wrote(&kind, &raw("a", "u1", 8, "2"));
    assert_eq!(version(&test, "a"), Some(8));
    // An event from before the write does not revert it.
    test.writer.changed(&raw("a", "u1", 6, "x"));
    assert_eq!(version(&test, "a"), Some(8));
    assert_eq!(test.informer.stats().own_writes, 1);
    test.writer.changed(&raw("a", "u1", 8, "2"));
    assert_eq!((version(&test, "a"), test.informer.stats().own_writes), (Some(8), 0));
    // A response after its event and a newer one has no effect.
    test.writer.changed(&raw("a", "u1", 9, "3"));
    test.cache.wrote(&kind, &raw("a", "u1", 8, "2"));
    assert_eq!((version(&test, "a"), test.informer.stats().own_writes), (Some(9), 0));
    // Nor has an older response after a newer one.
    test.cache.wrote(&kind, &raw("a", "u1", 12, "5"));
    test.cache.wrote(&kind, &raw("a", "u1", 11, "4"));
    assert_eq!(version(&test, "a"), Some(12));
}

#[tokio::test(start_paused = true)]
async fn the_event_of_a_write_does_not_replace_what_was_read_back() {
    let mut test = TestCache::new(TypeOptions::new());
    test.list(5, [&*raw("a", "u1", 1, "1")]);
    let kind = Kind::of::<ConfigMap>();
    test.cache.wrote(&kind, &raw("a", "u1", 8, "2"));
    let written = test.get("a").unwrap();
    let typed = test.cache.typed::<ConfigMap>(&written).unwrap();
    test.writer.changed(&raw("a", "u1", 8, "2"));
    let stored = test.get("a").unwrap();
    assert!(Arc::ptr_eq(&stored, &written));
    assert!(Arc::ptr_eq(&test.cache.typed::<ConfigMap>(&stored).unwrap(), &typed));
    // For different JSON of the same version the watch takes precedence.
    test.cache.wrote(&kind, &raw("a", "u1", 9, "3"));
    test.writer.changed(&raw("a", "u1", 9, "4"));
    assert_eq!(super::super::tests::value(&test.get("a").unwrap()), "4");
}

#[tokio::test(start_paused = true)]
async fn response_of_another_kind_is_not_stored_as_the_object() {
    let mut test = TestCache::new(TypeOptions::new());
    test.list(5, [&*raw("a", "u1", 1, "1")]);
    let mut scale: serde_json::Value = serde_json::from_slice(&raw("a", "u1", 8, "2")).unwrap();
    scale["kind"] = "Scale".into();
    test.cache.wrote(&Kind::of::<ConfigMap>(), scale.to_string().as_bytes());
    assert_eq!(version(&test, "a"), Some(1));
}

#[tokio::test(start_paused = true)]
async fn response_after_the_deletion_does_not_restore_the_object() {
    let mut test = TestCache::new(TypeOptions::new());
    test.list(5, []);
    let kind = Kind::of::<ConfigMap>();
    test.writer.changed(&raw("a", "u1", 6, "1"));
    test.writer.deleted(&raw("a", "u1", 7, "1"));
    test.cache.wrote(&kind, &raw("a", "u1", 6, "1"));
    assert_eq!(version(&test, "a"), None);
    // Nor after an own deletion whose event has not arrived.
    test.cache.deleted(&kind, &key("b"), &Uid::new("u2"));
    test.cache.wrote(&kind, &raw("b", "u2", 20, "1"));
    test.writer.changed(&raw("b", "u2", 20, "1"));
    assert_eq!(version(&test, "b"), None);
    test.writer.deleted(&raw("b", "u2", 21, "1"));
    test.writer.changed(&raw("b", "u3", 22, "1"));
    assert_eq!(version(&test, "b"), Some(22), "another object of that name");
}

#[tokio::test(start_paused = true)]
async fn a_deleted_uid_is_hidden_and_its_successor_is_not() {
    let mut test = TestCache::new(TypeOptions::new());
    test.list(5, [&*raw("a", "u1", 1, "1")]);
    let kind = Kind::of::<ConfigMap>();
    test.cache.deleted(&kind, &key("a"), &Uid::new("u1"));
    assert_eq!(version(&test, "a"), None);
    assert!(test.informer.list().entries().unwrap().is_empty());
    test.writer.changed(&raw("a", "u1", 6, "x"));
    assert_eq!(version(&test, "a"), None, "still the deleted object");
    test.cache.wrote(&kind, &raw("a", "u2", 9, "1"));
    assert_eq!(version(&test, "a"), Some(9));
    assert_eq!(test.informer.list().entries().unwrap().len(), 1);
    test.list(9, [&*raw("a", "u2", 9, "1")]);
    assert_eq!(version(&test, "a"), Some(9));
    assert!(test.informer.0.0.contents.overlay.is_idle(), "the overlay is empty");
    // The event arrived before the response.
    test.writer.deleted(&raw("a", "u2", 10, "1"));
    test.cache.deleted(&kind, &key("a"), &Uid::new("u2"));
    assert!(test.informer.0.0.contents.overlay.is_idle());
}

#[tokio::test(start_paused = true)]
async fn deleted_uid_that_the_watch_never_delivered_is_dropped() {
    let mut test = TestCache::new(TypeOptions::new());
    test.list(5, []);
    test.cache.deleted(&Kind::of::<ConfigMap>(), &key("a"), &Uid::new("u1"));
    assert!(!test.informer.0.0.contents.overlay.is_idle());
    tokio::time::advance(HIDDEN_TIMEOUT).await;
    test.writer.bookmark("6");
    assert!(test.informer.0.0.contents.overlay.is_idle());
}

#[tokio::test(start_paused = true)]
async fn an_object_that_leaves_the_selection_by_our_write_is_hidden() {
    let labelled = |version: u64, show: &str| {
        let meta = json!({
            "namespace": "default", "name": "a", "uid": "u1",
            "resourceVersion": version.to_string(), "labels": { "show": show },
        });
        json!({ "metadata": meta, "data": { "phase": show } }).to_string().into_bytes()
    };
    let by_label =
        TypeOptions::new().labels(Expression::Equal("show".to_owned(), "yes".to_owned()).into());
    for options in [by_label, TypeOptions::new().fields("data.phase=yes")] {
        let mut test = TestCache::new(options);
        let kind = Kind::of::<ConfigMap>();
        test.list(5, [&*labelled(1, "yes")]);
        test.cache.wrote(&kind, &labelled(8, "no"));
        assert_eq!(version(&test, "a"), None);
        assert!(test.informer.list().entries().unwrap().is_empty());
        test.cache.wrote(&kind, &labelled(9, "yes"));
        assert_eq!(version(&test, "a"), Some(9));
        test.writer.deleted(&labelled(8, "no"));
        assert_eq!(version(&test, "a"), Some(9));
        test.writer.changed(&labelled(9, "yes"));
        assert_eq!(version(&test, "a"), Some(9));
        assert!(test.informer.0.0.contents.overlay.is_idle());
    }
}

#[tokio::test(start_paused = true)]
async fn lost_response_makes_the_next_read_a_live_read() {
    let mut test = TestCache::new(TypeOptions::new());
    test.list(5, [&*raw("a", "u1", 1, "1"), &*raw("b", "u2", 2, "1")]);
    let kind = Kind::of::<ConfigMap>();
    let outcomes = |test: &TestCache| match test.informer.list().entries() {
        Err(ReadError::UnknownOutcome { outcomes, .. }) => outcomes,
        other => panic!("{other:?}"),
    };
    test.cache.invalidate(&kind, &key("a"));
    let error = test.informer.get(&key("a")).unwrap_err();
    assert!(error.to_string().contains("default/a"), "{error}");
    assert!(test.get("b").is_some(), "others are not affected");
    let elsewhere = test.informer.list().in_namespace("other").entries();
    assert!(elsewhere.is_ok());
    let first = outcomes(&test);
    assert_eq!(first.len(), 1);
    // Another lost response during the live read is not resolved by it.
    test.cache.invalidate(&kind, &key("a"));
    test.cache.record_live_read(&kind, &first[0], Some(&raw("a", "u1", 7, "2")));
    let second = outcomes(&test);
    test.cache.record_live_read(&kind, &second[0], Some(&raw("a", "u1", 8, "3")));
    assert_eq!(version(&test, "a"), Some(8));
    // An object that turns out to be deleted is hidden.
    test.cache.invalidate(&kind, &key("b"));
    test.cache.record_live_read(&kind, &outcomes(&test)[0], None);
    assert_eq!(version(&test, "b"), None);
}

#[tokio::test(start_paused = true)]
async fn non_numeric_versions_hide_nothing() {
    let mut test = TestCache::new(TypeOptions::new());
    let odd = |version: &str| {
        let meta = json!({ "namespace": "default", "name": "a", "resourceVersion": version });
        json!({ "metadata": meta, "data": { "value": version } }).to_string().into_bytes()
    };
    test.list(5, [&*odd("x1")]);
    let kind = Kind::of::<ConfigMap>();
    test.cache.wrote(&kind, &odd("x2"));
    let Err(ReadError::UnknownOutcome { outcomes, .. }) = test.informer.get(&key("a")) else {
        panic!("the next read has to be live");
    };
    test.cache.record_live_read(&kind, &outcomes[0], Some(&odd("x2")));
    assert!(test.get("a").is_some(), "only the next read");
    test.writer.changed(&odd("x2"));
    assert_eq!(test.get("a").unwrap().json(), odd_entry(&odd("x2")).json());
    assert_eq!(test.informer.stats().own_writes, 0);
}

fn odd_entry(raw: &[u8]) -> Entry {
    EntryDecoder::new(Kind::of::<ConfigMap>(), TypeOptions::new()).entry(raw).unwrap()
}

/// The history of one key: its state at each version, if any.
#[derive(Clone, Debug, PartialEq)]
struct Moment {
    version: u64,
    state: Option<Shape>,
}

#[derive(Clone, Debug, PartialEq)]
struct Shape {
    uid: u64,
    shown: bool,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// This process (`ours`) or another client writes or creates the key.
    Write {
        key: usize,
        ours: bool,
        shown: bool,
    },
    Delete {
        key: usize,
        ours: bool,
    },
    /// A pending response arrives.
    PendingResponse(usize),
    /// The watch delivers the next change.
    Deliver,
    Bookmark,
    /// The watch is interrupted and a later version is listed.
    Relist(usize),
    Read(usize),
    List,
}

const KEYS: usize = 3;

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..KEYS, any::<bool>(), prop::bool::weighted(0.8))
            .prop_map(|(key, ours, shown)| Step::Write { key, ours, shown }),
        2 => (0..KEYS, any::<bool>()).prop_map(|(key, ours)| Step::Delete { key, ours }),
        4 => any::<usize>().prop_map(Step::PendingResponse),
        4 => Just(Step::Deliver),
        1 => Just(Step::Bookmark),
        1 => any::<usize>().prop_map(Step::Relist),
        4 => (0..KEYS).prop_map(Step::Read),
        1 => Just(Step::List),
    ]
}

enum PendingResponse {
    Wrote { key: usize, version: u64, state: Shape },
    Deleted { key: usize, version: u64, uid: u64 },
}

struct Model {
    test: TestCache,
    selective: bool,
    version: u64,
    uids: u64,
    history: [Vec<Moment>; KEYS],
    /// Which key changed at each version after the first.
    changes: Vec<usize>,
    /// The version that the watch has delivered.
    delivered: u64,
    responses: Vec<PendingResponse>,
    /// The uids known from reads and responses, which this process can delete.
    known: BTreeSet<u64>,
    /// The oldest history index per key that reads may return.
    floor: [usize; KEYS],
}

impl Model {
    fn new(selective: bool) -> Self {
        let yes = Expression::Equal("show".to_owned(), "yes".to_owned());
        let mut options = TypeOptions::new();
        if selective {
            options = options.labels(yes.into());
        }
        let mut test = TestCache::new(options);
        test.list(1, []);
        let none = || vec![Moment { version: 1, state: None }];
        Self {
            test,
            selective,
            version: 1,
            uids: 0,
            history: [none(), none(), none()],
            changes: Vec::new(),
            delivered: 1,
            responses: Vec::new(),
            known: BTreeSet::new(),
            floor: [0; KEYS],
        }
    }

    fn raw(key: usize, version: u64, state: &Shape) -> Vec<u8> {
        let show = if state.shown { "yes" } else { "no" };
        let meta = json!({
            "namespace": "default", "name": format!("k{key}"), "uid": format!("u{}", state.uid),
            "resourceVersion": version.to_string(), "labels": { "show": show },
        });
        json!({ "metadata": meta }).to_string().into_bytes()
    }

    fn now(&self, key: usize) -> Option<Shape> {
        self.history[key].last().unwrap().state.clone()
    }

    fn commit(&mut self, key: usize, state: Option<Shape>) {
        self.version += 1;
        self.history[key].push(Moment { version: self.version, state });
        self.changes.push(key);
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Write { key, ours, shown } => {
                let uid = self.now(key).map_or_else(|| self.uids + 1, |state| state.uid);
                self.uids = self.uids.max(uid);
                let state = Shape { uid, shown };
                self.commit(key, Some(state.clone()));
                if ours {
                    self.responses.push(PendingResponse::Wrote {
                        key,
                        version: self.version,
                        state,
                    });
                }
            }
            Step::Delete { key, ours } => {
                let Some(Shape { uid, .. }) = self.now(key) else { return };
                self.commit(key, None);
                if ours && self.known.contains(&uid) {
                    self.responses.push(PendingResponse::Deleted {
                        key,
                        version: self.version,
                        uid,
                    });
                }
            }
            Step::PendingResponse(which) => self.answer(which),
            Step::Deliver => self.deliver(),
            Step::Bookmark => self.test.writer.bookmark(&self.delivered.to_string()),
            Step::Relist(which) => self.relist(which),
            Step::Read(key) => {
                let name = Key::namespaced("default", &format!("k{key}"));
                let found = loop {
                    match self.test.informer.get(&name) {
                        Err(ReadError::UnknownOutcome { outcomes, .. }) => self.resolve(&outcomes),
                        other => break other.unwrap(),
                    }
                };
                self.check(key, found.as_deref());
            }
            Step::List => {
                let found = loop {
                    match self.test.informer.list().entries() {
                        Err(ReadError::UnknownOutcome { outcomes, .. }) => self.resolve(&outcomes),
                        other => break other.unwrap(),
                    }
                };
                for at in 0..KEYS {
                    let name = format!("k{at}");
                    let entry = found.iter().find(|entry| entry.meta().key().name() == name);
                    self.check(at, entry.map(|entry| &**entry));
                }
                assert!(found.is_sorted_by_key(|entry| entry.meta().key().clone()));
            }
        }
    }

    /// Reads objects with unknown outcome from the server.
    fn resolve(&mut self, outcomes: &[UnknownOutcome]) {
        for outcome in outcomes {
            let key = (0..KEYS).find(|key| outcome.key().name() == format!("k{key}")).unwrap();
            let Moment { version, state } = self.history[key].last().unwrap().clone();
            let raw = state.as_ref().map(|state| Self::raw(key, version, state));
            self.test.cache.record_live_read(&Kind::of::<ConfigMap>(), outcome, raw.as_deref());
            if raw.is_some() {
                self.raise(key, version);
            }
        }
    }

    fn answer(&mut self, which: usize) {
        if self.responses.is_empty() {
            return;
        }
        let kind = Kind::of::<ConfigMap>();
        let (key, version) = match self.responses.remove(which % self.responses.len()) {
            PendingResponse::Wrote { key, version, state } => {
                self.test.cache.wrote(&kind, &Self::raw(key, version, &state));
                self.known.insert(state.uid);
                (key, version)
            }
            PendingResponse::Deleted { key, version, uid } => {
                let name = Key::namespaced("default", &format!("k{key}"));
                self.test.cache.deleted(&kind, &name, &Uid::new(&format!("u{uid}")));
                (key, version)
            }
        };
        self.raise(key, version);
    }

    /// Reads of the key must not return older states from now on.
    fn raise(&mut self, key: usize, version: u64) {
        let at = self.history[key].iter().rposition(|moment| moment.version <= version).unwrap();
        self.floor[key] = self.floor[key].max(at);
    }

    fn visible<'a>(&self, state: Option<&'a Shape>) -> Option<&'a Shape> {
        state.filter(|state| state.shown || !self.selective)
    }

    fn deliver(&mut self) {
        if self.delivered == self.version {
            return;
        }
        let version = self.delivered + 1;
        let key = self.changes[usize::try_from(version).unwrap() - 2];
        let at = self.history[key].iter().position(|moment| moment.version == version).unwrap();
        let before = self.history[key][at - 1].state.clone();
        let now = self.history[key][at].state.clone();
        match (self.visible(before.as_ref()), self.visible(now.as_ref())) {
            (_, Some(now)) => self.test.writer.changed(&Self::raw(key, version, now)),
            (Some(before), None) => {
                let last = now.as_ref().unwrap_or(before);
                self.test.writer.deleted(&Self::raw(key, version, last));
            }
            (None, None) => {}
        }
        self.delivered = version;
        if self.visible(before.as_ref()).is_some() || self.visible(now.as_ref()).is_some() {
            (0..KEYS).for_each(|key| self.raise(key, version));
        }
    }

    fn relist(&mut self, which: usize) {
        let span = usize::try_from(self.version - self.delivered).unwrap() + 1;
        let version = self.delivered + u64::try_from(which % span).unwrap();
        let mut objects = Vec::new();
        for (key, history) in self.history.iter().enumerate() {
            let moment = history.iter().rfind(|moment| moment.version <= version).unwrap();
            if let Some(state) = self.visible(moment.state.as_ref()) {
                objects.push(Self::raw(key, moment.version, state));
            }
        }
        self.test.list(version, objects.iter().map(|object| &**object));
        self.delivered = version;
        (0..KEYS).for_each(|key| self.raise(key, version));
    }

    /// Checks that the result is a state of the server and not older than the floor.
    fn check(&mut self, key: usize, entry: Option<&Entry>) {
        let found = entry.map(|entry| (entry.meta().uid().to_string(), entry.meta().version().0));
        let fits = |moment: &Moment| match (self.visible(moment.state.as_ref()), &found) {
            (None, None) => true,
            (Some(state), Some((uid, version))) => {
                *uid == format!("u{}", state.uid) && moment.version == *version
            }
            _ => false,
        };
        let floor = self.floor[key];
        let at = self.history[key][floor..].iter().position(fits);
        let Some(at) = at else {
            panic!("k{key} read as {found:?}; from {floor} on it was {:?}", self.history[key]);
        };
        self.floor[key] = floor + at;
        self.known.extend(self.history[key][floor + at].state.as_ref().map(|state| state.uid));
    }
}

fn run(selective: bool, steps: Vec<Step>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let mut model = Model::new(selective);
        steps.into_iter().for_each(|step| model.step(step));
        // When everything has arrived, the overlay is empty.
        while !model.responses.is_empty() {
            model.answer(0);
        }
        while model.delivered < model.version {
            model.deliver();
        }
        model.step(Step::Bookmark);
        model.test.writer.bookmark(&model.version.to_string());
        model.step(Step::List);
        assert_eq!(model.test.informer.stats().own_writes, 0);
        for key in 0..KEYS {
            let stored = model
                .test
                .informer
                .0
                .0
                .contents
                .store
                .get(&Key::namespaced("default", &format!("k{key}")));
            let now = model.now(key);
            assert_eq!(stored.is_some(), model.visible(now.as_ref()).is_some());
            model.step(Step::Read(key));
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn reads_never_go_back_before_an_own_write(
        selective in any::<bool>(),
        steps in prop::collection::vec(step(), 0..80),
    ) {
        run(selective, steps);
    }
}
