//! Records spans of `tracing` as spans of OpenTelemetry.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::Notify;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

use crate::controller::TRACE_TARGET;
use crate::random::Random;

/// The number of finished spans that wait for the export; further ones are dropped.
const QUEUE_MAX: usize = 4096;

/// The number of finished spans at which the export begins at once.
pub(super) const BATCH: usize = 512;

/// The number of events of a span.
const EVENTS_MAX: usize = 64;

/// Spans that have ended.
#[derive(Default)]
pub(super) struct Finished {
    spans: Mutex<VecDeque<SpanRecord>>,
    pub(super) dropped: AtomicU64,
    /// Notified when there is a batch.
    pub(super) full: Notify,
}

impl Finished {
    fn push(&self, span: SpanRecord) {
        let mut spans = self.spans.lock();
        if spans.len() >= QUEUE_MAX {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        spans.push_back(span);
        if spans.len() >= BATCH {
            self.full.notify_one();
        }
    }

    /// Takes the next batch.
    pub(super) fn take(&self) -> Vec<SpanRecord> {
        let mut spans = self.spans.lock();
        let end = spans.len().min(BATCH);
        spans.drain(..end).collect()
    }
}

/// A span of OpenTelemetry.
pub(super) struct SpanRecord {
    pub(super) trace: u128,
    pub(super) id: u64,
    pub(super) parent: Option<u64>,
    pub(super) name: &'static str,
    pub(super) start: Timestamp,
    pub(super) end: Timestamp,
    pub(super) attributes: Vec<(&'static str, Value)>,
    pub(super) events: Vec<EventRecord>,
    /// The last error that was logged within it.
    pub(super) error: Option<String>,
    /// How long the key of a reconcile was due.
    queued: Option<Duration>,
}

/// A log line within a span.
pub(super) struct EventRecord {
    pub(super) time: Timestamp,
    pub(super) message: String,
    pub(super) attributes: Vec<(&'static str, Value)>,
}

/// Records spans for an [`OtelExporter`](super::OtelExporter).
pub(super) struct OtelLayer {
    finished: Arc<Finished>,
    random: Mutex<Random>,
}

impl OtelLayer {
    pub(super) fn new(finished: Arc<Finished>) -> Self {
        Self { finished, random: Mutex::new(Random::from_entropy()) }
    }

    /// Returns a number that is not zero.
    fn id(&self) -> u64 {
        self.random.lock().next().max(1)
    }

    fn trace(&self) -> u128 {
        u128::from(self.id()) << 64 | u128::from(self.id())
    }

    /// Queues the span, after the spans of the event and the queue that led to it.
    fn finish(&self, mut span: SpanRecord) {
        if let Some(queued) = span.queued {
            let due = span.start - queued;
            let (event, queue) = (self.id(), self.id());
            let step = |id, parent, name, end| SpanRecord {
                trace: span.trace,
                id,
                parent,
                name,
                start: due,
                end,
                attributes: span.attributes.clone(),
                events: Vec::new(),
                error: None,
                queued: None,
            };
            self.finished.push(step(event, None, "event", due));
            self.finished.push(step(queue, Some(event), "queue", span.start));
            span.parent = Some(queue);
        }
        self.finished.push(span);
    }
}

/// What is traced: spans and the log from `info` on, more of this crate's spans, and what it logs for
/// traces alone.
pub(super) fn is_traced(metadata: &Metadata<'_>) -> bool {
    let level = *metadata.level();
    match metadata.is_span() {
        true => level <= Level::INFO || metadata.target().starts_with("evenkeel"),
        false => level <= Level::INFO || metadata.target() == TRACE_TARGET,
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for OtelLayer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, cx: Context<'_, S>) {
        let Some(span) = cx.span(id) else { return };
        let parent = span.scope().skip(1).find_map(|parent| {
            let extensions = parent.extensions();
            extensions.get::<SpanRecord>().map(|record| (record.trace, record.id))
        });
        let (trace, parent) = match parent {
            Some((trace, parent)) => (trace, Some(parent)),
            None => (self.trace(), None),
        };
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        let now = Timestamp::now();
        span.extensions_mut().insert(SpanRecord {
            trace,
            id: self.id(),
            parent,
            name: span.name(),
            start: now,
            end: now,
            attributes: fields.attributes,
            events: Vec::new(),
            error: None,
            queued: None,
        });
    }

    fn on_record(&self, id: &Id, record: &Record<'_>, cx: Context<'_, S>) {
        let Some(span) = cx.span(id) else { return };
        let mut fields = Fields::default();
        record.record(&mut fields);
        if let Some(span) = span.extensions_mut().get_mut::<SpanRecord>() {
            if let Some(Value::String(error)) = fields.get("error") {
                span.error = Some(error.clone());
            }
            for (name, value) in fields.attributes {
                span.attributes.retain(|(known, _)| *known != name);
                span.attributes.push((name, value));
            }
        }
    }

    fn on_event(&self, event: &Event<'_>, cx: Context<'_, S>) {
        let Some(span) = cx.event_span(event) else { return };
        let mut extensions = span.extensions_mut();
        let Some(span) = extensions.get_mut::<SpanRecord>() else { return };
        let mut fields = Fields::default();
        event.record(&mut fields);
        if event.metadata().target() == TRACE_TARGET {
            span.queued = fields.queued;
            span.attributes.append(&mut fields.attributes);
            return;
        }
        // More severe levels are smaller.
        if *event.metadata().level() <= Level::WARN
            && let Some(Value::String(error)) = fields.get("error")
        {
            span.error = Some(error.clone());
        }
        if span.events.len() < EVENTS_MAX {
            let Fields { message, attributes, .. } = fields;
            span.events.push(EventRecord { time: Timestamp::now(), message, attributes });
        }
    }

    fn on_close(&self, id: Id, cx: Context<'_, S>) {
        let Some(span) = cx.span(&id) else { return };
        let record = span.extensions_mut().remove::<SpanRecord>();
        if let Some(mut record) = record {
            record.end = Timestamp::now();
            self.finish(record);
        }
    }
}

/// The fields of a span or an event.
#[derive(Default)]
struct Fields {
    message: String,
    attributes: Vec<(&'static str, Value)>,
    queued: Option<Duration>,
}

impl Fields {
    fn get(&self, name: &str) -> Option<&Value> {
        self.attributes.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }
}

impl Visit for Fields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.attributes.push((field.name(), value.into()));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.attributes.push((field.name(), value.into()));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        match field.name() {
            "queued_nanos" => self.queued = Some(Duration::from_nanos(value)),
            name => self.attributes.push((name, value.into())),
        }
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.attributes.push((field.name(), value.into()));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => self.message = value.to_owned(),
            name => self.attributes.push((name, value.into())),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}
