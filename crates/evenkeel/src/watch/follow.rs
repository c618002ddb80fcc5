//! The stream of changes, and the full state as the beginning of such a stream.

use std::convert::Infallible;
use std::ops::Range;
use std::time::Duration;

use tokio::time::Instant;

use super::connection::Connection;
use super::event::{Change, Event, Layout};
use super::lines::Lines;
use super::request::Ask;
use super::{Error, History, Reflector, Sink};

/// A server that closes a watch this soon, without an event, does not really watch.
const SHORT: Duration = Duration::from_secs(1);

/// An open watch.
pub(super) struct Watch {
    connection: Connection,
    lines: Lines,
    layout: Layout,
    /// How long the server was asked to keep it open.
    timeout: Duration,
    ended: bool,
}

impl Watch {
    /// Goes to the next event; false at the end, proper or not. Fails when `history` is no longer of
    /// this `epoch`.
    async fn advance(&mut self, history: &History, epoch: u64) -> Result<bool, Error> {
        loop {
            if self.lines.advance()? {
                // A frame may hold a great many events.
                tokio::task::consume_budget().await;
                if self.lines.line().trim_ascii().is_empty() {
                    continue;
                }
                return Ok(true);
            }
            if self.ended {
                return Ok(false);
            }
            let frame = tokio::select! {
                biased;
                frame = self.connection.frame() => frame?,
                () = history.changed(epoch) => return Err(Error::OtherHistory),
            };
            match frame {
                Some(frame) => self.lines.feed(frame),
                None => {
                    self.ended = true;
                    // A line without its end is an event only if it is all there.
                    if self.lines.finish() && self.event().is_ok() {
                        return Ok(true);
                    }
                }
            }
        }
    }

    /// The event `advance` went to.
    fn event(&mut self) -> Result<Event<'_>, Error> {
        if self.ended {
            self.layout = Layout::Other;
        }
        Event::read(self.lines.line(), &mut self.layout)
    }
}

impl Reflector {
    /// Gets the full state as a stream, commits, and returns the stream, which goes on as a watch.
    pub(super) async fn stream(&mut self, sink: &mut impl Sink) -> Result<Watch, Error> {
        let mut broke_off = false;
        loop {
            let newest = self.version_unavailable || self.version.is_empty();
            let error = match self.open(true).await {
                Ok(mut watch) => {
                    sink.begin(self.reset);
                    match self.initial(&mut watch, sink).await {
                        Ok(version) => {
                            sink.commit(&version);
                            self.listed(version);
                            self.sends_bookmarks = true;
                            self.connected(sink);
                            return Ok(watch);
                        }
                        Err(error) => {
                            sink.abandon();
                            error
                        }
                    }
                }
                Err(error) => error,
            };
            if error.is_refused() || error.is_too_many_requests() {
                self.failed(sink, &error);
                self.pause(&error).await;
            } else if (error.is_expired() || error.is_too_large()) && !newest {
                self.version_unavailable = true;
            } else if matches!(error, Error::Incomplete | Error::Lost(_)) && !broke_off {
                broke_off = true;
            } else {
                return Err(error);
            }
        }
    }

    /// Reads the initial state, up to the bookmark that ends it, whose version it is.
    async fn initial(&mut self, watch: &mut Watch, sink: &mut impl Sink) -> Result<String, Error> {
        let begun = Instant::now();
        let mut any = false;
        while watch.advance(&self.history, self.epoch).await? {
            let event = watch.event()?;
            any = true;
            match event.change {
                Change::Added | Change::Modified => sink.listed(event.object),
                Change::Deleted => sink.unlisted(event.object),
                Change::Bookmark => {
                    if let (version, true) = event.mark()? {
                        return Ok(version.into_owned());
                    }
                }
                Change::Error => return Err(event.failure()),
                Change::Unknown => return Err(Error::unexpected("an unknown event in a list")),
            }
        }
        if !any && begun.elapsed() < SHORT {
            Err(Error::ShortWatch)
        } else {
            Err(Error::Incomplete)
        }
    }

