//! Fault injection: responses that fail, break, hang and lag.

use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use evenkeel_apiserver::Service;
use http::{Request, Response, StatusCode};
use http_body::Frame;
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::{Sleep, sleep};

use crate::random::Random;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The source of faults, and their counts.
pub(super) struct Faults {
    pub(super) random: Random,
    pub(super) on: bool,
    /// The number of injected faults by kind.
    pub(super) counts: BTreeMap<&'static str, usize>,
    /// The number of responses and events, injected or not, after which a watch cannot be resumed.
    pub(super) expiries: usize,
}

impl Faults {
    /// Returns the number of kinds.
    pub(super) fn kinds() -> usize {
        OPENINGS.len() + MIDDLES.len() + EVENTS.len()
    }

    /// Counts a response after which a watch cannot be resumed.
    fn responded(&mut self, code: u16) {
        self.expiries += usize::from(matches!(code, 403 | 410 | 504));
    }

    fn draw(&mut self, below: u64) -> u64 {
        self.random.next() % below
    }

    fn pick<T: Copy>(&mut self, choices: &[(u64, &'static str, T)]) -> Option<T> {
        let mut draw = self.draw(100);
        for (weight, name, choice) in choices {
            if draw < *weight {
                *self.counts.entry(name).or_default() += 1;
                return Some(*choice);
            }
            draw -= weight;
        }
        None
    }
}

#[derive(Clone, Copy)]
enum Opening {
    Refused,
    Reset,
    Hang,
    Late,
    Status(u16, &'static str, Option<&'static str>),
}

#[derive(Clone, Copy)]
enum Middle {
    /// The connection breaks.
    Break,
    /// The connection breaks within a frame.
    BreakWithin,
    /// The connection is closed cleanly.
    Close,
    /// The connection is closed cleanly within a frame.
    CloseWithin,
    /// The connection hangs.
    Hang,
    /// The data is delayed.
    Lag,
    /// The watch ends with an error event.
    Event(u16, &'static str),
}

const OPENINGS: &[(u64, &str, Opening)] = &[
    (4, "refused", Opening::Refused),
    (3, "reset", Opening::Reset),
    (1, "no response", Opening::Hang),
    (4, "late response", Opening::Late),
    (5, "HTTP 410", Opening::Status(410, "Expired", None)),
    (2, "HTTP 410 of a proxy", Opening::Status(410, "", None)),
    (3, "HTTP 429", Opening::Status(429, "TooManyRequests", Some("3"))),
    (2, "HTTP 403", Opening::Status(403, "Forbidden", None)),
    (2, "HTTP 500", Opening::Status(500, "InternalError", None)),
    (3, "HTTP 503", Opening::Status(503, "ServiceUnavailable", None)),
    (2, "too large version", Opening::Status(504, "Too large resource version", None)),
];

const MIDDLES: &[(u64, &str, Middle)] = &[
    (15, "break", Middle::Break),
    (15, "break within a frame", Middle::BreakWithin),
    (15, "close", Middle::Close),
    (10, "close within a frame", Middle::CloseWithin),
    (4, "half-open", Middle::Hang),
    (10, "lag", Middle::Lag),
];

const EVENTS: &[(u64, &str, Middle)] = &[
    (15, "event 410", Middle::Event(410, "Expired")),
    (8, "event 429", Middle::Event(429, "TooManyRequests")),
    (8, "event 500", Middle::Event(500, "InternalError")),
];

fn status(code: u16, reason: &str) -> String {
    json!({"kind": "Status", "status": "Failure", "code": code, "reason": reason,
        "message": reason})
    .to_string()
}

/// A server with fault injection.
#[derive(Clone)]
pub(super) struct Between {
    pub(super) server: Service,
    pub(super) faults: Arc<Mutex<Faults>>,
}

impl tower_service::Service<Request<kube::client::Body>> for Between {
    type Response = Response<FaultyBody>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<kube::client::Body>) -> Self::Future {
        let watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        let (opening, middle, frames, delay) = {
            let mut faults = self.faults.lock();
            if faults.on {
                let opening = faults.pick(OPENINGS);
                let event = if watch { faults.pick(EVENTS) } else { None };
                let middle = event.or_else(|| faults.pick(MIDDLES));
                let delay = Duration::from_millis(faults.draw(20_000));
                (opening, middle, faults.draw(6), delay)
            } else {
                (None, None, 0, Duration::ZERO)
            }
        };
        let response = tower_service::Service::call(&mut self.server, request);
        let faults = self.faults.clone();
        Box::pin(async move {
            match opening {
                None => {}
                Some(Opening::Refused) => {
                    return Err(io::Error::from(io::ErrorKind::ConnectionRefused).into());
                }
                Some(Opening::Reset) => {
                    return Err(io::Error::from(io::ErrorKind::ConnectionReset).into());
                }
                Some(Opening::Hang) => return std::future::pending().await,
                Some(Opening::Late) => sleep(delay).await,
                Some(Opening::Status(code, reason, retry_after)) => {
                    let text = if reason.is_empty() { String::new() } else { status(code, reason) };
                    let mut response = Response::new(FaultyBody::text(text));
                    *response.status_mut() = StatusCode::from_u16(code).unwrap();
                    faults.lock().responded(code);
                    if let Some(seconds) = retry_after {
                        response.headers_mut().insert("retry-after", seconds.parse().unwrap());
                    }
                    return Ok(response);
                }
            }
            let response = response.await?;
            faults.lock().responded(response.status().as_u16());
            Ok(response.map(|body| FaultyBody {
                faults: Some(faults),
                inner: Some(Box::pin(body)),
                ready: None,
                frames,
                middle,
                delay,
                sleep: None,
                over: false,
            }))
        })
    }
}

pub(super) struct FaultyBody {
    faults: Option<Arc<Mutex<Faults>>>,
    inner: Option<Pin<Box<evenkeel_apiserver::Body>>>,
    ready: Option<Bytes>,
    /// The number of frames before the fault.
    frames: u64,
    middle: Option<Middle>,
    delay: Duration,
    sleep: Option<Pin<Box<Sleep>>>,
    over: bool,
}

impl FaultyBody {
    fn text(text: String) -> Self {
        Self {
            faults: None,
            inner: None,
            ready: Some(text.into()),
            frames: 0,
            middle: None,
            delay: Duration::ZERO,
            sleep: None,
            over: false,
        }
    }
}

impl FaultyBody {
    /// Counts an error event.
    fn error_event(&self) {
        if let Some(faults) = &self.faults {
            faults.lock().expiries += 1;
        }
    }
}

impl http_body::Body for FaultyBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        if let Some(sleep) = &mut this.sleep {
            ready!(sleep.as_mut().poll(cx));
            this.sleep = None;
        }
        if let Some(ready) = this.ready.take() {
            return Poll::Ready(Some(Ok(Frame::data(ready))));
        }
        if this.over {
            return match this.middle {
                Some(Middle::BreakWithin) => Poll::Ready(Some(Err("broken".into()))),
                _ => Poll::Ready(None),
            };
        }
        let due = this.frames == 0;
        match this.middle {
            Some(Middle::Break) if due => return Poll::Ready(Some(Err("broken".into()))),
            Some(Middle::Close) if due => return Poll::Ready(None),
            Some(Middle::Hang) if due => return Poll::Pending,
            Some(Middle::Event(code, reason)) if due => {
                this.over = true;
                this.error_event();
                let object = status(code, reason);
                let line = format!("{{\"type\":\"ERROR\",\"object\":{object}}}\n");
                return Poll::Ready(Some(Ok(Frame::data(line.into()))));
            }
            _ => {}
        }
        let Some(inner) = &mut this.inner else { return Poll::Ready(None) };
        let Some(frame) = ready!(inner.as_mut().poll_frame(cx)) else { return Poll::Ready(None) };
        let frame = match frame {
            Ok(frame) => frame,
            Err(error) => return Poll::Ready(Some(Err(error.into()))),
        };
        let Ok(data) = frame.into_data() else { return Poll::Ready(None) };
        if data.starts_with(b"{\"type\":\"ERROR\"") {
            this.error_event();
        }
        this.frames = this.frames.saturating_sub(1);
        match this.middle {
            Some(Middle::BreakWithin | Middle::CloseWithin) if due => {
                this.over = true;
                Poll::Ready(Some(Ok(Frame::data(data.slice(..data.len() / 2)))))
            }
            Some(Middle::Lag) => {
                this.ready = Some(data);
                this.sleep = Some(Box::pin(sleep(this.delay)));
                self.poll_frame(cx)
            }
            _ => Poll::Ready(Some(Ok(Frame::data(data)))),
        }
    }
}
