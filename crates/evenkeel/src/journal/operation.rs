//! The reads and writes of a reconcile.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

use super::diff::{self, FieldChange};
use super::sent_fields::{Body, SentFields, precondition};
use crate::cache::{Entry, Version};
use crate::key::Key;
use crate::kind::Kind;
use crate::request_info::{RequestInfo, Target};

/// The maximum number of reads, and of writes, per reconcile.
const OPERATIONS_MAX: usize = 64;

/// Collects the reads and writes of a reconcile.
#[derive(Clone, Default)]
pub(crate) struct OperationLog(Arc<Mutex<Collected>>);

#[derive(Default)]
pub(crate) struct Collected {
    pub(crate) reads: Vec<ReadRecord>,
    pub(crate) writes: Vec<WriteRecord>,
    /// The number of reads and writes beyond the maximum.
    pub(crate) omitted: usize,
}

impl OperationLog {
    pub(crate) fn record_read(&self, read: ReadRecord) {
        let mut collected = self.0.lock();
        if collected.reads.len() < OPERATIONS_MAX {
            collected.reads.push(read);
        } else {
            collected.omitted += 1;
        }
    }

    pub(crate) fn record_write(&self, write: WriteRecord) {
        let mut collected = self.0.lock();
        if collected.writes.len() < OPERATIONS_MAX {
            collected.writes.push(write);
        } else {
            collected.omitted += 1;
        }
    }

    pub(crate) fn take(&self) -> Collected {
        std::mem::take(&mut self.0.lock())
    }
}

/// A read.
///
/// ```
/// use evenkeel::journal::{ReadOperation, Record};
///
/// fn live_reads(record: &Record) -> usize {
///     let live = |read: &ReadOperation| {
///         matches!(read, ReadOperation::Live(..) | ReadOperation::LiveList(..))
///     };
///     record.reads.iter().filter(|read| live(&read.operation)).count()
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReadRecord {
    /// The kind.
    pub kind: Kind,
    /// The operation and its result.
    pub operation: ReadOperation,
}

/// A read operation and its result.
///
/// ```
/// use evenkeel::Key;
/// use evenkeel::journal::ReadOperation;
///
/// fn missing(read: &ReadOperation) -> Option<&Key> {
///     match read {
///         ReadOperation::Get(key, None) | ReadOperation::Live(key, false) => Some(key),
///         _ => None,
///     }
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadOperation {
    /// One object from the cache, with its resourceVersion if it exists.
    Get(Key, Option<Version>),
    /// A list from the cache: its namespace and number of objects.
    List(Option<String>, usize),
    /// One object from the API server, and whether it exists.
    Live(Key, bool),
    /// A list from the API server: its namespace and number of objects.
    LiveList(Option<String>, usize),
}

impl ReadRecord {
    pub(crate) fn get(kind: &Kind, key: &Key, version: Option<Version>) -> Self {
        Self { kind: kind.clone(), operation: ReadOperation::Get(key.clone(), version) }
    }

    pub(crate) fn list(kind: &Kind, namespace: Option<&str>, count: usize) -> Self {
        Self {
            kind: kind.clone(),
            operation: ReadOperation::List(namespace.map(str::to_owned), count),
        }
    }

    pub(crate) fn live_list(kind: &Kind, namespace: Option<&str>, count: usize) -> Self {
        Self {
            kind: kind.clone(),
            operation: ReadOperation::LiveList(namespace.map(str::to_owned), count),
        }
    }

    pub(crate) fn live(kind: &Kind, key: &Key, found: bool) -> Self {
        Self { kind: kind.clone(), operation: ReadOperation::Live(key.clone(), found) }
    }
}

/// A write.
///
/// ```
/// use evenkeel::journal::{Record, WriteResult};
///
/// fn failures(record: &Record) -> Vec<String> {
///     let failed = record.writes.iter().filter_map(|write| match &write.result {
///         WriteResult::Failed(error) => Some(format!("{}: {error}", write.request_info)),
///         _ => None,
///     });
///     failed.collect()
/// }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WriteRecord {
    /// The request.
    pub request_info: RequestInfo,
    /// Its result.
    pub result: WriteResult,
}

/// The result of a write.
///
/// ```
/// use evenkeel::journal::{Record, WriteResult};
///
/// fn is_noop(record: &Record) -> bool {
///     record.writes.iter().all(|write| write.result == WriteResult::Unchanged)
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WriteResult {
    /// The object was created or changed.
    Changed {
        /// Its new resourceVersion.
        version: Option<Version>,
        /// The fields that the write changed, compared with the cached object; empty if it was not
        /// cached. Concurrent changes of other clients are not included, nor are fields that an
        /// apply removed.
        fields: Vec<FieldChange>,
        /// The last other field manager of the object.
        other_manager: Option<String>,
    },
    /// The object did not change, or the request was not sent because nothing differed.
    Unchanged,
    /// The object was deleted or marked for deletion.
    Deleted,
    /// The write failed.
    Failed(String),
}

