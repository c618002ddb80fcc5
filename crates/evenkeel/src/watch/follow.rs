//! Watches and streaming lists.

use std::convert::Infallible;
use std::ops::Range;
use std::time::Duration;

use tokio::time::Instant;

use super::connection::Connection;
use super::event::{Change, Event, Layout};
use super::lines::Lines;
use super::request::RequestParameters;
use super::{Error, History, Reflector, Sink};

/// A watch that is closed earlier and without an event counts as a failure.
const SHORT_WATCH: Duration = Duration::from_secs(1);

/// An open watch.
pub(super) struct Watch {
    connection: Connection,
    lines: Lines,
    layout: Layout,
    /// The requested timeout.
    timeout: Duration,
    ended: bool,
}

impl Watch {
    /// Advances to the next event; returns false at the end. Fails if `history` is no longer at
    /// `epoch`.
    async fn advance(&mut self, history: &History, epoch: u64) -> Result<bool, Error> {
        loop {
            if self.lines.advance()? {
                // A frame may contain many events.
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
                Some(frame) => self.lines.push(frame),
                None => {
                    self.ended = true;
                    // An unterminated last line is an event only if it is complete.
                    if self.lines.finish() && self.event().is_ok() {
                        return Ok(true);
                    }
                }
            }
        }
    }

    /// Returns the current event.
    fn event(&mut self) -> Result<Event<'_>, Error> {
        if self.ended {
            self.layout = Layout::Other;
        }
        Event::read(self.lines.line(), &mut self.layout)
    }
}

impl Reflector {
    /// Reads a streaming list, commits it, and returns the stream, which continues as a watch.
    pub(super) async fn stream(&mut self, sink: &mut impl Sink) -> Result<Watch, Error> {
        let mut interrupted = false;
        loop {
            let newest = self.version_unavailable || self.version.is_empty();
            let error = match self.open(true).await {
                Ok(mut watch) => {
                    sink.begin(self.reset);
                    match self.initial(&mut watch, sink).await {
                        Ok(version) => {
                            sink.commit(&version);
                            self.set_listed_version(version);
                            self.sends_bookmarks = true;
                            self.report_connected(sink);
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
                self.report_failure(sink, &error);
                self.back_off(&error).await;
            } else if (error.is_expired() || error.is_too_large()) && !newest {
                self.version_unavailable = true;
            } else if matches!(error, Error::Incomplete | Error::Lost(_)) && !interrupted {
                interrupted = true;
            } else {
                return Err(error);
            }
        }
    }

    /// Reads the initial events up to the final bookmark; returns its resourceVersion.
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
                    if let (version, true) = event.bookmark()? {
                        return Ok(version.into_owned());
                    }
                }
                Change::Error => return Err(event.error()),
                Change::Unknown => {
                    return Err(Error::unexpected("unknown event type in a streaming list"));
                }
            }
        }
        if !any && begun.elapsed() < SHORT_WATCH {
            Err(Error::ShortWatch)
        } else {
            Err(Error::Incomplete)
        }
    }

    /// Watches, resuming as long as possible.
    pub(super) async fn watch(
        &mut self,
        sink: &mut impl Sink,
        mut stream: Option<Watch>,
    ) -> Result<Infallible, Error> {
        loop {
            // Before the request: some proxies delay the response until there is an event.
            let begun = Instant::now();
            let opened = match stream.take() {
                Some(watch) => Ok(watch),
                None => self.resume(sink).await,
            };
            let mut watch = match opened {
                Ok(watch) => watch,
                Err(error) if error.can_resume() => {
                    self.suspect = true;
                    self.report_failure(sink, &error);
                    self.back_off(&error).await;
                    continue;
                }
                Err(error) => return Err(error),
            };
            match self.follow(&mut watch, sink, begun).await {
                Ok(()) => {}
                Err(error) if matches!(error, Error::Lost(_)) || error.is_too_many_requests() => {
                    self.suspect = true;
                    self.report_failure(sink, &error);
                    self.back_off(&error).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Opens a watch from the known resourceVersion.
    async fn resume(&mut self, sink: &mut impl Sink) -> Result<Watch, Error> {
        if self.history.epoch() != self.epoch {
            return Err(Error::OtherHistory);
        }
        if self.suspect && self.options.check_history {
            match self.check_history(sink).await {
                Ok(()) => self.suspect = false,
                Err(error @ Error::OtherHistory) => return Err(error),
                Err(error) if error.can_resume() => return Err(error),
                // The watch fails with the same error.
                Err(_) => {}
            }
        }
        let (history, epoch) = (self.history.clone(), self.epoch);
        let watch = tokio::select! {
            biased;
            watch = self.open(false) => watch?,
            // Some proxies delay the response until there is an event.
            () = history.changed(epoch) => return Err(Error::OtherHistory),
        };
        self.report_connected(sink);
        Ok(watch)
    }

    /// Processes one watch to its end; fails if it cannot be resumed immediately.
    async fn follow(
        &mut self,
        watch: &mut Watch,
        sink: &mut impl Sink,
        begun: Instant,
    ) -> Result<(), Error> {
        // A watch without resourceVersion starts with synthetic ADDED events in no order.
        let mut in_order = !matches!(&*self.version, "" | "0");
        let mut any = false;
        let lost = loop {
            watch.connection.set_read_timeout(watch.timeout + self.options.margin);
            match watch.advance(&self.history, self.epoch).await {
                Ok(true) => {}
                Ok(false) => break None,
                Err(error @ (Error::Lost(_) | Error::ReadTimeout(_))) => break Some(error),
                Err(error) => return Err(error),
            }
            let event = watch.event()?;
            let version = match event.change {
                Change::Error => return Err(event.error()),
                Change::Unknown => {
                    tracing::warn!(kind = ?self.scope.kind, "skipping watch event of unknown type");
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
        // A server with another history sends no bookmark before the end.
        let ended_at_timeout = lost.is_none()
            && begun.elapsed() + self.options.margin >= watch.timeout
            && (any || !self.sends_bookmarks);
        self.suspect |= !ended_at_timeout;
        match lost {
            _ if any || begun.elapsed() >= SHORT_WATCH => {
                if let Some(error) = lost {
                    tracing::debug!(kind = ?self.scope.kind, %error, "watch interrupted, resuming");
                }
                Ok(())
            }
            Some(error) => Err(error),
            None => Err(Error::ShortWatch),
        }
    }

    /// Opens a watch, with initial events if `initial`.
    async fn open(&mut self, initial: bool) -> Result<Watch, Error> {
        let Range { start, end } = self.options.watch_timeout;
        let seconds = self.random.range(start, end).as_secs();
        let (parameters, read_timeout) = if initial {
            let version = if self.version_unavailable { "" } else { &*self.version };
            (RequestParameters::Stream { version, seconds }, self.options.list_read_timeout)
        } else {
            let read_timeout = Duration::from_secs(seconds) + self.options.margin;
            (RequestParameters::Watch { version: &self.version, seconds }, read_timeout)
        };
        let request = self.scope.request(&parameters)?;
        let connection = Connection::open(&self.transport, request, read_timeout).await?;
        Ok(Watch {
            connection,
            lines: Lines::default(),
            layout: Layout::default(),
            timeout: Duration::from_secs(seconds),
            ended: false,
        })
    }
}
