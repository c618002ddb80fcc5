//! No worker sleeps while a key is due, in any order of polls, wake-ups and drops.
//!
//! Workers are futures polled by the test, with wakers that record the call. All steps of the queue
//! run under its lock, so threads only add an order of steps.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Wake, Waker};

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Op {
    Add(u8),
    AddAfter(u8, u32),
    /// A new worker waits.
    Get,
    /// A woken worker polls.
    Run(usize),
    /// A worker polls without a wake-up.
    RunAnyway(usize),
    /// A worker is dropped.
    Drop(usize),
    Done(usize),
    Advance(u32),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (0..5_u8).prop_map(Op::Add),
        4 => (0..5_u8, 1..50_u32).prop_map(|(key, after)| Op::AddAfter(key, after)),
        4 => Just(Op::Get),
        6 => any::<usize>().prop_map(Op::Run),
        1 => any::<usize>().prop_map(Op::RunAnyway),
        2 => any::<usize>().prop_map(Op::Drop),
        4 => any::<usize>().prop_map(Op::Done),
        2 => (0..30_u32).prop_map(Op::Advance),
    ]
}

#[derive(Default)]
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

struct Worker<'a> {
    get: Pin<Box<Get<'a, u8, ()>>>,
    woken: Arc<Flag>,
}

impl Worker<'_> {
    fn is_woken(&self) -> bool {
        self.woken.0.load(Ordering::Relaxed)
    }

    fn poll_once(&mut self) -> Poll<Option<Item<u8, ()>>> {
        self.woken.0.store(false, Ordering::Relaxed);
        let waker = Waker::from(Arc::clone(&self.woken));
        self.get.as_mut().poll(&mut Context::from_waker(&waker))
    }
}

/// All workers and their keys.
#[derive(Default)]
struct Workers<'a> {
    waiting: Vec<Worker<'a>>,
    /// Not dropped: a ready future may stay alive without effect.
    ready: Vec<Worker<'a>>,
    items: Vec<Item<u8, ()>>,
}

impl Workers<'_> {
    fn poll_once(&mut self, at: usize) {
        if let Poll::Ready(item) = self.waiting[at].poll_once() {
            self.items.extend(item);
            self.ready.push(self.waiting.swap_remove(at));
        }
    }
}

async fn check(ops: Vec<Op>) -> Result<(), TestCaseError> {
    let queue: Queue<u8, ()> = Queue::default();
    let mut workers = Workers::default();
    for op in ops {
        match op {
            Op::Add(key) => queue.add(key, ()),
            Op::AddAfter(key, delay) => queue.add_with(key, after(delay * MS), ()),
            Op::Get => {
                let get = Box::pin(queue.get());
                workers.waiting.push(Worker { get, woken: Arc::default() });
                workers.poll_once(workers.waiting.len() - 1);
            }
            Op::Run(which) => {
                let woken: Vec<usize> = (0..workers.waiting.len())
                    .filter(|at| workers.waiting[*at].is_woken())
                    .collect();
                if !woken.is_empty() {
                    workers.poll_once(woken[which % woken.len()]);
                }
            }
            Op::RunAnyway(which) if !workers.waiting.is_empty() => {
                let at = which % workers.waiting.len();
                workers.poll_once(at);
            }
            Op::Drop(which) if !workers.waiting.is_empty() => {
                let at = which % workers.waiting.len();
                drop(workers.waiting.swap_remove(at));
            }
            Op::Done(which) if !workers.items.is_empty() => {
                let at = which % workers.items.len();
                workers.items.swap_remove(at).done();
            }
            Op::Advance(by) => tokio::time::advance(by * MS).await,
            Op::RunAnyway(_) | Op::Drop(_) | Op::Done(_) => {}
        }
        let woken = workers.waiting.iter().any(Worker::is_woken);
        let core = queue.0.core.lock();
        if !workers.waiting.is_empty() && !woken {
            prop_assert!(core.classes.is_empty(), "a key is due and all workers sleep");
            if let Some(first) = core.delays.first() {
                // It may be early: its key became due immediately.
                let timers = workers.waiting.iter().filter_map(|worker| worker.get.timer.as_ref());
                let set: Vec<Instant> = timers.map(|timer| timer.deadline()).collect();
                prop_assert_eq!(set.len(), 1, "one timer for all");
                prop_assert!(set[0] <= queue.instant(first), "the timer is late");
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn no_worker_sleeps_while_a_key_is_due_or_no_timer_is_set(
        ops in prop::collection::vec(op(), 1..120),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(check(ops))?;
    }
}
