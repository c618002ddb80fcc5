//! The last acknowledged revision, in a small file beside the log.
//!
//! A log without a complete frame at its end was either interrupted before its last commit was
//! acknowledged, or is corrupt. This file distinguishes the two, and a directory whose log was
//! removed from a new one. It is overwritten in place after each batch and flushed by the operating
//! system: after a power failure it may contain an older revision, which is safe.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::Path;

use super::dir::create_atomically;
use super::disk::DiskFile;
use super::frame::{self, Frames, Next};

const NAME: &str = "acknowledged";

/// The open file.
pub(super) struct Acknowledged {
    file: DiskFile,
    buffer: Vec<u8>,
    warned: bool,
}

impl Acknowledged {
    /// Returns the last revision acknowledged in `dir`; `None` if there never was a log. A file
    /// without a complete frame reads as 0: there was a log.
    pub(super) fn read(dir: &Path) -> io::Result<Option<u64>> {
        let mut bytes = Vec::new();
        match File::open(dir.join(NAME)) {
            Ok(mut file) => file.read_to_end(&mut bytes)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut payload = Vec::new();
        let next = Frames::new(&*bytes, bytes.len() as u64).next(&mut payload)?;
        let revision = matches!(next, Next::Frame(_)).then(|| payload.first_chunk()).flatten();
        if revision.is_none() {
            tracing::warn!(
                path = %dir.join(NAME).display(),
                "cannot read the last acknowledged revision; lost commits cannot be detected",
            );
        }
        Ok(Some(revision.map_or(0, |bytes| u64::from_le_bytes(*bytes))))
    }

    /// Opens the file in `dir` and records `revision`.
    pub(super) fn open(dir: &Path, revision: u64) -> io::Result<Self> {
        let path = dir.join(NAME);
        let mut buffer = Vec::new();
        if !path.exists() {
            create_atomically(&path, |file| file.write_all(sealed(&mut buffer, revision)))?;
        }
        let file = DiskFile::open(&path)?;
        let mut opened = Self { file, buffer, warned: false };
        opened.record(revision);
        Ok(opened)
    }

    /// Records that everything up to `revision` was acknowledged.
    pub(super) fn record(&mut self, revision: u64) {
        let bytes = sealed(&mut self.buffer, revision);
        let written = self.file.seek(0).and_then(|()| self.file.write_all(bytes));
        // An older revision in the file is safe, so commits continue.
        if let Err(error) = written
            && !std::mem::replace(&mut self.warned, true)
        {
            tracing::warn!(%error, "cannot record the last acknowledged revision");
        }
    }
}

fn sealed(buffer: &mut Vec<u8>, revision: u64) -> &[u8] {
    frame::begin(buffer);
    buffer.extend_from_slice(&revision.to_le_bytes());
    // Eight bytes fit into a frame.
    let _ = frame::seal(buffer);
    buffer
}
