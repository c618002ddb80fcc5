//! The record of a reconcile.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::failure::Failure;
use super::operation::{ReadRecord, WriteRecord, WriteResult, Writes};
use crate::key::Key;
use crate::kind::Kind;
use crate::queue::Causes;

/// The record of one reconcile.
///
/// ```no_run
/// # fn example(controller: &evenkeel::ControllerHandle) {
/// for record in controller.journal().records() {
///     println!("{}: {} because of {}", record.key, record.outcome, record.causes);
///     println!("{} changes in {:?}", record.changes().count(), record.duration);
/// }
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Record {
    /// The name of the controller.
    pub controller: Arc<str>,
    /// The kind of the object.
    pub kind: Kind,
    /// The key of the object.
    pub key: Key,
    /// The causes.
    pub causes: Causes,
    /// The priority in the workqueue.
    pub priority: i32,
    /// The number of consecutive failures before.
    pub failures: u32,
    /// When the reconcile started.
    pub started: Timestamp,
    /// How long the key was due in the workqueue.
    pub queue_duration: Duration,
    /// How long the reconcile took.
    pub duration: Duration,
    /// The first reads.
    pub reads: Vec<ReadRecord>,
    /// The first writes.
    pub writes: Vec<WriteRecord>,
    /// The number of reads and writes that are not stored.
    pub omitted: usize,
    /// The outcome.
    pub outcome: Outcome,
}

/// The outcome of a reconcile.
///
/// ```
/// use evenkeel::journal::Outcome;
///
/// let outcome = Outcome::Failed("no such bucket".into());
/// assert_eq!(outcome.summary(), "failed");
/// assert_eq!(outcome.error(), Some("no such bucket"));
/// assert_eq!(outcome.to_string(), "failed: no such bucket");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// Succeeded.
    Done,
    /// Succeeded and requeued.
    Requeue,
    /// Succeeded and requeued after this delay.
    RequeueAfter(Duration),
    /// Failed; retried.
    Failed(Failure),
    /// Failed with a terminal error; not retried.
    Terminal(Failure),
    /// Panicked; retried.
    Panicked(String),
    /// Exceeded this timeout; retried.
    TimedOut(Duration),
}

impl Record {
    /// Iterates over the writes that changed an object.
    pub fn changes(&self) -> impl Iterator<Item = &WriteRecord> {
        self.writes.iter().filter(|write| {
            matches!(write.result, WriteResult::Changed { .. } | WriteResult::Deleted)
        })
    }

    /// Returns a one-line summary of the writes, if any.
    pub(crate) fn summary(&self) -> Option<Writes<'_>> {
        let error = self.outcome.error();
        let namespace = self.key.namespace();
        let summary = || Writes { writes: &self.writes, namespace, error };
        (!self.writes.is_empty()).then(summary)
    }
}

/// One line: the object, the first cause, the first writes, the outcome, and the number of omitted
/// causes and writes.
impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {} ({:.1?}): {:#.1}",
            self.kind.kind(),
            self.key,
            self.duration,
            self.causes
        )?;
        if let Some(writes) = self.summary() {
            write!(f, "; {writes}")?;
        }
        write!(f, "; {}", self.outcome)
    }
}

impl Outcome {
    /// Returns the outcome without the error: `done`, `requeued after 5s`, `failed`.
    #[must_use]
    pub fn summary(&self) -> Cow<'static, str> {
        match self {
            Self::Done => "done".into(),
            Self::Requeue => "requeued".into(),
            Self::RequeueAfter(delay) => format!("requeued after {delay:?}").into(),
            Self::Failed(_) => "failed".into(),
            Self::Terminal(_) => "terminal error".into(),
            Self::Panicked(_) => "panicked".into(),
            Self::TimedOut(_) => "timed out".into(),
        }
    }

    /// Returns the message of the error or panic, if any.
    #[must_use]
    pub fn error(&self) -> Option<&str> {
        match self {
            Self::Failed(failure) | Self::Terminal(failure) => Some(failure.message()),
            Self::Panicked(message) => Some(message),
            Self::Done | Self::Requeue | Self::RequeueAfter(_) | Self::TimedOut(_) => None,
        }
    }

    /// Returns the first error of type `T` among the reconciler's error and its causes, for example
    /// to count failures by class:
    ///
    /// ```
    /// use evenkeel::client;
    /// use evenkeel::journal::Record;
    ///
    /// fn is_conflict(record: &Record) -> bool {
    ///     record.outcome.find::<client::Error>().is_some_and(client::Error::is_conflict)
    /// }
    /// ```
    #[must_use]
    pub fn find<T: StdError + 'static>(&self) -> Option<&T> {
        match self {
            Self::Failed(failure) | Self::Terminal(failure) => failure.find(),
            _ => None,
        }
    }
}

