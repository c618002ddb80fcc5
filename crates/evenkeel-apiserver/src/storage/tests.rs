//! Tests of the store in memory. Durability has its own tests.

mod concurrent;
mod model;

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use super::*;

/// Creates an unsaved record with the body `{"v":<value>,"rv":"<revision>"}`.
pub(super) fn unsaved(value: u64) -> UnsavedRecord {
    let body = format!(r#"{{"v":{value},"rv":""}}"#).into_bytes();
    let revision_offset = body.len() - 2;
    UnsavedRecord::new(body, revision_offset, "v1".into())
}

/// Runs a future that must not wait.
pub(super) fn now<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("a store in memory never waits"),
    }
}

fn store(events: usize) -> Store {
    let window = Window { events, ..Window::default() };
    Store::in_memory(&Options { window, ..Options::default() })
}

fn key(text: &str) -> Key {
    let (namespace, name) = text.split_once('/').unwrap_or(("", text));
    Key::new(namespace, name)
}

fn create(table: &Table, at: &str) -> Arc<Record> {
    now(table.create(key(at), unsaved(0))).unwrap()
}

fn update(table: &Table, at: &str) -> Arc<Record> {
    let found = table.get(&key(at)).unwrap();
    now(table.update(key(at), found.revision, unsaved(found.revision))).unwrap()
}

fn delete(table: &Table, at: &str) -> Arc<Record> {
    let found = table.get(&key(at)).unwrap();
    now(table.delete(key(at), found.revision, None)).unwrap()
}

fn names(page: &Page) -> Vec<String> {
    page.items.iter().map(|record| format!("{}@{}", record.key, record.revision)).collect()
}

fn list(table: &Table, at: u64) -> Vec<String> {
    names(&table.list(Range::default(), Some(at)).unwrap())
}

fn drain(watcher: &mut Watcher) -> Vec<String> {
    std::iter::from_fn(|| watcher.try_next().unwrap())
        .map(|event| {
            let sign = match (&event.previous, event.deleted) {
                (None, _) => '+',
                (Some(_), false) => '~',
                (Some(_), true) => '-',
            };
            format!("{sign}{}@{}", event.record.key, event.revision())
        })
        .collect()
}

#[test]
fn the_first_write_takes_revision_two() {
    let store = store(8);
    assert_eq!(store.revision(), 1);
    let record = create(&store.table("pods"), "a/x");
    assert_eq!((record.revision, record.create_revision, store.revision()), (2, 2, 2));
}

#[test]
fn all_tables_share_one_revision() {
    let store = store(8);
    create(&store.table("pods"), "a/x");
    create(&store.table("nodes"), "n");
    let updated = update(&store.table("pods"), "a/x");
    assert_eq!((updated.revision, updated.create_revision), (4, 2));
    assert_eq!(store.table_names(), ["nodes".into(), "pods".into()]);
}

#[test]
fn create_of_an_existing_object_returns_it() {
    let table = store(8).table("pods");
    create(&table, "a/x");
    let refused = now(table.create(key("a/x"), unsaved(1)));
    assert!(matches!(refused, Err(WriteError::Exists(found)) if found.revision == 2));
    assert_eq!(table.store.shared.revision(), 2, "a refused write takes no revision");
}

#[test]
fn update_and_delete_need_the_expected_revision() {
    let table = store(8).table("pods");
    create(&table, "a/x");
    for expected in [0, 1, 3] {
        let refused = now(table.update(key("a/x"), expected, unsaved(1)));
        assert!(matches!(refused, Err(WriteError::Conflict(Some(found))) if found.revision == 2));
        let refused = now(table.delete(key("a/x"), expected, None));
        assert!(matches!(refused, Err(WriteError::Conflict(Some(found))) if found.revision == 2));
    }
    let refused = now(table.update(key("a/y"), 2, unsaved(1)));
    assert!(matches!(refused, Err(WriteError::Conflict(None))));
    delete(&table, "a/x");
    let refused = now(table.delete(key("a/x"), 2, None));
    assert!(matches!(refused, Err(WriteError::Conflict(None))));
}

