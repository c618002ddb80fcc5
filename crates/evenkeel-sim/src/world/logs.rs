//! Log lines of a run, searched for data of Secrets.

use std::collections::BTreeSet;
use std::fmt::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Receives the log lines of a run. Clones share what was found.
#[derive(Clone)]
pub(super) struct Watched(Arc<Inner>);

struct Inner {
    canaries: BTreeSet<String>,
    found: Mutex<BTreeSet<String>>,
    spans: AtomicU64,
}

impl Watched {
    pub(super) fn new(canaries: BTreeSet<String>) -> Self {
        Self(Arc::new(Inner { canaries, found: Mutex::default(), spans: AtomicU64::new(0) }))
    }

    /// Returns where the lines with data of a Secret are from.
    pub(super) fn exposed(&self) -> Vec<String> {
        self.0.found.lock().iter().cloned().collect()
    }

    fn search(&self, metadata: &Metadata<'_>, text: &Text) {
        if self.0.canaries.iter().any(|canary| text.0.contains(canary)) {
            self.0.found.lock().insert(format!("log line of {}", metadata.target()));
        }
    }
}

impl Subscriber for Watched {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut text = Text::default();
        span.record(&mut text);
        self.search(span.metadata(), &text);
        Id::from_u64(1 + self.0.spans.fetch_add(1, Ordering::Relaxed))
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut text = Text::default();
        event.record(&mut text);
        self.search(event.metadata(), &text);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// The fields of a line.
#[derive(Default)]
struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, _: &Field, value: &dyn fmt::Debug) {
        let _ = write!(self.0, "{value:?} ");
    }

    fn record_str(&mut self, _: &Field, value: &str) {
        self.0.push_str(value);
        self.0.push(' ');
    }
}