/// `requeued after 5s`, `failed: no such bucket`, `timed out after 10s`.
impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.summary())?;
        match self {
            Self::TimedOut(limit) => write!(f, " after {limit:?}"),
            outcome => outcome.error().map_or(Ok(()), |error| write!(f, ": {error}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::FieldChange;
    use crate::queue::{Cause, Change, Merge as _, Origin};
    use crate::request_info::{RequestInfo, Target};
    use k8s_openapi::api::apps::v1::Deployment;
    use k8s_openapi::api::core::v1::{ConfigMap, Service};

    fn write(kind: Kind, result: WriteResult) -> WriteRecord {
        let target = Target::Object(Key::namespaced("shop", "web"));
        WriteRecord {
            request_info: RequestInfo { verb: "apply", kind, subresource: None, target },
            result,
        }
    }

    fn record(writes: Vec<WriteRecord>, outcome: Outcome) -> Record {
        let key = Key::namespaced("shop", "web");
        let change = Change { generation: Some((3, 4)), ..Change::default() };
        let own = Origin::own(Kind::of::<ConfigMap>());
        let mut causes = Causes::from(Cause::Updated(own, change));
        for _ in 0..3 {
            let other = Origin::other(Kind::of::<Deployment>(), key.clone());
            causes
                .merge(Cause::Updated(other, Change { status: true, ..Change::default() }).into());
        }
        Record {
            controller: "shops".into(),
            kind: Kind::of::<ConfigMap>(),
            key,
            causes,
            priority: 0,
            failures: 0,
            started: Timestamp::UNIX_EPOCH,
            queue_duration: Duration::ZERO,
            duration: Duration::from_micros(1200),
            reads: Vec::new(),
            writes,
            omitted: 0,
            outcome,
        }
    }

    #[test]
    fn line_is_short_and_counts_omitted_items() {
        let field = |path: &str| FieldChange { path: path.to_owned(), value: 0 };
        let fields = ["spec.replicas", "spec.template.image", "spec.x", "spec.y"].map(field);
        let changed =
            WriteResult::Changed { version: None, fields: fields.into(), other_manager: None };
        let writes = vec![
            write(Kind::of::<Service>(), WriteResult::Unchanged),
            write(Kind::of::<Deployment>(), changed),
            write(Kind::of::<ConfigMap>(), WriteResult::Unchanged),
        ];
        let mut record = record(writes, Outcome::Done);
        let line = record.to_string();
        assert_eq!(
            line,
            "ConfigMap shop/web (1.2ms): updated (generation 3→4) and 3 more; apply Deployment web \
             (spec.replicas and 3 more), 2 unchanged; done"
        );
        // A typical record has one cause.
        let change = Change { generation: Some((3, 4)), ..Change::default() };
        record.causes = Cause::Updated(Origin::own(Kind::of::<ConfigMap>()), change).into();
        assert!(record.to_string().chars().count() <= 120, "{record}");
        let changed =
            WriteResult::Changed { version: None, fields: Vec::new(), other_manager: None };
        record.writes = vec![write(Kind::of::<Service>(), changed); 5];
        let line = record.to_string();
        assert!(
            line.ends_with("; apply Service web, apply Service web and 3 more; done"),
            "{line}"
        );
        record.key = Key::namespaced("other", "web");
        assert!(record.to_string().contains("apply Service shop/web"), "{record}");
    }

    #[test]
    fn a_failure_is_named_once() {
        let failed =
            || write(Kind::of::<Service>(), WriteResult::Failed("the port is taken".into()));
        let error = "apply Service shop/web: the port is taken".to_owned();
        let line = record(vec![failed()], Outcome::Failed(error.into())).to_string();
        let end = "; apply Service web failed; failed: apply Service shop/web: the port is taken";
        assert!(line.ends_with(end), "{line}");
        // The reconciler ignored the error, so the outcome does not include it.
        let line = record(vec![failed()], Outcome::Done).to_string();
        assert!(line.ends_with("; apply Service web failed: the port is taken; done"), "{line}");
    }

    #[test]
    fn outcomes_use_workqueue_terms() {
        let five = Duration::from_secs(5);
        let texts = [
            (Outcome::Done, "done"),
            (Outcome::Requeue, "requeued"),
            (Outcome::RequeueAfter(five), "requeued after 5s"),
            (Outcome::Failed("x".into()), "failed: x"),
            (Outcome::Terminal("x".into()), "terminal error: x"),
            (Outcome::Panicked("x".into()), "panicked: x"),
            (Outcome::TimedOut(five), "timed out after 5s"),
        ];
        for (outcome, text) in texts {
            assert_eq!(outcome.to_string(), text);
            assert!(text.starts_with(&*outcome.summary()));
        }
    }
}
