//! The data directory and its files.
//!
//! ```text
//! lock                    held by the process that has the directory open
//! acknowledged            the last acknowledged revision
//! snapshot-<revision>     all objects at that revision
//! log-<revision>          commits after that revision
//! *.tmp                   a temporary file, removed after a crash
//! ```
//!
//! A file gets its final name only when it is complete and on disk. The objects include secrets:
//! the directory and its files have owner-only permissions, and files of earlier versions are
//! changed to them.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use super::OpenError;
use super::disk::{self, DiskFile, private};

/// A data directory, locked for this process.
pub(super) struct Dir {
    path: PathBuf,
    /// Unlocked by the operating system when it is closed, however the process ends.
    _lock: File,
}

/// The directory's files, by revision in ascending order.
#[derive(Debug, Default)]
pub(super) struct Contents {
    pub(super) snapshots: Vec<u64>,
    pub(super) logs: Vec<u64>,
}

impl Dir {
    /// Opens the directory, creates it if needed, and locks it.
    pub(super) fn open(path: &Path) -> Result<Self, OpenError> {
        let wrap = |source| OpenError::Io { path: path.to_owned(), source };
        let lock_path = path.join("lock");
        create(path).map_err(wrap)?;
        // A directory with other files may be a home directory.
        let ours = lock_path.exists() || fs::read_dir(path).map_err(wrap)?.next().is_none();
        if ours {
            restrict(path, 0o700).map_err(wrap)?;
        } else {
            let path = path.display();
            tracing::warn!(%path, "data directory contains other files; keeping its permissions");
        }
        let lock = private(File::options().create(true).write(true).truncate(false))
            .open(&lock_path)
            .map_err(|source| OpenError::Io { path: lock_path.clone(), source })?;
        match lock.try_lock() {
            Ok(()) => {
                let dir = Self { path: path.to_owned(), _lock: lock };
                dir.restrict_files().map_err(wrap)?;
                Ok(dir)
            }
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

    /// Restricts the permissions of files that earlier versions created.
    fn restrict_files(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            let name = entry.file_name();
            let name = name.to_str().unwrap_or_default();
            let known = matches!(name, "lock" | "acknowledged")
                || ["snapshot-", "log-"].iter().any(|prefix| revision_of(name, prefix).is_some());
            if known {
                restrict(&entry.path(), 0o600)?;
            }
        }
        Ok(())
    }

    /// Removes temporary files left by a crash.
    pub(super) fn remove_temporary_files(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.path)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "tmp") {
                disk::remove_file(&path)?;
            }
        }
        Ok(())
    }
}

impl Contents {
    /// Returns the complete files in `dir`.
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

/// Removes the files that a snapshot at `revision` replaces.
pub(super) fn remove_before(dir: &Path, revision: u64) -> io::Result<()> {
    let contents = Contents::of(dir)?;
    let snapshots = contents.snapshots.iter().map(|&it| (it, snapshot_path(dir, it)));
    let logs = contents.logs.iter().map(|&it| (it, log_path(dir, it)));
    let mut obsolete = snapshots.chain(logs).filter(|(it, _)| *it < revision);
    obsolete.try_for_each(|(_, path)| disk::remove_file(&path))
}

pub(super) fn log_path(dir: &Path, base: u64) -> PathBuf {
    dir.join(format!("log-{base:020}"))
}

pub(super) fn snapshot_path(dir: &Path, revision: u64) -> PathBuf {
    dir.join(format!("snapshot-{revision:020}"))
}

/// Creates a file atomically: `fill` writes it under a temporary name.
pub(super) fn create_atomically<T>(
    path: &Path,
    fill: impl FnOnce(&mut DiskFile) -> io::Result<T>,
) -> io::Result<(DiskFile, T)> {
    let temporary = path.with_added_extension("tmp");
    let mut file = DiskFile::create(&temporary)?;
    let filled = fill(&mut file).and_then(|output| {
        file.sync_all()?;
        disk::rename(&temporary, path)?;
        disk::sync_parent(path)?;
        Ok(output)
    });
    match filled {
        Ok(output) => Ok((file, output)),
        Err(error) => {
            // The first error is reported; the next start removes the temporary file.
            drop(disk::remove_file(&temporary));
            Err(error)
        }
    }
}

/// Creates the directory and missing parents with owner-only permissions.
fn create(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Removes permissions beyond `mode` from a file or directory.
#[cfg(unix)]
fn restrict(path: &Path, mode: u32) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let mut permissions = fs::metadata(path)?.permissions();
    if permissions.mode() & 0o7777 & !mode == 0 {
        return Ok(());
    }
    permissions.set_mode(permissions.mode() & mode);
    fs::set_permissions(path, permissions)
}

/// On other platforms permissions are inherited from the parent directory.
#[cfg(not(unix))]
fn restrict(_: &Path, _: u32) -> io::Result<()> {
    Ok(())
}

fn revision_of(name: &str, prefix: &str) -> Option<u64> {
    let digits = name.strip_prefix(prefix)?;
    if digits.len() == 20 { digits.parse().ok() } else { None }
}
