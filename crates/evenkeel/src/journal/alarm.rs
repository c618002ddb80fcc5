//! Alarms: reconcile loops, throttled keys, long-running reconciles, contested fields.
//!
//! A *reconcile loop* is a key each of whose reconciles writes an object and so triggers the next.
//! A *contested field* is one that a controller sets repeatedly because another writer sets it
//! back. Each alarm is raised once, and again only after a quiet period.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use tokio::time::Instant;

use super::operation::WriteResult;
use super::record::Record;
use crate::key::Key;
use crate::kind::Kind;
use crate::queue::CauseKind;

/// The number of consecutive reconciles with changes that make a reconcile loop. A rollout of a few
/// steps stays well below.
const LOOP_RECONCILES: u32 = 10;

/// The number of times the same value of a field is set again that make it contested.
const CONTESTED_WRITES: u32 = 5;

/// How long state is kept.
const RETENTION: Duration = Duration::from_secs(600);

/// The maximum interval between reconciles of a loop: occasional writes are normal.
const LOOP_INTERVAL: Duration = Duration::from_secs(5);

/// Detects alarms in the records of one controller.
#[derive(Default)]
pub(crate) struct AlarmDetector {
    streaks: HashMap<Key, Streak>,
    fields: HashMap<(Kind, Key), HashMap<String, FieldWrites>>,
    swept: Option<Instant>,
}

/// Consecutive reconciles of a key that changed an object.
struct Streak {
    reconciles: u32,
    last: Instant,
    raised: bool,
}

/// Writes of the same value to one field.
struct FieldWrites {
    /// A digest of the value.
    value: u64,
    count: u32,
    last: Instant,
    raised: bool,
}

/// A condition that the author of the operator should fix.
///
/// ```
/// use evenkeel::ControllerHandle;
/// use evenkeel::journal::Alarm;
///
/// fn loops(controller: &ControllerHandle) -> usize {
///     let alarms = controller.journal().alarms();
///     alarms.iter().filter(|alarm| matches!(alarm, Alarm::ReconcileLoop { .. })).count()
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Alarm {
    /// Each reconcile of a key triggers the next by its writes.
    ReconcileLoop {
        /// The key.
        key: Key,
        /// The number of consecutive reconciles that changed an object.
        reconciles: u32,
        /// The last write.
        write: String,
        /// The fields it changed.
        fields: Vec<String>,
    },
    /// A key is reconciled in a hot loop and is throttled.
    Throttled {
        /// The key.
        key: Key,
        /// The causes of the last reconcile.
        causes: String,
        /// Its outcome.
        outcome: String,
    },
    /// A reconcile has been running for a long time and occupies a worker.
    LongRunning {
        /// The key.
        key: Key,
        /// How long it has been running.
        running: Duration,
        /// The number of workers of the controller.
        workers: usize,
        /// The timeout after which it is cancelled.
        timeout: Duration,
    },
    /// Two writers set one field to different values repeatedly.
    ContestedField {
        /// The object, as kind and key.
        object: String,
        /// The field.
        field: String,
        /// How often this controller has set it to the same value.
        count: u32,
        /// The last other field manager of the object.
        other_manager: Option<String>,
    },
}

impl Alarm {
    /// The labels of metrics, by [number](Alarm::number).
    pub(crate) const LABELS: [&str; 4] =
        ["reconcile_loop", "throttled", "long_running", "contested_field"];

    pub(crate) fn number(&self) -> usize {
        match self {
            Self::ReconcileLoop { .. } => 0,
            Self::Throttled { .. } => 1,
            Self::LongRunning { .. } => 2,
            Self::ContestedField { .. } => 3,
        }
    }
}

