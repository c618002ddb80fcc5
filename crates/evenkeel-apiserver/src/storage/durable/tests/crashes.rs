//! Crashes at every step of commit, compaction and recovery, and damaged tails of the log.
//!
//! A run records every change of the data directory. Each of these changes is a failpoint: the run is
//! cut before, within or after it, the disk loses what a crash may lose, and the store is opened
//! again, up to three times in a row, so that recoveries are cut, too. `cargo xtask campaign durability
//! 0..10000` runs many seeds.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use evenkeel_types::random::SplitMix64;
use parking_lot::Mutex;

use super::super::committer::Inline;
use super::super::disk::recorded::{self, Change, Recording};
use super::super::{Dir, Durability, recover};
use super::model::{Crash, Disk, below};
use super::{all, unsaved};
use crate::storage::write::Change as Write;
use crate::storage::{Inner, Key, Options, Shared, Store, Writer};

/// The crashes in a row.
const DEPTH: usize = 3;

const TABLES: [&str; 2] = ["pods", "nodes"];

/// The objects of all tables.
type State = Vec<String>;

/// What happened in a run, in order.
#[derive(Clone, Debug)]
enum Item {
    Change(Change, String),
    /// A batch up to this revision is about to be written.
    Attempted(u64),
    /// Everything up to this revision was acknowledged, or shown to readers.
    Acknowledged(u64),
}

/// A directory with a recording, removed on drop.
struct Recorded {
    path: PathBuf,
    recording: Arc<Mutex<Recording>>,
}

impl Recorded {
    fn new(disk: &Disk) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        // In memory where possible: a flush costs nothing there.
        let memory = Path::new("/dev/shm");
        let parent = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let path = parent.join(format!("evenkeel-crashes-{}-{count}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        disk.write_to(&path);
        let (names, last) = disk.names();
        let recording = recorded::start(&path, names, last);
        Self { path, recording }
    }

    /// Returns the changes since the last call: of other threads than a snapshot's, and of those.
    fn take(&self, phase: &str) -> [Vec<Item>; 2] {
        let changes = std::mem::take(&mut self.recording.lock().changes);
        let mut items = [Vec::new(), Vec::new()];
        for (change, name, snapshot) in changes {
            let phase = if snapshot { "snapshot" } else { phase };
            let label = format!("{phase}: {} {}", kind(&change), class(&name));
            items[usize::from(snapshot)].push(Item::Change(change, label));
        }
        items
    }
}

impl Drop for Recorded {
    fn drop(&mut self) {
        recorded::stop(&self.path);
        drop(fs::remove_dir_all(&self.path));
    }
}

fn kind(change: &Change) -> &'static str {
    match change {
        Change::Create { .. } => "create",
        Change::Write { .. } => "write",
        Change::SetLen { .. } => "truncate",
        Change::Sync { .. } => "sync",
        Change::Rename { .. } => "rename",
        Change::Remove { .. } => "remove",
        Change::SyncDirectory => "sync the directory after",
    }
}

/// Returns the name of a file without its revision.
fn class(name: &str) -> String {
    name.replace(|c: char| c.is_ascii_digit(), "")
}

/// What a series of crashes must not contradict.
#[derive(Clone)]
struct History {
    /// The state after each batch.
    states: BTreeMap<u64, State>,
    acknowledged: u64,
    attempted: u64,
}

struct Campaign {
    /// How often each failpoint was used.
    failpoints: BTreeMap<String, usize>,
    crashes: usize,
}

/// An open store whose writes run in this thread.
struct Opened {
    shared: Arc<Shared>,
    committer: Inline,
    reader: Store,
}

impl Opened {
    fn new(path: &Path, durability: Durability) -> Result<Self, super::super::OpenError> {
        let options = Options { durability, ..Options::default() };
        let shared = Arc::new(Shared::new(&options));
        let log = recover::recover(Dir::open(path)?, &shared, options.start_revision, durability)?;
        let committer = Inline::new(shared.clone(), log, 200);
        let writer = Writer::Memory(Mutex::new(()));
        let reader = Store { inner: Arc::new(Inner { shared: shared.clone(), writer }) };
        Ok(Self { shared, committer, reader })
    }

    fn state(&self) -> State {
        TABLES.iter().flat_map(|table| all(&self.reader.table(table))).collect()
    }

