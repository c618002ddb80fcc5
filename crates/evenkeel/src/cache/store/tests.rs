//! The store, compared with a full scan.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::{Expression, Selector};
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::cache::decode::EntryDecoder;
use crate::cache::decoded_lru::DecodedLru;
use crate::cache::options::TypeOptions;
use crate::cache::query::Query;
use crate::kind::Kind;
use crate::uid::Uid;

/// An object with values from small ranges, so that many collide.
#[derive(Clone, Debug)]
struct Drawn {
    namespace: u8,
    name: u8,
    labels: BTreeMap<u8, u8>,
    owners: BTreeSet<u8>,
    values: BTreeSet<u8>,
}

impl Drawn {
    fn entry(&self, decoder: &EntryDecoder) -> Arc<Entry> {
        let labels: BTreeMap<_, _> = self
            .labels
            .iter()
            .map(|(name, value)| (format!("l{name}"), format!("v{value}")))
            .collect();
        let owners: Vec<_> = self
            .owners
            .iter()
            .map(|uid| json!({ "uid": format!("o{uid}"), "kind": "K", "name": "n", "apiVersion": "v1" }))
            .collect();
        let data: BTreeMap<_, _> =
            self.values.iter().map(|value| (format!("k{value}"), format!("x{value}"))).collect();
        let raw = json!({
            "metadata": {
                "namespace": NAMESPACES[usize::from(self.namespace)], "name": format!("n{}", self.name),
                "labels": labels, "ownerReferences": owners,
            },
            "data": data,
        });
        Arc::new(decoder.entry(raw.to_string().as_bytes()).unwrap())
    }
}

/// Their order as text differs from that of their keys.
const NAMESPACES: [&str; 4] = ["a", "a-b", "a0", "b"];

fn by_data(name: &str) -> Definition {
    let function = Arc::new(|entry: &Arc<Entry>| {
        let map = entry.decode::<ConfigMap>().map_err(|error| error.to_string())?;
        Ok(map.data.iter().flat_map(|data| data.values().cloned()).collect())
    });
    Definition { name: name.into(), function }
}

#[derive(Clone, Debug)]
enum Op {
    Put(Drawn),
    Remove(u8, u8),
    Define,
    Ask { namespace: Option<u8>, labels: Vec<(u8, u8, u8)>, owner: Option<u8>, value: Option<u8> },
    Clear,
}

fn op() -> impl Strategy<Value = Op> {
    let drawn = (
        0..4_u8,
        0..12_u8,
        prop::collection::btree_map(0..3_u8, 0..3_u8, 0..3),
        prop::collection::btree_set(0..3_u8, 0..3),
        prop::collection::btree_set(0..3_u8, 0..3),
    );
    prop_oneof![
        12 => drawn.prop_map(|(namespace, name, labels, owners, values)| {
            Op::Put(Drawn { namespace, name, labels, owners, values })
        }),
        4 => (0..4_u8, 0..12_u8).prop_map(|(namespace, name)| Op::Remove(namespace, name)),
        1 => Just(Op::Define),
        8 => (
            prop::option::of(0..5_u8),
            prop::collection::vec((0..6_u8, 0..4_u8, 0..4_u8), 0..3),
            prop::option::of(0..4_u8),
            prop::option::of(0..4_u8),
        )
            .prop_map(|(namespace, labels, owner, value)| Op::Ask { namespace, labels, owner, value }),
        1 => Just(Op::Clear),
    ]
}

fn expression(&(form, name, value): &(u8, u8, u8)) -> Expression {
    let (name, value) = (format!("l{name}"), format!("v{value}"));
    match form {
        0 => Expression::Equal(name, value),
        1 => Expression::NotEqual(name, value),
        2 => Expression::In(name, BTreeSet::from([value, "v0".to_owned()])),
        3 => Expression::NotIn(name, BTreeSet::from([value])),
        4 => Expression::Exists(name),
        _ => Expression::DoesNotExist(name),
    }
}

