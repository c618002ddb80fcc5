//! The workqueue: throughput and memory.
//!
//! Runs on one thread and reports keys per second of CPU time, which does not depend on the load of
//! the machine. The rival is the scheduler of kube-runtime's controller, which has no causes and no
//! `done`.

use std::cell::RefCell;
use std::pin::pin;
use std::process::Command;
use std::task::Poll;

use anyhow::Context as _;
use evenkeel::queue::{Cause, Change, Origin, Queue};
use evenkeel::{Key, Kind};
use futures_util::{StreamExt as _, stream};
use k8s_openapi::api::apps::v1::Deployment;
use kube_runtime::scheduler::{ScheduleRequest, scheduler};
use tokio::time::Instant;

use crate::figure::{Figure, Report, Target};
use crate::probe::{resident, thread_cpu_time};

const FEW: usize = 10_000;
const MANY: usize = 1_000_000;
const ROUNDS: usize = 4_000_000;

pub(crate) async fn queue(report: &mut Report) -> anyhow::Result<()> {
    let memory = memory()?;
    let many = rate(&filled(MANY), ROUNDS).await?;
    let few = rate(&filled(FEW), ROUNDS).await?;
    report.add(&Figure {
        what: "queue of 10,000 keys: add + get + done",
        unit: "/s",
        ours: few,
        target: Some(Target::AtLeast(2e6)),
        rival: None,
    });
    report.add(&Figure {
        what: "queue of 1,000,000 keys: add + get + done",
        unit: "/s",
        ours: many,
        target: Some(Target::AtLeast(2e6 / 3.0)),
        rival: None,
    });
    report.add(&Figure {
        what: "  memory of those, keys and causes included",
        unit: "MB",
        ours: memory / 1e6,
        target: Some(Target::AtMost(150.0)),
        rival: None,
    });
    for (what, count) in [
        ("  10,000 keys added, then all taken", FEW),
        ("  1,000,000 keys added, then all taken", MANY),
    ] {
        let keys: Vec<Key> = keys(count).collect();
        report.add(&Figure {
            what,
            unit: "/s",
            ours: fill_and_empty(&keys, ROUNDS / count).await?,
            target: None,
            rival: Some(rival_fill_and_empty(&keys, ROUNDS / count).await?),
        });
    }
    Ok(())
}

/// Returns the memory of a million keys in bytes. Measured in a new process, because a process that
/// has freed memory would reuse it and grow less.
fn memory() -> anyhow::Result<f64> {
    let output = Command::new(std::env::current_exe()?).arg("queue-memory").output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.trim().parse().with_context(|| format!("the process printed {text:?}"))
}

/// Runs in the child process.
#[expect(clippy::print_stdout, reason = "the result of the process")]
pub(crate) fn child() -> anyhow::Result<()> {
    let before = resident("self")?;
    let queue = filled(MANY);
    println!("{}", resident("self")? - before);
    drop(queue);
    Ok(())
}

/// Returns keys like those of large clusters, in an order unrelated to their order in memory.
fn keys(count: usize) -> impl Iterator<Item = Key> {
    // A step that is coprime to the count visits every number once.
    let step = 7_368_787;
    (0..count).map(move |at| {
        let at = at * step % count;
        Key::namespaced(&format!("team-{:04}", at % 1000), &format!("webapp-{at:07}"))
    })
}

fn filled(count: usize) -> Queue<Key> {
    let queue = Queue::default();
    let own = Origin::own(Kind::of::<Deployment>());
    for key in keys(count) {
        queue.add(key, Cause::Listed(own.clone()));
    }
    queue
}

/// Gets keys and adds each again, so that the length stays constant.
async fn rate(queue: &Queue<Key>, rounds: usize) -> anyhow::Result<f64> {
    let own = Origin::own(Kind::of::<Deployment>());
    let mut change = Change::default();
    change.generation = Some((3, 4));
    let busy = thread_cpu_time()?;
    for _ in 0..rounds {
        let Some(item) = queue.get().await else { break };
        let key = item.key.clone();
        item.done();
        queue.add(key, Cause::Updated(own.clone(), change));
    }
    Ok(rounds as f64 / (thread_cpu_time()? - busy).as_secs_f64())
}

/// Adds every key, then gets every key.
async fn fill_and_empty(keys: &[Key], rounds: usize) -> anyhow::Result<f64> {
    let queue: Queue<Key> = Queue::default();
    let own = Origin::own(Kind::of::<Deployment>());
    let busy = thread_cpu_time()?;
    for _ in 0..rounds {
        for key in keys {
            queue.add(key.clone(), Cause::Listed(own.clone()));
        }
        for _ in keys {
            queue.get().await.context("not shut down")?.done();
        }
    }
    Ok((rounds * keys.len()) as f64 / (thread_cpu_time()? - busy).as_secs_f64())
}

async fn rival_fill_and_empty(keys: &[Key], rounds: usize) -> anyhow::Result<f64> {
    // In the past, so that no timer is involved.
    let run_at = Instant::now();
    let feed = RefCell::new(keys[..0].iter());
    let requests = stream::poll_fn(|_| match feed.borrow_mut().next() {
        Some(key) => Poll::Ready(Some(ScheduleRequest { message: key.clone(), run_at })),
        None => Poll::Pending,
    });
    let mut scheduler = pin!(scheduler(requests));
    let busy = thread_cpu_time()?;
    for _ in 0..rounds {
        *feed.borrow_mut() = keys.iter();
        for _ in keys {
            scheduler.as_mut().hold_unless(|_| true).next().await.context("the feed has no end")?;
        }
    }
    Ok((rounds * keys.len()) as f64 / (thread_cpu_time()? - busy).as_secs_f64())
}
