//! The reflector: lists one type in one scope, then watches it.
//!
//! A [`Reflector`] works in rounds. A round reads the full state, as a streaming list if the server
//! supports it and as a paged list otherwise ([`list`]), then watches ([`follow`]) as long as the
//! server lets it resume from the last resourceVersion. Objects are passed to a [`Sink`] as JSON
//! text.
//!
//! The invariant: after a `commit`, the sink receives every change after the committed
//! resourceVersion, in order and exactly once. If that is not possible, because a resourceVersion
//! expired or a line does not parse, the round ends and the next one relists.
//!
//! The client must not retry (`Config::default_retry = false`): that would hide errors from the
//! backoff and from [`Health`].

mod backoff;
mod connection;
mod error;
mod event;
mod follow;
mod history;
mod items;
mod lines;
mod list;
mod request;
#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::ops::Range;
use std::time::Duration;

use tokio::time::{Instant, sleep};

pub(crate) use self::error::Error;
pub(crate) use self::history::History;
pub(crate) use self::request::Scope;

use self::backoff::Backoff;
use crate::connect::Transport;
use crate::random::Random;

/// The maximum size of an object. etcd's limit is 1.5 MB; aggregated servers have similar limits.
const OBJECT_SIZE_MAX: usize = 64 << 20;

/// Servers keep resourceVersions for minutes: a more recent one should not have expired.
const EXPIRY_MIN: Duration = Duration::from_secs(60);

/// The maximum capacity of a reused buffer, so that one large object does not hold memory.
const REUSED_CAPACITY_MAX: usize = 64 << 10;

/// Receives the objects of a reflector. It is called in order by the reflector's task.
///
/// Objects are JSON text as the server sent it, including managedFields; objects of a list may lack
/// `apiVersion` and `kind`. The text may be malformed.
pub(crate) trait Sink: Send {
    /// Starts a full state, which ends with `commit` or `abandon`; `changed`, `deleted` and
    /// `bookmark` are called only outside of it. With `reset` it belongs to another server history,
    /// whose resourceVersions are not comparable with earlier ones.
    fn begin(&mut self, reset: bool);
    /// Adds an object to the full state. It may be repeated with a newer resourceVersion.
    fn listed(&mut self, raw: &[u8]);
    /// Removes an object from the full state: it was deleted while the state was sent.
    fn unlisted(&mut self, raw: &[u8]);
    /// Completes the full state at resourceVersion `version`.
    fn commit(&mut self, version: &str);
    /// Discards the incomplete full state; the previous state stays.
    fn abandon(&mut self);
    /// An object was created or changed.
    fn changed(&mut self, raw: &[u8]);
    /// An object was deleted, or no longer matches the selector; this is its last state.
    fn deleted(&mut self, raw: &[u8]);
    /// All changes up to `version` have been delivered.
    fn bookmark(&mut self, version: &str);
    /// Returns whether the first object of the current state, or its absence, matches the known
    /// state.
    fn matches_first(&mut self, first: Option<&[u8]>) -> bool;
    /// Reports the health: when a watch is open again, and at each failure.
    fn health(&mut self, health: &Health);
}

/// The health of a reflector.
#[derive(Clone, Debug)]
pub(crate) enum Health {
    /// A watch is open.
    Connected,
    /// Failing since then, last with this error; it retries.
    Failing { since: Instant, error: Error },
}

/// The options of a reflector. The defaults are those of client-go, except the timeouts that detect
/// a dead connection within 45 seconds, for which client-go uses HTTP/2 pings.
#[derive(Clone, Debug)]
pub(crate) struct ReflectorOptions {
    /// Whether a streaming list is tried before a paged list.
    pub(crate) streaming: bool,
    /// Objects per page of every list. If not set, pages have 500 objects, except where paging
    /// would prevent the server from serving the list from its watch cache.
    pub(crate) page_size: Option<u32>,
    /// The range of the random timeoutSeconds of each watch. A clean end after it, and the bookmark
    /// that servers send just before, show that the connection is alive; the next watch uses the
    /// same connection.
    pub(crate) watch_timeout: Range<Duration>,
    /// Whether the type is optional: its absence is reported without a warning.
    pub(crate) optional: bool,
    /// The read timeout of lists.
    pub(crate) list_read_timeout: Duration,
    /// How long to wait beyond the timeout for the end of a watch.
    pub(crate) margin: Duration,
    /// Whether the server history is checked after a watch that did not end at its timeout.
    pub(crate) check_history: bool,
}

impl Default for ReflectorOptions {
    fn default() -> Self {
        Self {
            streaming: true,
            page_size: None,
            optional: false,
            watch_timeout: Duration::from_secs(30)..Duration::from_secs(40),
            list_read_timeout: Duration::from_secs(65),
            margin: Duration::from_secs(5),
            check_history: true,
        }
    }
}

