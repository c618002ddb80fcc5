//! Concurrent writers and watchers.

use std::collections::BTreeMap;

use tokio::task::JoinSet;

use super::*;

const WRITERS: u64 = 4;
const WRITES: u64 = 500;
const WATCHERS: usize = 15;

type Revisions = BTreeMap<Key, u64>;

fn revisions(table: &Table, namespace: Option<&str>) -> (u64, Revisions) {
    let page = table.list(Range { namespace, ..Range::default() }, None).unwrap();
    let pairs = page.items.iter().map(|record| (record.key.clone(), record.revision));
    (page.revision, pairs.collect())
}

/// Creates, updates and deletes a few keys, so that writers conflict.
async fn write(table: Table, writer: u64) {
    for n in 0..WRITES {
        let key = Key::new(["a", "b"][(n % 2) as usize], &format!("{}", n % 7));
        // Conflicts are expected; the watchers' view is what is tested.
        match table.get(&key) {
            None => drop(table.create(key, unsaved(writer)).await),
            Some(found) if n % 5 == 0 => drop(table.delete(key, found.revision, None).await),
            Some(found) => drop(table.update(key, found.revision, unsaved(n)).await),
        }
        tokio::task::yield_now().await;
    }
}

/// Lists, then watches until `end` appears; returns the expected objects.
async fn follow(table: Table, namespace: Option<&'static str>, end: Key) -> Revisions {
    let (mut cursor, mut seen) = revisions(&table, namespace);
    let mut watcher = table.watch(namespace, cursor).unwrap();
    while !seen.contains_key(&end) {
        let event = watcher.next().await.unwrap();
        assert!(event.revision() > cursor, "events come in order, each once");
        cursor = event.revision();
        let before = event.previous.as_ref().map(|record| record.revision);
        assert_eq!(seen.get(&event.record.key).copied(), before, "no event is missing");
        if event.deleted {
            seen.remove(&event.record.key);
        } else {
            seen.insert(event.record.key.clone(), cursor);
        }
    }
    seen
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_watcher_converges_to_the_listed_state() {
    let table = store(usize::MAX).table("pods");
    let ends = [("a", "end"), ("b", "end")].map(|(namespace, name)| Key::new(namespace, name));
    let (mut writers, mut watchers) = (JoinSet::new(), JoinSet::new());
    for n in 0..WATCHERS {
        let namespace = [None, Some("a"), Some("b")][n % 3];
        let end = ends[usize::from(namespace != Some("a"))].clone();
        let table = table.clone();
        watchers.spawn(async move { (namespace, follow(table, namespace, end).await) });
    }
    for writer in 0..WRITERS {
        writers.spawn(write(table.clone(), writer));
    }
    while let Some(done) = writers.join_next().await {
        done.unwrap();
    }
    for end in ends {
        table.create(end, unsaved(0)).await.unwrap();
    }
    while let Some(done) = watchers.join_next().await {
        let (namespace, seen) = done.unwrap();
        assert_eq!(seen, revisions(&table, namespace).1);
    }
}
