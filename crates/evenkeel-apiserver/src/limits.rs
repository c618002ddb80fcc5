//! Limits on the requests of clients.
//!
//! They apply to requests through a socket only. In-process requests are not limited: a test that
//! fills its own memory has no other client to protect, and virtual time needs no threads. The
//! limits of connections are in [`ListenOptions`](crate::listen::ListenOptions).

use std::time::Duration;

/// The maximum size of a request body: upstream's `MaxRequestBodyBytes`.
pub(crate) const BODY_LIMIT: usize = 3 * 1024 * 1024;

/// Requests that process more bytes than this run on their own thread, see `offload.rs`. A body of
/// this size takes a few milliseconds from its first byte to its commit.
pub(crate) const HEAVY_BYTES: usize = 64 * 1024;

/// Limits on the requests of a served [`ApiServer`](crate::ApiServer).
///
/// Reads and writes in flight together are the seats that the priority levels share (API Priority
/// and Fairness). Of the other limits, one user gets at most three quarters and all anonymous
/// clients together an eighth, so that other users are served. A request beyond a limit gets 429
/// with `Retry-After`.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Limits {
    /// Read requests in flight: upstream's `--max-requests-inflight`.
    pub reads_in_flight: usize,
    /// Write requests in flight: upstream's `--max-mutating-requests-inflight`.
    pub writes_in_flight: usize,
    /// How long a request waits in a queue of its priority level before it is rejected; at most a
    /// quarter of its timeout.
    pub queue_wait: Duration,
    /// How long a request may take until its response is written, unless it is a watch: upstream's
    /// `--request-timeout`. After that, the response is 504.
    pub request_timeout: Duration,
    /// How long to wait for the next bytes of a request body.
    pub body_stall_timeout: Duration,
    /// Bytes of request bodies in memory, over all requests.
    pub body_bytes: usize,
    /// Bytes of lists that are buffered while they are sent, over all requests. Most lists are
    /// encoded in chunks and do not count.
    pub response_bytes: usize,
    /// Heavy requests (those that process much data) that run concurrently: by default half the
    /// processors, so that at least one is left for small requests.
    pub heavy_in_flight: usize,
    /// Heavy requests that may be queued. They are served round-robin by user.
    pub heavy_waiting: usize,
}

impl Default for Limits {
    fn default() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            reads_in_flight: 400,
            writes_in_flight: 200,
            queue_wait: Duration::from_secs(60),
            request_timeout: Duration::from_secs(60),
            body_stall_timeout: Duration::from_secs(10),
            body_bytes: 128 << 20,
            response_bytes: 256 << 20,
            heavy_in_flight: (processors / 2).max(1),
            heavy_waiting: 400,
        }
    }
}

impl Limits {
    /// Returns the seats that all priority levels share; `usize::MAX` without a limit.
    pub(crate) fn seats(&self) -> usize {
        self.reads_in_flight.saturating_add(self.writes_in_flight)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_of_upstream_are_shared_by_reads_and_writes() {
        let limits = Limits::default();
        assert_eq!((limits.reads_in_flight, limits.writes_in_flight), (400, 200));
        // As upstream with API Priority and Fairness, which has one number for both.
        assert_eq!(limits.seats(), 600);
    }
}
