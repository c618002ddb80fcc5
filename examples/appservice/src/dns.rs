//! A stand-in for a DNS provider: a folder with one file per record, so that leftovers are visible.

use std::io::{Error, ErrorKind};
use std::path::{Path, PathBuf};

use evenkeel::Key;

/// A zone: names and where they lead.
#[derive(Clone, Debug)]
pub struct Zone {
    dir: PathBuf,
}

impl Zone {
    /// The zone kept in `dir`, which is made when it is missing.
    ///
    /// # Errors
    /// When the folder cannot be made.
    pub fn new(dir: impl Into<PathBuf>) -> Result<Self, Error> {
        let dir = dir.into();
        std::fs::create_dir_all(&dir)?;
        Ok(Self { dir })
    }

    /// Has `host` lead to `target`; the same again changes nothing.
    ///
    /// # Errors
    /// When the record cannot be written.
    pub fn set(&self, host: &str, target: &str) -> Result<(), Error> {
        if self.get(host)?.as_deref() == Some(target) {
            return Ok(());
        }
        std::fs::write(self.dir.join(host), target)
    }

    /// Where `host` leads, if there is such a record.
    ///
    /// # Errors
    /// When the record cannot be read.
    pub fn get(&self, host: &str) -> Result<Option<String>, Error> {
        absent_is_none(std::fs::read_to_string(self.dir.join(host)))
    }

    /// Removes the record; one that is gone already is no error.
    ///
    /// # Errors
    /// When the record cannot be removed.
    pub fn remove(&self, host: &str) -> Result<(), Error> {
        absent_is_none(std::fs::remove_file(self.dir.join(host))).map(|_| ())
    }

    /// Where the records are.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }
}

/// The name people reach the application by.
#[must_use]
pub fn host(app: &Key) -> String {
    format!("{}.{}.example.com", app.name(), app.namespace().unwrap_or_default())
}

/// Where the cluster itself finds it: its Service.
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
