//! A fake DNS provider: a directory with one file per record, so that leftovers are visible.

use std::io::{Error, ErrorKind};
use std::path::{Path, PathBuf};

use evenkeel::Key;

/// A DNS zone.
#[derive(Clone, Debug)]
pub struct Zone {
    dir: PathBuf,
}

impl Zone {
    /// Opens the zone in `dir`, which is created if absent.
    ///
    /// # Errors
    /// If the directory cannot be created.
    pub fn new(dir: impl Into<PathBuf>) -> Result<Self, Error> {
        let dir = dir.into();
        std::fs::create_dir_all(&dir)?;
        Ok(Self { dir })
    }

    /// Sets the record of `host` to `target`. Idempotent.
    ///
    /// # Errors
    /// If the record cannot be written.
    pub fn set(&self, host: &str, target: &str) -> Result<(), Error> {
        if self.get(host)?.as_deref() == Some(target) {
            return Ok(());
        }
        std::fs::write(self.dir.join(host), target)
    }

    /// Returns the record of `host`, if it exists.
    ///
    /// # Errors
    /// If the record cannot be read.
    pub fn get(&self, host: &str) -> Result<Option<String>, Error> {
        absent_is_none(std::fs::read_to_string(self.dir.join(host)))
    }

    /// Removes the record of `host`. Idempotent.
    ///
    /// # Errors
    /// If the record cannot be removed.
    pub fn remove(&self, host: &str) -> Result<(), Error> {
        absent_is_none(std::fs::remove_file(self.dir.join(host))).map(|_| ())
    }

    /// Returns the directory of the records.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }
}

/// Returns the public host name of the application.
#[must_use]
pub fn host(app: &Key) -> String {
    format!("{}.{}.example.com", app.name(), app.namespace().unwrap_or_default())
}

/// Returns the cluster DNS name of the application's Service.
#[must_use]
pub fn address(app: &Key) -> String {
    format!("{}.{}.svc.cluster.local", app.name(), app.namespace().unwrap_or_default())
}

fn absent_is_none<T>(outcome: Result<T, Error>) -> Result<Option<T>, Error> {
    match outcome {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