    /// Follows the changes, over as many watches as it takes.
    pub(super) async fn watch(
        &mut self,
        sink: &mut impl Sink,
        mut stream: Option<Watch>,
    ) -> Result<Infallible, Error> {
        loop {
            // Before the request: some proxies hold the answer back until there is an event.
            let begun = Instant::now();
            let opened = match stream.take() {
                Some(watch) => Ok(watch),
                None => self.resume(sink).await,
            };
            let mut watch = match opened {
                Ok(watch) => watch,
                Err(error) if error.leaves_version_good() => {
                    self.suspect = true;
                    self.failed(sink, &error);
                    self.pause(&error).await;
                    continue;
                }
                Err(error) => return Err(error),
            };
            match self.follow(&mut watch, sink, begun).await {
                Ok(()) => {}
                Err(error) if matches!(error, Error::Lost(_)) || error.is_too_many_requests() => {
                    self.suspect = true;
                    self.failed(sink, &error);
                    self.pause(&error).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Opens a watch that goes on from the version that is known.
    async fn resume(&mut self, sink: &mut impl Sink) -> Result<Watch, Error> {
        if self.history.epoch() != self.epoch {
            return Err(Error::OtherHistory);
        }
        if self.suspect && self.settings.check_history {
            match self.check_history(sink).await {
                Ok(()) => self.suspect = false,
                Err(error @ Error::OtherHistory) => return Err(error),
                Err(error) if error.leaves_version_good() => return Err(error),
                // What the server has against the request it says of the watch as well.
                Err(_) => {}
            }
        }
        let (history, epoch) = (self.history.clone(), self.epoch);
        let watch = tokio::select! {
            biased;
            watch = self.open(false) => watch?,
            // Some proxies hold the answer back until there is an event.
            () = history.changed(epoch) => return Err(Error::OtherHistory),
        };
        self.connected(sink);
        Ok(watch)
    }

    /// Follows one watch to its end; fails if it cannot be resumed at once.
    async fn follow(
        &mut self,
        watch: &mut Watch,
        sink: &mut impl Sink,
        begun: Instant,
    ) -> Result<(), Error> {
        // A watch from nowhere begins with the state, whose versions are in no order.
        let mut in_order = !matches!(&*self.version, "" | "0");
        let mut any = false;
        let lost = loop {
            watch.connection.allow_silence(watch.timeout + self.settings.margin);
            match watch.advance(&self.history, self.epoch).await {
                Ok(true) => {}
                Ok(false) => break None,
                Err(error @ (Error::Lost(_) | Error::Silent(_))) => break Some(error),
                Err(error) => return Err(error),
            }
            let event = watch.event()?;
            let version = match event.change {
                Change::Error => return Err(event.failure()),
                Change::Unknown => {
                    tracing::warn!(kind = ?self.scope.kind, "watch event of unknown type skipped");
                    continue;
                }
                _ => event.version()?,
            };
            any = true;
            in_order |= event.change != Change::Added;
            if in_order {
                self.version.clear();
                self.version.push_str(&version);
            }
            match event.change {
                Change::Deleted => sink.deleted(event.object),
                Change::Bookmark => {
                    self.sends_bookmarks = true;
                    sink.bookmark(&version);
                }
                _ => sink.changed(event.object),
            }
        };
        // A server with another history has no bookmark to send before the end.
        let as_agreed = lost.is_none()
            && begun.elapsed() + self.settings.margin >= watch.timeout
            && (any || !self.sends_bookmarks);
        self.suspect |= !as_agreed;
        match lost {
            _ if any || begun.elapsed() >= SHORT => {
                if let Some(error) = lost {
                    tracing::debug!(kind = ?self.scope.kind, %error, "watch broke off, resuming");
                }
                Ok(())
            }
            Some(error) => Err(error),
            None => Err(Error::ShortWatch),
        }
    }

    /// Opens a watch, with the full state first if `initial`.
    async fn open(&mut self, initial: bool) -> Result<Watch, Error> {
        let Range { start, end } = self.settings.watch_timeout;
        let seconds = self.random.range(start, end).as_secs();
        let (ask, silence) = if initial {
            let version = if self.version_unavailable { "" } else { &*self.version };
            (Ask::Stream { version, seconds }, self.settings.answer_silence)
        } else {
            let silence = Duration::from_secs(seconds) + self.settings.margin;
            (Ask::Watch { version: &self.version, seconds }, silence)
        };
        let request = self.scope.request(&ask)?;
        let connection = Connection::open(&self.transport, request, silence).await?;
        Ok(Watch {
            connection,
            lines: Lines::default(),
            layout: Layout::default(),
            timeout: Duration::from_secs(seconds),
            ended: false,
        })
    }
}