impl fmt::Display for Alarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ReconcileLoop { key, reconciles, write, fields } => {
                write!(f, "reconcile loop: {reconciles} consecutive reconciles of {key} each ")?;
                write!(f, "triggered the next; last write: {write}")?;
                if !fields.is_empty() {
                    write!(f, ", changed {}", fields.join(", "))?;
                }
                Ok(())
            }
            Self::Throttled { key, causes, outcome } => {
                write!(f, "{key} is reconciled in a hot loop and throttled to 10 reconciles per ")?;
                write!(f, "second; last causes: {causes}; last outcome: {outcome}")
            }
            Self::LongRunning { key, running, workers, timeout } => {
                write!(
                    f,
                    "the reconcile of {key} has been running for {running:?} and occupies one "
                )?;
                write!(f, "of {workers} worker(s); it is cancelled after {timeout:?}")
            }
            Self::ContestedField { object, field, count, other_manager } => {
                write!(
                    f,
                    "{field} of {object} is contested: it was set to the same value {count} "
                )?;
                write!(f, "times because another writer changes it back")?;
                match other_manager {
                    Some(other) => write!(f, "; last other field manager: {other}"),
                    None => Ok(()),
                }
            }
        }
    }
}

impl AlarmDetector {
    /// Observes a record; returns the alarms it raises.
    pub(crate) fn observe(&mut self, record: &Record, now: Instant) -> Vec<Alarm> {
        self.sweep(now);
        let mut alarms = Vec::new();
        self.detect_loop(record, now, &mut alarms);
        self.detect_contested_fields(record, now, &mut alarms);
        alarms
    }

    fn detect_loop(&mut self, record: &Record, now: Instant, alarms: &mut Vec<Alarm>) {
        let Some(change) = record.changes().last() else {
            self.streaks.remove(&record.key);
            return;
        };
        // Only a reconcile caused by the change of an object can be caused by its own write.
        let kinds = record.causes.kinds();
        if ![CauseKind::Created, CauseKind::Updated, CauseKind::Deleted]
            .into_iter()
            .any(|kind| kinds.contains(kind))
        {
            return;
        }
        let fresh = || Streak { reconciles: 0, last: now, raised: false };
        let streak = self.streaks.entry(record.key.clone()).or_insert_with(fresh);
        if now.duration_since(streak.last) > LOOP_INTERVAL {
            *streak = fresh();
        }
        streak.reconciles += 1;
        streak.last = now;
        if streak.reconciles >= LOOP_RECONCILES && !streak.raised {
            streak.raised = true;
            let fields = match &change.result {
                WriteResult::Changed { fields, .. } => {
                    fields.iter().map(ToString::to_string).collect()
                }
                _ => Vec::new(),
            };
            let (key, write) = (record.key.clone(), change.request_info.to_string());
            let reconciles = streak.reconciles;
            alarms.push(Alarm::ReconcileLoop { key, reconciles, write, fields });
        }
    }

    fn detect_contested_fields(&mut self, record: &Record, now: Instant, alarms: &mut Vec<Alarm>) {
        for write in &record.writes {
            let (WriteResult::Changed { fields, other_manager, .. }, Some((kind, key))) =
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
                let fresh =
                    || FieldWrites { value: field.value, count: 0, last: now, raised: false };
                let writes = known.entry(field.path.clone()).or_insert_with(fresh);
                if writes.value != field.value {
                    *writes = fresh();
                }
                writes.count += 1;
                writes.last = now;
                if writes.count >= CONTESTED_WRITES && !writes.raised {
                    writes.raised = true;
                    alarms.push(Alarm::ContestedField {
                        object: format!("{kind} {key}"),
                        field: field.path.clone(),
                        count: writes.count,
                        other_manager: other_manager.clone(),
                    });
                }
            }
        }
    }

    /// Removes idle entries at intervals, so that memory is bounded by the active objects.
    fn sweep(&mut self, now: Instant) {
        if self.swept.is_some_and(|last| now.duration_since(last) < RETENTION / 10) {
            return;
        }
        self.swept = Some(now);
        self.streaks.retain(|_, streak| now.duration_since(streak.last) < RETENTION);
        self.fields.retain(|_, fields| {
            fields.retain(|_, writes| now.duration_since(writes.last) < RETENTION);
            !fields.is_empty()
        });
    }
}