    /// Returns a random batch of writes that succeed.
    fn batch(&self, random: &mut SplitMix64) -> Vec<(&'static str, Key, Write)> {
        let mut batch = BTreeMap::new();
        for _ in 0..=below(random, 3) {
            let table = TABLES[below(random, 2)];
            let key = Key::new("a", &below(random, 4).to_string());
            let value = random.next() % (1 << (8 * (1 + random.next() % 7)));
            let change = match self.reader.table(table).get(&key) {
                None => Write::Create(unsaved(value)),
                Some(found) if random.next().is_multiple_of(4) => {
                    Write::Delete { expected: found.revision, last: None }
                }
                Some(found) => Write::Update { expected: found.revision, unsaved: unsaved(value) },
            };
            batch.insert((table, key.clone()), (table, key, change));
        }
        batch.into_values().collect()
    }

    /// Commits random batches; returns what happened.
    fn work(
        &mut self,
        commits: usize,
        dir: &Recorded,
        history: &mut History,
        random: &mut SplitMix64,
    ) -> Vec<Item> {
        let (mut items, mut background) = (Vec::new(), VecDeque::new());
        for _ in 0..commits {
            let batch = self.batch(random);
            let last = self.shared.revision() + batch.len() as u64;
            items.push(Item::Attempted(last));
            let writes = batch
                .into_iter()
                .map(|(table, key, change)| (self.shared.table(table), key, change));
            for outcome in self.committer.commit(writes.collect()) {
                outcome.unwrap();
            }
            assert_eq!(self.shared.revision(), last);
            history.states.insert(last, self.state());
            let [changes, _] = dir.take("commit");
            for item in changes {
                // The replies are sent before this file is written.
                if matches!(&item, Item::Change(_, label) if label.ends_with(" acknowledged")) {
                    items.push(Item::Acknowledged(last));
                }
                items.push(item);
            }
            // A snapshot runs beside the next commits; here it has run already, and its changes are
            // merged with theirs by the seed.
            for _ in 0..below(random, 4) {
                items.extend(background.pop_front());
            }
            self.committer.snapshot_if_due();
            let [rotation, snapshot] = dir.take("compaction");
            if !snapshot.is_empty() {
                items.extend(background.drain(..));
            }
            items.extend(rotation);
            background.extend(snapshot);
        }
        items.extend(background);
        items
    }
}

impl Campaign {
    /// Opens the store on a disk, works, and crashes at a failpoint of each kind.
    fn run(
        &mut self,
        disk: &Disk,
        history: &History,
        durability: Durability,
        depth: usize,
        random: &mut SplitMix64,
    ) {
        let (items, history) = self.session(disk, history.clone(), durability, depth, random);
        if depth == DEPTH {
            return;
        }
        let mut places = BTreeMap::<&str, Vec<usize>>::new();
        for (index, item) in items.iter().enumerate() {
            if let Item::Change(_, label) = item {
                places.entry(label).or_default().push(index);
            }
        }
        // All kinds of failpoints in the first run, one in those after a crash.
        let mut places: Vec<_> = places.into_iter().collect();
        if depth > 0 && !places.is_empty() {
            places = vec![places.swap_remove(below(random, places.len() as u64))];
        }
        for (label, indexes) in places {
            let index = indexes[below(random, indexes.len() as u64)];
            let place = ["before", "within", "after"][below(random, 3)];
            *self.failpoints.entry(format!("{place} {label}")).or_default() += 1;
            self.crashes += 1;
            let (mut disk, mut known) = (disk.clone(), history.clone());
            for (position, item) in items.iter().enumerate().take(index + 1) {
                match item {
                    Item::Attempted(revision) => known.attempted = *revision,
                    Item::Acknowledged(revision) => known.acknowledged = *revision,
                    Item::Change(change, _) if position < index || place == "after" => {
                        disk.apply(change);
                    }
                    Item::Change(change, _) if place == "within" => disk.apply_torn(change, random),
                    Item::Change(..) => {}
                }
            }
            let power = durability == Durability::Disk && random.next().is_multiple_of(2);
            let crash = if power { Crash::PowerFailure } else { Crash::Kill };
            disk.crash(crash, random);
            self.run(&disk, &known, durability, depth + 1, random);
        }
    }

    /// Opens the store, checks what it has, and works.
    fn session(
        &mut self,
        disk: &Disk,
        mut history: History,
        durability: Durability,
        depth: usize,
        random: &mut SplitMix64,
    ) -> (Vec<Item>, History) {
        let dir = Recorded::new(disk);
        let mut opened = Opened::new(&dir.path, durability)
            .unwrap_or_else(|error| panic!("after {depth} crashes: {error}"));
        let [mut items, _] = dir.take("recovery");
        let revision = opened.shared.revision();
        let History { acknowledged, attempted, .. } = history;
        assert!(revision >= acknowledged, "{revision} < {acknowledged}, which was acknowledged");
        assert!(revision <= attempted, "{revision} > {attempted}, the last write");
        let expected = history.states.get(&revision);
        assert_eq!(
            Some(&opened.state()),
            expected,
            "the state at {revision} after {depth} crashes"
        );
        history.states.retain(|it, _| *it <= revision);
        // It is visible to readers now, so it must not become older.
        items.push(Item::Acknowledged(revision));
        items.push(Item::Attempted(revision));
        let commits = if depth == 0 { 24 } else { below(random, 6) };
        items.extend(opened.work(commits, &dir, &mut history, random));
        (items, history)
    }
}

