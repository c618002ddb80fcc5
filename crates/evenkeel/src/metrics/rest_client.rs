//! Metrics of requests to the API server, by client-go's names.

use std::time::Duration;

use http::{Method, StatusCode};

use super::{Buckets, Counter, Define, Family, Histogram};

/// The bounds of durations, in seconds.
const TIMES: &[f64] = &[0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0];

/// The bounds of sizes, in bytes.
const SIZES: &[f64] = &[
    64.0,
    256.0,
    512.0,
    1024.0,
    4096.0,
    16384.0,
    65536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
];

/// The metrics of requests. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct RestClientMetrics {
    requests: Family<Counter, 3>,
    duration: Family<Histogram, 2>,
    dns: Family<Histogram, 1>,
    request_size: Family<Histogram, 2>,
    response_size: Family<Histogram, 2>,
    rate_limiter: Family<Histogram, 2>,
    retries: Family<Counter, 3>,
}

/// A request, once its response has begun or it has failed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'a> {
    pub(crate) method: &'a Method,
    pub(crate) host: &'a str,
    /// The status, unless there was no response.
    pub(crate) status: Option<StatusCode>,
    /// The time until the head of the response; `None` for a watch, whose length is no latency.
    pub(crate) duration: Option<Duration>,
    /// The size of its body, if it has one.
    pub(crate) size: Option<u64>,
}

impl RestClientMetrics {
    pub(super) fn new(define: &Define) -> Self {
        let verb = ["verb", "host"];
        Self {
            requests: define.counters(
                "rest_client_requests_total",
                "Requests to the API server by status code, method and host; <error> if there was \
                 no response.",
                ["code", "method", "host"],
            ),
            duration: define.histograms(
                "rest_client_request_duration_seconds",
                "Time until the head of the response, without watches.",
                verb,
                Buckets::new(TIMES),
            ),
            dns: define.histograms(
                "rest_client_dns_resolution_duration_seconds",
                "Duration of DNS lookups of the API server.",
                ["host"],
                Buckets::new(TIMES),
            ),
            request_size: define.histograms(
                "rest_client_request_size_bytes",
                "Size of request bodies.",
                verb,
                Buckets::new(SIZES),
            ),
            response_size: define.histograms(
                "rest_client_response_size_bytes",
                "Size of response bodies, without watches.",
                verb,
                Buckets::new(SIZES),
            ),
            rate_limiter: define.histograms(
                "rest_client_rate_limiter_duration_seconds",
                "How long requests waited for the client-side rate limit, if one is set.",
                verb,
                Buckets::new(TIMES),
            ),
            retries: define.counters(
                "rest_client_request_retries_total",
                "Requests that were repeated, by the status code that caused it.",
                ["code", "verb", "host"],
            ),
        }
    }

    pub(crate) fn observe(&self, request: Request<'_>) {
        let Request { method, host, status, duration, size } = request;
        let code = status.as_ref().map_or("<error>", StatusCode::as_str);
        self.requests.with([code, method.as_str(), host]).inc();
        if let Some(duration) = duration {
            self.duration.with([method.as_str(), host]).observe_duration(duration);
        }
        if let Some(size) = size {
            self.request_size.with([method.as_str(), host]).observe(size as f64);
        }
    }

    /// Returns the sizes of responses to requests with this method.
    pub(crate) fn response_size(&self, method: &Method, host: &str) -> Histogram {
        self.response_size.with([method.as_str(), host])
    }

    pub(crate) fn resolved(&self, host: &str, duration: Duration) {
        self.dns.with([host]).observe_duration(duration);
    }

    pub(crate) fn limited(&self, method: &Method, host: &str, duration: Duration) {
        self.rate_limiter.with([method.as_str(), host]).observe_duration(duration);
    }

    #[expect(dead_code, reason = "no request is repeated by the client itself")]
    pub(crate) fn retried(&self, status: StatusCode, method: &Method, host: &str) {
        self.retries.with([status.as_str(), method.as_str(), host]).inc();
    }
}