#[test]
fn an_observer_is_called_with_every_event_in_revision_order() {
    let (store, seen) = (store(8), Arc::<Mutex<Vec<String>>>::default());
    let table = store.table("pods");
    create(&table, "a/before");
    let log = seen.clone();
    table.observe(Box::new(move |event| {
        let change = if event.deleted { "-" } else { "+" };
        log.lock().push(format!("{change}{}@{}", event.record.key, event.revision()));
    }));
    create(&table, "a/x");
    create(&store.table("nodes"), "y");
    update(&table, "a/x");
    now(table.update(key("a/x"), 1, unsaved(0))).unwrap_err();
    delete(&table, "a/x");
    assert_eq!(*seen.lock(), ["+a/x@3", "+a/x@5", "-a/x@6"]);
}

#[test]
fn a_deletion_returns_the_last_state_under_its_own_revision() {
    let table = store(8).table("pods");
    create(&table, "a/x");
    let last = delete(&table, "a/x");
    assert_eq!(last.body, r#"{"v":0,"rv":"3"}"#);
    assert_eq!((last.revision, last.create_revision), (3, 2));
    create(&table, "a/x");
    let last = now(table.delete(key("a/x"), 4, Some(unsaved(7)))).unwrap();
    assert_eq!(last.body, r#"{"v":7,"rv":"5"}"#);
    assert_eq!(table.get(&key("a/x")).map(|found| found.revision), None);
    assert!(table.is_empty());
}

#[test]
fn list_at_a_past_revision_returns_the_past_state() {
    let table = store(64).table("pods");
    create(&table, "a/x"); // 2
    create(&table, "a/y"); // 3
    update(&table, "a/x"); // 4
    delete(&table, "a/y"); // 5
    create(&table, "a/y"); // 6
    assert_eq!(list(&table, 1), [""; 0]);
    assert_eq!(list(&table, 2), ["a/x@2"]);
    assert_eq!(list(&table, 3), ["a/x@2", "a/y@3"]);
    assert_eq!(list(&table, 4), ["a/x@4", "a/y@3"]);
    assert_eq!(list(&table, 5), ["a/x@4"]);
    assert_eq!(list(&table, 6), ["a/x@4", "a/y@6"]);
    let counts: Vec<_> =
        (1..=6).map(|at| table.count(Range::default(), Some(at)).unwrap()).collect();
    assert_eq!(counts, [0, 1, 2, 2, 1, 2]);
}

#[test]
fn list_at_a_future_revision_is_refused() {
    let table = store(8).table("pods");
    let ahead = table.list(Range::default(), Some(2)).unwrap_err();
    assert_eq!(ahead, ReadError::FutureRevision { requested: 2, current: 1 });
}

#[test]
fn a_namespace_lists_its_own_objects_only() {
    let table = store(8).table("pods");
    for at in ["a/x", "a-b/x", "a.b/x", "a0/x", "b/x", "a/y"] {
        create(&table, at);
    }
    let range = Range { namespace: Some("a"), ..Range::default() };
    assert_eq!(names(&table.list(range, None).unwrap()), ["a/x@2", "a/y@7"]);
    assert_eq!(table.count(range, None).unwrap(), 2);
    let range = Range { namespace: Some("none"), ..Range::default() };
    assert_eq!(names(&table.list(range, None).unwrap()), [""; 0]);
}

#[test]
fn later_pages_use_the_revision_of_the_first() {
    let table = store(64).table("pods");
    for at in ["a/a", "a/b", "a/c", "b/d"] {
        create(&table, at);
    }
    let range = Range { limit: Some(2), ..Range::default() };
    let first = table.list(range, None).unwrap();
    assert_eq!(names(&first), ["a/a@2", "a/b@3"]);
    let after = first.next.as_ref();
    assert_eq!(after, Some(&key("a/b")));
    delete(&table, "a/b");
    delete(&table, "a/c");
    create(&table, "a/bb");
    assert_eq!(table.count(Range { after, ..range }, Some(first.revision)).unwrap(), 2);
    let second = table.list(Range { after, ..range }, Some(first.revision)).unwrap();
    assert_eq!(names(&second), ["a/c@4", "b/d@5"]);
    assert_eq!(second.next, None, "an exactly full last page is the last");
    let range = Range { namespace: Some("a"), limit: Some(3), ..Range::default() };
    assert_eq!(table.list(range, Some(first.revision)).unwrap().next, None);
}

#[test]
fn after_key_outside_the_namespace_is_compared_by_order() {
    let table = store(8).table("pods");
    create(&table, "b/x");
    let list = |after: &str| {
        let after = Some(key(after));
        let range = Range { namespace: Some("b"), after: after.as_ref(), limit: None };
        table.list(range, None).unwrap().items.len()
    };
    assert_eq!([list("a/z"), list("b/"), list("b/x"), list("c/a")], [1, 1, 0, 0]);
}

#[test]
fn filtered_page_skips_rejected_objects() {
    let table = store(8192).table("pods");
    for n in 0..2000 {
        now(table.create(Key::new("a", &format!("{n:04}")), unsaved(n))).unwrap();
    }
    let range = Range { limit: Some(2), ..Range::default() };
    let rare = |record: &Record| record.key.name().ends_with("999");
    let page = table.list_where(range, None, rare).unwrap();
    assert_eq!(names(&page), ["a/0999@1001", "a/1999@2001"]);
    assert_eq!(page.next, None);
    let page = table.list_where(Range { limit: Some(1), ..range }, None, rare).unwrap();
    assert_eq!(page.next, Some(key("a/0999")));
}

#[test]
fn watch_delivers_events_after_its_start() {
    let store = store(64);
    let table = store.table("pods");
    create(&table, "a/x"); // 2
    create(&table, "b/y"); // 3
    let mut all = table.watch(None, 2).unwrap();
    let mut scoped = table.watch(Some("a"), 1).unwrap();
    update(&table, "a/x"); // 4
    create(&store.table("nodes"), "n"); // 5
    delete(&table, "a/x"); // 6
    assert_eq!(drain(&mut all), ["+b/y@3", "~a/x@4", "-a/x@6"]);
    assert_eq!(drain(&mut scoped), ["+a/x@2", "~a/x@4", "-a/x@6"]);
    create(&table, "a/z"); // 7
    assert_eq!(drain(&mut all), ["+a/z@7"]);
    assert_eq!(drain(&mut scoped), ["+a/z@7"]);
}

#[test]
fn watch_from_a_future_revision_skips_earlier_events() {
    let table = store(8).table("pods");
    let mut watcher = table.watch(None, 3).unwrap();
    create(&table, "a/x"); // 2
    assert_eq!(watcher.synced_revision(), Ok(None), "no write has had revision 3");
    create(&table, "a/y"); // 3
    assert_eq!(watcher.synced_revision(), Ok(Some(3)));
    create(&table, "a/z"); // 4
    assert_eq!(drain(&mut watcher), ["+a/z@4"]);
}

#[test]
fn compacted_lists_expire_and_watches_keep_the_newest_events() {
    let store = store(200);
    let table = store.table("pods");
    create(&table, "a/x"); // 2
    let first = table.get(&Key::new("a", "x")).unwrap();
    let weak = Arc::downgrade(&first);
    drop(first);
    for _ in 0..150 {
        update(&table, "a/x"); // 3 to 152
    }
    store.compact_lists(150);
    let compacted = Compacted { compacted: 150, current: 152 };
    assert_eq!(table.list(Range::default(), Some(149)).unwrap_err(), compacted.into());
    assert_eq!(table.list(Range::default(), Some(150)).unwrap().items[0].revision, 150);
    assert!(weak.upgrade().is_none(), "superseded versions are dropped");
    // A hundred events remain: the two after 150 and the 98 before them.
    assert_eq!(table.window().0, 100);
    let mut watcher = table.watch(None, 52).unwrap();
    assert_eq!(drain(&mut watcher).len(), 100);
    assert_eq!(table.watch(None, 51).unwrap_err().compacted, 52);
}

#[test]
fn compaction_keeps_pinned_revisions() {
    let store = store(8);
    let table = store.table("pods");
    create(&table, "a/x"); // 2
    let pin = table.inner.pin(&store.inner.shared, Some(2)).unwrap();
    update(&table, "a/x"); // 3
    store.compact_lists(3);
    let mut seen = Vec::new();
    pin.for_each::<()>(|record| {
        seen.push(record.revision);
        Ok(())
    })
    .unwrap();
    assert_eq!(seen, [2]);
}

#[test]
fn an_event_shows_the_state_before_it() {
    let table = store(8).table("pods");
    let mut watcher = table.watch(None, 1).unwrap();
    create(&table, "a/x");
    update(&table, "a/x");
    assert!(watcher.try_next().unwrap().unwrap().previous.is_none());
    let event = watcher.try_next().unwrap().unwrap();
    let before = event.previous.as_ref().unwrap();
    assert_eq!(before.body, r#"{"v":0,"rv":"2"}"#);
    assert_eq!(before.body_at(event.revision()), r#"{"v":0,"rv":"3"}"#);
}

#[test]
fn a_full_window_drops_its_oldest_event() {
    let table = store(3).table("pods");
    for at in ["a/1", "a/2", "a/3", "a/4", "a/5"] {
        create(&table, at); // 2 to 6
    }
    assert_eq!((table.compacted_revision(), table.window().0), (3, 3));
    let compacted = Compacted { compacted: 3, current: 6 };
    assert_eq!(table.watch(None, 2).unwrap_err(), compacted);
    assert_eq!(table.list(Range::default(), Some(2)).unwrap_err(), compacted.into());
    assert_eq!(drain(&mut table.watch(None, 3).unwrap()), ["+a/3@4", "+a/4@5", "+a/5@6"]);
    assert_eq!(list(&table, 3), ["a/1@2", "a/2@3"]);
}

#[test]
fn the_window_is_bounded_by_bytes_too() {
    let window = Window { events: usize::MAX, bytes: 100_000 };
    let store = Store::in_memory(&Options { window, ..Options::default() });
    let table = store.table("pods");
    let large = || UnsavedRecord::new(vec![b'x'; 10_000], 0, "v1".into());
    now(table.create(key("a/x"), large())).unwrap();
    for revision in 2..100 {
        now(table.update(key("a/x"), revision, large())).unwrap();
        assert!(table.window().1 <= 100_000);
    }
    // Each event is charged the superseded version and the frame it may be encoded to.
    assert_eq!(table.window().0, 4);
    now(table.create(key("a/y"), UnsavedRecord::new(vec![b'x'; 200_000], 0, "v1".into()))).unwrap();
    assert_eq!(table.window().0, 1, "the newest event stays, whatever its size");
}

#[test]
fn all_tables_together_hold_twice_the_window_at_most() {
    let window = Window { events: usize::MAX, bytes: 100_000 };
    let store = Store::in_memory(&Options { window, ..Options::default() });
    let small = store.table("small");
    create(&small, "a/x");
    let tables: Vec<Table> = (0..10).map(|n| store.table(&n.to_string())).collect();
    let held = || tables.iter().map(|table| table.window().1).sum::<usize>();
    for table in &tables {
        let large = || UnsavedRecord::new(vec![b'x'; 1_000], 0, "v1".into());
        let mut last = now(table.create(key("a/x"), large())).unwrap().revision;
        for _ in 0..100 {
            last = now(table.update(key("a/x"), last, large())).unwrap().revision;
        }
        assert!(table.window().0 > 1, "the busy table keeps some history");
        assert!(held() + small.window().1 <= 200_000, "{}", held());
    }
    assert_eq!(small.window().0, 1, "it is not the largest");
    store.compact(store.revision());
    assert_eq!((held(), store.inner.shared.event_bytes.load(Ordering::Relaxed)), (0, 0));
}

#[test]
fn superseded_versions_are_dropped_with_the_window() {
    let table = store(4).table("pods");
    create(&table, "a/x");
    let weak = Arc::downgrade(&update(&table, "a/x"));
    create(&table, "a/y");
    delete(&table, "a/x");
    assert!(weak.upgrade().is_some());
    for at in ["b/1", "b/2", "b/3", "b/4"] {
        create(&table, at);
    }
    assert!(weak.upgrade().is_none());
    assert_eq!(table.count(Range::default(), None).unwrap(), 5);
}

#[test]
fn watcher_outside_the_window_gets_an_error() {
    let table = store(2).table("pods");
    let mut late = table.watch(None, 1).unwrap();
    let mut early = table.watch(None, 1).unwrap();
    create(&table, "a/1");
    assert_eq!(drain(&mut early), ["+a/1@2"]);
    create(&table, "a/2");
    create(&table, "a/3");
    let compacted = Compacted { compacted: 2, current: 4 };
    assert_eq!(late.try_next().unwrap_err(), compacted);
    assert_eq!(late.try_next().unwrap_err(), compacted);
    assert_eq!(late.synced_revision(), Err(compacted));
    assert_eq!(drain(&mut early), ["+a/2@3", "+a/3@4"]);
}

#[test]
fn idle_namespace_watcher_survives_events_of_other_namespaces() {
    let table = store(2).table("pods");
    let mut idle = table.watch(Some("quiet"), 1).unwrap();
    for n in 0..10 {
        create(&table, &format!("busy/{n}"));
    }
    assert_eq!(table.compacted_revision(), 9);
    create(&table, "quiet/x");
    assert_eq!(drain(&mut idle), ["+quiet/x@12"]);
    create(&table, "quiet/y");
    create(&table, "busy/x");
    create(&table, "busy/y");
    assert!(idle.try_next().is_err());
}

#[test]
fn idle_watcher_survives_a_compaction_without_lost_events() {
    let store = store(8);
    let (pods, nodes) = (store.table("pods"), store.table("nodes"));
    let mut watcher = pods.watch(None, 1).unwrap();
    create(&nodes, "n");
    store.compact(2);
    create(&pods, "a/x");
    assert_eq!(drain(&mut watcher), ["+a/x@3"]);
}

#[test]
fn compaction_applies_to_existing_and_new_tables() {
    let store = store(8);
    let table = store.table("pods");
    create(&table, "a/x"); // 2
    update(&table, "a/x"); // 3
    create(&table, "a/y"); // 4
    store.compact(3);
    let compacted = Compacted { compacted: 3, current: 4 };
    assert_eq!(table.list(Range::default(), Some(2)).unwrap_err(), compacted.into());
    assert_eq!(store.table("nodes").watch(None, 2).unwrap_err(), compacted);
    assert_eq!(list(&table, 3), ["a/x@3"]);
    assert_eq!(drain(&mut table.watch(None, 3).unwrap()), ["+a/y@4"]);
    store.compact(99);
    assert_eq!(table.compacted_revision(), 4, "future revisions cannot be compacted");
    store.compact(2);
    assert_eq!(table.compacted_revision(), 4, "compaction is not undone");
}

#[test]
fn a_list_in_progress_keeps_its_revision() {
    let table = store(1).table("pods");
    for n in 0..1200 {
        create(&table, &format!("a/{n:04}"));
    }
    // The filter runs without a lock, so it can simulate a concurrent writer.
    let mut writes = 0;
    let page = table
        .list_where(Range::default(), None, |record| {
            if record.key.name() < "1000" {
                delete(&table, "a/1100");
                create(&table, "a/1100");
                writes += 2;
            }
            true
        })
        .unwrap();
    assert_eq!((page.revision, page.items.len()), (1201, 1200));
    assert_eq!(page.items[1100].revision, 1102);
    assert_eq!(table.window().0, writes, "the history of the list was kept");
    create(&table, "b/x");
    assert_eq!(table.window().0, 1, "and dropped afterwards");
}

#[test]
fn synced_revision_follows_the_store_once_all_events_are_delivered() {
    let store = store(256);
    let table = store.table("pods");
    let mut watcher = table.watch(Some("a"), 1).unwrap();
    for n in 0..100 {
        create(&table, &format!("a/{n}")); // 2 to 101
    }
    create(&store.table("nodes"), "n"); // 102
    assert_eq!(watcher.synced_revision(), Ok(Some(1)));
    for seen in 2..=101 {
        assert_eq!(watcher.try_next().unwrap().unwrap().revision(), seen);
        let synced = if seen == 101 { 102 } else { seen };
        assert_eq!(watcher.synced_revision(), Ok(Some(synced)));
    }
    create(&table, "b/x"); // 103
    assert_eq!(watcher.synced_revision(), Ok(Some(103)));
}

#[tokio::test(start_paused = true)]
async fn a_waiting_watcher_wakes_for_its_own_events_and_can_be_cancelled() {
    let table = store(8).table("pods");
    let mut all = table.watch(None, 1).unwrap();
    let mut scoped = table.watch(Some("a"), 1).unwrap();
    let second = std::time::Duration::from_secs(1);
    tokio::time::timeout(second, all.next()).await.unwrap_err();
    {
        let mut first = pin!(all.next());
        let mut other = pin!(scoped.next());
        let mut context = Context::from_waker(Waker::noop());
        assert!(first.as_mut().poll(&mut context).is_pending());
        assert!(other.as_mut().poll(&mut context).is_pending());
        create(&table, "b/x");
        assert!(other.as_mut().poll(&mut context).is_pending());
        // `first` is dropped woken, with its event not taken.
    }
    assert_eq!(all.next().await.unwrap().revision(), 2);
    create(&table, "a/x");
    assert_eq!(all.next().await.unwrap().revision(), 3);
    assert_eq!(scoped.next().await.unwrap().revision(), 3);
}

#[tokio::test]
async fn watchers_wake_in_the_order_they_began_to_wait() {
    let table = store(8).table("pods");
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..100 {
        let (mut watcher, order) = (table.watch(None, 1).unwrap(), order.clone());
        tasks.spawn(async move {
            watcher.next().await.unwrap();
            order.lock().push(n);
        });
    }
    // One yield is not enough: the scheduler returns here before it has run a hundred tasks.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    create(&table, "a/x");
    tasks.join_all().await;
    assert!(
        order.lock().iter().copied().eq(0..100),
        "runs are reproducible only if the wake-up order is"
    );
}

#[test]
fn unwatched_namespace_log_is_removed() {
    let table = store(8).table("pods");
    let first = table.watch(Some("a"), 1).unwrap();
    let mut second = table.watch(Some("a"), 1).unwrap();
    drop(first);
    create(&table, "a/x");
    assert_eq!(drain(&mut second), ["+a/x@2"]);
    drop(second);
    assert_eq!(table.inner.state.read().watched_namespaces(), 0);
}

#[test]
fn sizes_follow_the_objects() {
    let table = store(8).table("pods");
    assert_eq!((table.len(), table.bytes()), (0, 0));
    create(&table, "a/x");
    let one = table.bytes();
    create(&table, "a/y");
    update(&table, "a/x");
    assert_eq!((table.len(), table.bytes()), (2, 2 * one));
    delete(&table, "a/x");
    delete(&table, "a/y");
    assert_eq!((table.len(), table.bytes()), (0, 0));
}

#[test]
fn oversized_objects_are_refused() {
    let table = store(8).table("pods");
    let unsaved = UnsavedRecord::new(vec![0; super::write::SIZE_MAX + 1], 0, "v1".into());
    let refused = now(table.create(key("a/x"), unsaved));
    assert!(matches!(refused, Err(WriteError::TooLarge(_))));
}
