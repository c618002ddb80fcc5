//! From the API server: the full state of one type in one scope, then every change to it.
//!
//! A [`Reflector`] goes in rounds. A round gets the full state, as a stream if the server can do
//! that and as a list if not ([`list`]), then follows the changes ([`follow`]) for as long as the
//! server lets it resume where it was. What it sees goes to a [`Sink`] as the JSON text it came as.
//!
//! The invariant: between a `commit` and the next, the sink is told every change after the
//! committed version, in order, none twice and none left out. Where that cannot be kept, because a
//! version expired or a line could not be read, the round ends and the next brings the full state
//! again.
//!
//! The client must not retry by itself (`Config::default_retry = false`), for it would hide from
//! the back-off and from [`Health`] what goes wrong, and would wait where this should not.

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

/// No object is larger: etcd's limit is 1.5 MB, and aggregated servers keep near it.
const LARGEST_OBJECT: usize = 64 << 20;

/// Servers keep versions for minutes: one that is younger should not be expired.
const YOUNG: Duration = Duration::from_secs(60);

/// A buffer is used again up to this size; one large object must not cost its memory for good.
const LARGEST_SPARE: usize = 64 << 10;

/// Where a reflector puts what it sees. Calls come from the reflector's task, in order.
///
/// Objects are JSON text as the server sent it, managed fields included; objects of a list may
/// lack `apiVersion` and `kind`. That the text is well-formed is not checked before.
pub(crate) trait Sink: Send {
    /// The full state begins. It ends with `commit` or `abandon`; the changes that `changed`,
    /// `deleted` and `bookmark` tell come only outside of it. With `reset` it is that of another
    /// history, whose versions cannot be compared with those from before.
    fn begin(&mut self, reset: bool);
    /// One object of the full state. It may come again, newer, within a state.
    fn listed(&mut self, raw: &[u8]);
    /// An object that is not of the full state after all: deleted while that was sent.
    fn unlisted(&mut self, raw: &[u8]);
    /// The full state is complete, and is that of `version`.
    fn commit(&mut self, version: &str);
    /// The full state did not come to its end: the one from before stays.
    fn abandon(&mut self);
    /// An object was created or changed.
    fn changed(&mut self, raw: &[u8]);
    /// An object was deleted, or left the selection; this is its last state.
    fn deleted(&mut self, raw: &[u8]);
    /// All changes up to `version` have been told.
    fn bookmark(&mut self, version: &str);
    /// Whether the first object of the present state, or that there is none, fits what is known.
    fn agrees(&mut self, first: Option<&[u8]>) -> bool;
    /// How it goes with the server: whenever a watch is open again, and at each failure.
    fn health(&mut self, health: &Health);
}

/// Whether a reflector follows the server.
#[derive(Clone, Debug)]
pub(crate) enum Health {
    /// A watch is open.
    Connected,
    /// It has failed since then, the last time for this reason, and tries on.
    Failing { since: Instant, error: Error },
}

/// How a reflector goes about it. The defaults are client-go's, but for those that make a dead
/// connection noticed within 45 seconds, for which client-go has the pings of HTTP/2.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// Whether the full state is asked for as a stream before it is asked for as a list.
    pub(crate) streaming: bool,
    /// Objects per page of every list. If none is set, lists are paged by 500 except where that
    /// would keep the server from answering out of its cache.
    pub(crate) page_size: Option<u32>,
    /// How long the server is asked to keep a watch open, drawn anew for each. A proper end after
    /// it, and the bookmark that servers send just before, show that the connection is alive; the
    /// next watch goes over the same connection.
    pub(crate) watch_timeout: Range<Duration>,
    /// Whether the type need not exist: then its absence is told, but is no reason to warn.
    pub(crate) optional: bool,
    /// How long the server may be silent while it sends a list.
    pub(crate) answer_silence: Duration,
    /// How much longer than agreed a watch is waited for that should have ended.
    pub(crate) margin: Duration,
    /// Whether the history of the server is checked after a watch that did not end as agreed.
    pub(crate) check_history: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            streaming: true,
            page_size: None,
            optional: false,
            watch_timeout: Duration::from_secs(30)..Duration::from_secs(40),
            answer_silence: Duration::from_secs(65),
            margin: Duration::from_secs(5),
            check_history: true,
        }
    }
}

