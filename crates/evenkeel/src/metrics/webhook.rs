//! Metrics of webhooks, by controller-runtime's names.

use std::time::Duration;

use super::{Counter, Define, Family, Gauge, Histogram, wide_buckets};

/// The families by path.
#[derive(Debug)]
pub(crate) struct WebhookFamilies {
    latency: Family<Histogram, 1>,
    requests: Family<Counter, 2>,
    in_flight: Family<Gauge, 1>,
    /// Panics of admission handlers.
    pub(crate) panics: Counter,
    /// Panics of conversions.
    pub(crate) conversion_panics: Counter,
}

/// The metrics of one webhook.
#[derive(Clone, Debug)]
pub(crate) struct WebhookMetrics {
    latency: Histogram,
    ok: Counter,
    failed: Counter,
    in_flight: Gauge,
}

impl WebhookFamilies {
    pub(super) fn new(define: &Define) -> Self {
        Self {
            latency: define.histograms(
                "controller_runtime_webhook_latency_seconds",
                "Duration of webhook requests by path.",
                ["webhook"],
                wide_buckets(),
            ),
            requests: define.counters(
                "controller_runtime_webhook_requests_total",
                "Webhook requests by path and HTTP status code.",
                ["webhook", "code"],
            ),
            in_flight: define.gauges(
                "controller_runtime_webhook_requests_in_flight",
                "Webhook requests that are being served, by path.",
                ["webhook"],
            ),
            panics: define.counter(
                "controller_runtime_webhook_panics_total",
                "Panics of admission webhooks.",
            ),
            conversion_panics: define.counter(
                "controller_runtime_conversion_webhook_panics_total",
                "Panics of conversion webhooks.",
            ),
        }
    }

    /// Returns the metrics of the webhook at `path`, with the codes 200 and 500 at zero.
    pub(crate) fn webhook(&self, path: &str) -> WebhookMetrics {
        WebhookMetrics {
            latency: self.latency.with([path]),
            ok: self.requests.with([path, "200"]),
            failed: self.requests.with([path, "500"]),
            in_flight: self.in_flight.with([path]),
        }
    }
}

impl WebhookMetrics {
    /// Counts a request in flight until the returned guard is dropped.
    pub(crate) fn begin(&self) -> InFlight<'_> {
        self.in_flight.inc();
        InFlight(self)
    }

    /// Counts a request that ended: 200, or 500 if it failed.
    pub(crate) fn end(&self, ok: bool, duration: Duration) {
        if ok { &self.ok } else { &self.failed }.inc();
        self.latency.observe_duration(duration);
    }
}

/// Guard of a request in flight.
pub(crate) struct InFlight<'a>(&'a WebhookMetrics);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.in_flight.dec();
    }
}
