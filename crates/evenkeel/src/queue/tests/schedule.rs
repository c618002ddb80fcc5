//! Threads in thousands of random orders, under Shuttle.
//!
//! Shuttle runs its threads one at a time and may switch wherever [`point`] is called: before each
//! step takes the lock, and after it released the lock but has not yet woken anybody. A lost wake-up
//! is a deadlock there, which Shuttle reports with the order that led to it. There are no delays
//! here, since tokio's timers do not run under Shuttle; `wake` has those.

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

/// A place where another thread may go first.
pub(in crate::queue) fn point() {
    if UNDER_SHUTTLE.get() {
        // Not `yield_now`, which counts as a wake-up of the task and would hide that one is lost.
        AtomicBool::new(false).load(Ordering::SeqCst);
    }
}

fn explore(rounds: usize, test: impl Fn() + Send + Sync + 'static) {
    UNDER_SHUTTLE.set(true);
    shuttle::check_random(test, rounds);
}

const KEYS: usize = 3;

/// What keys want done and have had done; the claims are checked as work goes on.
#[derive(Default)]
struct World {
    wanted: [u32; KEYS],
    done: [u32; KEYS],
    busy: [bool; KEYS],
}

type Shared = Arc<parking_lot::Mutex<World>>;

/// A producer that wants each key done a few times.
fn produce(queue: &Queue<usize, ()>, world: &Shared) {
    for round in 0..4 {
        let key = (round + shuttle::rand::thread_rng().gen_range(0..2)) % KEYS;
        world.lock().wanted[key] += 1;
        queue.add(key, ());
    }
}

/// A worker that does all that is wanted at the time it begins.
fn work(item: Item<usize, ()>, world: &Shared) {
    let key = item.key;
    let wanted = {
        let mut world = world.lock();
        assert!(!world.busy[key], "two workers on one key");
        world.busy[key] = true;
        world.wanted[key]
    };
    point();
    let mut world = world.lock();
    world.busy[key] = false;
    world.done[key] = wanted;
    drop(world);
    item.done();
}

#[test]
fn no_key_has_two_workers_and_no_add_is_lost() {
    explore(1000, || {
        let (queue, world) = (Queue::<usize, ()>::default(), Shared::default());
        let workers: Vec<_> = (0..3)
            .map(|_| {
                let (queue, world) = (queue.clone(), Arc::clone(&world));
                spawn(async move {
                    while let Some(item) = queue.get().await {
                        work(item, &world);
                    }
                })
            })
            .collect();
        let producers: Vec<_> = (0..2)
            .map(|_| {
                let (queue, world) = (queue.clone(), Arc::clone(&world));
                thread::spawn(move || produce(&queue, &world))
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
        let world = world.lock();
        assert_eq!(world.done, world.wanted);
        assert_eq!((queue.len(), queue.processing()), (0, 0));
    });
}

#[test]
fn dropped_worker_passes_on_its_wake_up() {
    explore(1000, || {
        let (queue, world) = (Queue::<usize, ()>::default(), Shared::default());
        let fickle: Vec<_> = (0..KEYS)
            .map(|_| {
                let queue = queue.clone();
                spawn(async move {
                    // Looks once, is asleep for a while, and goes.
                    let mut get = pin!(queue.get());
                    let found = poll_fn(|cx| Poll::Ready(get.poll_unpin(cx))).await;
                    point();
                    // Whatever it found is wanted again, so that the steady one sees it.
                    if let Poll::Ready(Some(item)) = found {
                        item.requeue(AddOptions::default(), ());
                    }
                })
            })
            .collect();
        let steady = {
            let (queue, world) = (queue.clone(), Arc::clone(&world));
            spawn(async move {
                while world.lock().done != [1; KEYS] {
                    work(queue.get().await.unwrap(), &world);
                }
            })
        };
        let producer = {
            let (queue, world) = (queue, Arc::clone(&world));
            thread::spawn(move || {
                for key in 0..KEYS {
                    world.lock().wanted[key] += 1;
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
        let (queue, world) = (Queue::<usize, ()>::default(), Shared::default());
        let workers: Vec<_> = (0..3)
            .map(|_| {
                let (queue, world) = (queue.clone(), Arc::clone(&world));
                spawn(async move {
                    while let Some(item) = queue.get().await {
                        work(item, &world);
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
        produce(&queue, &world);
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
