//! Measures the throughput of the store, and the memory per object.
//!
//! `cargo bench -p evenkeel-apiserver --bench storage`; arguments select benchmarks.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark prints and may panic")]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_apiserver::storage::{
    Durability, Key, Labels, Options, Range, Store, Table, UnsavedRecord, Window,
};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;
use tokio::time::Instant;

const OBJECTS: u64 = 100_000;
const BODY: usize = 1024;

fn main() {
    let chosen: Vec<String> = std::env::args().skip(1).filter(|it| !it.starts_with('-')).collect();
    let figures: [(&str, fn()); 5] = [
        ("memory", memory),
        ("write", write),
        ("list", list),
        ("fan-out", fan_out),
        ("durable", durable),
    ];
    for (name, figure) in figures {
        if chosen.is_empty() || chosen.iter().any(|it| it == name) {
            figure();
        }
    }
}

fn single() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn unsaved() -> UnsavedRecord {
    let mut body = br#"{"metadata":{"resourceVersion":""},"data":""#.to_vec();
    let revision_offset = body.iter().position(|&byte| byte == b'}').unwrap() - 1;
    body.resize(BODY - 2, b'x');
    body.extend_from_slice(b"\"}");
    let mut unsaved = UnsavedRecord::new(body, revision_offset, "v1".into());
    unsaved.labels = Labels::new([("app", "shop"), ("pod-template-hash", "6b7f5d8c9")]);
    unsaved.fields = ["Running", "node-17"].into_iter().collect();
    unsaved.uid = "8f14e45f-ceea-467f-a8f1-3a1b2c4d5e6f".into();
    unsaved
}

fn key(n: u64) -> Key {
    Key::new(&format!("namespace-{}", n % 100), &format!("object-{n:08}"))
}

async fn fill(table: &Table) {
    for n in 0..OBJECTS {
        table.create(key(n), unsaved()).await.unwrap();
    }
}

fn report(name: &str, count: u64, elapsed: Duration) {
    let each = elapsed.as_secs_f64() / count as f64;
    println!("{name:<44}{:>12.0}/s {:>10.2} µs each", 1.0 / each, each * 1e6);
}

fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0_usize) * 4096
}

fn memory() {
    // A window of one event, to measure the objects only.
    let window = Window { events: 1, ..Window::default() };
    let store = Store::in_memory(&Options { window, ..Options::default() });
    let table = store.table("pods");
    let before = resident();
    single().block_on(fill(&table));
    let each = (resident() - before) / OBJECTS as usize;
    let (counted, body) = (table.bytes() / OBJECTS as usize, BODY + 6);
    println!("{:<44}{each:>12} B, {} B above the body", "bytes per object", each - body);
    println!("{:<44}{counted:>12} B", "bytes per object by own account");
}

fn write() {
    let store = Store::in_memory(&Options::default());
    let table = store.table("pods");
    let prepare = || (0..OBJECTS).map(|n| (key(n), unsaved())).collect::<Vec<_>>();
    single().block_on(async {
        let records = prepare();
        let start = Instant::now();
        for (key, unsaved) in records {
            table.create(key, unsaved).await.unwrap();
        }
        report("create in memory", OBJECTS, start.elapsed());

        let records = prepare();
        let start = Instant::now();
        for (key, unsaved) in records {
            let found = table.get(&key).unwrap();
            table.update(key, found.revision, unsaved).await.unwrap();
        }
        report("get and update in memory", OBJECTS, start.elapsed());

        let keys: Vec<_> = (0..OBJECTS).map(key).collect();
        let start = Instant::now();
        let found = keys.iter().filter(|key| table.get(key).is_some()).count();
        assert_eq!(found as u64, OBJECTS);
        report("get", OBJECTS, start.elapsed());
    });
}

fn list() {
    let store = Store::in_memory(&Options::default());
    let table = store.table("pods");
    single().block_on(fill(&table));
    let start = Instant::now();
    let page = table.list(Range::default(), None).unwrap();
    assert_eq!(page.items.len() as u64, OBJECTS);
    report("list of 100,000, per object", OBJECTS, start.elapsed());

    let start = Instant::now();
    let (mut after, mut pages, mut items) = (None, 0, 0);
    loop {
        let range = Range { after: after.as_ref(), limit: Some(500), ..Range::default() };
        let piece = table.list(range, Some(page.revision)).unwrap();
        pages += 1;
        items += piece.items.len() as u64;
        let Some(next) = piece.next else { break };
        let rest = Range { after: Some(&next), ..Range::default() };
        assert_eq!(table.count(rest, Some(page.revision)).unwrap() as u64, OBJECTS - items);
        after = Some(next);
    }
    report("page of 500 with count of the rest", pages, start.elapsed());

    let start = Instant::now();
    let range = Range { namespace: Some("namespace-7"), ..Range::default() };
    assert_eq!(table.list(range, None).unwrap().items.len(), 1000);
    report("list of a namespace of 1,000 in 100,000", 1, start.elapsed());
}

fn fan_out() {
    const WATCHERS: u64 = 1000;
    const EVENTS: u64 = 500;
    let run = |name: &str, runtime: &Runtime| {
        let store = Store::in_memory(&Options::default());
        let table = store.table("pods");
        runtime.block_on(async {
            let mut watchers = JoinSet::new();
            for _ in 0..WATCHERS {
                let mut watcher = table.watch(None, 1).unwrap();
                watchers.spawn(async move {
                    for _ in 0..EVENTS {
                        let event = watcher.next().await.unwrap();
                        assert!(event.frame(|event| event.record.body.clone()).len() > BODY);
                    }
                });
            }
            tokio::task::yield_now().await;
            let start = Instant::now();
            for n in 0..EVENTS {
                table.create(key(n), unsaved()).await.unwrap();
                // One event at a time: every watcher is woken for each.
                tokio::task::yield_now().await;
            }
            while let Some(done) = watchers.join_next().await {
                done.unwrap();
            }
            report(name, WATCHERS * EVENTS, start.elapsed());
        });
    };
    run("delivery to 1,000 watchers, one thread", &single());
    let two = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    run("delivery to 1,000 watchers, two threads", &two);
}

fn durable() {
    const WRITERS: u64 = 64;
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("bench-storage");
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    for (durability, name) in [
        (Durability::Disk, "durable create by 64 writers"),
        (Durability::Process, "durable create by 64 writers, no flush"),
    ] {
        drop(std::fs::remove_dir_all(&path));
        let options = Options { data_dir: Some(path.clone()), durability, ..Options::default() };
        let store = Store::open(&options).unwrap();
        let table = Arc::new(store.table("pods"));
        let start = Instant::now();
        runtime.block_on(async {
            let mut writers = JoinSet::new();
            for writer in 0..WRITERS {
                let table = table.clone();
                writers.spawn(async move {
                    for n in (writer..OBJECTS).step_by(WRITERS as usize) {
                        table.create(key(n), unsaved()).await.unwrap();
                    }
                });
            }
            while let Some(done) = writers.join_next().await {
                done.unwrap();
            }
        });
        report(name, OBJECTS, start.elapsed());
        drop((store, table));
        let start = Instant::now();
        assert_eq!(Store::open(&options).unwrap().table("pods").len() as u64, OBJECTS);
        report("reading back, per object", OBJECTS, start.elapsed());
    }
    drop(std::fs::remove_dir_all(&path));
}