fn seeds() -> std::ops::Range<u64> {
    let Ok(text) = std::env::var("EVENKEEL_SEEDS") else { return 0..30 };
    let (from, to) = text.split_once("..").expect("EVENKEEL_SEEDS is a range FROM..TO");
    from.parse().unwrap()..to.parse().unwrap()
}

#[test]
fn no_crash_loses_an_acknowledged_write() {
    let mut campaign = Campaign { failpoints: BTreeMap::new(), crashes: 0 };
    let mut seed = 0;
    for next in seeds() {
        seed = next;
        let first =
            History { states: BTreeMap::from([(1, State::new())]), acknowledged: 0, attempted: 1 };
        let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            // Writes that only survive the process are not tested with power failures.
            let process = seed % 4 == 3;
            let durability = if process { Durability::Process } else { Durability::Disk };
            campaign.run(&Disk::default(), &first, durability, 0, &mut SplitMix64(seed));
        }));
        assert!(ran.is_ok(), "seed {seed}");
    }
    let Campaign { failpoints, crashes } = campaign;
    println!("{crashes} crashes at {} failpoints, up to seed {seed}", failpoints.len());
    assert!(failpoints.len() >= 40, "{failpoints:#?}");
}

/// Returns a log with 80 commits, and the state and length after each.
fn long_log() -> (Disk, Vec<(u64, State, usize)>) {
    let dir = Recorded::new(&Disk::default());
    let mut disk = Disk::default();
    let mut apply = |items: [Vec<Item>; 2]| {
        for item in items.iter().flatten() {
            if let Item::Change(change, _) = item {
                disk.apply(change);
            }
        }
        disk.content_of("log-").len()
    };
    let mut opened = Opened::new(&dir.path, Durability::Disk).unwrap();
    let mut past = vec![(1, State::new(), apply(dir.take("recovery")))];
    let mut random = SplitMix64(1);
    for _ in 0..80 {
        let batch = opened.batch(&mut random);
        let writes = batch
            .into_iter()
            .take(1)
            .map(|(table, key, change)| (opened.shared.table(table), key, change));
        let writes = writes.collect();
        opened.committer.commit(writes);
        past.push((opened.shared.revision(), opened.state(), apply(dir.take("commit"))));
    }
    (disk, past)
}

/// Damages the log at one byte; returns whether the damage was noticed as it must be.
fn damage(disk: &Disk, past: &[(u64, State, usize)], position: usize, truncate: bool, known: bool) {
    let mut damaged = disk.clone();
    damaged.edit("log-", |bytes| match truncate {
        true => bytes.truncate(position),
        false => bytes[position] ^= 0x40,
    });
    if !known {
        // As if none of the last commits had been acknowledged.
        damaged.remove("acknowledged");
    }
    let dir = Recorded::new(&damaged);
    let opened = Opened::new(&dir.path, Durability::Disk);
    let whole = past.iter().rposition(|(_, _, length)| *length <= position).unwrap();
    let last = past.last().unwrap();
    match opened {
        Ok(opened) => {
            let (revision, state, length) = &past[whole];
            assert_eq!(opened.shared.revision(), *revision, "at {position}");
            assert_eq!(opened.state(), *state, "at {position}");
            assert!(!known || *length == last.2, "an acknowledged commit was lost at {position}");
            assert!(truncate || whole + 2 >= past.len(), "valid commits were lost at {position}");
        }
        // Frames after the damage, or a lost commit that was acknowledged.
        Err(_) => assert!(known || (!truncate && whole + 2 < past.len()), "at {position}"),
    }
}

#[test]
fn damage_of_the_last_64_records_is_always_noticed() {
    let (disk, past) = long_log();
    let (from, to) = (past[past.len() - 65].2, past[past.len() - 1].2);
    let all = std::env::var_os("EVENKEEL_SEEDS").is_some();
    let mut count = 0;
    for position in (from..to).step_by(if all { 1 } else { 13 }) {
        for (truncate, known) in [(true, true), (true, false), (false, true), (false, false)] {
            damage(&disk, &past, position, truncate, known);
            count += 1;
        }
    }
    println!("{count} damaged logs, {} bytes", to - from);
    assert!(count > 1000);
}
