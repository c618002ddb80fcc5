//! One reconcile, told.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::note::{ReadNote, WriteNote, Written};
use crate::key::Key;
use crate::kind::Kind;
use crate::queue::Causes;

/// One reconcile: why it ran, what it read and wrote, how it ended.
#[derive(Clone, Debug)]
pub struct Record {
    /// The controller.
    pub controller: Arc<str>,
    /// The type it reconciles.
    pub kind: Kind,
    /// The object.
    pub key: Key,
    /// Why.
    pub causes: Causes,
    /// The priority it was queued at.
    pub priority: i32,
    /// How often it has failed in a row before.
    pub failures: u32,
    /// When it began.
    pub started: Timestamp,
    /// How long the key had been ready in the queue.
    pub queued: Duration,
    /// How long it took.
    pub took: Duration,
    /// What it read, as far as kept.
    pub reads: Vec<ReadNote>,
    /// What it wrote, as far as kept.
    pub writes: Vec<WriteNote>,
    /// Reads and writes beyond those kept.
    pub more: usize,
    /// How it ended.
    pub outcome: Outcome,
}

/// How a reconcile ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing is left to do.
    Done,
    /// It is run again soon.
    Requeue,
    /// It is run again after this long.
    RequeueAfter(Duration),
    /// It failed and is retried.
    Failed(String),
    /// It failed and is not retried.
    Terminal(String),
    /// It panicked and is retried.
    Panicked(String),
    /// It took longer than it may and is retried.
    TimedOut(Duration),
}

impl Record {
    /// The writes that changed something.
    pub fn changes(&self) -> impl Iterator<Item = &WriteNote> {
        self.writes
            .iter()
            .filter(|note| matches!(note.written, Written::Changed { .. } | Written::Deleted))
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} {} in {:.1?}", self.causes, self.kind.kind(), self.key, self.took)?;
        for (index, note) in self.writes.iter().enumerate() {
            f.write_str(if index == 0 { ": " } else { ", " })?;
            note.fmt(f)?;
        }
        write!(f, "; {}", self.outcome)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done => f.write_str("done"),
            Self::Requeue => f.write_str("again soon"),
            Self::RequeueAfter(delay) => write!(f, "again in {delay:?}"),
            Self::Failed(message) => write!(f, "failed: {message}"),
            Self::Terminal(message) => write!(f, "failed for good: {message}"),
            Self::Panicked(message) => write!(f, "panicked: {message}"),
            Self::TimedOut(limit) => write!(f, "timed out after {limit:?}"),
        }
    }
}
