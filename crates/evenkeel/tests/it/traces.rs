//! Traces arrive at an OTLP endpoint: `event → queue → reconcile → request`.

use std::sync::Arc;

use evenkeel::k8s_openapi::api::core::v1::ConfigMap;
use evenkeel::otel::{self, OtelOptions};
use evenkeel::prelude::*;
use parking_lot::Mutex;
use serde::Deserialize;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tracing_subscriber::layer::SubscriberExt as _;

use crate::harness::{World, each, map, start, stop, until};

/// `ExportTraceServiceRequest` of OTLP, as its JSON encoding defines it; unknown fields are errors.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Export {
    resource_spans: Vec<ResourceSpans>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ResourceSpans {
    resource: Resource,
    scope_spans: Vec<ScopeSpans>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Resource {
    attributes: Vec<KeyValue>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScopeSpans {
    scope: Scope,
    spans: Vec<Span>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Scope {
    name: String,
    #[expect(dead_code, reason = "part of the format")]
    version: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Span {
    trace_id: String,
    span_id: String,
    #[serde(default)]
    parent_span_id: String,
    name: String,
    kind: u8,
    start_time_unix_nano: String,
    end_time_unix_nano: String,
    attributes: Vec<KeyValue>,
    events: Vec<SpanEvent>,
    status: Status,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SpanEvent {
    #[expect(dead_code, reason = "part of the format")]
    time_unix_nano: String,
    name: String,
    #[expect(dead_code, reason = "part of the format")]
    attributes: Vec<KeyValue>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Status {
    code: u8,
    message: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyValue {
    key: String,
    value: AnyValue,
}

#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::enum_variant_names, reason = "the names of the format")]
enum AnyValue {
    StringValue(String),
    IntValue(String),
    BoolValue(bool),
    DoubleValue(f64),
}

impl Span {
    fn text(&self, key: &str) -> Option<&str> {
        let found = self.attributes.iter().find(|it| it.key == key)?;
        match &found.value {
            AnyValue::StringValue(text) | AnyValue::IntValue(text) => Some(text),
            AnyValue::BoolValue(_) | AnyValue::DoubleValue(_) => None,
        }
    }
}

#[derive(Default)]
struct Collected {
    heads: Vec<String>,
    spans: Vec<Span>,
    resource: Vec<KeyValue>,
}

impl Collected {
    fn add(&mut self, head: String, export: Export) {
        self.heads.push(head);
        for resource in export.resource_spans {
            self.resource = resource.resource.attributes;
            for scope in resource.scope_spans {
                assert_eq!(scope.scope.name, "evenkeel");
                self.spans.extend(scope.spans);
            }
        }
    }
}

/// A collector that answers one request per connection.
async fn collect(listener: TcpListener, collected: Arc<Mutex<Collected>>) {
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut bytes = Vec::new();
        let (head, length) = loop {
            stream.read_buf(&mut bytes).await.unwrap();
            let Some(end) = bytes.windows(4).position(|it| it == b"\r\n\r\n") else { continue };
            let head = String::from_utf8(bytes[..end].to_vec()).unwrap().to_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let length = end + 4 + length.unwrap().parse::<usize>().unwrap();
            break (head, length);
        };
        while bytes.len() < length {
            stream.read_buf(&mut bytes).await.unwrap();
        }
        let body = &bytes[bytes.windows(4).position(|it| it == b"\r\n\r\n").unwrap() + 4..];
        let export: Export = serde_json::from_slice(body).unwrap();
        collected.lock().add(head, export);
        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}";
        stream.write_all(answer).await.unwrap();
    }
}

#[tokio::test]
async fn a_reconcile_is_a_trace_from_the_event_to_the_request() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let collected = Arc::new(Mutex::new(Collected::default()));
    let mut collector = JoinSet::new();
    collector.spawn(collect(listener, collected.clone()));

    let options = OtelOptions::new(&endpoint, "shop").unwrap().header("x-token", "canary-of-otel");
    let (layer, exporter) = otel::layer(options);
    let subscriber = tracing_subscriber::registry().with(layer);
    let _guard = tracing::subscriber::set_default(subscriber);

    let world = World::new().await;
    world.create_map("web").await;
    let manager = Manager::builder("shop").seed(1).otel(exporter).build(world.client());
    let reconciler = each::<ConfigMap, _, _>(|key, _, client| async move {
        if key.name() == "web" {
            client.create(&map("child")).await?;
        }
        Err("not yet".into())
    });
    let controller = manager.controller(reconciler).named("maps").register().unwrap();
    let running = start(&manager);
    until(|| controller.reconcile_counts().error >= 2).await;
    stop(&manager, running).await;

    let collected = collected.lock();
    let head = &collected.heads[0];
    assert!(head.starts_with("post /v1/traces http/1.1"), "{head}");
    assert!(head.contains("content-type: application/json"), "{head}");
    assert!(head.contains("x-token: canary-of-otel"), "{head}");
    let service = &collected.resource[0];
    assert_eq!(
        (&*service.key, &service.value),
        ("service.name", &AnyValue::StringValue("shop".into()))
    );
    let spans = &collected.spans;
    let named = |name: &'static str| spans.iter().filter(move |span| span.name == name);
    let parent = |span: &Span| {
        let found = spans.iter().find(|other| other.span_id == span.parent_span_id);
        found.unwrap_or_else(|| panic!("no parent of {span:?}")).clone()
    };
    let request = named("request")
        .find(|span| span.text("request") == Some("create ConfigMap default/child"));
    let request = request.unwrap();
    assert_eq!((request.text("code"), request.kind), (Some("201"), 3));
    let reconcile = parent(request);
    assert_eq!((&*reconcile.name, reconcile.kind), ("reconcile", 1));
    assert_eq!(reconcile.text("controller"), Some("maps"));
    assert_eq!(
        (reconcile.text("namespace"), reconcile.text("name")),
        (Some("default"), Some("web"))
    );
    assert_eq!(reconcile.text("causes"), Some("ConfigMap listed"));
    assert_eq!(reconcile.text("reconcile_id").map(str::len), Some(16));
    assert_eq!((reconcile.status.code, &*reconcile.status.message), (2, "not yet"));
    assert!(reconcile.events.iter().any(|event| event.name == "reconcile failed"), "{reconcile:?}");
    let queue = parent(&reconcile);
    assert_eq!(queue.name, "queue");
    assert_eq!(queue.end_time_unix_nano, reconcile.start_time_unix_nano);
    let event = parent(&queue);
    assert_eq!((&*event.name, &*event.parent_span_id), ("event", ""));
    assert_eq!(event.text("causes"), Some("ConfigMap listed"));
    for span in [request, &reconcile, &queue, &event] {
        assert_eq!(span.trace_id, event.trace_id);
        assert_eq!((span.trace_id.len(), span.span_id.len()), (32, 16));
        let times = [&span.start_time_unix_nano, &span.end_time_unix_nano];
        let times = times.map(|time| time.parse::<u64>().unwrap());
        assert!(times[0] <= times[1], "{span:?}");
    }
}
