//! The store on disk: an append-only log with group commit, bounded by snapshots.
//!
//! Reading never touches it: everything is in memory, the disk only remembers. What it promises:
//!
//! - what was acknowledged is there after the process was killed, and with [`Durability::Disk`]
//!   after a power failure;
//! - a batch of commits is there as a whole or not at all;
//! - revisions go on from the last one, even if all objects are gone;
//! - damage is either an end that was never acknowledged, which is cut off, or an error that names
//!   the place; a log that was removed is an error too;
//! - a write that could not be written is refused and leaves nothing behind; once there is space
//!   again, writes are accepted again.
//!
//! From a byte up: [`frame`] makes bytes whole, [`codec`] gives them meaning, [`dir`] names the
//! files, [`log`] appends, [`acknowledged`] remembers how far, [`committer`] decides what,
//! [`snapshot`] shortens, [`recover`] reads it all back.

mod acknowledged;
mod codec;
mod committer;
mod dir;
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
    /// The end of the process and of the machine: each batch is flushed to disk.
    #[default]
    Disk,
    /// The end of the process: the system writes to disk when it likes. After a power failure
    /// the directory may hold less, or be refused as damaged.
    Process,
}

/// Why a data directory cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Another process has it open, or this one does.
    #[error("data directory {} is in use", .0.display())]
    InUse(PathBuf),
    /// A file cannot be read or written.
    #[error("cannot use {}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file is not as it was written.
    #[error("{} is corrupt at byte {offset}: {reason}", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// Where in it the trouble begins.
        offset: u64,
        /// What was found, or expected.
        reason: &'static str,
    },
    /// There is a snapshot, but not the log that goes on from it.
    #[error("no log in {} goes on after revision {after}", path.display())]
    NoLog {
        /// The data directory.
        path: PathBuf,
        /// The snapshot's revision.
        after: u64,
    },
    /// Files with commits that were acknowledged are missing.
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

/// Fills `shared` from `path` and starts the thread that writes there.
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
