//! What happened in a run, in order and with virtual times.

use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

/// One line of a trace.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct TraceEvent {
    /// Virtual time since the start of the run.
    pub at: Duration,
    /// The actor: the lane of a picture.
    pub lane: Lane,
    /// What.
    pub text: String,
    /// Whether a fault of the plan acted here.
    pub fault: bool,
}

/// The actors of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Lane {
    /// The client of the workload, and other clients that interfere.
    User,
    /// The API server and the controllers of the cluster: committed writes.
    Server,
    /// What the watches deliver to the operator.
    Cache,
    /// Requests and reconciles of the operator, its crashes and restarts.
    Operator,
    /// The lease: which replica holds it.
    Leader,
    /// Calls of what the operator manages besides objects of the API server.
    Application,
}

impl Lane {
    pub(crate) const ALL: [Self; 6] =
        [Self::User, Self::Server, Self::Cache, Self::Operator, Self::Leader, Self::Application];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Server => "server",
            Self::Cache => "cache",
            Self::Operator => "operator",
            Self::Leader => "leader",
            Self::Application => "application",
        }
    }
}

/// Events of a run that is in progress.
#[derive(Clone)]
pub(crate) struct Recorder {
    start: Instant,
    events: Arc<Mutex<Vec<TraceEvent>>>,
}

impl Recorder {
    pub(crate) fn start() -> Self {
        Self { start: Instant::now(), events: Arc::default() }
    }

    pub(crate) fn record(&self, lane: Lane, text: impl Into<String>) {
        self.push(lane, text.into(), false);
    }

    pub(crate) fn fault(&self, lane: Lane, text: impl Into<String>) {
        self.push(lane, text.into(), true);
    }

    fn push(&self, lane: Lane, text: String, fault: bool) {
        self.events.lock().push(TraceEvent { at: self.start.elapsed(), lane, text, fault });
    }

    /// Returns the events so far.
    pub(crate) fn events(&self) -> Vec<TraceEvent> {
        self.events.lock().clone()
    }

    pub(crate) fn take(&self) -> Vec<TraceEvent> {
        std::mem::take(&mut self.events.lock())
    }
}

/// Returns a hash of the events.
pub(crate) fn hash(events: &[TraceEvent]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for event in events {
        (event.at, event.lane, &event.text, event.fault).hash(&mut hasher);
    }
    hasher.finish()
}

/// Returns `around` events before and after the first fault, or the last events without one.
pub(crate) fn timeline(events: &[TraceEvent], around: usize) -> &[TraceEvent] {
    let first_fault = events.iter().position(|event| event.fault);
    let (from, to) = match first_fault {
        Some(at) => (at.saturating_sub(around / 2), at + around / 2 + 1),
        None => (events.len().saturating_sub(around), events.len()),
    };
    &events[from..to.min(events.len())]
}

/// Renders events as a table.
pub(crate) fn render(events: &[TraceEvent]) -> String {
    let mut text = String::new();
    for event in events {
        let mark = if event.fault { '!' } else { ' ' };
        let seconds = event.at.as_secs_f64();
        let _ = writeln!(text, "{mark} {seconds:>9.3}s  {:<11}  {}", event.lane.name(), event.text);
    }
    text
}
