//! The open log, to which commits are appended.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::acknowledged::Acknowledged;
use super::codec::{Payload, put_payload};
use super::dir::{Dir, create_atomically};
use super::disk::{self, DiskFile};
use super::{Durability, frame};

/// A buffer that grew beyond this for one large batch is freed.
const BUFFER_KEPT: usize = 4 << 20;

/// The file of a log; tests inject faults here.
pub(super) trait Medium: Write + Send {
    /// Returns once everything written is on disk.
    fn sync(&mut self) -> io::Result<()>;

    /// Truncates to `length`; the next write is appended there.
    fn truncate(&mut self, length: u64) -> io::Result<()>;
}

impl Medium for DiskFile {
    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.set_len(length)?;
        self.seek(length)?;
        self.sync_all()
    }
}

/// The open log.
pub(super) struct Log {
    dir: Dir,
    path: PathBuf,
    out: Box<dyn Medium>,
    durability: Durability,
    acknowledged: Acknowledged,
    /// The bytes that the next start would replay.
    pub(super) bytes: u64,
    pub(super) buffer: Vec<u8>,
    /// The length of the file up to its last complete commit.
    length: u64,
    /// Whether the file may be longer than that.
    torn: bool,
    /// The next log, which could not be created but may exist.
    stale: Option<PathBuf>,
}

impl Log {
    /// Opens the log at `path`, which is `length` bytes long and ends at `last`. A start replays
    /// `bytes`.
    pub(super) fn resume(
        dir: Dir,
        path: PathBuf,
        file: DiskFile,
        last: u64,
        [bytes, length]: [u64; 2],
        durability: Durability,
    ) -> io::Result<Self> {
        let acknowledged = Acknowledged::open(dir.path(), last)?;
        Ok(Self {
            dir,
            path,
            out: Box::new(file),
            durability,
            acknowledged,
            bytes,
            buffer: Vec::new(),
            length,
            torn: false,
            stale: None,
        })
    }

    /// Creates a log that starts at `base`, where the previous one ended at `follows`.
    pub(super) fn create(
        dir: Dir,
        follows: u64,
        base: u64,
        durability: Durability,
    ) -> io::Result<Self> {
        let path = dir.log(base);
        let (file, bytes) = create_log(&path, follows, base)?;
        Self::resume(dir, path, file, base, [bytes, bytes], durability)
    }

    pub(super) fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Starts a new file at `revision`, where the current one ends.
    pub(super) fn rotate(&mut self, revision: u64) -> io::Result<()> {
        let path = self.dir.log(revision);
        match create_log(&path, revision, revision) {
            Ok((file, bytes)) => {
                (self.path, self.out) = (path, Box::new(file));
                (self.bytes, self.length) = (bytes, bytes);
                Ok(())
            }
            Err(error) => {
                self.stale = Some(path);
                Err(error)
            }
        }
    }

    /// Starts a batch; its ops are appended to `buffer`.
    pub(super) fn begin(&mut self, first: u64) {
        frame::begin(&mut self.buffer);
        put_payload(&mut self.buffer, &Payload::Batch { first });
    }

    /// Writes the batch. After success it is durable; after an error the next call removes the
    /// partial write.
    pub(super) fn commit(&mut self) -> io::Result<()> {
        if !frame::seal(&mut self.buffer) {
            return Err(io::Error::other("a batch is too long for one frame"));
        }
        self.repair()?;
        self.torn = true;
        self.out.write_all(&self.buffer)?;
        if self.durability == Durability::Disk {
            self.out.sync()?;
        }
        self.torn = false;
        self.bytes += self.buffer.len() as u64;
        self.length += self.buffer.len() as u64;
        if self.buffer.capacity() > BUFFER_KEPT {
            self.buffer = Vec::new();
        }
        Ok(())
    }

    /// Records that everything up to `revision` was acknowledged.
    pub(super) fn acknowledge(&mut self, revision: u64) {
        self.acknowledged.record(revision);
    }

    /// Checks whether a batch can be written. Leaves the log unchanged.
    pub(super) fn probe(&mut self) -> io::Result<()> {
        const ROOM: usize = 1 << 16;
        self.repair()?;
        self.torn = true;
        // At a start, zeros are an incomplete tail and truncated.
        self.out.write_all(&[0; ROOM])?;
        self.out.sync()?;
        self.repair()
    }

    /// Removes what a failed write left behind.
    fn repair(&mut self) -> io::Result<()> {
        if let Some(path) = &self.stale {
            // Otherwise the next start would expect this log to end here.
            match disk::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => self.stale = None,
            }
        }
        if self.torn {
            self.out.truncate(self.length)?;
            self.torn = false;
        }
        Ok(())
    }

    /// Writes to another file from now on.
    #[cfg(test)]
    pub(super) fn redirect(&mut self, out: Box<dyn Medium>) {
        self.out = out;
    }
}

fn create_log(path: &Path, follows: u64, base: u64) -> io::Result<(DiskFile, u64)> {
    create_atomically(path, |file| {
        let mut buffer = Vec::new();
        write_frame(file, &mut buffer, &Payload::Log { follows, base })
    })
}

/// Writes a frame with the head of `payload` only. Returns its length.
pub(super) fn write_frame(
    out: &mut impl Write,
    buffer: &mut Vec<u8>,
    payload: &Payload,
) -> io::Result<u64> {
    frame::begin(buffer);
    put_payload(buffer, payload);
    finish_frame(out, buffer)
}

/// Writes the frame begun in `buffer`. Returns its length.
pub(super) fn finish_frame(out: &mut impl Write, buffer: &mut [u8]) -> io::Result<u64> {
    if !frame::seal(buffer) {
        return Err(io::Error::other("a frame is too long"));
    }
    out.write_all(buffer)?;
    Ok(buffer.len() as u64)
}
