//! Recovers the store: reads the newest snapshot, then every log after it.
//!
//! Nothing is skipped silently. Only an incomplete, unacknowledged batch at the end of the last log
//! is truncated.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;

use super::acknowledged::Acknowledged;
use super::codec::{Decoder, Op, Payload, Versions};
use super::dir::{Contents, Dir, remove_before};
use super::disk::{self, DiskFile};
use super::frame::{self, Frames, Next};
use super::log::Log;
use super::{Durability, OpenError};
use crate::storage::Shared;

/// Fills `shared` from the directory and opens its log for writing.
pub(super) fn recover(
    dir: Dir,
    shared: &Shared,
    start_revision: u64,
    durability: Durability,
) -> Result<Log, OpenError> {
    let in_dir = |source| OpenError::Io { path: dir.path().to_owned(), source };
    dir.remove_temporary_files().map_err(in_dir)?;
    let contents = Contents::of(dir.path()).map_err(in_dir)?;
    let known = Acknowledged::read(dir.path()).map_err(in_dir)?;
    let acknowledged = known.unwrap_or_default();
    let mut recovery = Recovery { shared, versions: Versions::default(), last: 0, acknowledged };
    if let Some(&revision) = contents.snapshots.last() {
        recovery.load(&dir.snapshot(revision), revision)?;
        remove_before(dir.path(), revision).map_err(in_dir)?;
    }
    let mut logs = contents.logs;
    logs.retain(|&base| base >= recovery.last);
    let Some((&newest, older)) = logs.split_last() else {
        if recovery.last > 0 {
            let after = recovery.last;
            return Err(OpenError::NoLog { path: dir.path().to_owned(), after });
        }
        if known.is_some() {
            return Err(OpenError::Missing { path: dir.path().to_owned(), last: 0, acknowledged });
        }
        shared.set_restored_revision(start_revision);
        return create(dir, 0, start_revision, durability);
    };
    let mut bytes = 0;
    for &base in older {
        bytes += recovery.replay(&dir.log(base), base, Tail::MustBeWhole)?;
    }
    let path = dir.log(newest);
    let length = recovery.replay(&path, newest, Tail::MayBeTorn)?;
    bytes += length;
    if recovery.last < acknowledged {
        let last = recovery.last;
        return Err(OpenError::Missing { path: dir.path().to_owned(), last, acknowledged });
    }
    if durability == Durability::Disk {
        // A killed process may have left a complete commit, or the name of a log, that is not on disk
        // yet. Readers see the commit from now on, and the next ones follow it.
        let sync = DiskFile::open(&path).and_then(|mut file| {
            file.sync_data()?;
            disk::sync_parent(&path)
        });
        sync.map_err(|source| OpenError::Io { path: path.clone(), source })?;
    }
    let last = recovery.last.max(start_revision);
    shared.set_restored_revision(last);
    if last > recovery.last {
        let mut log = create(dir, recovery.last, last, durability)?;
        log.bytes += bytes;
        return Ok(log);
    }
    let resume = |file| Log::resume(dir, path.clone(), file, last, [bytes, length], durability);
    let log = DiskFile::append(&path).and_then(resume);
    log.map_err(|source| OpenError::Io { path, source })
}

fn create(dir: Dir, follows: u64, base: u64, durability: Durability) -> Result<Log, OpenError> {
    let path = dir.log(base);
    Log::create(dir, follows, base, durability).map_err(|source| OpenError::Io { path, source })
}

struct Recovery<'a> {
    shared: &'a Shared,
    versions: Versions,
    /// The last recovered revision.
    last: u64,
    /// The last known acknowledged revision.
    acknowledged: u64,
}

/// How to treat a log without a complete frame at its end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tail {
    MayBeTorn,
    MustBeWhole,
}

/// A file being read, and its last frame.
struct Source<'a> {
    path: &'a Path,
    frames: Frames<BufReader<File>>,
    length: u64,
    offset: u64,
    payload: Vec<u8>,
}