/// Keeps a [`Sink`] in sync with the API server.
pub(crate) struct Reflector {
    transport: Transport,
    scope: Scope,
    options: ReflectorOptions,
    random: Random,
    backoff: Backoff,
    history: History,
    /// The server history that `version` belongs to.
    epoch: u64,
    /// Whether the next list belongs to another history than the last one.
    reset: bool,
    /// Whether the last watch did not end at its timeout, so that the server may have been
    /// replaced.
    suspect: bool,
    /// The resourceVersion of the sink; empty before the first full state.
    version: String,
    /// Whether `version` is unavailable on the server: the next list requests the latest one.
    version_unavailable: bool,
    /// Whether the server pages a list at resourceVersion 0: it has no watch cache, so paging costs
    /// nothing.
    pages_anyway: bool,
    /// Whether the last round expired earlier than expected.
    expired_early: bool,
    /// Whether this server sends bookmarks.
    sends_bookmarks: bool,
    /// Whether the last failure was not an expiration.
    unavailable: bool,
    /// Since when requests have been failing, if they are.
    failing_since: Option<Instant>,
    /// Whether the last reported health is `Connected`.
    reported_connected: bool,
}

impl Reflector {
    pub(crate) fn new(
        transport: impl Into<Transport>,
        scope: Scope,
        options: ReflectorOptions,
        history: History,
        mut random: Random,
    ) -> Self {
        let backoff = Backoff::new(Random::new(random.next()));
        Self {
            transport: transport.into(),
            scope,
            options,
            random,
            backoff,
            epoch: history.epoch(),
            history,
            reset: false,
            suspect: false,
            version: String::new(),
            version_unavailable: false,
            pages_anyway: false,
            expired_early: false,
            sends_bookmarks: false,
            unavailable: false,
            failing_since: None,
            reported_connected: false,
        }
    }

    /// Runs until the future is dropped. The sink may then be left within a full state.
    pub(crate) async fn run(mut self, sink: &mut impl Sink) -> Infallible {
        loop {
            let Err(error) = self.round(sink).await;
            self.back_off(&error).await;
        }
    }

    /// Lists, then watches until the watch cannot be resumed.
    async fn round(&mut self, sink: &mut impl Sink) -> Result<Infallible, Error> {
        self.check_epoch();
        let mut stream = None;
        if self.options.streaming {
            match self.stream(sink).await {
                Ok(watch) => stream = Some(watch),
                Err(error) => {
                    let kind = &self.scope.kind;
                    tracing::debug!(?kind, %error, "streaming list failed, falling back to list");
                }
            }
        }
        if stream.is_none()
            && let Err(error) = self.list(sink).await
        {
            self.report_failure(sink, &error);
            return Err(error);
        }
        let begun = Instant::now();
        let Err(error) = self.watch(sink, stream).await;
        let early = error.is_expired() && begun.elapsed() < EXPIRY_MIN;
        let twice = std::mem::replace(&mut self.expired_early, early) && early;
        if matches!(error, Error::OtherHistory) {
            let kind = &self.scope.kind;
            tracing::debug!(?kind, "relisting after a change of the server history");
        } else if error.is_expired() && !twice {
            // Expected: the next round relists.
            tracing::debug!(kind = ?self.scope.kind, %error, "watch expired");
        } else {
            self.report_failure(sink, &error);
        }
        Err(error)
    }

    /// Waits for the backoff after a failure.
    async fn back_off(&mut self, error: &Error) {
        let relist = error.is_expired() || matches!(error, Error::OtherHistory);
        // The server is available again after an outage, and only has another state: the long wait
        // of the outage is over. Expirations that follow each other wait longer and longer.
        if std::mem::replace(&mut self.unavailable, !relist) && relist {
            self.backoff.reset();
        }
        sleep(self.backoff.delay(error.retry_after())).await;
    }

    /// Logs and reports an unexpected failure.
    fn report_failure(&mut self, sink: &mut impl Sink, error: &Error) {
        let since = *self.failing_since.get_or_insert_with(Instant::now);
        self.reported_connected = false;
        if error.is_not_found() {
            let error = self.scope.kind.not_served();
            match self.options.optional {
                true => tracing::debug!(kind = ?self.scope.kind, error, "type is not served"),
                false => tracing::warn!(kind = ?self.scope.kind, error, "type is not served"),
            }
        } else {
            tracing::warn!(kind = ?self.scope.kind, %error, "list or watch failed");
        }
        sink.health(&Health::Failing { since, error: error.clone() });
    }

    /// Reports that a watch is open, unless already reported.
    fn report_connected(&mut self, sink: &mut impl Sink) {
        self.failing_since = None;
        if !std::mem::replace(&mut self.reported_connected, true) {
            sink.health(&Health::Connected);
        }
    }
}

/// Clears a buffer for reuse and limits its capacity.
fn reuse(buffer: &mut Vec<u8>) {
    buffer.clear();
    buffer.shrink_to(REUSED_CAPACITY_MAX);
}
