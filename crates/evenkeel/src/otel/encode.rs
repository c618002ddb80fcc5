//! The JSON encoding of OTLP: ids in hexadecimal, 64-bit numbers as text.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::layer::SpanRecord;

/// `SPAN_KIND_INTERNAL` and `SPAN_KIND_CLIENT`.
const INTERNAL: u8 = 1;
const CLIENT: u8 = 3;

/// `STATUS_CODE_ERROR`.
const ERROR: u8 = 2;

/// Returns an `ExportTraceServiceRequest`.
pub(super) fn request(resource: &[(String, String)], spans: &[SpanRecord]) -> Value {
    let resource = resource.iter().map(|(name, value)| attribute(name, &value.as_str().into()));
    json!({
        "resourceSpans": [{
            "resource": { "attributes": resource.collect::<Vec<_>>() },
            "scopeSpans": [{
                "scope": { "name": "evenkeel", "version": env!("CARGO_PKG_VERSION") },
                "spans": spans.iter().map(span).collect::<Vec<_>>(),
            }],
        }],
    })
}

fn span(span: &SpanRecord) -> Value {
    let events = span.events.iter().map(|event| {
        json!({
            "timeUnixNano": nanos(event.time),
            "name": event.message,
            "attributes": attributes(&event.attributes),
        })
    });
    let mut encoded = json!({
        "traceId": format!("{:032x}", span.trace),
        "spanId": format!("{:016x}", span.id),
        "name": span.name,
        "kind": if span.name == "request" { CLIENT } else { INTERNAL },
        "startTimeUnixNano": nanos(span.start),
        "endTimeUnixNano": nanos(span.end),
        "attributes": attributes(&span.attributes),
        "events": events.collect::<Vec<_>>(),
        "status": {},
    });
    if let Some(parent) = span.parent {
        encoded["parentSpanId"] = format!("{parent:016x}").into();
    }
    if let Some(error) = &span.error {
        encoded["status"] = json!({ "code": ERROR, "message": error });
    }
    encoded
}

fn nanos(time: Timestamp) -> String {
    time.as_nanosecond().max(0).to_string()
}

fn attributes(attributes: &[(&'static str, Value)]) -> Vec<Value> {
    attributes.iter().map(|(name, value)| attribute(name, value)).collect()
}

fn attribute(name: &str, value: &Value) -> Value {
    let value = match value {
        Value::Bool(value) => json!({ "boolValue": value }),
        Value::Number(value) if value.is_f64() => json!({ "doubleValue": value }),
        Value::Number(value) => json!({ "intValue": value.to_string() }),
        Value::String(value) => json!({ "stringValue": value }),
        other => json!({ "stringValue": other.to_string() }),
    };
    json!({ "key": name, "value": value })
}