/// Keeps a [`Sink`] at the state of the API server.
pub(crate) struct Reflector {
    transport: Transport,
    scope: Scope,
    settings: Settings,
    random: Random,
    backoff: Backoff,
    history: History,
    /// The history that `version` belongs to.
    epoch: u64,
    /// Whether the next list is of another history than the last.
    reset: bool,
    /// Whether the last watch did not end as agreed, so that the server may be another one.
    suspect: bool,
    /// The version the sink is at; empty before the first full state.
    version: String,
    /// Whether the server said that it cannot give `version`: the next state is the newest one.
    version_unavailable: bool,
    /// Whether the server pages a list it could have answered from its cache: it has none, and
    /// there is no reason not to page.
    pages_anyway: bool,
    /// Whether the last round expired before a version can have grown old.
    expired_early: bool,
    /// Whether this server sends bookmarks of its own accord.
    sends_bookmarks: bool,
    /// Since when nothing works, unless it does.
    failing_since: Option<Instant>,
    /// Whether the sink was told that a watch is open, and nothing else since.
    told_connected: bool,
}

impl Reflector {
    pub(crate) fn new(
        transport: impl Into<Transport>,
        scope: Scope,
        settings: Settings,
        history: History,
        mut random: Random,
    ) -> Self {
        let backoff = Backoff::new(Random::new(random.next()));
        Self {
            transport: transport.into(),
            scope,
            settings,
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
            failing_since: None,
            told_connected: false,
        }
    }

    /// Runs for ever; to stop it, drop the future. The sink may then be left within a full state.
    pub(crate) async fn run(mut self, sink: &mut impl Sink) -> Infallible {
        loop {
            let Err(error) = self.round(sink).await;
            self.pause(&error).await;
        }
    }

    /// Gets the full state, then follows it until that is no longer possible.
    async fn round(&mut self, sink: &mut impl Sink) -> Result<Infallible, Error> {
        self.check_epoch();
        let mut stream = None;
        if self.settings.streaming {
            match self.stream(sink).await {
                Ok(watch) => stream = Some(watch),
                Err(error) => {
                    tracing::debug!(kind = ?self.scope.kind, %error, "no streaming list, listing");
                }
            }
        }
        if stream.is_none()
            && let Err(error) = self.list(sink).await
        {
            self.failed(sink, &error);
            return Err(error);
        }
        let begun = Instant::now();
        let Err(error) = self.watch(sink, stream).await;
        let early = error.is_expired() && begun.elapsed() < YOUNG;
        let twice = std::mem::replace(&mut self.expired_early, early) && early;
        if matches!(error, Error::OtherHistory) {
            tracing::debug!(kind = ?self.scope.kind, "listing anew");
        } else if error.is_expired() && !twice {
            // All in a day's work: the next round begins with the full state.
            tracing::debug!(kind = ?self.scope.kind, %error, "watch expired");
        } else {
            self.failed(sink, &error);
        }
        Err(error)
    }

    /// Waits as long as is due after a failure.
    async fn pause(&mut self, error: &Error) {
        sleep(self.backoff.delay(error.retry_after())).await;
    }

    /// Tells of a failure that was not expected in the course of things.
    fn failed(&mut self, sink: &mut impl Sink, error: &Error) {
        let since = *self.failing_since.get_or_insert_with(Instant::now);
        self.told_connected = false;
        if error.is_not_found() {
            let problem = self.scope.kind.not_served();
            match self.settings.optional {
                true => tracing::debug!("{problem}"),
                false => tracing::warn!("{problem}"),
            }
        } else {
            tracing::warn!(kind = ?self.scope.kind, %error, "list or watch failed");
        }
        sink.health(&Health::Failing { since, error: error.clone() });
    }

    /// Tells that a watch is open, unless that is known.
    fn connected(&mut self, sink: &mut impl Sink) {
        self.failing_since = None;
        if !std::mem::replace(&mut self.told_connected, true) {
            sink.health(&Health::Connected);
        }
    }
}

/// Empties a buffer, and gives it up if it has grown large.
fn reuse(buffer: &mut Vec<u8>) {
    buffer.clear();
    buffer.shrink_to(LARGEST_SPARE);
}