fn holds(&(form, name, value): &(u8, u8, u8), drawn: &Drawn) -> bool {
    let has = drawn.labels.get(&name).copied();
    match form {
        0 => has == Some(value),
        1 => has != Some(value),
        2 => has.is_some_and(|has| has == value || has == 0),
        3 => has != Some(value),
        4 => has.is_some(),
        _ => has.is_none(),
    }
}

fn run(ops: Vec<Op>) {
    let decoder = EntryDecoder::new(Kind::of::<ConfigMap>(), TypeOptions::new());
    let store = Store::new(7);
    let mut model: BTreeMap<String, Drawn> = BTreeMap::new();
    let mut defined = false;
    for op in ops {
        match op {
            Op::Put(drawn) => {
                let entry = drawn.entry(&decoder);
                let key = entry.meta().key().to_string();
                let old = store.put(&entry);
                assert_eq!(old.is_some(), model.insert(key, drawn).is_some());
            }
            Op::Remove(namespace, name) => {
                let key = Key::namespaced(NAMESPACES[usize::from(namespace)], &format!("n{name}"));
                assert_eq!(store.remove(&key).is_some(), model.remove(key.as_str()).is_some());
                assert!(store.get(&key).is_none());
            }
            Op::Define => {
                if !std::mem::replace(&mut defined, true) {
                    store.define(by_data("data"));
                }
            }
            Op::Clear => {
                store.clear();
                model.clear();
                assert_eq!(store.bytes(), 0);
            }
            Op::Ask { namespace, labels, owner, value } => {
                let value = value.filter(|_| defined);
                let name =
                    namespace.map(|at| NAMESPACES.get(usize::from(at)).copied().unwrap_or("none"));
                let text = value.map(|value| format!("x{value}"));
                let selector = labels.iter().map(expression).collect::<Selector>();
                let uid = owner.map(|uid| Uid::new(&format!("o{uid}")));
                let query = Query {
                    namespace: name,
                    labels: Some(&selector),
                    index: text.as_deref().map(|text| ("data", text)),
                    owner: uid.as_ref(),
                };
                let found = store.list(&Conditions::new(&query)).unwrap();
                let found: Vec<_> =
                    found.iter().map(|entry| entry.meta().key().to_string()).collect();
                let wanted = model.iter().filter(|(_, drawn)| {
                    name.is_none_or(|name| NAMESPACES[usize::from(drawn.namespace)] == name)
                        && labels.iter().all(|label| holds(label, drawn))
                        && owner.is_none_or(|owner| drawn.owners.contains(&owner))
                        && value.is_none_or(|value| drawn.values.contains(&value))
                });
                let wanted: Vec<_> = wanted.map(|(key, _)| key.clone()).collect();
                assert_eq!(found, wanted, "{query:?}");
            }
        }
        assert_eq!(store.len(), model.len());
        for (key, drawn) in &model {
            let key = Key::new(
                Some(NAMESPACES[usize::from(drawn.namespace)]),
                key.split_once('/').unwrap().1,
            );
            assert!(store.get(&key).is_some());
        }
    }
    let size: usize = store.all(None).iter().map(|entry| entry.size()).sum();
    assert_eq!(store.bytes(), size);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_list_equals_a_full_scan(ops in prop::collection::vec(op(), 0..120)) {
        run(ops);
    }
}

