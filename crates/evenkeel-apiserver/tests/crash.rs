//! Kills a process that writes durably, repeatedly, and checks the store.
//!
//! The test runs itself as a child, which prints each write before it is sent and after it is
//! acknowledged. After each kill the store must contain every acknowledged write, no write that was
//! not attempted, and continue from a later revision.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

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

/// The state of a key: the last written value and the revision of that write.
type State = Option<(u64, u64)>;

fn options(path: &Path) -> Options {
    // A low threshold, so that kills also happen during snapshots and log rotation.
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

/// Prints one line for the parent; a kill may truncate it.
fn print_line(line: std::fmt::Arguments<'_>) {
    let text = format!("\n#{line}\n");
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).unwrap();
    out.flush().unwrap();
}

/// Creates, updates and deletes the keys of one writer in a loop.
async fn write(table: Table, writer: u64) {
    for step in 0.. {
        let name = format!("{writer}-{}", step % KEYS);
        let key = Key::new("default", &name);
        match table.get(&key) {
            Some(found) if step % 7 == 0 => {
                print_line(format_args!("try {name} gone"));
                let deleted = table.delete(key, found.revision, None).await.unwrap();
                print_line(format_args!("ack {name} gone {}", deleted.revision));
            }
            found => {
                let value = found.as_ref().map_or(0, |found| value(found.fields.get(0))) + 1;
                print_line(format_args!("try {name} {value}"));
                let written = match found {
                    None => table.create(key, unsaved(value)).await,
                    Some(found) => table.update(key, found.revision, unsaved(value)).await,
                };
                print_line(format_args!("ack {name} {value} {}", written.unwrap().revision));
            }
        }
    }
}

/// Not a test: the child process. Returns immediately unless the parent set the environment.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child() {
    let Some(path) = std::env::var_os(DATA_DIR) else { return };
    let store = Store::open(&options(Path::new(&path))).unwrap();
    let table = store.table("things");
    print_line(format_args!("up {}", store.revision()));
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        writers.spawn(write(table.clone(), writer));
    }
    writers.join_next().await;
}

/// The expected state of one key.
#[derive(Clone, Debug, Default)]
struct Known {
    acknowledged: State,
    /// The write that is not acknowledged yet: a value, or `None` for a deletion.
    attempt: Option<Option<u64>>,
}

#[derive(Default)]
struct AcknowledgedState {
    keys: BTreeMap<String, Known>,
    /// The highest acknowledged revision.
    revision: u64,
}

impl AcknowledgedState {
    fn record(&mut self, line: &str) {
        let words: Vec<_> = line.split(' ').collect();
        match words[..] {
            ["up", revision] => {
                let revision: u64 = revision.parse().unwrap();
                assert!(revision >= self.revision, "the revision decreased at startup");
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
            _ => panic!("unexpected line: {line}"),
        }
    }

    /// Compares the expected state with the store, and adopts the outcome of unacknowledged writes.
    fn check(&mut self, store: &Store) {
        assert!(store.revision() >= self.revision, "the revision decreased");
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
                assert!(attempted, "{name} is {state:?}, expected {known:?}");
            }
            *known = Known { acknowledged: state, attempt: None };
        }
        assert!(found.is_empty(), "unexpected keys: {found:?}");
        self.revision = store.revision();
    }
}

struct TempDir(PathBuf);

impl Drop for TempDir {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// Returns the test name of [`child`], which depends on the path of this module.
fn child_name() -> String {
    let module = module_path!().split_once("::").map(|(_, module)| format!("{module}::"));
    format!("{}child", module.unwrap_or_default())
}

#[test]
fn acknowledged_writes_survive_sigkill() {
    let name = format!("evenkeel-crash-{}", std::process::id());
    let temp_dir = TempDir(std::env::temp_dir().join(name));
    let mut state = AcknowledgedState::default();
    let mut acknowledged = 0;
    for round in 0..ROUNDS {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([&child_name(), "--exact", "--nocapture"])
            .env(DATA_DIR, &temp_dir.0)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // Kills happen at startup, during the first batch, and later.
        let mut countdown = (round * round * 7919) % 1500;
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while out.read_line(&mut line).unwrap() > 0 {
            // A line without a newline was truncated by the kill and does not count.
            if let Some(event) = line.strip_prefix('#').and_then(|event| event.strip_suffix('\n')) {
                state.record(event);
                acknowledged += u64::from(event.starts_with("ack"));
            }
            line.clear();
            if countdown == 0 {
                child.kill().unwrap();
            }
            countdown = countdown.wrapping_sub(1);
        }
        child.wait().unwrap();
        assert!(countdown > ROUNDS * 1500, "the child exited by itself in round {round}");
        state.check(&Store::open(&options(&temp_dir.0)).unwrap());
    }
    assert!(acknowledged > ROUNDS, "too few writes for a meaningful test");
}