impl WriteRecord {
    /// Records a write that the server persisted.
    pub(crate) fn written(
        request_info: RequestInfo,
        before: Option<&Entry>,
        body: &Body<'_>,
        response: &[u8],
        version: Option<Version>,
    ) -> Self {
        // An object that is not cached whole cannot be compared.
        let before = before.filter(|entry| entry.is_whole());
        let fields = before.map(|entry| {
            let fields = body.fields();
            let exact = precondition(&fields) == Some(entry.meta().version());
            diff::fields(entry.json(), response, SentFields::root(&fields, body.strategy, exact))
        });
        let fields = fields.unwrap_or_default();
        // Needed only for contested fields, which exclude the status.
        let contested = fields.iter().any(|field| !field.is_status());
        let other_manager = contested.then(|| diff::last_other_manager(response)).flatten();
        Self { request_info, result: WriteResult::Changed { version, fields, other_manager } }
    }

    /// Records a write that changed nothing.
    pub(crate) fn unchanged(request_info: RequestInfo) -> Self {
        Self { request_info, result: WriteResult::Unchanged }
    }

    pub(crate) fn deleted(request_info: RequestInfo) -> Self {
        Self { request_info, result: WriteResult::Deleted }
    }

    /// Records a write whose future was dropped before the response.
    pub(crate) fn cancelled(request_info: RequestInfo) -> Self {
        let message = "cancelled before the response".to_owned();
        Self { request_info, result: WriteResult::Failed(message) }
    }

    /// Records a write that failed with `message`, which does not repeat the request.
    pub(crate) fn failed(request_info: RequestInfo, message: String) -> Self {
        Self { request_info, result: WriteResult::Failed(message) }
    }

    /// Returns the object of the write, unless it was a collection.
    pub(crate) fn object(&self) -> Option<(&Kind, &Key)> {
        match &self.request_info.target {
            Target::Object(key) => Some((&self.request_info.kind, key)),
            Target::Collection(_) => None,
        }
    }
}

/// `apply Deployment.apps shop/web (spec.replicas, spec.paused and 2 more)`.
impl fmt::Display for WriteRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.request_info, Effect(&self.result, 3))
    }
}

/// Displays a result with at most this many fields.
struct Effect<'a>(&'a WriteResult, usize);

impl fmt::Display for Effect<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            WriteResult::Changed { fields, .. } if fields.is_empty() => Ok(()),
            WriteResult::Changed { fields, .. } => {
                let (shown, rest) = fields.split_at(fields.len().min(self.1));
                for (index, field) in shown.iter().enumerate() {
                    f.write_str(if index == 0 { " (" } else { ", " })?;
                    field.fmt(f)?;
                }
                if !rest.is_empty() {
                    write!(f, " and {} more", rest.len())?;
                }
                f.write_str(")")
            }
            WriteResult::Unchanged => f.write_str(" (no change)"),
            WriteResult::Deleted => Ok(()),
            WriteResult::Failed(message) => write!(f, " failed: {message}"),
        }
    }
}

/// The maximum number of writes in a line.
const SHOWN: usize = 2;

/// Displays the writes of a reconcile on one line: those that changed an object or failed, then the
/// number of the others.
pub(crate) struct Writes<'a> {
    pub(super) writes: &'a [WriteRecord],
    /// The namespace of the reconciled object, which is omitted.
    pub(super) namespace: Option<&'a str>,
    /// The error of the reconcile, which is not repeated.
    pub(super) error: Option<&'a str>,
}

impl fmt::Display for Writes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unchanged = |write: &&WriteRecord| write.result == WriteResult::Unchanged;
        let mut separator = "";
        for write in self.writes.iter().filter(|write| !unchanged(write)).take(SHOWN) {
            f.write_str(std::mem::replace(&mut separator, ", "))?;
            self.request_info(&write.request_info, f)?;
            match (&write.result, self.error) {
                (WriteResult::Failed(message), Some(error)) if error.contains(message.as_str()) => {
                    f.write_str(" failed")?;
                }
                (result, _) => Effect(result, 1).fmt(f)?,
            }
        }
        let unchanged = self.writes.iter().filter(unchanged).count();
        let more = (self.writes.len() - unchanged).saturating_sub(SHOWN);
        if more > 0 {
            write!(f, " and {more} more")?;
        }
        if unchanged > 0 {
            write!(f, "{separator}{unchanged} unchanged")?;
        }
        Ok(())
    }
}

impl Writes<'_> {
    /// `apply Deployment web`, with the namespace if it differs.
    fn request_info(&self, request_info: &RequestInfo, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &request_info.target {
            Target::Object(key) if key.namespace() == self.namespace => {
                write!(f, "{} {}", request_info.verb, request_info.kind.kind())?;
                if let Some(subresource) = request_info.subresource {
                    write!(f, "/{subresource}")?;
                }
                write!(f, " {}", key.name())
            }
            _ => fmt::Display::fmt(request_info, f),
        }
    }
}
