//! The data directory: which files there are, and how one comes to be.
//!
//! ```text
//! lock                    held by the process that has the directory open
//! snapshot-<revision>     all objects at that revision
//! log-<revision>          commits after that revision
//! *.tmp                   a file in the making; worthless after a crash
//! ```
//!
//! A file gets its name only when it is whole and on disk, so whatever bears a name was finished
//! once.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use super::OpenError;

/// A data directory, locked for this process.
pub(super) struct Dir {
    path: PathBuf,
    /// Unlocked by the system when it is closed, however the process ends.
    _lock: File,
}

/// The directory's files, by revision in ascending order.
#[derive(Debug, Default)]
pub(super) struct Contents {
    pub(super) snapshots: Vec<u64>,
    pub(super) logs: Vec<u64>,
}

impl Dir {
    /// Opens the directory, making it if need be, and takes its lock.
    pub(super) fn open(path: &Path) -> Result<Self, OpenError> {
        let wrap = |source| OpenError::Io { path: path.to_owned(), source };
        fs::create_dir_all(path).map_err(wrap)?;
        let lock_path = path.join("lock");
        let lock = File::options()
            .create(true)
            .write(true)
            .truncate(false)
            .open(&lock_path)
            .map_err(|source| OpenError::Io { path: lock_path.clone(), source })?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { path: path.to_owned(), _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(OpenError::InUse(path.to_owned())),
            Err(TryLockError::Error(source)) => Err(OpenError::Io { path: lock_path, source }),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn log(&self, base: u64) -> PathBuf {
        log_path(&self.path, base)
    }

    pub(super) fn snapshot(&self, revision: u64) -> PathBuf {
        snapshot_path(&self.path, revision)
    }

    /// Removes what a crash left half-made.
    pub(super) fn sweep(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.path)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "tmp") {
                fs::remove_file(path)?;
            }
        }
        Ok(())
    }
}

impl Contents {
    /// What `dir` holds under its final name.
    pub(super) fn of(dir: &Path) -> io::Result<Self> {
        let mut contents = Self::default();
        for entry in fs::read_dir(dir)? {
            let name = entry?.file_name();
            let Some(name) = name.to_str() else { continue };
            contents.snapshots.extend(revision_of(name, "snapshot-"));
            contents.logs.extend(revision_of(name, "log-"));
        }
        contents.snapshots.sort_unstable();
        contents.logs.sort_unstable();
        Ok(contents)
    }
}

/// Removes what a snapshot at `revision` has made superfluous.
pub(super) fn remove_before(dir: &Path, revision: u64) -> io::Result<()> {
    let contents = Contents::of(dir)?;
    let snapshots = contents.snapshots.iter().map(|&it| (it, snapshot_path(dir, it)));
    let logs = contents.logs.iter().map(|&it| (it, log_path(dir, it)));
    let mut obsolete = snapshots.chain(logs).filter(|(it, _)| *it < revision);
    obsolete.try_for_each(|(_, path)| fs::remove_file(path))
}

pub(super) fn log_path(dir: &Path, base: u64) -> PathBuf {
    dir.join(format!("log-{base:020}"))
}

pub(super) fn snapshot_path(dir: &Path, revision: u64) -> PathBuf {
    dir.join(format!("snapshot-{revision:020}"))
}

/// Makes a file that is whole once it bears its name: `fill` writes it under another one.
pub(super) fn create_whole<T>(
    path: &Path,
    fill: impl FnOnce(&mut File) -> io::Result<T>,
) -> io::Result<(File, T)> {
    let draft = path.with_added_extension("tmp");
    let mut file = File::create(&draft)?;
    let filled = fill(&mut file).and_then(|output| {
        file.sync_all()?;
        fs::rename(&draft, path)?;
        sync_parent(path)?;
        Ok(output)
    });
    match filled {
        Ok(output) => Ok((file, output)),
        Err(error) => {
            // The first error is the one to tell; what is left goes at the next start.
            drop(fs::remove_file(&draft));
            Err(error)
        }
    }
}

#[cfg(unix)]
fn sync_parent(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), |parent| File::open(parent)?.sync_all())
}

/// Elsewhere a directory cannot be opened, and a rename is as durable as the system makes it.
#[cfg(not(unix))]
fn sync_parent(_: &Path) -> io::Result<()> {
    Ok(())
}

fn revision_of(name: &str, prefix: &str) -> Option<u64> {
    let digits = name.strip_prefix(prefix)?;
    if digits.len() == 20 { digits.parse().ok() } else { None }
}