/// Indexes are built only for many objects, which the property above rarely has.
#[test]
fn large_stores_use_indexes_with_the_same_result() {
    let decoder = EntryDecoder::new(Kind::of::<ConfigMap>(), TypeOptions::new());
    let store = Store::new(7);
    store.define(by_data("data"));
    let mut model = Vec::new();
    for at in 0..2000_u32 {
        let small = |of: u32, by: u32| u8::try_from(of / by % 3).unwrap();
        let drawn = Drawn {
            namespace: u8::try_from(at % 4).unwrap(),
            name: 0,
            labels: BTreeMap::from([(0, small(at, 1)), (1, small(at, 7))]),
            owners: BTreeSet::from([small(at, 3)]),
            values: BTreeSet::from([small(at, 5)]),
        };
        let raw = drawn.entry(&decoder);
        let text = String::from_utf8(raw.json().to_vec()).unwrap();
        let text = text.replace("\"n0\"", &format!("\"n{at:04}\""));
        let entry = Arc::new(decoder.entry(text.as_bytes()).unwrap());
        store.put(&entry);
        model.push((entry, drawn));
    }
    // Half of the objects change, which must update every index.
    for (entry, drawn) in model.iter_mut().step_by(2) {
        let name = entry.meta().key().name().to_owned();
        drawn.labels = BTreeMap::from([(0, 2)]);
        drawn.owners.clear();
        let text = String::from_utf8(drawn.entry(&decoder).json().to_vec()).unwrap();
        let text = text.replace("\"n0\"", &format!("\"{name}\""));
        *entry = Arc::new(decoder.entry(text.as_bytes()).unwrap());
        if drawn.values.contains(&0) {
            store.remove(entry.meta().key());
        }
        store.put(entry);
    }
    model.sort_by(|(one, _), (other, _)| one.meta().key().cmp(other.meta().key()));
    for form in 0..6 {
        for owner in [None, Some(1)] {
            for namespace in [None, Some(1)] {
                let labels = [(form, 0, 2), (form, 1, 1)];
                let selector = labels.iter().map(expression).collect::<Selector>();
                let uid = owner.map(|uid: u8| Uid::new(&format!("o{uid}")));
                let query = Query {
                    namespace: namespace.map(|at: usize| NAMESPACES[at]),
                    labels: Some(&selector),
                    index: Some(("data", "x1")),
                    owner: uid.as_ref(),
                };
                let found = store.list(&Conditions::new(&query)).unwrap();
                let wanted = model.iter().filter(|(_, drawn)| {
                    namespace.is_none_or(|at| usize::from(drawn.namespace) == at)
                        && labels.iter().all(|label| holds(label, drawn))
                        && owner.is_none_or(|owner| drawn.owners.contains(&owner))
                        && drawn.values.contains(&1)
                });
                let wanted: Vec<_> = wanted.map(|(entry, _)| entry.meta().key().clone()).collect();
                let found: Vec<_> = found.iter().map(|entry| entry.meta().key().clone()).collect();
                assert_eq!(found, wanted, "{query:?}");
            }
        }
    }
}

/// A decoded form whose drop blocks until allowed, and is reported.
struct Held {
    may_go: std::sync::mpsc::Receiver<()>,
    dropped: std::sync::mpsc::Sender<()>,
}

impl Drop for Held {
    fn drop(&mut self) {
        let _ = self.may_go.recv_timeout(std::time::Duration::from_secs(10));
        let _ = self.dropped.send(());
    }
}

#[test]
fn clearing_a_large_store_does_not_wait_until_it_is_freed() {
    let decoder = EntryDecoder::new(Kind::of::<ConfigMap>(), TypeOptions::new());
    let store = Store::new(1);
    let (go, may_go) = std::sync::mpsc::channel();
    let (dropped, is_dropped) = std::sync::mpsc::channel();
    let mut held = Some(Arc::new(parking_lot::Mutex::new(Held { may_go, dropped })));
    for number in 0..=FREE_IN_THREAD {
        let raw = json!({ "metadata": { "namespace": "a", "name": number.to_string() } });
        let entry = Arc::new(decoder.entry(raw.to_string().as_bytes()).unwrap());
        if let Some(held) = held.take() {
            entry.pin(held);
        }
        store.put(&entry);
    }
    store.clear();
    assert_eq!((store.len(), store.bytes()), (0, 0));
    assert!(is_dropped.try_recv().is_err(), "clear did not wait");
    go.send(()).unwrap();
    is_dropped.recv().unwrap();
}

