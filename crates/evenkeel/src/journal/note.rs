//! What one reconcile read and wrote, noted by its client as it happens.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

use super::diff::{self, FieldChange};
use crate::cache::{Entry, Version};
use crate::client::{Attempt, Error, Target};
use crate::error::chain;
use crate::key::Key;
use crate::kind::Kind;

/// How many reads and how many writes of one reconcile are kept.
const KEPT: usize = 64;

/// Collects what a reconcile does.
#[derive(Clone, Default)]
pub(crate) struct Notes(Arc<Mutex<Collected>>);

#[derive(Default)]
pub(crate) struct Collected {
    pub(crate) reads: Vec<ReadNote>,
    pub(crate) writes: Vec<WriteNote>,
    /// Reads and writes beyond those kept.
    pub(crate) more: usize,
}

impl Notes {
    pub(crate) fn read(&self, note: ReadNote) {
        let mut collected = self.0.lock();
        if collected.reads.len() < KEPT {
            collected.reads.push(note);
        } else {
            collected.more += 1;
        }
    }

    pub(crate) fn wrote(&self, note: WriteNote) {
        let mut collected = self.0.lock();
        if collected.writes.len() < KEPT {
            collected.writes.push(note);
        } else {
            collected.more += 1;
        }
    }

    pub(crate) fn take(&self) -> Collected {
        std::mem::take(&mut self.0.lock())
    }
}

/// One read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadNote {
    /// The type that was read.
    pub kind: Kind,
    /// What was read.
    pub read: Read,
}

/// What a read was about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Read {
    /// One object from the cache, at this version if it was there.
    Get(Key, Option<Version>),
    /// A list from the cache: its namespace and how many objects it gave.
    List(Option<String>, usize),
    /// One object from the API server, and whether it was there.
    Live(Key, bool),
    /// A list from the API server: its namespace and how many objects it gave.
    LiveList(Option<String>, usize),
}

impl ReadNote {
    pub(crate) fn get(kind: &Kind, key: &Key, version: Option<Version>) -> Self {
        Self { kind: kind.clone(), read: Read::Get(key.clone(), version) }
    }

    pub(crate) fn list(kind: &Kind, namespace: Option<&str>, count: usize) -> Self {
        Self { kind: kind.clone(), read: Read::List(namespace.map(str::to_owned), count) }
    }

    pub(crate) fn live_list(kind: &Kind, namespace: Option<&str>, count: usize) -> Self {
        Self { kind: kind.clone(), read: Read::LiveList(namespace.map(str::to_owned), count) }
    }

    pub(crate) fn live(kind: &Kind, key: &Key, found: bool) -> Self {
        Self { kind: kind.clone(), read: Read::Live(key.clone(), found) }
    }
}

/// One write.
#[derive(Clone, Debug)]
pub struct WriteNote {
    /// What was written.
    pub attempt: Attempt,
    /// What came of it.
    pub written: Written,
}

/// What came of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Written {
    /// The object exists now, or is another; at `version`.
    Changed {
        /// What the object is at now.
        version: Option<Version>,
        /// The fields that differ from what the cache had; empty when it had nothing.
        fields: Vec<FieldChange>,
        /// Who else wrote to the object last.
        other: Option<String>,
    },
    /// The server stored nothing, or nothing had to be sent.
    Nothing,
    /// The object was deleted, or is on its way out.
    Deleted,
    /// The write failed.
    Failed(String),
}

impl WriteNote {
    /// The server answered: the object was `before` at version `was`, as far as known, and is at
    /// `version` now.
    pub(crate) fn written(
        attempt: Attempt,
        before: Option<&Entry>,
        was: Option<Version>,
        answer: &[u8],
        version: Option<Version>,
    ) -> Self {
        if was.is_some() && was == version {
            return Self { attempt, written: Written::Nothing };
        }
        // Of what is not kept whole nobody can say what changed.
        let before = before.filter(|entry| entry.is_whole());
        let fields = before.map(|entry| diff::fields(entry.json(), answer)).unwrap_or_default();
        // Only asked for when a field is fought over, which a status never is.
        let contested = fields.iter().any(|field| !field.is_status());
        let other = contested.then(|| diff::last_other_writer(answer)).flatten();
        Self { attempt, written: Written::Changed { version, fields, other } }
    }

    pub(crate) fn suppressed(attempt: Attempt) -> Self {
        Self { attempt, written: Written::Nothing }
    }

    pub(crate) fn deleted(attempt: Attempt) -> Self {
        Self { attempt, written: Written::Deleted }
    }

    /// Whoever wanted the answer did not wait for it.
    pub(crate) fn cut_short(attempt: Attempt) -> Self {
        let message = "cut short before the answer came".to_owned();
        Self { attempt, written: Written::Failed(message) }
    }

    pub(crate) fn failed(attempt: Attempt, error: &Error) -> Self {
        let message = match error {
            Error::Api { status, .. } => status.message.clone(),
            Error::Unanswered { source, .. } => format!("no answer: {}", chain(&**source)),
            Error::Refused { reason, .. } => reason.clone(),
            error => error.to_string(),
        };
        Self { attempt, written: Written::Failed(message) }
    }

    /// The object that was written, unless it was a collection.
    pub(crate) fn object(&self) -> Option<(&Kind, &Key)> {
        match &self.attempt.target {
            Target::Object(key) => Some((&self.attempt.kind, key)),
            Target::All(_) => None,
        }
    }
}

impl fmt::Display for WriteNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.attempt)?;
        match &self.written {
            Written::Changed { fields, .. } if fields.is_empty() => Ok(()),
            Written::Changed { fields, .. } => {
                let (shown, rest) = fields.split_at(fields.len().min(3));
                for (index, field) in shown.iter().enumerate() {
                    f.write_str(if index == 0 { " (" } else { ", " })?;
                    field.fmt(f)?;
                }
                if !rest.is_empty() {
                    write!(f, " and {} more", rest.len())?;
                }
                f.write_str(")")
            }
            Written::Nothing => f.write_str(" (no change)"),
            Written::Deleted => Ok(()),
            Written::Failed(message) => write!(f, " failed: {message}"),
        }
    }
}
