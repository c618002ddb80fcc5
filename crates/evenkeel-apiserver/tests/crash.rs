//! Kills a process that writes durably, again and again, and looks at what is left.
//!
//! The test runs itself as a child, which tells through its standard output what it is about to
//! write and what has been acknowledged. After each kill the store must hold every acknowledged
//! write, nothing that was not at least attempted, and go on from a later revision.

#![expect(clippy::unwrap_used, clippy::panic, reason = "that is how a test fails")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use evenkeel_apiserver::storage::{Key, Options, Range, Store, Table, UnsavedRecord};
use tokio::task::JoinSet;

const DATA_DIR: &str = "EVENKEEL_CRASH_TEST_DATA_DIR";
const ROUNDS: u64 = 40;
const WRITERS: u64 = 16;
const KEYS: u64 = 2;

/// What a key holds: the value last written to it and the revision of that write.
type State = Option<(u64, u64)>;

fn options(path: &Path) -> Options {
    // A low floor, so that kills also meet snapshots and changes of log.
    Options { data_dir: Some(path.to_owned()), snapshot_floor: 1 << 10, ..Options::default() }
}

fn unsaved(value: u64) -> UnsavedRecord {
    let body = format!(r#"{{"value":{value},"resourceVersion":""}}"#).into_bytes();
    let revision_offset = body.len() - 2;
    let mut unsaved = UnsavedRecord::new(body, revision_offset, "v1".into());
    unsaved.fields = [value.to_string()].into_iter().collect();
    unsaved
}

fn value(fields: Option<&str>) -> u64 {
    fields.and_then(|value| value.parse().ok()).unwrap()
}

/// One line to the parent, whole or, if the kill comes first, without its end.
fn tell(line: std::fmt::Arguments<'_>) {
    let text = format!("\n#{line}\n");
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).unwrap();
    out.flush().unwrap();
}

/// Writes its own keys for ever, in turn creating, updating and deleting them.
async fn write(table: Table, writer: u64) {
    for step in 0.. {
        let name = format!("{writer}-{}", step % KEYS);
        let key = Key::new("default", &name);
        match table.get(&key) {
            Some(found) if step % 7 == 0 => {
                tell(format_args!("try {name} gone"));
                let gone = table.delete(key, found.revision, None).await.unwrap();
                tell(format_args!("ack {name} gone {}", gone.revision));
            }
            found => {
                let value = found.as_ref().map_or(0, |found| value(found.fields.get(0))) + 1;
                tell(format_args!("try {name} {value}"));
                let written = match found {
                    None => table.create(key, unsaved(value)).await,
                    Some(found) => table.update(key, found.revision, unsaved(value)).await,
                };
                tell(format_args!("ack {name} {value} {}", written.unwrap().revision));
            }
        }
    }
}

/// Not a test: what the parent runs and kills. Without its environment it has nothing to do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child() {
    let Some(path) = std::env::var_os(DATA_DIR) else { return };
    let store = Store::open(&options(Path::new(&path))).unwrap();
    let table = store.table("things");
    tell(format_args!("up {}", store.revision()));
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        writers.spawn(write(table.clone(), writer));
    }
    writers.join_next().await;
}

/// What is known of one key.
#[derive(Clone, Debug, Default)]
struct Known {
    acknowledged: State,
    /// What is being written and not acknowledged yet: a value, or none for a deletion.
    attempt: Option<Option<u64>>,
}

#[derive(Default)]
struct World {
    keys: BTreeMap<String, Known>,
    /// The highest revision ever heard of.
    revision: u64,
}

impl World {
    fn hear(&mut self, line: &str) {
        let words: Vec<_> = line.split(' ').collect();
        match words[..] {
            ["up", revision] => {
                let revision: u64 = revision.parse().unwrap();
                assert!(revision >= self.revision, "the revision went back at the start");
            }
            ["try", name, value] => {
                self.keys.entry(name.to_owned()).or_default().attempt = Some(value.parse().ok());
            }
            ["ack", name, value, revision] => {
                let revision = revision.parse().unwrap();
                let known = self.keys.get_mut(name).unwrap();
                known.attempt = None;
                known.acknowledged = value.parse().ok().map(|value| (value, revision));
                self.revision = self.revision.max(revision);
            }
            _ => panic!("unheard of: {line}"),
        }
    }

    /// Compares what is known with what is there, and takes over what was undecided.
    fn check(&mut self, store: &Store) {
        assert!(store.revision() >= self.revision, "the revision went back");
        let page = store.table("things").list(Range::default(), None).unwrap();
        let mut found: BTreeMap<_, _> = page
            .items
            .iter()
            .map(|record| {
                let value = value(record.fields.get(0));
                let revision = record.revision;
                let body = format!(r#"{{"value":{value},"resourceVersion":"{revision}"}}"#);
                assert_eq!(record.body, body);
                (record.key.name().to_owned(), (value, revision))
            })
            .collect();
        for (name, known) in &mut self.keys {
            let state = found.remove(name);
            if state != known.acknowledged {
                let before = known.acknowledged.map_or(0, |(_, revision)| revision);
                let attempted = known.attempt == Some(state.map(|(value, _)| value))
                    && state.is_none_or(|(_, revision)| revision > before);
                assert!(attempted, "{name} is {state:?}, and should be {known:?}");
            }
            *known = Known { acknowledged: state, attempt: None };
        }
        assert!(found.is_empty(), "nobody wrote {found:?}");
        self.revision = store.revision();
    }
}

struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// The name under which the test harness knows [`child`], wherever this module lies.
fn child_name() -> String {
    let module = module_path!().split_once("::").map(|(_, module)| format!("{module}::"));
    format!("{}child", module.unwrap_or_default())
}

#[test]
fn acknowledged_writes_survive_sigkill() {
    let name = format!("evenkeel-crash-{}", std::process::id());
    let scratch = Scratch(std::env::temp_dir().join(name));
    let mut world = World::default();
    let mut acknowledged = 0;
    for round in 0..ROUNDS {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([&child_name(), "--exact", "--nocapture"])
            .env(DATA_DIR, &scratch.0)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // Kills fall on the start, the first batch, and everywhere behind.
        let mut patience = (round * round * 7919) % 1500;
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while out.read_line(&mut line).unwrap() > 0 {
            // A line without its end was cut off by the kill: nobody was told.
            if let Some(news) = line.strip_prefix('#').and_then(|news| news.strip_suffix('\n')) {
                world.hear(news);
                acknowledged += u64::from(news.starts_with("ack"));
            }
            line.clear();
            if patience == 0 {
                child.kill().unwrap();
            }
            patience = patience.wrapping_sub(1);
        }
        child.wait().unwrap();
        assert!(patience > ROUNDS * 1500, "the child ended by itself in round {round}");
        world.check(&Store::open(&options(&scratch.0)).unwrap());
    }
    assert!(acknowledged > ROUNDS, "too little was written to tell anything");
}
