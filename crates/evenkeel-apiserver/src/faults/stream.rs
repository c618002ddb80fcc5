//! The body of a watch: delivers one event at a time, so that a fault can act between two.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body::Body as _;
use serde_json::json;
use tokio::time::{Instant, Sleep};

use super::decide::Faults;
use super::place::Place;
use super::plan::Effect;
use crate::body::Body;
use crate::status::Status;

/// A connection that a fault resets in the middle of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the connection is reset by the fault plan")]
#[non_exhaustive]
pub struct Reset;

/// What the whole watch is subject to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Plain,
    NoBookmarks,
    LateBookmarks(u32),
    /// Delivers nothing, and ends when the watch does.
    Frozen,
    Ended,
}

/// A watch that faults may hit.
pub(crate) struct Watched {
    faults: Arc<Faults>,
    /// The place of its events.
    place: Place,
    mode: Mode,
    body: Body,
    /// Complete lines that were not delivered yet, and the beginning of the next one.
    lines: VecDeque<Bytes>,
    rest: BytesMut,
    /// Delays the first of the lines, which no fault hits any more.
    delay: Option<Pin<Box<Sleep>>>,
}

/// How one line of a watch is handled.
enum Step {
    Deliver,
    Drop,
    Delay(u32),
    /// Delivers nothing from now on.
    Freeze,
    /// Ends the watch after this line.
    End(Option<Result<Bytes, Reset>>),
}

impl Watched {
    pub(crate) fn new(faults: Arc<Faults>, place: Place, mode: Mode, body: Body) -> Self {
        let (lines, rest) = Default::default();
        Self { faults, place, mode, body, lines, rest, delay: None }
    }

    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Reset>>> {
        loop {
            if self.mode == Mode::Ended {
                return Poll::Ready(None);
            }
            if let Some(delay) = &mut self.delay {
                ready!(delay.as_mut().poll(cx));
                self.delay = None;
                return Poll::Ready(self.lines.pop_front().map(Ok));
            }
            let Some(line) = self.lines.front() else {
                match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                    Some(Ok(frame)) => self.receive(&frame.into_data().unwrap_or_default()),
                    None => self.mode = Mode::Ended,
                }
                continue;
            };
            match self.step(line) {
                Step::Deliver => return Poll::Ready(self.lines.pop_front().map(Ok)),
                Step::Drop => drop(self.lines.pop_front()),
                Step::Delay(seconds) => {
                    let until = Instant::now() + Duration::from_secs(seconds.into());
                    self.delay = Some(Box::pin(tokio::time::sleep_until(until)));
                }
                Step::Freeze => {
                    self.mode = Mode::Frozen;
                    self.lines.clear();
                }
                Step::End(last) => {
                    self.mode = Mode::Ended;
                    return Poll::Ready(last);
                }
            }
        }
    }

    fn receive(&mut self, data: &[u8]) {
        if self.mode == Mode::Frozen {
            return;
        }
        self.rest.extend_from_slice(data);
        while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
            self.lines.push_back(self.rest.split_to(end + 1).freeze());
        }
    }

    /// Returns how a line is handled. Only here an event is counted, once.
    fn step(&self, line: &[u8]) -> Step {
        if line.starts_with(BOOKMARK) {
            return match self.mode {
                Mode::NoBookmarks if !ends_initial_events(line) => Step::Drop,
                Mode::LateBookmarks(seconds) => Step::Delay(seconds),
                _ => Step::Deliver,
            };
        }
        if line.starts_with(ERROR) {
            return Step::Deliver;
        }
        match self.faults.at(&self.place) {
            Some(Effect::Cut | Effect::Gap) => Step::End(None),
            Some(Effect::Reset) => Step::End(Some(Err(Reset))),
            Some(Effect::Expire) => Step::End(Some(Ok(expired()))),
            Some(Effect::Freeze) => Step::Freeze,
            Some(Effect::Lag(seconds)) => Step::Delay(seconds),
            _ => Step::Deliver,
        }
    }
}

/// How the lines of bookmarks and errors begin.
const BOOKMARK: &[u8] = b"{\"type\":\"BOOKMARK\"";
const ERROR: &[u8] = b"{\"type\":\"ERROR\"";

/// Whether the bookmark ends the initial events, which clients wait for.
fn ends_initial_events(line: &[u8]) -> bool {
    const MARK: &[u8] = b"\"k8s.io/initial-events-end\"";
    line.windows(MARK.len()).any(|part| part == MARK)
}

/// Returns the error event of a watch that has expired.
fn expired() -> Bytes {
    let status = Status::expired("too old resource version").to_value();
    format!("{}\n", json!({"type": "ERROR", "object": status})).into()
}

impl fmt::Debug for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watched").field("mode", &self.mode).finish_non_exhaustive()
    }
}
