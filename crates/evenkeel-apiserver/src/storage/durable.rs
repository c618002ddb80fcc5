//! The store on disk: an append-only log with group commit, bounded by snapshots.
//!
//! Reads never touch it: all objects are in memory. It guarantees:
//!
//! - acknowledged writes survive a kill of the process, and with [`Durability::Disk`] a power
//!   failure;
//! - a batch of commits is recovered as a whole or not at all;
//! - revisions continue from the last one, even if all objects are deleted;
//! - corruption is either an unacknowledged tail, which is truncated, or an error with path and
//!   offset; a removed log is an error, too;
//! - a failed write leaves nothing behind; once there is space again, writes are accepted again.
//!
//! The layers, from the bottom: [`frame`] checksums, [`codec`] encodes, [`disk`] changes files,
//! [`dir`] manages them,
//! [`log`] appends, [`acknowledged`] records the last acknowledged revision, [`committer`] batches
//! writes, [`snapshot`] replaces logs, [`recover`] reads everything back.

mod acknowledged;
mod codec;
mod committer;
mod dir;
mod disk;
mod frame;
mod log;
mod recover;
mod snapshot;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(super) use self::committer::Committer;
use self::dir::Dir;
use super::{Options, Shared};

/// What an acknowledged write survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// The end of the process and a power failure: each batch is flushed to disk.
    #[default]
    Disk,
    /// The end of the process only: the operating system flushes later. After a power failure the
    /// directory may lack writes, or be rejected as corrupt.
    Process,
}

/// Why a data directory cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Another process has it open, or this one has.
    #[error("data directory {} is in use", .0.display())]
    InUse(PathBuf),
    /// A file cannot be read or written.
    #[error("cannot use {}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A file is corrupt.
    #[error("{} is corrupt at byte {offset}: {reason}", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// The offset of the corruption.
        offset: u64,
        /// The detected problem.
        reason: &'static str,
    },
    /// There is a snapshot, but not the log that follows it.
    #[error("no log in {} continues after revision {after}", path.display())]
    NoLog {
        /// The data directory.
        path: PathBuf,
        /// The snapshot's revision.
        after: u64,
    },
    /// Files with acknowledged commits are missing.
    #[error(
        "the log in {} is missing commits: it ends at revision {last}, and revision {acknowledged} \
         was acknowledged; restore the directory from a copy, or remove it to start empty",
        path.display()
    )]
    Missing {
        /// The data directory.
        path: PathBuf,
        /// The last revision that was found.
        last: u64,
        /// The last revision that was acknowledged.
        acknowledged: u64,
    },
}

/// Fills `shared` from `path` and starts the thread that writes to it.
pub(super) fn open(
    path: &Path,
    shared: &Arc<Shared>,
    options: &Options,
) -> Result<Committer, OpenError> {
    let dir = Dir::open(path)?;
    let log = recover::recover(dir, shared, options.start_revision, options.durability)?;
    Committer::start(shared.clone(), log, options.snapshot_floor)
        .map_err(|source| OpenError::Io { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests;
