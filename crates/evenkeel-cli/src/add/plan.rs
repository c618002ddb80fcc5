//! The files that a command creates and changes.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

use super::rustfmt;
use super::source::Source;
use crate::{diff, output};

/// Changes that are made together, once all of them are known.
#[derive(Default)]
pub(super) struct Plan {
    changes: Vec<Change>,
    notes: Vec<String>,
}

struct Change {
    path: PathBuf,
    /// The present text, if the file exists.
    old: Option<String>,
    new: String,
}

impl Plan {
    /// Creates a Rust file that defines `name`. Does nothing if it exists.
    ///
    /// # Errors
    /// If another file is in its place.
    pub(super) fn create(&mut self, path: &Path, name: &str, text: &str) -> anyhow::Result<()> {
        if !path.exists() {
            self.changes.push(Change {
                path: path.to_owned(),
                old: None,
                new: rustfmt::items(text),
            });
        } else if !Source::read(path)?.mentions(name) {
            bail!("{} exists and has no {name}\nhint: choose another name", path.display());
        }
        Ok(())
    }

    /// Creates a file, unless there is one.
    pub(super) fn create_missing(&mut self, path: &Path, text: &str) {
        if !path.exists() {
            let rust = path.extension().is_some_and(|it| it == "rs");
            let new = if rust { rustfmt::items(text) } else { text.to_owned() };
            self.changes.push(Change { path: path.to_owned(), old: None, new });
        }
    }

    /// Prints a line after the changes, if there are any.
    pub(super) fn note(&mut self, line: String) {
        self.notes.push(line);
    }

    /// Changes a file, if something was inserted.
    pub(super) fn change(&mut self, source: Source) {
        let path = source.path.clone();
        let (old, new) = source.finish();
        if old != new {
            self.changes.push(Change { path, old: Some(old), new });
        }
    }

    /// Writes the files, or prints a diff.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub(super) fn finish(self, what: &str, dry_run: bool) -> anyhow::Result<()> {
        if self.changes.is_empty() {
            output::progress(&format!("Nothing to do: {what} already exists."));
            return Ok(());
        }
        if dry_run {
            return output::print(&self.changes.iter().map(Change::diff).collect::<String>());
        }
        for Change { path, old, new } in &self.changes {
            if let Some(parent) = path.parent() {
                std::fs::create_dir_all(parent)
                    .with_context(|| format!("cannot create {}", parent.display()))?;
            }
            std::fs::write(path, new)
                .with_context(|| format!("cannot write {}", path.display()))?;
            let verb = if old.is_some() { "Changed" } else { "Created" };
            output::progress(&format!("{verb} {}", path.display()));
        }
        self.notes.iter().for_each(|line| output::progress(line));
        output::progress(&format!("Added {what}."));
        Ok(())
    }
}

impl Change {
    fn diff(&self) -> String {
        let path = self.path.display();
        let old_name = match self.old {
            Some(_) => format!("a/{path}"),
            None => "/dev/null".to_owned(),
        };
        let old = self.old.as_deref().unwrap_or_default();
        diff::unified(&old_name, &format!("b/{path}"), old, &self.new)
    }
}
