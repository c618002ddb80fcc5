//! Delays and the timekeeper.

use std::pin::pin;

use tokio::task::JoinSet;

use super::*;

#[tokio::test(start_paused = true)]
async fn delayed_key_is_returned_when_due() {
    let queue = Plain::default();
    queue.add_with("a", after(50 * MS), ());
    assert_eq!((queue.len(), queue.waiting()), (0, 1));
    assert!(poll(&queue).is_none());
    assert_eq!(timed(&queue).await, ("a", 50 * MS));
    assert_eq!((queue.len(), queue.waiting()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn earlier_of_two_delays_fires_once() {
    for (first, second, fires) in [(50, 70, 50), (50, 30, 30)] {
        let queue = Plain::default();
        queue.add_with("a", after(first * MS), ());
        queue.add_with("a", after(second * MS), ());
        assert_eq!(timed(&queue).await, ("a", fires * MS));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(poll(&queue).is_none(), "once");
    }
}

#[tokio::test(start_paused = true)]
async fn add_without_delay_makes_a_delayed_key_due() {
    let queue = Plain::default();
    queue.add_with("a", after(50 * MS), ());
    queue.add("a", ());
    assert_eq!((queue.len(), queue.waiting()), (1, 0));
    assert_eq!(timed(&queue).await, ("a", Duration::ZERO));
    tokio::time::advance(Duration::from_secs(1)).await;
    assert!(poll(&queue).is_none(), "the delay does not fire");
}

#[tokio::test(start_paused = true)]
async fn a_delayed_add_of_a_due_key_changes_nothing() {
    let queue = Plain::default();
    queue.add("a", ());
    queue.add_with("a", after(50 * MS), ());
    assert_eq!(drained(&queue), ["a"]);
    tokio::time::advance(Duration::from_secs(1)).await;
    assert!(poll(&queue).is_none());
}

#[tokio::test(start_paused = true)]
async fn delays_fire_in_time_order() {
    let queue = Plain::default();
    queue.add_with("third", after(1000 * MS), ());
    queue.add_with("first", after(250 * MS), ());
    queue.add_with("second", after(500 * MS), ());
    tokio::time::advance(Duration::from_secs(2)).await;
    assert_eq!(queue.len(), 3);
    assert_eq!(drained(&queue), ["first", "second", "third"]);
}

#[tokio::test(start_paused = true)]
async fn delays_to_one_instant_are_fifo() {
    let queue = Plain::default();
    for key in ["a", "b", "c", "d", "e", "f"] {
        queue.add_with(key, after(10 * MS), ());
    }
    tokio::time::advance(10 * MS).await;
    assert_eq!(drained(&queue), ["a", "b", "c", "d", "e", "f"]);
}

#[tokio::test(start_paused = true)]
async fn key_due_earlier_precedes_one_added_later() {
    let queue = Plain::default();
    queue.add_with("matured", after(MS), ());
    tokio::time::advance(2 * MS).await;
    queue.add("added", ());
    assert_eq!(drained(&queue), ["matured", "added"]);
}

#[tokio::test(start_paused = true)]
async fn delayed_high_priority_key_overtakes_due_low_ones() {
    let queue = Plain::default();
    queue.add_with("high", AddOptions { priority: Some(1), ..after(MS) }, ());
    queue.add("a", ());
    queue.add("b", ());
    queue.add("c", ());
    poll(&queue).unwrap().done();
    tokio::time::advance(MS).await;
    assert_eq!(drained(&queue), ["high", "b", "c"]);
}

#[tokio::test(start_paused = true)]
async fn key_due_while_processing_waits_for_done() {
    let queue = Plain::default();
    queue.add("a", ());
    let item = poll(&queue).unwrap();
    item.requeue(after(MS), ());
    tokio::time::advance(5 * MS).await;
    assert!(poll(&queue).is_none());
    assert_eq!((queue.len(), queue.waiting(), queue.processing()), (1, 0, 1));
    item.done();
    let item = poll(&queue).unwrap();
    assert_eq!(item.queued_for, 4 * MS, "it was due since then");
}

#[tokio::test(start_paused = true)]
async fn delay_outlives_the_run_that_requested_it() {
    let queue = Plain::default();
    queue.add("a", ());
    let item = poll(&queue).unwrap();
    item.requeue(after(20 * MS), ());
    item.done();
    assert_eq!(queue.waiting(), 1);
    assert_eq!(timed(&queue).await, ("a", 20 * MS));
}

#[tokio::test(start_paused = true)]
async fn maximum_delay_is_accepted() {
    let queue = Plain::default();
    queue.add_with("never", after(Duration::MAX), ());
    queue.add_with("soon", after(MS), ());
    assert_eq!(timed(&queue).await, ("soon", MS));
    assert_eq!(queue.waiting(), 1);
    assert!(poll(&queue).is_none());
}

#[tokio::test(start_paused = true)]
async fn idle_worker_wakes_for_an_add_and_for_a_shorter_delay() {
    let queue = Plain::default();
    queue.add_with("late", after(Duration::from_secs(60)), ());
    let mut get = pin!(queue.get());
    assert!(is_pending(&mut get).await);
    queue.add_with("early", after(MS), ());
    let before = Instant::now();
    assert_eq!(soon(get).await.unwrap().key, "early");
    assert_eq!(before.elapsed(), MS);
}

/// Spawns a worker; unlike an awaited future, a task polls only when woken.
fn worker<T, C>(tasks: &mut JoinSet<(T, Duration)>, queue: &Queue<T, C>)
where
    T: Clone + Send + 'static,
    C: Send + 'static,
{
    let queue = queue.clone();
    tasks.spawn(async move {
        let before = Instant::now();
        let item = queue.get().await.expect("not shut down");
        (item.key.clone(), before.elapsed())
    });
}

#[tokio::test(start_paused = true)]
async fn timekeeper_is_replaced_when_dropped() {
    let queue = Plain::default();
    queue.add_with("a", after(50 * MS), ());
    let mut tasks = JoinSet::new();
    let mut keeper = Box::pin(queue.get());
    assert!(is_pending(&mut keeper).await);
    worker(&mut tasks, &queue);
    tokio::task::yield_now().await;
    drop(keeper);
    assert_eq!(soon(tasks.join_all()).await, [("a", 50 * MS)]);
}

#[tokio::test(start_paused = true)]
async fn timekeeper_is_replaced_when_it_gets_a_key() {
    let queue = Plain::default();
    queue.add_with("later", after(50 * MS), ());
    let mut tasks = JoinSet::new();
    (0..3).for_each(|_| worker(&mut tasks, &queue));
    tokio::task::yield_now().await;
    queue.add("now 1", ());
    queue.add("now 2", ());
    let mut got = soon(tasks.join_all()).await;
    got.sort_unstable();
    assert_eq!(got, [("later", 50 * MS), ("now 1", Duration::ZERO), ("now 2", Duration::ZERO)]);
}

#[tokio::test(start_paused = true)]
async fn many_workers_wake_for_many_keys_due_together() {
    let queue = Queue::<u32, ()>::default();
    for key in 0..100 {
        queue.add_with(key, after(10 * MS), ());
    }
    let mut tasks = JoinSet::new();
    (0..100).for_each(|_| worker(&mut tasks, &queue));
    let mut got = soon(tasks.join_all()).await;
    got.sort_unstable();
    assert!(got.into_iter().eq((0..100).map(|key| (key, 10 * MS))));
}

#[tokio::test(start_paused = true)]
async fn one_timer_serves_all_workers_and_none_is_set_without_delays() {
    let queue = Plain::default();
    let mut workers: Vec<_> = (0..10).map(|_| queue.get()).collect();
    for worker in &mut workers {
        assert!(is_pending(worker).await);
    }
    let timers =
        |workers: &[Get<'_, _, _>]| workers.iter().filter(|worker| worker.timer.is_some()).count();
    assert_eq!(timers(&workers), 0);
    queue.add_with("a", after(Duration::from_secs(60)), ());
    for worker in &mut workers {
        assert!(is_pending(worker).await);
    }
    assert_eq!(timers(&workers), 1);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_get_loses_no_key() {
    let queue = Plain::default();
    let mut tasks = JoinSet::new();
    let mut first = Box::pin(queue.get());
    assert!(is_pending(&mut first).await);
    worker(&mut tasks, &queue);
    tokio::task::yield_now().await;
    // The first worker is woken and dropped without polling.
    queue.add("a", ());
    drop(first);
    assert_eq!(soon(tasks.join_all()).await, [("a", Duration::ZERO)]);
}
