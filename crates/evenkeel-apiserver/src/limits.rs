//! What clients may take of a server, in one place.
//!
//! All of it concerns requests that come through a socket. Requests in process are not limited: a
//! test that fills its own memory has no other client to protect, and virtual time stays free of
//! threads. Limits of connections are in [`listen::Options`](crate::listen::Options).

use std::time::Duration;

/// The size of a request body, as upstream's `MaxRequestBodyBytes`.
pub(crate) const BODY_LIMIT: usize = 3 * 1024 * 1024;

/// Requests that touch more bytes than this run on a thread of their own, see `offload.rs`.
/// A body of this size takes a few milliseconds from its first byte to its commit.
pub(crate) const HEAVY_BYTES: usize = 64 * 1024;

/// Bounds on the requests of a served [`ApiServer`](crate::ApiServer).
///
/// Where a limit is shared, one user gets at most three quarters of it and all anonymous clients
/// together an eighth, so that the others are served meanwhile. A request beyond a limit is
/// answered with 429 and `Retry-After`. Unlike upstream, members of `system:masters` are not
/// exempt: on a development server that is everyone.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Limits {
    /// Reading requests in flight, watches excluded: upstream's `--max-requests-inflight`.
    pub reads_in_flight: usize,
    /// Writing requests in flight: upstream's `--max-mutating-requests-inflight`.
    pub writes_in_flight: usize,
    /// How long a request waits for a place among those in flight before it is refused. Upstream
    /// queues requests too (API priority and fairness).
    pub queue_wait: Duration,
    /// How long a request may take until its response is written, unless it is a watch: upstream's
    /// `--request-timeout`. Beyond it the answer is 504.
    pub request_timeout: Duration,
    /// How long the next bytes of a request body may keep the server waiting.
    pub body_stall_timeout: Duration,
    /// Bytes of request bodies in memory, all requests together.
    pub body_bytes: usize,
    /// Bytes of lists that are in memory as a whole while they are sent, all requests together.
    /// Most lists are encoded piece by piece and do not count.
    pub response_bytes: usize,
    /// Requests that work on much data at once (see [`Limits`]): half the processors by default,
    /// so that there is always one left for the small requests.
    pub heavy_in_flight: usize,
    /// Such requests that wait for their turn, which goes from user to user.
    pub heavy_waiting: usize,
}

impl Default for Limits {
    fn default() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            reads_in_flight: 400,
            writes_in_flight: 200,
            queue_wait: Duration::from_secs(5),
            request_timeout: Duration::from_secs(60),
            body_stall_timeout: Duration::from_secs(10),
            body_bytes: 128 << 20,
            response_bytes: 256 << 20,
            heavy_in_flight: (processors / 2).max(1),
            heavy_waiting: 400,
        }
    }
}
