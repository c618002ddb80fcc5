//! Every change of a file in the data directory: the only module that changes one.
//!
//! Tests record the changes in order ([`recorded`]), to lose some of them in a simulated crash.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek as _, SeekFrom, Write};
use std::path::Path;

#[cfg(test)]
pub(super) mod recorded;

/// An open file of the data directory.
pub(super) struct DiskFile {
    file: File,
    #[cfg(test)]
    recorded: recorded::OpenFile,
}

impl DiskFile {
    /// Creates an empty file, or truncates it.
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        let file = private(File::options().write(true).create(true).truncate(true)).open(path)?;
        Ok(Self {
            file,
            #[cfg(test)]
            recorded: recorded::OpenFile::created(path),
        })
    }

    /// Opens an existing file, to be overwritten from its start.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = private(File::options().write(true)).open(path)?;
        Ok(Self {
            file,
            #[cfg(test)]
            recorded: recorded::OpenFile::existing(path, 0),
        })
    }

    /// Opens an existing file, to be appended to.
    pub(super) fn append(path: &Path) -> io::Result<Self> {
        let mut opened = Self::open(path)?;
        opened.seek(fs::metadata(path)?.len())?;
        Ok(opened)
    }

    /// Writes at `position` from now on.
    pub(super) fn seek(&mut self, position: u64) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(position))?;
        #[cfg(test)]
        self.recorded.seek(position);
        Ok(())
    }

    /// Sets the length of the file.
    pub(super) fn set_len(&mut self, length: u64) -> io::Result<()> {
        self.file.set_len(length)?;
        #[cfg(test)]
        self.recorded.set_len(length);
        Ok(())
    }

    /// Returns once everything written is on disk.
    pub(super) fn sync_data(&mut self) -> io::Result<()> {
        self.file.sync_data()?;
        #[cfg(test)]
        self.recorded.sync();
        Ok(())
    }

    /// Like [`sync_data`](Self::sync_data), with the length of a file that became shorter.
    pub(super) fn sync_all(&mut self) -> io::Result<()> {
        self.file.sync_all()?;
        #[cfg(test)]
        self.recorded.sync();
        Ok(())
    }
}

impl Write for DiskFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        #[cfg(test)]
        self.recorded.write(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Renames a file within the data directory.
pub(super) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)?;
    #[cfg(test)]
    recorded::renamed(from, to);
    Ok(())
}

/// Removes a file.
pub(super) fn remove_file(path: &Path) -> io::Result<()> {
    fs::remove_file(path)?;
    #[cfg(test)]
    recorded::removed(path);
    Ok(())
}

/// Returns once the names of created and renamed files beside `path` are on disk.
#[cfg(unix)]
pub(super) fn sync_parent(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), |parent| File::open(parent)?.sync_all())?;
    #[cfg(test)]
    recorded::synced_parent(path);
    Ok(())
}

/// On other platforms directories cannot be opened, and renames are as durable as the system makes
/// them.
#[cfg(not(unix))]
pub(super) fn sync_parent(_: &Path) -> io::Result<()> {
    Ok(())
}

/// Sets owner-only permissions for created files.
pub(super) fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options
}
