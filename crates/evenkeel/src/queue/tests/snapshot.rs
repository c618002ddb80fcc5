//! Snapshots, and memory after a burst.

use super::*;

#[tokio::test(start_paused = true)]
async fn snapshot_has_depth_age_and_running_work() {
    let queue = Plain::default();
    queue.add("first", ());
    let first = poll(&queue).unwrap();
    tokio::time::advance(10 * MS).await;
    queue.add("second", ());
    let second = poll(&queue).unwrap();
    queue.add_with("low 1", priority(LOW_PRIORITY), ());
    queue.add_with("low 2", priority(LOW_PRIORITY), ());
    queue.add_with("second", priority(7), ());
    tokio::time::advance(20 * MS).await;
    queue.add("normal", ());
    queue.add("normal", ());
    queue.add_with("delayed", after(MS), ());
    queue.add_with("failed", rate_limited(), ());

    let snapshot = queue.snapshot();
    let classes: Vec<_> =
        snapshot.classes.iter().map(|class| (class.priority, class.depth, class.oldest)).collect();
    let expected = [(7, 1, 20 * MS), (0, 1, Duration::ZERO), (LOW_PRIORITY, 2, 20 * MS)];
    assert_eq!(classes, expected, "including the key due again after its run");
    assert_eq!(snapshot.depth(), queue.len());
    assert_eq!(snapshot.oldest(), Some(20 * MS));
    assert_eq!((snapshot.waiting, snapshot.processing), (2, 2));
    assert_eq!(snapshot.longest_running, Some(("first", 30 * MS)));
    assert_eq!(snapshot.unfinished, 50 * MS);
    assert_eq!((snapshot.adds, snapshot.merged, snapshot.retries), (6, 1, 1));
    assert_eq!((snapshot.taken, snapshot.shut_down), (2, false));

    first.done();
    second.done();
    tokio::time::advance(10 * MS).await;
    let snapshot = queue.snapshot();
    assert_eq!((snapshot.depth(), snapshot.waiting, snapshot.processing), (6, 0, 0));
    assert_eq!(snapshot.adds, 8, "a delayed key is counted when due");
    assert_eq!(snapshot.longest_running, None);
}

#[tokio::test(start_paused = true)]
async fn memory_of_a_burst_is_released_while_keys_remain() {
    let queue = Queue::<u32, ()>::default();
    let burst = 100_000;
    for key in 0..burst {
        match key % 10_000 {
            0 => queue.add_with(key, after(Duration::from_secs(u64::from(key) + 1)), ()),
            _ => queue.add(key, ()),
        }
    }
    let running = poll(&queue).unwrap();
    let mut handed_out = 1;
    while let Some(item) = poll(&queue) {
        handed_out += 1;
        item.done();
    }
    assert_eq!(handed_out, burst - 10);
    assert!(!queue.0.core.lock().slots.is_sparse(), "compacted");
    // The remaining keys keep their order.
    queue.add(running.key, ());
    assert!(poll(&queue).is_none());
    let key = running.key;
    running.done();
    assert_eq!(poll(&queue).unwrap().key, key);
    for expected in (0..burst).step_by(10_000) {
        assert_eq!(soon(queue.get()).await.unwrap().key, expected);
    }
}
