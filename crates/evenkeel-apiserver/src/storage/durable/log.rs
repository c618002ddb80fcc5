//! The end of the log, where commits are appended.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::codec::{Payload, put_payload};
use super::dir::{Dir, create_whole};
use super::{Durability, frame};

/// A buffer that grew beyond this for one large batch is given back.
const BUFFER_KEPT: usize = 4 << 20;

/// Where a log goes. Files in earnest; tests put faults here.
pub(super) trait Medium: Write + Send {
    /// Returns once everything written is on disk.
    fn sync(&mut self) -> io::Result<()>;
}

impl Medium for File {
    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}

/// The open log.
pub(super) struct Log {
    dir: Dir,
    path: PathBuf,
    out: Box<dyn Medium>,
    durability: Durability,
    /// What the next start would have to replay.
    pub(super) bytes: u64,
    pub(super) buffer: Vec<u8>,
}

impl Log {
    /// Goes on with the log at `path`, of which `bytes` are to be replayed at a start.
    pub(super) fn resume(
        dir: Dir,
        path: PathBuf,
        file: File,
        bytes: u64,
        durability: Durability,
    ) -> Self {
        Self { dir, path, out: Box::new(file), durability, bytes, buffer: Vec::new() }
    }

    /// Starts a log that counts from `base`, where the previous one ended at `follows`.
    pub(super) fn create(
        dir: Dir,
        follows: u64,
        base: u64,
        durability: Durability,
    ) -> io::Result<Self> {
        let path = dir.log(base);
        let (file, bytes) = create_log(&path, follows, base)?;
        Ok(Self::resume(dir, path, file, bytes, durability))
    }

    pub(super) fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Starts a new file at `revision`, which is where the present one ends.
    pub(super) fn rotate(&mut self, revision: u64) -> io::Result<()> {
        let path = self.dir.log(revision);
        let (file, bytes) = create_log(&path, revision, revision)?;
        (self.path, self.out, self.bytes) = (path, Box::new(file), bytes);
        Ok(())
    }

    /// Starts a batch; its ops go into `buffer`.
    pub(super) fn begin(&mut self, first: u64) {
        frame::begin(&mut self.buffer);
        put_payload(&mut self.buffer, &Payload::Batch { first });
    }

    /// Writes the batch. When this returns, it survives.
    pub(super) fn commit(&mut self) -> io::Result<()> {
        if !frame::seal(&mut self.buffer) {
            return Err(io::Error::other("a batch is too long for one frame"));
        }
        self.out.write_all(&self.buffer)?;
        if self.durability == Durability::Disk {
            self.out.sync()?;
        }
        self.bytes += self.buffer.len() as u64;
        if self.buffer.capacity() > BUFFER_KEPT {
            self.buffer = Vec::new();
        }
        Ok(())
    }

    /// Writes to something else from now on.
    #[cfg(test)]
    pub(super) fn redirect(&mut self, out: Box<dyn Medium>) {
        self.out = out;
    }
}

fn create_log(path: &Path, follows: u64, base: u64) -> io::Result<(File, u64)> {
    create_whole(path, |file| {
        let mut buffer = Vec::new();
        write_frame(file, &mut buffer, &Payload::Log { follows, base })
    })
}

/// Writes a frame that holds nothing but `payload`'s head. Returns its length.
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
