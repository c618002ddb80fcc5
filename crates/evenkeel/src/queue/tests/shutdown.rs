//! Shutdown with and without drain.

use std::pin::pin;

use super::*;

#[tokio::test(start_paused = true)]
async fn shutdown_releases_blocked_workers_and_ignores_later_adds() {
    let queue = Plain::default();
    let mut workers: Vec<_> = (0..10).map(|_| Box::pin(queue.get())).collect();
    for worker in &mut workers {
        assert!(is_pending(worker).await);
    }
    queue.shutdown();
    for worker in workers {
        assert!(soon(worker).await.is_none());
    }
    queue.add("a", ());
    queue.add_with("b", after(MS), ());
    assert_eq!((queue.len(), queue.waiting()), (0, 0));
    assert!(soon(queue.get()).await.is_none());
    assert!(queue.is_shut_down());
}

#[tokio::test(start_paused = true)]
async fn shutdown_is_idempotent() {
    let queue = Plain::default();
    queue.shutdown();
    queue.shutdown();
    assert!(soon(queue.get()).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn shutdown_drops_queued_keys_but_not_running_ones() {
    let queue = Plain::default();
    queue.add("running", ());
    let item = poll(&queue).unwrap();
    queue.add("running", ());
    queue.add("due", ());
    queue.add_with("delayed", after(MS), ());
    queue.shutdown();
    assert_eq!((queue.len(), queue.waiting(), queue.processing()), (0, 0, 1));
    item.done();
    assert!(soon(queue.get()).await.is_none(), "also not the key that was due again");
    assert_eq!(queue.processing(), 0);
}

#[tokio::test(start_paused = true)]
async fn drain_processes_due_keys_and_completes_when_all_are_done() {
    let queue = Plain::default();
    queue.add("a", ());
    queue.add("b", ());
    let a = poll(&queue).unwrap();
    let mut drain = pin!(queue.shutdown_with_drain());
    queue.add("c", ());
    assert!(is_pending(&mut drain).await);
    let b = soon(queue.get()).await.unwrap();
    assert_eq!(b.key, "b");
    assert!(soon(queue.get()).await.is_none(), "no more items");
    a.done();
    assert!(is_pending(&mut drain).await);
    b.done();
    soon(drain).await;
}

#[tokio::test(start_paused = true)]
async fn a_drain_includes_a_key_that_is_due_again_after_its_run() {
    let queue = Plain::default();
    queue.add("a", ());
    let item = poll(&queue).unwrap();
    queue.add("a", ());
    let mut drain = pin!(queue.shutdown_with_drain());
    let mut get = pin!(queue.get());
    assert!(is_pending(&mut get).await, "one item is pending");
    item.done();
    assert!(is_pending(&mut drain).await);
    let again = soon(get).await.expect("once more");
    assert!(is_pending(&mut drain).await);
    again.done();
    soon(drain).await;
}

#[tokio::test(start_paused = true)]
async fn a_drain_does_not_wait_for_delayed_keys() {
    let queue = Plain::default();
    queue.add_with("a", after(Duration::from_secs(3600)), ());
    let before = Instant::now();
    soon(queue.shutdown_with_drain()).await;
    assert_eq!(before.elapsed(), Duration::ZERO);
    assert!(soon(queue.get()).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn idle_worker_is_released_at_the_end_of_a_drain() {
    let queue = Plain::default();
    queue.add("a", ());
    let item = poll(&queue).unwrap();
    queue.add("a", ());
    drop(queue.shutdown_with_drain());
    let mut idle = pin!(queue.get());
    assert!(is_pending(&mut idle).await);
    item.done();
    // Another worker is faster.
    poll(&queue).unwrap().done();
    assert!(soon(idle).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn shutdown_releases_a_drain_that_is_under_way() {
    let queue = Plain::default();
    queue.add("stuck", ());
    let _stuck = poll(&queue).unwrap();
    let mut drain = pin!(queue.shutdown_with_drain());
    assert!(is_pending(&mut drain).await);
    queue.shutdown();
    soon(drain).await;
}

#[tokio::test(start_paused = true)]
async fn drain_after_shutdown_waits_for_running_keys() {
    let queue = Plain::default();
    queue.add("a", ());
    queue.add("b", ());
    let item = poll(&queue).unwrap();
    queue.shutdown();
    let mut drain = pin!(queue.shutdown_with_drain());
    assert!(is_pending(&mut drain).await);
    item.done();
    soon(drain).await;
}

#[tokio::test(start_paused = true)]
async fn shutdown_frees_a_large_queue() {
    let key = Arc::new(());
    let queue = Queue::<(u32, Arc<()>), ()>::default();
    for number in 0..50_000 {
        queue.add((number, Arc::clone(&key)), ());
    }
    let item = poll(&queue).unwrap();
    queue.shutdown();
    assert_eq!(Arc::strong_count(&key), 3, "ours, the item's, and the slot of its run");
    item.done();
    assert_eq!(Arc::strong_count(&key), 1);
}
