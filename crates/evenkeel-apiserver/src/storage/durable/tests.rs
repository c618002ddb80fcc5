//! Hazards of a disk: torn writes, flipped bits, missing files, failing writes.

mod crashes;

mod dropped_requests;

mod model;

use std::fs::{self, File};
use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use tokio::task::JoinSet;
use tower_service::Service as _;

use super::codec::put_event;
use super::dir::Contents;
use super::disk::DiskFile;
use super::log::{Log, Medium};
use super::*;
use crate::ApiServer;
use crate::storage::tests::unsaved;
use crate::storage::write::Change;
use crate::storage::{
    Compacted, Inner, Key, Labels, Range, Record, Store, Table, WriteError, Writer,
};

/// A temporary directory, removed when dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("evenkeel-storage-{}-{count}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// Copies the files to a new directory.
    fn copy(&self) -> Self {
        let copy = Self::new();
        for entry in fs::read_dir(&self.0).unwrap() {
            let entry = entry.unwrap();
            fs::copy(entry.path(), copy.0.join(entry.file_name())).unwrap();
        }
        copy
    }

    fn options(&self) -> Options {
        Options {
            data_dir: Some(self.0.clone()),
            // No test needs a flush, and there are many.
            durability: Durability::Process,
            ..Options::default()
        }
    }

    fn open(&self) -> Store {
        Store::open(&self.options()).unwrap()
    }

    fn error(&self) -> OpenError {
        Store::open(&self.options()).unwrap_err()
    }

    fn contents(&self) -> Contents {
        Contents::of(&self.0).unwrap()
    }

    /// Returns the only log, as bytes.
    fn log(&self) -> (PathBuf, Vec<u8>) {
        let logs = self.contents().logs;
        assert_eq!(logs.len(), 1);
        let path = dir::log_path(&self.0, logs[0]);
        let bytes = fs::read(&path).unwrap();
        (path, bytes)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

fn all(table: &Table) -> Vec<String> {
    let page = table.list(Range::default(), None).unwrap();
    page.items.iter().map(|record| format!("{record:?}")).collect()
}

async fn create(table: &Table, name: &str) -> Arc<Record> {
    table.create(Key::new("a", name), unsaved(0)).await.unwrap()
}

#[tokio::test]
async fn acknowledged_writes_survive_reopening() {
    let scratch = Scratch::new();
    let store = scratch.open();
    let (pods, nodes) = (store.table("pods"), store.table("nodes"));
    let mut full = unsaved(1);
    full.labels = Labels::new([("app", "shop"), ("tier", "web")]);
    full.fields = ["Running", "node-1"].into_iter().collect();
    full.epoch = 3;
    full.uid = "uid-1".into();
    let first = pods.create(Key::new("a", "x"), full.clone()).await.unwrap();
    pods.update(Key::new("a", "x"), first.revision, full).await.unwrap();
    nodes.create(Key::new("", "n"), unsaved(2)).await.unwrap();
    let gone = create(&pods, "gone").await;
    pods.delete(gone.key.clone(), gone.revision, None).await.unwrap();
    let before = (all(&pods), all(&nodes), store.revision());
    assert_eq!((before.0.len(), before.1.len(), before.2), (1, 1, 6));
    drop((store, pods, nodes));

    let store = scratch.open();
    let (pods, nodes) = (store.table("pods"), store.table("nodes"));
    assert_eq!((all(&pods), all(&nodes), store.revision()), before);
    assert_eq!(pods.len(), 1);
    let again = pods.get(&Key::new("a", "x")).unwrap();
    assert_eq!((again.create_revision, again.labels.get("tier")), (2, Some("web")));
}

#[tokio::test]
async fn revisions_continue_after_everything_was_deleted() {
    let scratch = Scratch::new();
    let store = scratch.open();
    let table = store.table("pods");
    let record = create(&table, "x").await;
    table.delete(record.key.clone(), record.revision, None).await.unwrap();
    drop((store, table));
    let store = scratch.open();
    assert_eq!(store.revision(), 3);
    assert_eq!(create(&store.table("pods"), "x").await.revision, 4);
}

#[tokio::test]
async fn restart_compacts_earlier_revisions() {
    let scratch = Scratch::new();
    create(&scratch.open().table("pods"), "x").await;
    create(&scratch.open().table("pods"), "y").await;
    let store = scratch.open();
    let table = store.table("pods");
    let compacted = Compacted { compacted: 3, current: 3 };
    assert_eq!(table.watch(None, 2).unwrap_err(), compacted);
    assert_eq!(store.table("new").watch(None, 2).unwrap_err(), compacted);
    let mut watcher = table.watch(None, 3).unwrap();
    create(&table, "z").await;
    assert_eq!(watcher.next().await.unwrap().revision(), 4);
}

#[tokio::test]
async fn start_revision_only_moves_forward() {
    let scratch = Scratch::new();
    for (start, expected) in [(10, 11), (5, 12), (100, 101), (1, 102)] {
        let options = Options { start_revision: start, ..scratch.options() };
        let store = Store::open(&options).unwrap();
        let record = create(&store.table("pods"), &start.to_string()).await;
        assert_eq!(record.revision, expected);
    }
    assert_eq!(scratch.open().table("pods").len(), 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn conditions_hold_within_a_batch() {
    const WRITERS: usize = 64;
    let scratch = Scratch::new();
    let store = scratch.open();
    let table = store.table("pods");
    let mut tasks = JoinSet::new();
    for _ in 0..WRITERS {
        let table = table.clone();
        tasks.spawn(async move {
            let key = Key::new("a", "contended");
            let created = table.create(key.clone(), unsaved(0)).await;
            let mut found = match created {
                Ok(record) => record,
                Err(WriteError::Exists(record)) => record,
                Err(other) => panic!("{other}"),
            };
            loop {
                match table.update(key.clone(), found.revision, unsaved(1)).await {
                    Ok(record) => return record.revision,
                    Err(WriteError::Conflict(Some(record))) => found = record,
                    Err(other) => panic!("{other}"),
                }
            }
        });
    }
    let mut revisions = Vec::new();
    while let Some(revision) = tasks.join_next().await {
        revisions.push(revision.unwrap());
    }
    revisions.sort_unstable();
    let expected: Vec<_> = (3..3 + WRITERS as u64).collect();
    assert_eq!(revisions, expected, "one create, then each update once");
    let last = store.revision();
    drop((store, table));
    let store = scratch.open();
    assert_eq!(store.revision(), last);
    assert_eq!(store.table("pods").get(&Key::new("a", "contended")).unwrap().revision, last);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_writers_than_queue_slots_all_complete() {
    const WRITERS: u64 = 5000;
    let scratch = Scratch::new();
    let store = scratch.open();
    let mut tasks = JoinSet::new();
    for n in 0..WRITERS {
        let table = store.table("pods");
        tasks.spawn(async move { create(&table, &n.to_string()).await.revision });
    }
    let mut revisions = tasks.join_all().await;
    revisions.sort_unstable();
    assert!(revisions.into_iter().eq(2..2 + WRITERS));
}

#[tokio::test]
async fn directory_can_be_opened_once() {
    let scratch = Scratch::new();
    let store = scratch.open();
    assert!(matches!(scratch.error(), OpenError::InUse(path) if path == scratch.0));
    drop(store);
    scratch.open();
}

#[tokio::test]
async fn torn_tail_is_truncated_at_any_offset() {
    let scratch = Scratch::new();
    let table = scratch.open().table("pods");
    create(&table, "kept").await;
    drop(table);
    let whole = scratch.log().1.len();
    // As after a crash before the second write was acknowledged.
    let acknowledged = fs::read(scratch.0.join("acknowledged")).unwrap();
    create(&scratch.open().table("pods"), "torn").await;
    fs::write(scratch.0.join("acknowledged"), acknowledged).unwrap();
    let (path, bytes) = scratch.log();
    let name = path.file_name().unwrap();
    // Missing tails, and tails that the file system allocated but never wrote.
    let missing = (whole..bytes.len()).map(|end| bytes[..end].to_vec());
    let zeroed = (whole..bytes.len()).map(|end| {
        let mut torn = bytes.clone();
        torn[end..].fill(0);
        torn
    });
    for torn in missing.chain(zeroed) {
        let copy = scratch.copy();
        fs::write(copy.0.join(name), &torn).unwrap();
        let store = copy.open();
        let table = store.table("pods");
        assert!(table.get(&Key::new("a", "kept")).is_some());
        assert!(table.get(&Key::new("a", "torn")).is_none());
        assert_eq!(store.revision(), 2);
        assert_eq!(create(&table, "new").await.revision, 3);
        drop((store, table));
        assert_eq!(copy.open().table("pods").len(), 2, "writes after a truncation are kept");
    }
}

#[tokio::test]
async fn log_truncated_anywhere_recovers_a_past_state() {
    let scratch = Scratch::new();
    let table = scratch.open().table("pods");
    let header = scratch.log().1.len();
    let mut past = vec![(1, Vec::new())];
    for step in 0..40_u64 {
        let key = Key::new("a", &(step % 5).to_string());
        let written = match table.get(&key) {
            None => table.create(key, unsaved(step)).await,
            Some(found) if step % 3 == 0 => table.delete(key, found.revision, None).await,
            Some(found) => table.update(key, found.revision, unsaved(step)).await,
        };
        past.push((written.unwrap().revision, all(&table)));
    }
    drop(table);
    let (path, bytes) = scratch.log();
    let mut cut_short = 0;
    for end in (header..=bytes.len()).rev().step_by(11) {
        fs::write(&path, &bytes[..end]).unwrap();
        // Without the file no commit is known to be acknowledged.
        fs::remove_file(scratch.0.join("acknowledged")).unwrap();
        let store = scratch.open();
        let state = (store.revision(), all(&store.table("pods")));
        assert!(past.contains(&state), "{state:?}");
        cut_short += usize::from(state != past[past.len() - 1]);
    }
    assert!(cut_short > 300);
}

#[tokio::test]
async fn corruption_in_the_middle_is_an_error_with_path_and_offset() {
    let scratch = Scratch::new();
    let table = scratch.open().table("pods");
    let start = scratch.log().1.len();
    create(&table, "damaged").await;
    let end = scratch.log().1.len();
    create(&table, "behind").await;
    drop(table);
    let (path, bytes) = scratch.log();
    for position in start..end {
        let mut damaged = bytes.clone();
        damaged[position] ^= 0x10;
        fs::write(&path, &damaged).unwrap();
        match scratch.error() {
            OpenError::Corrupt { path: named, offset, .. } => {
                assert_eq!((named, offset), (path.clone(), start as u64));
            }
            other => panic!("{other}"),
        }
        assert_eq!(fs::read(&path).unwrap(), damaged, "nothing was truncated");
    }
    fs::write(&path, &bytes).unwrap();
    assert_eq!(scratch.open().table("pods").len(), 2);
}

#[tokio::test]
async fn corruption_of_the_last_acknowledged_commit_is_an_error() {
    let scratch = Scratch::new();
    let start = {
        let store = scratch.open();
        let start = scratch.log().1.len();
        create(&store.table("pods"), "last").await;
        start
    };
    let (path, bytes) = scratch.log();
    let flipped = (start..bytes.len()).map(|position| {
        let mut damaged = bytes.clone();
        damaged[position] ^= 0x10;
        damaged
    });
    let shortened = (start + 1..bytes.len()).map(|end| bytes[..end].to_vec());
    for damaged in flipped.chain(shortened) {
        fs::write(&path, &damaged).unwrap();
        match scratch.error() {
            OpenError::Corrupt { path: named, offset, reason } => {
                assert_eq!((named, offset), (path.clone(), start as u64));
                assert!(reason.contains("acknowledged"), "{reason}");
            }
            other => panic!("{other}"),
        }
        assert_eq!(fs::read(&path).unwrap(), damaged, "nothing was truncated");
    }
    fs::write(&path, &bytes[..start]).unwrap();
    let missing = scratch.error();
    assert!(matches!(missing, OpenError::Missing { last: 1, acknowledged: 2, .. }), "{missing}");
    fs::write(&path, &bytes).unwrap();
    assert_eq!(scratch.open().table("pods").len(), 1);
}

#[tokio::test]
async fn a_removed_log_is_an_error() {
    let scratch = Scratch::new();
    create(&scratch.open().table("pods"), "x").await;
    fs::remove_file(scratch.log().0).unwrap();
    let missing = scratch.error();
    assert!(matches!(missing, OpenError::Missing { last: 0, acknowledged: 2, .. }), "{missing}");
    // Even if the acknowledged revision is unknown.
    fs::write(scratch.0.join("acknowledged"), "rubbish").unwrap();
    let missing = scratch.error();
    assert!(matches!(missing, OpenError::Missing { acknowledged: 0, .. }), "{missing}");
}

#[cfg(unix)]
#[tokio::test]
async fn directory_and_files_are_private_to_the_owner() {
    use std::os::unix::fs::PermissionsExt as _;
    let scratch = Scratch::new();
    let set = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode));
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let files = || fs::read_dir(&scratch.0).unwrap().map(|entry| entry.unwrap().path());
    let owned = || {
        assert_eq!(mode(&scratch.0), 0o700);
        files().for_each(|file| assert_eq!(mode(&file), 0o600, "{}", file.display()));
    };
    set(&scratch.0, 0o755).unwrap();
    let store = Store::open(&small_floor(&scratch)).unwrap();
    write_until_snapshot(&scratch, &store.table("pods")).await;
    drop(store);
    owned();
    assert_eq!(files().count(), 4, "lock, acknowledged, a snapshot and a log");
    // Permissions of an earlier version.
    set(&scratch.0, 0o755).unwrap();
    files().for_each(|file| set(&file, 0o644).unwrap());
    scratch.open();
    owned();

    let shared = Scratch::new();
    fs::write(shared.0.join("notes"), "of the user").unwrap();
    set(&shared.0, 0o755).unwrap();
    shared.open();
    assert_eq!(mode(&shared.0), 0o755, "a directory with other files is not changed");
    let below = shared.0.join("a/b");
    Store::open(&Options { data_dir: Some(below.clone()), ..shared.options() }).unwrap();
    assert_eq!([mode(&below), mode(&shared.0.join("a"))], [0o700; 2]);
}

/// Writes until a snapshot has replaced the first log. Returns the last record.
async fn write_until_snapshot(scratch: &Scratch, table: &Table) -> Arc<Record> {
    let key = Key::new("a", "x");
    let mut record = table.create(key.clone(), unsaved(0)).await.unwrap();
    loop {
        let contents = scratch.contents();
        if !contents.snapshots.is_empty() && contents.logs.len() == 1 {
            return record;
        }
        record = table.update(key.clone(), record.revision, unsaved(1)).await.unwrap();
    }
}

fn small_floor(scratch: &Scratch) -> Options {
    Options { snapshot_floor: 4096, ..scratch.options() }
}

#[tokio::test]
async fn snapshot_replaces_a_log_that_outgrew_the_data() {
    let scratch = Scratch::new();
    let store = Store::open(&small_floor(&scratch)).unwrap();
    let (table, nodes) = (store.table("pods"), store.table("nodes"));
    let node = nodes.create(Key::new("", "n"), unsaved(7)).await.unwrap();
    let record = write_until_snapshot(&scratch, &table).await;
    let before = (all(&table), all(&nodes), store.revision());
    drop((store, table, nodes));
    let store = scratch.open();
    let (table, nodes) = (store.table("pods"), store.table("nodes"));
    assert_eq!((all(&table), all(&nodes), store.revision()), before);
    assert_eq!(nodes.get(&node.key).unwrap().revision, node.revision);
    let next = table.update(record.key.clone(), record.revision, unsaved(2)).await.unwrap();
    assert_eq!(next.revision, record.revision + 1);
}

#[tokio::test]
async fn leftover_files_of_a_snapshot_are_removed() {
    let scratch = Scratch::new();
    let store = Store::open(&small_floor(&scratch)).unwrap();
    let (first_log, _) = scratch.log();
    let table = store.table("pods");
    create(&table, "y").await;
    let old = fs::read(&first_log).unwrap();
    write_until_snapshot(&scratch, &table).await;
    let before = (all(&table), store.revision());
    drop((store, table));
    let newest = *scratch.contents().snapshots.last().unwrap();
    fs::write(&first_log, old).unwrap();
    fs::write(dir::snapshot_path(&scratch.0, 1), b"old").unwrap();
    fs::write(scratch.0.join("snapshot-00000000000000009999.tmp"), b"half").unwrap();
    let store = scratch.open();
    assert_eq!((all(&store.table("pods")), store.revision()), before);
    let contents = scratch.contents();
    assert_eq!(contents.snapshots, [newest]);
    assert!(contents.logs.iter().all(|&base| base >= newest), "{contents:?}");
    // The lock and the acknowledged file.
    let files = contents.snapshots.len() + contents.logs.len() + 2;
    assert_eq!(fs::read_dir(&scratch.0).unwrap().count(), files, "no temporary file is left");
}

#[tokio::test]
async fn corrupt_snapshot_or_missing_log_is_an_error() {
    let scratch = Scratch::new();
    let store = Store::open(&small_floor(&scratch)).unwrap();
    write_until_snapshot(&scratch, &store.table("pods")).await;
    drop(store);
    let newest = *scratch.contents().snapshots.last().unwrap();
    let path = dir::snapshot_path(&scratch.0, newest);
    let bytes = fs::read(&path).unwrap();
    for position in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[position] ^= 1;
        fs::write(&path, &damaged).unwrap();
        assert!(matches!(scratch.error(), OpenError::Corrupt { path: named, .. } if named == path));
        fs::write(&path, &bytes[..position]).unwrap();
        assert!(matches!(scratch.error(), OpenError::Corrupt { path: named, .. } if named == path));
    }
    fs::write(&path, &bytes).unwrap();
    for base in scratch.contents().logs {
        fs::remove_file(dir::log_path(&scratch.0, base)).unwrap();
    }
    assert!(matches!(scratch.error(), OpenError::NoLog { after, .. } if after == newest));
}

/// Creates three consecutive logs without a snapshot, as if the process ended before each snapshot.
async fn three_logs(scratch: &Scratch) {
    for _ in 0..3 {
        let options = scratch.options();
        let shared = Arc::new(Shared::new(&options));
        let dir = Dir::open(&scratch.0).unwrap();
        let mut log = recover::recover(dir, &shared, 1, options.durability).unwrap();
        let revision = shared.revision();
        if revision > 1 {
            log.rotate(revision).unwrap();
        }
        append(&mut log, &format!("after-{revision}"), revision + 1);
    }
    assert_eq!(scratch.contents().logs, [1, 2, 3]);
}

fn append(log: &mut Log, name: &str, revision: u64) {
    let event = Change::Create(unsaved(0)).decide(&Key::new("a", name), None, revision).unwrap();
    log.begin(revision);
    put_event(&mut log.buffer, "pods", &event);
    log.commit().unwrap();
}

#[tokio::test]
async fn logs_without_a_snapshot_are_replayed_in_order() {
    let scratch = Scratch::new();
    three_logs(&scratch).await;
    let store = scratch.open();
    assert_eq!((store.revision(), store.table("pods").len()), (4, 3));
    create(&store.table("pods"), "x").await;
    drop(store);
    assert_eq!(scratch.open().revision(), 5);
}

#[tokio::test]
async fn missing_or_truncated_log_in_the_sequence_is_an_error() {
    let scratch = Scratch::new();
    three_logs(&scratch).await;
    for base in [1, 2] {
        let copy = scratch.copy();
        let path = dir::log_path(&copy.0, base);
        let length = fs::metadata(&path).unwrap().len();
        File::options().write(true).open(&path).unwrap().set_len(length - 1).unwrap();
        assert!(matches!(copy.error(), OpenError::Corrupt { path: named, .. } if named == path));
        fs::remove_file(&path).unwrap();
        let behind = dir::log_path(&copy.0, base + 1);
        assert!(matches!(copy.error(), OpenError::Corrupt { path: named, .. } if named == behind));
    }
}

#[tokio::test]
async fn failed_snapshot_does_not_block_writes() {
    let scratch = Scratch::new();
    let store = Store::open(&small_floor(&scratch)).unwrap();
    let table = store.table("pods");
    let key = Key::new("a", "x");
    // A directory blocks the temporary file of each snapshot.
    let blocks: Vec<_> = (1..400)
        .map(|revision| dir::snapshot_path(&scratch.0, revision).with_added_extension("tmp"))
        .collect();
    blocks.iter().for_each(|block| fs::create_dir(block).unwrap());
    let mut record = table.create(key.clone(), unsaved(0)).await.unwrap();
    for _ in 0..300 {
        record = table.update(key.clone(), record.revision, unsaved(1)).await.unwrap();
    }
    let contents = scratch.contents();
    assert!(contents.snapshots.is_empty() && contents.logs.len() > 1, "{contents:?}");
    blocks.iter().for_each(|block| fs::remove_dir(block).unwrap());
    table.delete(key, record.revision, None).await.unwrap();
    write_until_snapshot(&scratch, &table).await;
    let before = (all(&table), store.revision());
    drop((store, table));
    let store = scratch.open();
    assert_eq!((all(&store.table("pods")), store.revision()), before);
}

#[tokio::test]
async fn failed_log_rotation_does_not_block_writes() {
    let scratch = Scratch::new();
    let store = Store::open(&small_floor(&scratch)).unwrap();
    let table = store.table("pods");
    // A directory blocks the temporary file of each next log.
    for revision in 2..400 {
        let block = dir::log_path(&scratch.0, revision).with_added_extension("tmp");
        fs::create_dir(block).unwrap();
    }
    let key = Key::new("a", "x");
    let mut record = table.create(key.clone(), unsaved(0)).await.unwrap();
    for _ in 0..300 {
        record = table.update(key.clone(), record.revision, unsaved(1)).await.unwrap();
    }
    assert!(store.failure().is_none());
    assert_eq!(scratch.contents().logs, [1]);
    for revision in 2..400 {
        let block = dir::log_path(&scratch.0, revision).with_added_extension("tmp");
        fs::remove_dir(block).unwrap();
    }
    drop((store, table));
    assert_eq!(scratch.open().revision(), record.revision);
}

/// A disk that accepts a limited number of bytes and syncs.
struct Faulty {
    file: DiskFile,
    left: Arc<Left>,
}

struct Left {
    bytes: AtomicUsize,
    syncs: AtomicUsize,
}

impl Left {
    fn new(bytes: usize, syncs: usize) -> Arc<Self> {
        Arc::new(Self { bytes: bytes.into(), syncs: syncs.into() })
    }

    fn refill(&self) {
        self.bytes.store(1 << 20, Ordering::Relaxed);
        self.syncs.store(1 << 20, Ordering::Relaxed);
    }
}

impl Write for Faulty {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let left = self.left.bytes.load(Ordering::Relaxed);
        let room = left.min(bytes.len());
        self.left.bytes.store(left - room, Ordering::Relaxed);
        if room == 0 {
            Err(io::ErrorKind::StorageFull.into())
        } else {
            self.file.write(&bytes[..room])
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Medium for Faulty {
    fn sync(&mut self) -> io::Result<()> {
        let left = self.left.syncs.load(Ordering::Relaxed);
        let left = left.checked_sub(1).ok_or_else(|| io::Error::other("bad sector"))?;
        self.left.syncs.store(left, Ordering::Relaxed);
        Ok(())
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.file.truncate(length)
    }
}

/// Opens the store on a failing disk.
fn open_faulty(scratch: &Scratch, left: Arc<Left>) -> Store {
    let options = Options { durability: Durability::Disk, ..scratch.options() };
    let shared = Arc::new(Shared::new(&options));
    let dir = Dir::open(&scratch.0).unwrap();
    let mut log = recover::recover(dir, &shared, 1, options.durability).unwrap();
    let file = DiskFile::append(log.path()).unwrap();
    log.redirect(Box::new(Faulty { file, left }));
    let committer = Committer::start(shared.clone(), log, options.snapshot_floor).unwrap();
    Store { inner: Arc::new(Inner { shared, writer: Writer::Disk(committer) }) }
}

#[tokio::test]
async fn writes_are_refused_while_the_disk_fails_and_accepted_afterwards() {
    for (bytes, syncs, cause) in [(300, 9, "no storage space"), (1 << 20, 1, "bad sector")] {
        let scratch = Scratch::new();
        let left = Left::new(bytes, syncs);
        let store = open_faulty(&scratch, left.clone());
        let table = store.table("pods");
        let mut watcher = table.watch(None, 1).unwrap();
        create(&table, "x").await;
        assert!(store.failure().is_none());
        for n in 0..3 {
            let name = format!("{n}-{}", "y".repeat(200));
            let refused = table.create(Key::new("a", &name), unsaved(0)).await.unwrap_err();
            let full = matches!(refused, WriteError::NoSpace(_));
            assert_eq!(full, cause == "no storage space", "{refused}");
            let reason = refused.to_string();
            assert!(reason.contains("log-") && reason.contains(cause), "{reason}");
            assert_eq!(store.failure().unwrap().to_string(), reason);
        }
        assert_eq!((table.len(), store.revision()), (1, 2), "failed writes are never visible");
        assert_eq!(watcher.next().await.unwrap().revision(), 2);
        assert_eq!(watcher.try_next().unwrap().map(|event| event.revision()), None);
        let copy = scratch.copy();
        assert!(copy.open().table("pods").get(&Key::new("a", "x")).is_some());

        left.refill();
        assert_eq!(create(&table, "y").await.revision, 3);
        assert!(store.failure().is_none());
        assert_eq!(watcher.next().await.unwrap().revision(), 3);
        drop((store, table));
        let store = scratch.open();
        assert_eq!((store.table("pods").len(), store.revision()), (2, 3));
    }
}

#[tokio::test]
async fn freed_space_is_detected_without_a_write() {
    let scratch = Scratch::new();
    let left = Left::new(300, 9);
    let store = open_faulty(&scratch, left.clone());
    let table = store.table("pods");
    let name = "y".repeat(400);
    table.create(Key::new("a", &name), unsaved(0)).await.unwrap_err();
    assert!(store.failure().is_some());
    left.refill();
    let noticed = async {
        while store.failure().is_some() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(60), noticed).await.unwrap();
    drop((store, table));
    assert_eq!(scratch.open().revision(), 1, "a probe leaves nothing behind");
}

/// Sends a request to a server; returns the status code and the body.
async fn send(server: &ApiServer, method: &str, path: &str, body: &str) -> (u16, String) {
    let request = http::Request::builder().method(method).uri(path);
    let request = request.header("content-type", "application/json");
    let request = request.body(Full::<Bytes>::from(body.to_owned())).unwrap();
    let response = server.service().call(request).await.unwrap();
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn health_checks_fail_while_the_disk_is_full() {
    let scratch = Scratch::new();
    let left = Left::new(1 << 20, 1 << 20);
    let store = open_faulty(&scratch, left.clone());
    let server = ApiServer::builder().build_on(store, None).await.unwrap();
    assert_eq!(send(&server, "GET", "/readyz", "").await, (200, "ok".to_owned()));
    left.bytes.store(0, Ordering::Relaxed);
    let object = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}"#;
    let path = "/api/v1/namespaces/default/configmaps";
    let (status, body) = send(&server, "POST", path, object).await;
    assert_eq!(status, 500);
    assert!(body.contains("etcdserver: mvcc: database space exceeded"), "{body}");
    assert_eq!(send(&server, "GET", path, "").await.0, 200, "reads continue");
    for endpoint in ["readyz", "livez", "healthz"] {
        let (status, body) = send(&server, "GET", &format!("/{endpoint}"), "").await;
        assert_eq!(status, 500);
        assert!(body.starts_with("[+]ping ok\n[+]log ok\n"), "{body}");
        assert!(body.contains("\n[-]etcd failed: reason withheld\n"), "{body}");
        assert!(body.ends_with(&format!("{endpoint} check failed\n")), "{body}");
    }
    let (status, body) = send(&server, "GET", "/readyz/etcd", "").await;
    assert_eq!(status, 500);
    assert!(body.starts_with("internal server error: no space left"), "{body}");
    let without = "/readyz?exclude=etcd&exclude=etcd-readiness";
    assert_eq!(send(&server, "GET", without, "").await.0, 200);
    left.refill();
    let noticed = async {
        while send(&server, "GET", "/readyz", "").await.0 != 200 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(60), noticed).await.unwrap();
    assert_eq!(send(&server, "POST", path, object).await.0, 201);
}

#[tokio::test]
async fn closing_waits_for_queued_writes() {
    let scratch = Scratch::new();
    let store = scratch.open();
    let table = store.table("pods");
    {
        // Polled once, then dropped: the write is queued, but the reply is not awaited.
        let mut write = std::pin::pin!(table.create(Key::new("a", "x"), unsaved(0)));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        let _ = write.as_mut().poll(&mut context);
    }
    drop((store, table));
    assert_eq!(scratch.open().table("pods").len(), 1);
}
