//! Random thread schedules with Shuttle.
//!
//! Shuttle runs its threads one at a time and can switch at each [`point`]: before a step takes the
//! lock, and after it has released the lock but before it wakes workers. A lost wake-up is a
//! deadlock, which Shuttle reports with its schedule. There are no delays here, since tokio's
//! timers do not run under Shuttle; see `wake`.

use std::cell::Cell;
use std::pin::pin;

use shuttle::future::{block_on, spawn};
use shuttle::rand::Rng as _;
use shuttle::sync::atomic::{AtomicBool, Ordering};
use shuttle::thread;

use super::*;

thread_local! {
    /// Shuttle's threads all run on the thread that started it.
    static UNDER_SHUTTLE: Cell<bool> = const { Cell::new(false) };
}

/// A scheduling point.
pub(in crate::queue) fn point() {
    if UNDER_SHUTTLE.get() {
        // Not `yield_now`, which would wake the task and hide a lost wake-up.
        AtomicBool::new(false).load(Ordering::SeqCst);
    }
}

fn explore(rounds: usize, test: impl Fn() + Send + Sync + 'static) {
    UNDER_SHUTTLE.set(true);
    shuttle::check_random(test, rounds);
}

const KEYS: usize = 3;

/// Requested and completed work per key; checks the invariants.
#[derive(Default)]
struct Progress {
    wanted: [u32; KEYS],
    done: [u32; KEYS],
    busy: [bool; KEYS],
}

type Shared = Arc<parking_lot::Mutex<Progress>>;

/// A producer that adds each key several times.
fn produce(queue: &Queue<usize, ()>, progress: &Shared) {
    for round in 0..4 {
        let key = (round + shuttle::rand::thread_rng().gen_range(0..2)) % KEYS;
        progress.lock().wanted[key] += 1;
        queue.add(key, ());
    }
}

/// A worker that completes the work requested when it starts.
fn work(item: Item<usize, ()>, progress: &Shared) {
    let key = item.key;
    let wanted = {
        let mut progress = progress.lock();
        assert!(!progress.busy[key], "two workers on one key");
        progress.busy[key] = true;
        progress.wanted[key]
    };
    point();
    let mut progress = progress.lock();
    progress.busy[key] = false;
    progress.done[key] = wanted;
    drop(progress);
    item.done();
}

#[test]
fn no_key_has_two_workers_and_no_add_is_lost() {
    explore(1000, || {
        let (queue, progress) = (Queue::<usize, ()>::default(), Shared::default());
        let workers: Vec<_> = (0..3)
            .map(|_| {
                let (queue, progress) = (queue.clone(), Arc::clone(&progress));
                spawn(async move {
                    while let Some(item) = queue.get().await {
                        work(item, &progress);
                    }
                })
            })
            .collect();
        let producers: Vec<_> = (0..2)
            .map(|_| {
                let (queue, progress) = (queue.clone(), Arc::clone(&progress));
                thread::spawn(move || produce(&queue, &progress))
            })
            .collect();
        for producer in producers {
            producer.join().unwrap();
        }
        block_on(async {
            queue.shutdown_with_drain().await;
            for worker in workers {
                worker.await.unwrap();
            }
        });
        let progress = progress.lock();
        assert_eq!(progress.done, progress.wanted);
        assert_eq!((queue.len(), queue.processing()), (0, 0));
    });
}

#[test]
fn dropped_worker_passes_on_its_wake_up() {
    explore(1000, || {
        let (queue, progress) = (Queue::<usize, ()>::default(), Shared::default());
        let fickle: Vec<_> = (0..KEYS)
            .map(|_| {
                let queue = queue.clone();
                spawn(async move {
                    // Polls once, waits, and is dropped.
                    let mut get = pin!(queue.get());
                    let found = poll_fn(|cx| Poll::Ready(get.poll_unpin(cx))).await;
                    point();
                    // A key it received is added again for the other worker.
                    if let Poll::Ready(Some(item)) = found {
                        item.requeue(AddOptions::default(), ());
                    }
                })
            })
            .collect();
        let steady = {
            let (queue, progress) = (queue.clone(), Arc::clone(&progress));
            spawn(async move {
                while progress.lock().done != [1; KEYS] {
                    work(queue.get().await.unwrap(), &progress);
                }
            })
        };
        let producer = {
            let (queue, progress) = (queue, Arc::clone(&progress));
            thread::spawn(move || {
                for key in 0..KEYS {
                    progress.lock().wanted[key] += 1;
                    queue.add(key, ());
                }
            })
        };
        producer.join().unwrap();
        block_on(async {
            for worker in fickle {
                worker.await.unwrap();
            }
            steady.await.unwrap();
        });
    });
}

#[test]
fn shutdown_at_any_moment_releases_all_workers() {
    explore(1000, || {
        let (queue, progress) = (Queue::<usize, ()>::default(), Shared::default());
        let workers: Vec<_> = (0..3)
            .map(|_| {
                let (queue, progress) = (queue.clone(), Arc::clone(&progress));
                spawn(async move {
                    while let Some(item) = queue.get().await {
                        work(item, &progress);
                    }
                })
            })
            .collect();
        let drain = {
            let queue = queue.clone();
            spawn(async move { queue.shutdown_with_drain().await })
        };
        let stop = {
            let queue = queue.clone();
            thread::spawn(move || queue.shutdown())
        };
        produce(&queue, &progress);
        stop.join().unwrap();
        block_on(async {
            drain.await.unwrap();
            for worker in workers {
                worker.await.unwrap();
            }
            queue.shutdown_with_drain().await;
        });
        assert_eq!((queue.len(), queue.processing()), (0, 0));
    });
}
