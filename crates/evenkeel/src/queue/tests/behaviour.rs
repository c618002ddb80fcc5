//! One worker per key, order, ageing, backoff.

use super::*;

#[tokio::test(start_paused = true)]
async fn key_added_twice_before_get_is_processed_once() {
    let queue = Plain::default();
    queue.add("a", ());
    queue.add("b", ());
    queue.add("a", ());
    assert_eq!(queue.len(), 2);
    assert_eq!(drained(&queue), ["a", "b"]);
    assert_eq!(queue.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn key_added_while_processing_is_processed_once_more() {
    let queue = Plain::default();
    queue.add("a", ());
    let first = poll(&queue).unwrap();
    for _ in 0..5 {
        queue.add("a", ());
    }
    assert_eq!(queue.len(), 1, "counts as due");
    assert!(poll(&queue).is_none(), "being processed");
    first.done();
    poll(&queue).expect("once more").done();
    assert!(poll(&queue).is_none(), "only once");
}

#[tokio::test(start_paused = true)]
async fn key_added_after_done_is_processed_again() {
    let queue = Plain::default();
    for _ in 0..3 {
        queue.add("a", ());
        assert_eq!(drained(&queue), ["a"]);
    }
}

#[tokio::test(start_paused = true)]
async fn key_being_processed_does_not_block_others() {
    let queue = Plain::default();
    queue.add("a", ());
    let _running = poll(&queue).unwrap();
    queue.add("a", ());
    queue.add("b", ());
    assert_eq!(drained(&queue), ["b"]);
}

#[tokio::test(start_paused = true)]
async fn worker_that_panics_or_is_cancelled_releases_its_key() {
    let queue = Plain::default();
    queue.add("a", ());
    let item = poll(&queue).unwrap();
    queue.add("a", ());
    let worker = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
        let _item = item;
        std::panic::resume_unwind(Box::new("worker"));
    }));
    assert!(worker.is_err());
    assert_eq!(queue.processing(), 0);
    assert_eq!(drained(&queue), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn higher_priorities_first_and_fifo_within_a_priority() {
    let queue = Plain::default();
    queue.add_with("low 1", priority(LOW_PRIORITY), ());
    queue.add("normal 1", ());
    queue.add_with("low 2", priority(LOW_PRIORITY), ());
    queue.add_with("high", priority(7), ());
    queue.add("normal 2", ());
    assert_eq!(drained(&queue), ["high", "normal 1", "normal 2", "low 1", "low 2"]);
}

#[tokio::test(start_paused = true)]
async fn raised_key_moves_to_the_tail_of_the_higher_class() {
    let queue = Plain::default();
    queue.add_with("a", priority(LOW_PRIORITY), ());
    queue.add_with("b", priority(LOW_PRIORITY), ());
    queue.add("c", ());
    queue.add("a", ());
    queue.add("d", ());
    assert_eq!(drained(&queue), ["c", "a", "d", "b"]);
}

#[tokio::test(start_paused = true)]
async fn lowering_a_key_is_ignored() {
    let queue = Plain::default();
    queue.add("a", ());
    queue.add_with("b", priority(-1), ());
    queue.add_with("a", priority(LOW_PRIORITY), ());
    let first = poll(&queue).unwrap();
    assert_eq!((first.key, first.priority), ("a", 0));
}

#[tokio::test(start_paused = true)]
async fn priority_is_reset_after_get() {
    let queue = Plain::default();
    queue.add_with("a", priority(9), ());
    poll(&queue).unwrap().done();
    queue.add("a", ());
    assert_eq!(poll(&queue).unwrap().priority, 0);
}

#[tokio::test(start_paused = true)]
async fn key_raised_while_processing_gets_the_higher_priority() {
    let queue = Plain::default();
    queue.add_with("a", priority(LOW_PRIORITY), ());
    let item = poll(&queue).unwrap();
    queue.add_with("a", priority(LOW_PRIORITY), ());
    queue.add_with("a", priority(3), ());
    queue.add("b", ());
    item.done();
    assert_eq!(drained(&queue), ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn a_low_key_is_served_within_the_bound_under_endless_load() {
    let bound = Duration::from_secs(2);
    let ageing = Ageing { after: bound, share: 4 };
    let queue = Queue::<u32, ()>::new(QueueOptions { ageing, ..QueueOptions::default() });
    queue.add_with(0, priority(LOW_PRIORITY), ());
    queue.add(1, ());
    let began = Instant::now();
    // There is always a due key of the higher class: it is added again before it is done.
    loop {
        let item = poll(&queue).unwrap();
        if item.key == 0 {
            break;
        }
        item.requeue(AddOptions::default(), ());
        drop(item);
        tokio::time::advance(10 * MS).await;
        assert!(began.elapsed() <= bound, "starved");
    }
    assert_eq!(began.elapsed(), bound, "and not earlier");
}

#[tokio::test(start_paused = true)]
async fn aged_backlog_gets_exactly_its_share() {
    let ageing = Ageing { after: Duration::from_secs(1), share: 4 };
    let queue = Queue::<u32, ()>::new(QueueOptions { ageing, ..QueueOptions::default() });
    for key in 1000..2000 {
        queue.add_with(key, priority(LOW_PRIORITY), ());
    }
    for key in 0..1000 {
        queue.add(key, ());
    }
    tokio::time::advance(Duration::from_secs(1)).await;
    let order: Vec<u32> = (0..400).map(|_| poll(&queue).unwrap().key).collect();
    for four in order.chunks(4) {
        assert_eq!(four.iter().filter(|key| **key >= 1000).count(), 1, "{four:?}");
    }
    let low: Vec<u32> = order.into_iter().filter(|key| *key >= 1000).collect();
    assert!(low.is_sorted(), "first in, first out among aged keys");
}

#[tokio::test(start_paused = true)]
async fn longest_waiting_aged_class_is_first() {
    let ageing = Ageing { after: MS, share: 2 };
    let queue = Plain::new(QueueOptions { ageing, ..QueueOptions::default() });
    queue.add_with("lowest", priority(-2), ());
    tokio::time::advance(MS).await;
    queue.add_with("low", priority(-1), ());
    tokio::time::advance(MS).await;
    for key in ["a", "b", "c", "d"] {
        queue.add(key, ());
    }
    assert_eq!(drained(&queue), ["a", "lowest", "b", "low", "c", "d"]);
}

#[tokio::test(start_paused = true)]
async fn priorities_are_strict_if_ageing_is_off() {
    let ageing = Ageing { after: Duration::MAX, share: 1 };
    let queue = Plain::new(QueueOptions { ageing, ..QueueOptions::default() });
    queue.add_with("low", priority(LOW_PRIORITY), ());
    queue.add("a", ());
    tokio::time::advance(Duration::from_secs(3600 * 24 * 365)).await;
    assert_eq!(drained(&queue), ["a", "low"]);
}

#[tokio::test(start_paused = true)]
async fn failures_double_the_delay_up_to_its_maximum() {
    let queue = Plain::default();
    for failures in 1..=25 {
        queue.add_with("a", rate_limited(), ());
        let (_, took) = timed(&queue).await;
        let expected = (5 * MS * 2_u32.pow(failures - 1)).min(Duration::from_secs(1000));
        assert_eq!(took, expected, "failure {failures}");
        assert_eq!(queue.failures(&"a"), failures);
    }
}

#[tokio::test(start_paused = true)]
async fn forget_resets_the_backoff() {
    let queue = Plain::default();
    for _ in 0..5 {
        queue.add_with("a", rate_limited(), ());
        timed(&queue).await;
    }
    queue.forget(&"a");
    assert_eq!(queue.failures(&"a"), 0);
    queue.add_with("a", rate_limited(), ());
    assert_eq!(timed(&queue).await, ("a", 5 * MS));
}

#[tokio::test(start_paused = true)]
async fn failures_of_one_key_do_not_delay_another() {
    let queue = Plain::default();
    for _ in 0..3 {
        queue.add_with("a", rate_limited(), ());
        timed(&queue).await;
    }
    queue.add_with("a", rate_limited(), ());
    queue.add_with("b", rate_limited(), ());
    assert_eq!(timed(&queue).await, ("b", 5 * MS));
    assert_eq!(timed(&queue).await, ("a", 35 * MS));
}

#[tokio::test(start_paused = true)]
async fn a_failure_counts_even_if_the_key_is_due_already() {
    let queue = Plain::default();
    queue.add("a", ());
    queue.add_with("a", rate_limited(), ());
    assert_eq!(queue.failures(&"a"), 1);
    let item = poll(&queue).expect("still due");
    assert_eq!(item.failures, 1);
}

#[tokio::test(start_paused = true)]
async fn smaller_of_delay_and_rate_limit_applies() {
    let queue = Plain::default();
    queue.add_with("a", AddOptions { after: Some(MS), ..rate_limited() }, ());
    assert_eq!(timed(&queue).await, ("a", MS));
    queue.add_with("b", AddOptions { after: Some(100 * MS), ..rate_limited() }, ());
    assert_eq!(timed(&queue).await, ("b", 5 * MS));
    assert_eq!((queue.failures(&"a"), queue.failures(&"b")), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_bucket_limits_the_retries_of_all_keys_together() {
    let bucket = Some(TokenBucket { every: 100 * MS, burst: 2 });
    let queue = Plain::new(QueueOptions { bucket, ..QueueOptions::default() });
    for key in ["a", "b", "c", "d"] {
        queue.add_with(key, rate_limited(), ());
    }
    queue.add("not a retry", ());
    let began = Instant::now();
    let mut order = Vec::new();
    for _ in 0..5 {
        let (key, _) = timed(&queue).await;
        order.push((key, began.elapsed().as_millis()));
    }
    assert_eq!(order, [("not a retry", 0), ("a", 5), ("b", 5), ("c", 100), ("d", 200)]);
}

#[tokio::test(start_paused = true)]
async fn a_retry_keeps_its_priority_unless_given_another() {
    let queue = Plain::default();
    queue.add_with("a", priority(LOW_PRIORITY), ());
    let item = poll(&queue).unwrap();
    item.requeue(rate_limited(), ());
    item.done();
    let item = soon(queue.get()).await.unwrap();
    assert_eq!(item.priority, LOW_PRIORITY);
    item.requeue(after(MS), ());
    item.done();
    let item = soon(queue.get()).await.unwrap();
    assert_eq!(item.priority, LOW_PRIORITY);
    item.requeue(AddOptions { priority: Some(5), ..rate_limited() }, ());
    item.done();
    assert_eq!(soon(queue.get()).await.unwrap().priority, 5);
}

#[tokio::test(start_paused = true)]
async fn remembered_failures_are_bounded_and_the_oldest_is_evicted() {
    let queue =
        Queue::<u32, ()>::new(QueueOptions { remembered_max: 3, ..QueueOptions::default() });
    for key in 0..5 {
        queue.add_with(key, rate_limited(), ());
        soon(queue.get()).await.unwrap().done();
    }
    assert_eq!(queue.snapshot().remembered, 3);
    let failures: Vec<u32> = (0..5).map(|key| queue.failures(&key)).collect();
    assert_eq!(failures, [0, 0, 1, 1, 1]);
    queue.forget(&3);
    assert_eq!(queue.snapshot().remembered, 2);
}

#[tokio::test(start_paused = true)]
async fn done_and_forgotten_key_uses_no_memory() {
    let key = std::sync::Arc::new(());
    let queue = Queue::<std::sync::Arc<()>, ()>::default();
    queue.add_with(key.clone(), rate_limited(), ());
    soon(queue.get()).await.unwrap().done();
    assert_eq!(std::sync::Arc::strong_count(&key), 2, "its failure is remembered");
    queue.forget(&key);
    assert_eq!(std::sync::Arc::strong_count(&key), 1);
    queue.add(key.clone(), ());
    poll(&queue).unwrap().done();
    assert_eq!(std::sync::Arc::strong_count(&key), 1);
}