impl Recovery<'_> {
    fn load(&mut self, path: &Path, revision: u64) -> Result<(), OpenError> {
        let mut source = Source::open(path)?;
        source.next_whole()?;
        if Decoder::new(&source.payload).payload() != Some(Payload::Snapshot { revision }) {
            return Err(source.corrupt("not a snapshot of this revision, or an unknown format"));
        }
        let mut loaded = 0;
        loop {
            source.next_whole()?;
            let mut decoder = Decoder::new(&source.payload);
            match decoder.payload() {
                Some(Payload::Records) => {}
                Some(Payload::End { count }) if count == loaded => break,
                _ => return Err(source.corrupt("unexpected frame in a snapshot")),
            }
            while !decoder.is_empty() {
                match decoder.op(&mut self.versions) {
                    Some(op @ Op::Put { .. }) => self.apply(op),
                    _ => return Err(source.corrupt("invalid record")),
                }
                loaded += 1;
            }
        }
        self.last = revision;
        Ok(())
    }

    /// Replays one log and returns its length, after truncating an incomplete tail.
    fn replay(&mut self, path: &Path, base: u64, tail: Tail) -> Result<u64, OpenError> {
        let mut source = Source::open(path)?;
        source.next_whole()?;
        match Decoder::new(&source.payload).payload() {
            Some(Payload::Log { follows, base: found }) if found == base => {
                if follows != self.last {
                    let reason = "the log before this one is missing or incomplete";
                    return Err(source.corrupt(reason));
                }
                self.last = base;
            }
            _ => return Err(source.corrupt("not a log of this revision, or an unknown format")),
        }
        loop {
            match source.next()? {
                Next::Frame(_) => self.batch(&source)?,
                Next::End => return Ok(source.length),
                Next::Broken(_) if self.last < self.acknowledged => {
                    return Err(source.corrupt("corrupt frame in an acknowledged commit"));
                }
                Next::Broken(offset) if tail == Tail::MayBeTorn => {
                    return source.truncate_tail(offset);
                }
                Next::Broken(_) => return Err(source.corrupt("corrupt frame")),
            }
        }
    }

    fn batch(&mut self, source: &Source<'_>) -> Result<(), OpenError> {
        let mut decoder = Decoder::new(&source.payload);
        match decoder.payload() {
            Some(Payload::Batch { first }) if first == self.last + 1 => {}
            _ => return Err(source.corrupt("unexpected batch")),
        }
        while !decoder.is_empty() {
            let op = decoder.op(&mut self.versions);
            self.last += 1;
            match op {
                Some(Op::Put { record, .. }) if record.revision != self.last => {
                    return Err(source.corrupt("the revision of a record differs from its commit"));
                }
                Some(op) => self.apply(op),
                None => return Err(source.corrupt("invalid commit")),
            }
        }
        Ok(())
    }

    fn apply(&self, op: Op<'_>) {
        match op {
            Op::Put { table, record } => {
                self.shared.table(table).state.write().restore(Arc::new(record));
            }
            Op::Delete { table, key } => self.shared.table(table).state.write().remove(&key),
        }
    }
}

impl<'a> Source<'a> {
    fn open(path: &'a Path) -> Result<Self, OpenError> {
        let open = || {
            let file = File::open(path)?;
            let length = file.metadata()?.len();
            Ok((file, length))
        };
        let (file, length) =
            open().map_err(|source| OpenError::Io { path: path.to_owned(), source })?;
        let frames = Frames::new(BufReader::with_capacity(1 << 18, file), length);
        Ok(Self { path, frames, length, offset: 0, payload: Vec::new() })
    }

    fn next(&mut self) -> Result<Next, OpenError> {
        let next = self.frames.next(&mut self.payload).map_err(|source| self.io(source))?;
        if let Next::Frame(offset) | Next::Broken(offset) = next {
            self.offset = offset;
        }
        Ok(next)
    }

    fn next_whole(&mut self) -> Result<(), OpenError> {
        match self.next()? {
            Next::Frame(_) => Ok(()),
            Next::Broken(_) => Err(self.corrupt("corrupt frame")),
            Next::End => {
                self.offset = self.length;
                Err(self.corrupt("unexpected end of file"))
            }
        }
    }

    /// Truncates the file at `offset`, unless a valid frame follows: then the corruption is in the
    /// middle, and truncating would lose acknowledged writes.
    fn truncate_tail(&self, offset: u64) -> Result<u64, OpenError> {
        let scan = || {
            let mut file = File::open(self.path)?;
            file.seek(SeekFrom::Start(offset + 1))?;
            let mut rest = Vec::new();
            file.read_to_end(&mut rest)?;
            Ok(frame::any_within(&rest))
        };
        if scan().map_err(|source| self.io(source))? {
            return Err(self.corrupt("corrupt frame"));
        }
        tracing::warn!(
            path = %self.path.display(),
            offset,
            bytes = self.length - offset,
            "truncating an incomplete commit"
        );
        let truncate = || {
            let mut file = DiskFile::open(self.path)?;
            file.set_len(offset)?;
            file.sync_all()
        };
        truncate().map_err(|source| self.io(source))?;
        Ok(offset)
    }

    fn corrupt(&self, reason: &'static str) -> OpenError {
        OpenError::Corrupt { path: self.path.to_owned(), offset: self.offset, reason }
    }

    fn io(&self, source: io::Error) -> OpenError {
        OpenError::Io { path: self.path.to_owned(), source }
    }
}
