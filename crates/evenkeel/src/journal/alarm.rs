//! Keys that keep themselves busy, reconciles that hang, fields that two writers keep flipping.
//!
//! All are silent in most frameworks and cost a cluster dearly. A key *spins* when each of its
//! reconciles writes something that triggers the next. A field is *fought over* when a controller
//! sets it again and again because somebody else sets it back. Either is told once, naming the
//! field, and may be told again only after it has been quiet.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use tokio::time::Instant;

use super::operation::WriteResult;
use super::record::Record;
use crate::key::Key;
use crate::kind::Kind;
use crate::queue::CauseKind;

/// Reconciles in a row that change something before it is called a spin. A rollout of a few steps
/// stays well below.
const SPINS: u32 = 10;

/// Times one field is set again before it is called a fight.
const FLIPS: u32 = 5;

/// What is older says nothing about now.
const MEMORY: Duration = Duration::from_secs(600);

/// A run of writes must be this dense to be a spin: a write now and then is work.
const DENSE: Duration = Duration::from_secs(5);

/// Watches the records of one controller.
#[derive(Default)]
pub(crate) struct Alarms {
    busy: HashMap<Key, Busy>,
    fields: HashMap<(Kind, Key), HashMap<String, Flips>>,
    swept: Option<Instant>,
}

struct Busy {
    streak: u32,
    last: Instant,
    /// What the last change was, to be named.
    told: bool,
}

struct Flips {
    /// The value it was set to; setting another is work, setting the same again is a fight.
    value: u64,
    count: u32,
    last: Instant,
    told: bool,
}

/// Something an operator's author should know.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Alarm {
    /// A key keeps itself busy.
    Spin {
        /// The key.
        key: Key,
        /// How many reconciles in a row changed something.
        streak: u32,
        /// The last write.
        write: String,
        /// What it changed.
        fields: Vec<String>,
    },
    /// A key is reconciled again and again without rest, and is slowed down.
    Hot {
        /// The key.
        key: Key,
        /// Why the last reconcile ran.
        causes: String,
        /// How it ended.
        outcome: String,
    },
    /// A reconcile has been running for long, and keeps a worker.
    Hang {
        /// The key.
        key: Key,
        /// For how long.
        running: Duration,
        /// How many workers the controller has.
        workers: usize,
        /// After how long it is cancelled.
        timeout: Duration,
    },
    /// Two writers keep setting one field.
    Fight {
        /// The object, as kind and key.
        object: String,
        /// The field.
        field: String,
        /// How often this controller set it to the same value.
        count: u32,
        /// Who else wrote to the object last.
        other: Option<String>,
    },
}

impl fmt::Display for Alarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Spin { key, streak, write, fields } => {
                write!(f, "{key} is spinning: each of {streak} reconciles in a row set off the ")?;
                write!(f, "next; the last did {write}")?;
                if !fields.is_empty() {
                    write!(f, " and changed {}", fields.join(", "))?;
                }
                Ok(())
            }
            Self::Hot { key, causes, outcome } => {
                write!(f, "{key} runs hot: hundreds of reconciles in quick succession, the last ")?;
                write!(f, "because of {causes}; outcome: {outcome}. It is slowed down to ten a ")?;
                f.write_str("second")
            }
            Self::Hang { key, running, workers, timeout } => {
                write!(
                    f,
                    "the reconcile of {key} has been running for {running:?} and keeps one "
                )?;
                write!(f, "of {workers} worker(s); it is cancelled after {timeout:?}")
            }
            Self::Fight { object, field, count, other } => {
                write!(f, "{field} of {object} is fought over: it was set to the same value ")?;
                write!(f, "{count} times, so somebody sets it back")?;
                match other {
                    Some(other) => write!(f, "; {other} wrote to the object last"),
                    None => Ok(()),
                }
            }
        }
    }
}

impl Alarms {
    /// Takes a record in; gives what it shows.
    pub(crate) fn observe(&mut self, record: &Record, now: Instant) -> Vec<Alarm> {
        self.sweep(now);
        let mut alarms = Vec::new();
        self.spin(record, now, &mut alarms);
        self.fight(record, now, &mut alarms);
        alarms
    }

    fn spin(&mut self, record: &Record, now: Instant, alarms: &mut Vec<Alarm>) {
        let Some(change) = record.changes().last() else {
            self.busy.remove(&record.key);
            return;
        };
        // Only a reconcile that a change of an object set off can be set off by its own write.
        let kinds = record.causes.kinds();
        if ![CauseKind::Created, CauseKind::Updated, CauseKind::Deleted]
            .into_iter()
            .any(|kind| kinds.contains(kind))
        {
            return;
        }
        let fresh = || Busy { streak: 0, last: now, told: false };
        let busy = self.busy.entry(record.key.clone()).or_insert_with(fresh);
        if now.duration_since(busy.last) > DENSE {
            *busy = fresh();
        }
        busy.streak += 1;
        busy.last = now;
        if busy.streak >= SPINS && !busy.told {
            busy.told = true;
            let fields = match &change.result {
                WriteResult::Changed { fields, .. } => {
                    fields.iter().map(ToString::to_string).collect()
                }
                _ => Vec::new(),
            };
            let (key, write) = (record.key.clone(), change.request_info.to_string());
            alarms.push(Alarm::Spin { key, streak: busy.streak, write, fields });
        }
    }

    fn fight(&mut self, record: &Record, now: Instant, alarms: &mut Vec<Alarm>) {
        for write in &record.writes {
            let (WriteResult::Changed { fields, other, .. }, Some((kind, key))) =
                (&write.result, write.object())
            else {
                continue;
            };
            let mut fields = fields.iter().filter(|field| !field.is_status()).peekable();
            if fields.peek().is_none() {
                continue;
            }
            let known = self.fields.entry((kind.clone(), key.clone())).or_default();
            for field in fields {
                let fresh = || Flips { value: field.value, count: 0, last: now, told: false };
                let flips = known.entry(field.path.clone()).or_insert_with(fresh);
                if flips.value != field.value {
                    *flips = fresh();
                }
                flips.count += 1;
                flips.last = now;
                if flips.count >= FLIPS && !flips.told {
                    flips.told = true;
                    alarms.push(Alarm::Fight {
                        object: format!("{kind} {key}"),
                        field: field.path.clone(),
                        count: flips.count,
                        other: other.clone(),
                    });
                }
            }
        }
    }

    /// Forgets what has been quiet, now and then, so that memory follows what is busy.
    fn sweep(&mut self, now: Instant) {
        if self.swept.is_some_and(|last| now.duration_since(last) < MEMORY / 10) {
            return;
        }
        self.swept = Some(now);
        self.busy.retain(|_, busy| now.duration_since(busy.last) < MEMORY);
        self.fields.retain(|_, fields| {
            fields.retain(|_, flips| now.duration_since(flips.last) < MEMORY);
            !fields.is_empty()
        });
    }
}
