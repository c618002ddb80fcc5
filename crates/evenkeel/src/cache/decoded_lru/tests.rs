//! The LRU of decoded objects.

use k8s_openapi::api::core::v1::ConfigMap;

use super::*;
use crate::cache::decode::EntryDecoder;
use crate::cache::options::TypeOptions;
use crate::kind::Kind;

fn entry(name: &str) -> Arc<Entry> {
    let decoder = EntryDecoder::new(Kind::of::<ConfigMap>(), TypeOptions::new());
    let data = "x".repeat(1000);
    let raw = format!(r#"{{"metadata":{{"name":"{name}"}},"data":{{"x":"{data}"}}}}"#);
    Arc::new(decoder.entry(raw.as_bytes()).unwrap())
}

fn lru(budget: usize) -> DecodedLru {
    DecodedLru::new(budget, |entry| Evicted::Freed(entry.evict()))
}

fn is_kept(entry: &Entry) -> bool {
    entry.held::<ConfigMap>().is_some()
}

#[test]
fn objects_within_the_budget_stay_decoded_and_are_shared() {
    let lru = lru(1 << 20);
    let entry = entry("a");
    let first = Arc::as_ptr(&lru.typed::<ConfigMap>(&entry).unwrap());
    assert_eq!(first, Arc::as_ptr(&lru.typed::<ConfigMap>(&entry).unwrap()));
    assert_eq!(lru.bytes(), entry.body_len() * DECODED_FACTOR);
    drop(entry);
    assert_eq!(lru.bytes(), 0, "a freed object uses no budget");
}

#[test]
fn unused_objects_are_evicted_before_used_ones() {
    let entries: Vec<_> = (0..100).map(|at| entry(&format!("e{at:02}"))).collect();
    let lru = lru(entries[0].body_len() * DECODED_FACTOR * 10);
    for (at, other) in entries.iter().enumerate() {
        lru.typed::<ConfigMap>(other).unwrap();
        assert!(lru.bytes() <= lru.budget);
        if at > 0 {
            assert!(is_kept(&entries[0]), "frequently used: {at}");
        }
    }
    let kept = entries.iter().filter(|entry| is_kept(entry)).count();
    assert_eq!(kept, 10);
}

#[test]
fn evicted_object_is_shared_while_it_is_referenced() {
    let entries: Vec<_> = (0..20).map(|at| entry(&format!("e{at:02}"))).collect();
    let lru = lru(entries[0].body_len() * DECODED_FACTOR);
    let held = lru.typed::<ConfigMap>(&entries[0]).unwrap();
    entries.iter().for_each(|entry| drop(lru.typed::<ConfigMap>(entry)));
    let again = lru.typed::<ConfigMap>(&entries[0]).unwrap();
    assert!(Arc::ptr_eq(&held, &again));
}

#[test]
fn an_object_larger_than_the_budget_is_only_shared() {
    let lru = lru(10);
    let entry = entry("a");
    drop(lru.typed::<ConfigMap>(&entry).unwrap());
    assert!(!is_kept(&entry));
    assert_eq!(lru.bytes(), 0);
}

#[test]
fn ring_does_not_grow_with_freed_objects() {
    let lru = lru(1 << 30);
    for round in 0..10_000 {
        lru.typed::<ConfigMap>(&entry(&round.to_string())).unwrap();
    }
    assert!(lru.ring.lock().len() <= SWEEP_MIN + 2);
}

#[test]
fn list_beyond_the_budget_evicts_nothing() {
    let entries: Vec<_> = (0..100).map(|at| entry(&format!("e{at:02}"))).collect();
    let lru = lru(entries[0].body_len() * DECODED_FACTOR * 10);
    let kept = lru.typed::<ConfigMap>(&entries[7]).unwrap();
    let listed = lru.typed_all::<ConfigMap>(&entries).unwrap();
    assert!(Arc::ptr_eq(&kept, &listed[7]), "a kept object is not decoded again");
    assert_eq!(lru.bytes(), entries[7].body_len() * DECODED_FACTOR);
    let weak = Arc::downgrade(&listed[8]);
    drop(listed);
    assert_eq!(weak.strong_count(), 0);
    assert_eq!(entries.iter().filter(|entry| is_kept(entry)).count(), 1);

    let few = lru.typed_all::<ConfigMap>(&entries[..10]).unwrap();
    assert!(entries[..10].iter().all(|entry| is_kept(entry)), "ten fit the budget");
    drop(few);
}

#[test]
fn decoded_object_is_freed_completely() {
    let entry = entry("a");
    let decoded = entry.decode::<ConfigMap>().unwrap();
    // A weak reference in the entry would keep the allocation.
    assert_eq!(Arc::weak_count(&decoded), 0);
    assert_eq!(Arc::strong_count(&decoded), 1);
}
