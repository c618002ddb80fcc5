//! Log lines as JSON objects: the fields of the event and of its spans at the top level, as the
//! JSON logs of controller-runtime have them.

use std::fmt;
use std::io::Write as _;

use jiff::Timestamp;
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

/// Writes a line per event.
pub(super) struct JsonLayer<W>(W);

impl<W> JsonLayer<W> {
    pub(super) fn new(writer: W) -> Self {
        Self(writer)
    }
}

/// The fields of a span or an event.
#[derive(Default)]
struct Fields(Map<String, Value>);

impl<S, W> Layer<S> for JsonLayer<W>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: for<'a> MakeWriter<'a> + 'static,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, cx: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        if let Some(span) = cx.span(id) {
            span.extensions_mut().insert(fields);
        }
    }

    fn on_record(&self, id: &Id, record: &Record<'_>, cx: Context<'_, S>) {
        if let Some(span) = cx.span(id)
            && let Some(fields) = span.extensions_mut().get_mut::<Fields>()
        {
            record.record(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, cx: Context<'_, S>) {
        let mut line = Map::new();
        for span in cx.event_scope(event).into_iter().flat_map(|scope| scope.from_root()) {
            if let Some(Fields(fields)) = span.extensions().get() {
                line.extend(fields.iter().map(|(name, value)| (name.clone(), value.clone())));
            }
        }
        let mut fields = Fields::default();
        event.record(&mut fields);
        let message = fields.0.remove("message").unwrap_or_else(|| "".into());
        line.extend(fields.0);
        let metadata = event.metadata();
        line.insert("ts".to_owned(), Timestamp::now().to_string().into());
        line.insert("level".to_owned(), metadata.level().as_str().to_lowercase().into());
        line.insert("logger".to_owned(), metadata.target().into());
        line.insert("msg".to_owned(), message);
        let mut text = Value::Object(line).to_string();
        text.push('\n');
        // There is no place to report that the log cannot be written.
        let _ = self.0.make_writer_for(metadata).write_all(text.as_bytes());
    }
}

impl Fields {
    fn set(&mut self, field: &Field, value: impl Into<Value>) {
        // Raw identifiers are those of Rust, not of the log.
        let name = field.name();
        self.0.insert(name.strip_prefix("r#").unwrap_or(name).to_owned(), value.into());
    }
}

impl Visit for Fields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.set(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.set(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.set(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.set(field, value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.set(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.set(field, format!("{value:?}"));
    }
}
