//! Sends finished spans to a collector.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use http::{Method, Request, StatusCode, header};
use kube::client::Body;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use super::encode;
use super::layer::{Finished, SpanRecord};
use super::options::OtelOptions;
use crate::connect::{self, Observer};
use crate::error::{Result, chain};

/// How often spans are sent, unless there is a batch earlier.
const INTERVAL: Duration = Duration::from_secs(5);

/// The timeout of a request, as in OpenTelemetry.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// How long the end of the manager waits for the last spans.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

/// The delays of repeated requests.
const RETRY_DELAYS: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(3)];

/// Sends spans while the manager runs; see [`ManagerBuilder::otel`](crate::manager::ManagerBuilder).
pub struct OtelExporter {
    options: OtelOptions,
    finished: Arc<Finished>,
}

impl OtelExporter {
    pub(super) fn new(options: OtelOptions, finished: Arc<Finished>) -> Self {
        Self { options, finished }
    }

    /// Sends spans until `stop`, then the rest.
    pub(crate) async fn run(&self, observer: &Observer, stop: CancellationToken) {
        loop {
            let stopped = tokio::select! {
                biased;
                () = stop.cancelled() => true,
                () = self.finished.full.notified() => false,
                () = sleep(INTERVAL) => false,
            };
            if stopped {
                let _ = timeout(FLUSH_TIMEOUT, self.flush(observer)).await;
                return;
            }
            // A stop does not wait for a collector that does not respond.
            tokio::select! {
                biased;
                () = self.flush(observer) => {}
                () = stop.cancelled() => {}
            }
        }
    }

    async fn flush(&self, observer: &Observer) {
        loop {
            let spans = self.finished.take();
            if spans.is_empty() {
                break;
            }
            if let Err(error) = self.send(observer, &spans).await {
                let (spans, error) = (spans.len(), chain(&*error));
                tracing::warn!(spans, error, "failed to export traces, dropping spans");
            }
        }
        let dropped = self.finished.dropped.swap(0, Ordering::Relaxed);
        if dropped > 0 {
            tracing::warn!(dropped, "too many spans, some were not exported");
        }
    }

    async fn send(&self, observer: &Observer, spans: &[SpanRecord]) -> Result<()> {
        let body = encode::request(&self.options.attributes, spans).to_string();
        let mut delays = RETRY_DELAYS.iter();
        loop {
            let sent = timeout(REQUEST_TIMEOUT, self.post(observer, &body)).await;
            let error = match sent {
                Ok(Ok(status)) if status.is_success() => return Ok(()),
                Ok(Ok(status)) if !is_retryable(status) => {
                    return Err(format!("the collector responded with {status}").into());
                }
                Ok(Ok(status)) => format!("the collector responded with {status}").into(),
                Ok(Err(error)) => error,
                Err(_) => "the collector timed out".into(),
            };
            let Some(delay) = delays.next() else { return Err(error) };
            sleep(*delay).await;
        }
    }

    async fn post(&self, observer: &Observer, body: &str) -> Result<StatusCode> {
        let path = self.options.endpoint.path_and_query().map_or("/", |path| path.as_str());
        let mut request = Request::builder()
            .method(Method::POST)
            .uri(path)
            .header(header::CONTENT_TYPE, "application/json");
        for (name, value) in &self.options.headers {
            request = request.header(name, value.expose());
        }
        let request = request.body(Body::from(body.as_bytes().to_vec()))?;
        let service = connect::service_of(&self.options.endpoint, observer)?;
        Ok(service.oneshot(request).await?.status())
    }
}

/// The codes that OTLP allows to repeat.
fn is_retryable(status: StatusCode) -> bool {
    matches!(status.as_u16(), 429 | 502 | 503 | 504)
}

impl fmt::Debug for OtelExporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OtelExporter").field("options", &self.options).finish_non_exhaustive()
    }
}