#[test]
fn decoded_object_is_freed_with_its_eviction_or_its_object() {
    let decoder = EntryDecoder::new(Kind::of::<ConfigMap>(), TypeOptions::new());
    let store = Arc::new(Store::new(1));
    let evict = {
        let store = store.clone();
        move |entry: &Arc<Entry>| store.evict(entry)
    };
    let stored = |name: &str| {
        let raw = json!({ "metadata": { "namespace": "a", "name": name } });
        let entry = Arc::new(decoder.entry(raw.to_string().as_bytes()).unwrap());
        store.put(&entry);
        entry
    };
    let entries = ["one", "two"].map(stored);
    // The budget is sufficient for one object.
    let decoded = DecodedLru::new(entries[0].body_len() * 10, evict);
    let read = |entry: &Arc<Entry>| -> std::sync::Weak<ConfigMap> {
        let typed = decoded.typed::<ConfigMap>(entry).unwrap();
        store.keep_decoded(entry, &typed);
        Arc::downgrade(&typed)
    };
    let is_decoded =
        |entry: &Arc<Entry>| store.get_decoded::<ConfigMap>(entry.meta().key()).is_some();
    let forget_uses = |entry: &Arc<Entry>| {
        let key = entry.meta().key();
        entry.take_touched();
        store.decoded.get().unwrap().take_used(store.hash(key), key);
    };

    let first = read(&entries[0]);
    assert!(is_decoded(&entries[0]) && first.strong_count() > 0);
    // A use since the last pass keeps it for another round.
    assert!(matches!(store.evict(&entries[0]), Evicted::InUse));
    assert!(is_decoded(&entries[0]));
    forget_uses(&entries[0]);
    let second = read(&entries[1]);
    assert!(!is_decoded(&entries[0]) && is_decoded(&entries[1]));
    assert_eq!(first.strong_count(), 0, "evicted");

    // A form that is no longer kept is not stored.
    store.keep_decoded(&entries[0], &Arc::new(ConfigMap::default()));
    assert!(!is_decoded(&entries[0]));

    stored("two");
    assert!(!is_decoded(&entries[1]), "replaced by a newer object");
    drop(entries);
    assert_eq!(second.strong_count(), 0, "freed with its object");
}

#[test]
fn reads_of_a_decoded_object_are_never_older_than_earlier_reads() {
    const STATES: u64 = 2_000;
    let decoder = EntryDecoder::new(Kind::of::<ConfigMap>(), TypeOptions::new());
    let store = Store::new(1);
    let decoded = DecodedLru::new(1 << 20, |_| Evicted::Freed(None));
    let key = Key::namespaced("a", "one");
    let state = |version: u64| {
        let meta =
            json!({ "namespace": "a", "name": "one", "resourceVersion": version.to_string() });
        Arc::new(decoder.entry(json!({ "metadata": meta }).to_string().as_bytes()).unwrap())
    };
    store.put(&state(1));
    // Reads as the cache does, and returns whether the object was found decoded.
    let read = || {
        if let Some((_, version)) = store.get_decoded::<ConfigMap>(&key) {
            return (version, true);
        }
        let entry = store.get(&key).unwrap();
        store.keep_decoded(&entry, &decoded.typed::<ConfigMap>(&entry).unwrap());
        (entry.meta().version(), false)
    };
    std::thread::scope(|scope| {
        let readers = [(); 2].map(|()| {
            scope.spawn(|| {
                let mut last = Version::default();
                while last < Version(STATES) {
                    let (version, _) = read();
                    assert!(version >= last, "{version:?} after {last:?}");
                    last = version;
                }
                assert_eq!(read().0, Version(STATES));
                assert!(read().1, "the last state stays decoded");
            })
        });
        for version in 2..=STATES {
            store.put(&state(version));
        }
        readers.into_iter().for_each(|reader| reader.join().unwrap());
    });
}
