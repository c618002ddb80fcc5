//! Seats, queues and fairness, in virtual time.

use futures_util::FutureExt as _;

use super::*;

const WAIT: Duration = Duration::from_secs(15);

fn queues(limit: usize, queues: usize, hand_size: usize, length: usize) -> Arc<QueueSet> {
    Arc::new(QueueSet::new(Response::Queue { queues, hand_size, length }, limit))
}

#[test]
fn hands_are_different_cards_of_the_deck() {
    for hash in (0..5000).map(|n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15)) {
        let mut hand = deal(hash, 16, 4);
        assert!(hand.iter().all(|card| *card < 16));
        hand.sort_unstable();
        hand.dedup();
        assert_eq!(hand.len(), 4, "{hash}");
    }
    // As upstream deals: the remainders are 5, 1 (of 127 others) and 0.
    assert_eq!(deal(5 + 128, 128, 3), [5, 1, 0]);
}

#[tokio::test(start_paused = true)]
async fn level_without_queues_rejects_beyond_its_seats() {
    let set = Arc::new(QueueSet::new(Response::Reject, 2));
    let first = set.acquire(0, 1, WAIT).await.unwrap();
    let second = set.acquire(0, 1, WAIT).await.unwrap();
    assert!(set.acquire(0, 1, WAIT).await.is_none());
    drop(first);
    let third = set.acquire(0, 1, WAIT).await.unwrap();
    drop((second, third));
    assert_eq!(set.counts().executing, 0);
    assert_eq!(set.counts().rejected, 1);
}

#[tokio::test(start_paused = true)]
async fn exempt_level_has_no_limit() {
    let set = Arc::new(QueueSet::new(Response::Exempt, 0));
    let mut held = Vec::new();
    for _ in 0..1000 {
        held.push(set.acquire(0, 10, WAIT).await.unwrap());
    }
    assert_eq!(set.counts().executing, 1000);
}

#[tokio::test(start_paused = true)]
async fn requests_wait_for_seats_until_their_time_is_over_or_the_queue_is_full() {
    let set = queues(1, 1, 1, 2);
    let held = set.acquire(0, 1, WAIT).await.unwrap();
    let begin = Instant::now();
    let mut early = Box::pin(set.acquire(0, 1, WAIT));
    let mut late = Box::pin(set.acquire(0, 1, 2 * WAIT));
    assert!(early.as_mut().now_or_never().is_none());
    assert!(late.as_mut().now_or_never().is_none());
    assert!(set.acquire(0, 1, WAIT).now_or_never().unwrap().is_none(), "the queue is full");
    assert_eq!(set.counts().waiting, 2);

    assert!(early.await.is_none());
    assert_eq!(begin.elapsed(), WAIT);
    drop(held);
    let seats = late.await.unwrap();
    assert_eq!(begin.elapsed(), WAIT);
    drop(seats);
    let counts = set.counts();
    assert_eq!((counts.executing, counts.waiting, counts.timed_out), (0, 0, 1));
}

#[tokio::test(start_paused = true)]
async fn seats_granted_to_a_cancelled_request_are_passed_on() {
    let set = queues(1, 4, 2, 10);
    let held = set.acquire(0, 1, WAIT).await.unwrap();
    let mut cancelled = Box::pin(set.acquire(1, 1, WAIT));
    assert!(cancelled.as_mut().now_or_never().is_none());
    let mut granted = Box::pin(set.acquire(2, 1, WAIT));
    assert!(granted.as_mut().now_or_never().is_none());
    // Granted, but never received.
    drop(held);
    assert_eq!(set.counts().waiting, 1);
    drop(cancelled);
    assert!(granted.as_mut().now_or_never().flatten().is_some());
    drop(granted);
    assert_eq!((set.counts().executing, set.counts().waiting), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn large_request_waits_until_it_has_room() {
    let set = queues(4, 1, 1, 10);
    let small = set.acquire(0, 1, WAIT).await.unwrap();
    let mut large = Box::pin(set.acquire(0, 9, WAIT));
    assert!(large.as_mut().now_or_never().is_none(), "more seats than the level has");
    drop(small);
    let large = large.now_or_never().flatten().unwrap();
    assert!(set.acquire(0, 1, WAIT).now_or_never().is_none());
    drop(large);
    assert!(set.acquire(0, 4, WAIT).now_or_never().flatten().is_some());
}

/// Serves requests of two flows, each of which takes the same time, and returns how many of each
/// were served in a second.
async fn share(first: usize, second: usize) -> (usize, usize) {
    let set = queues(4, 64, 1, 1000);
    let served = Mutex::new([0, 0]);
    let one = async |flow: usize| loop {
        let seats = set.acquire(flow as u64, 1, WAIT).await;
        time::sleep(Duration::from_millis(10)).await;
        served.lock()[flow] += 1;
        drop(seats);
    };
    let clients = (0..first).map(|_| one(0)).chain((0..second).map(|_| one(1)));
    let clients = futures_util::future::join_all(clients);
    let _ = time::timeout(Duration::from_secs(1), clients).await;
    let [first, second] = *served.lock();
    (first, second)
}

#[tokio::test(start_paused = true)]
async fn flow_with_many_requests_does_not_displace_one_with_few() {
    let (many, few) = share(100, 4).await;
    assert!(few * 10 >= many * 9, "{many} {few}");
    let (many, one) = share(100, 1).await;
    // Seats become free every 2.5 ms.
    assert!((75..=100).contains(&one), "it is served next: {one}");
    assert!((290..=325).contains(&many), "the rest is not wasted: {many}");
}

#[tokio::test(start_paused = true)]
async fn more_seats_serve_waiting_requests_at_once() {
    let set = queues(1, 4, 2, 10);
    let _held = set.acquire(0, 1, WAIT).await.unwrap();
    let mut waits = Box::pin(set.acquire(1, 1, WAIT));
    assert!(waits.as_mut().now_or_never().is_none());
    set.configure(Response::Queue { queues: 8, hand_size: 2, length: 10 }, 2);
    assert!(waits.now_or_never().flatten().is_some());
}

#[tokio::test(start_paused = true)]
async fn demand_is_averaged_over_time() {
    let set = queues(10, 4, 2, 10);
    set.take_demand();
    let held = set.acquire(0, 4, WAIT).await.unwrap();
    time::sleep(Duration::from_secs(5)).await;
    drop(held);
    time::sleep(Duration::from_secs(5)).await;
    let observed = set.take_demand();
    assert_eq!((observed.seconds, observed.average, observed.max), (10.0, 2.0, 4.0));
    assert_eq!(observed.deviation, 2.0);
    time::sleep(Duration::from_secs(5)).await;
    assert_eq!(set.take_demand().max, 0.0);
}
