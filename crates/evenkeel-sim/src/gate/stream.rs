//! The stream of a watch: delivers one event at a time, so that a fault can act between two.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use evenkeel::BoxError;
use futures_util::stream;
use http::Response;
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::faults::{self, Hold};
use super::{Gate, SimBody};
use crate::plan::Effect;
use crate::trace::Lane;

/// How long events are held at most until the operator's next write.
const LAG_MAX: Duration = Duration::from_secs(30);

type Next = Option<Result<Frame<Bytes>, BoxError>>;

struct Watched {
    gate: Arc<Gate>,
    incarnation: u32,
    resource: String,
    body: SimBody,
    lines: VecDeque<Bytes>,
    rest: Vec<u8>,
    ended: bool,
}

/// Returns the body of a watch.
pub(super) fn watched(
    gate: Arc<Gate>,
    incarnation: u32,
    resource: String,
    body: SimBody,
) -> SimBody {
    let lines = VecDeque::new();
    let state =
        Watched { gate, incarnation, resource, body, lines, rest: Vec::new(), ended: false };
    let frames = stream::unfold(state, |mut state| async move {
        let next = state.next().await?;
        Some((next, state))
    });
    StreamBody::new(frames).boxed_unsync()
}

/// Returns a watch that delivers nothing and never ends.
pub(super) fn silent() -> Response<SimBody> {
    let frames = stream::pending::<Result<Frame<Bytes>, BoxError>>();
    Response::new(StreamBody::new(frames).boxed_unsync())
}

impl Watched {
    async fn next(&mut self) -> Next {
        if self.ended {
            return None;
        }
        let line = loop {
            match self.lines.pop_front() {
                Some(line) => break line,
                None => self.fill().await?,
            }
        };
        let event: Value = serde_json::from_slice(&line).unwrap_or_default();
        let kind = event["type"].as_str().unwrap_or_default();
        if kind != "BOOKMARK" {
            let effect = {
                let mut state = self.gate.state.lock();
                *state.requests.events.entry(self.resource.clone()).or_default() += 1;
                state.faults.at_event(&self.resource)
            };
            if let Some(effect) = effect
                && let Some(end) = self.inject(effect).await
            {
                return end;
            }
            if self.wait_while_held().await {
                // The server became unreachable.
                self.ended = true;
                return Some(Err(connection_reset()));
            }
            if !super::is_auxiliary(&self.resource) {
                let metadata = &event["object"]["metadata"];
                let [namespace, name] =
                    ["namespace", "name"].map(|it| metadata[it].as_str().unwrap_or_default());
                let text = format!("{} {} {namespace}/{name}", kind.to_lowercase(), self.resource);
                self.gate.recorder.record(Lane::Cache, text);
            }
        }
        if !self.gate.is_open(self.incarnation) {
            std::future::pending::<()>().await;
        }
        Some(Ok(Frame::data(line)))
    }

    /// Reads from the server; `None` at the end of the watch.
    async fn fill(&mut self) -> Option<()> {
        let mut written = self.gate.written.subscribe();
        let frame = loop {
            let outage = self.gate.state.lock().outage;
            if outage.is_some_and(|until| Instant::now() < until) {
                self.ended = true;
                return None;
            }
            tokio::select! {
                biased;
                frame = self.body.frame() => break frame?.ok()?,
                _ = written.changed() => {}
            }
        };
        let Ok(data) = frame.into_data() else { return Some(()) };
        self.rest.extend_from_slice(&data);
        while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            self.lines.push_back(line.into());
        }
        Some(())
    }

    /// Returns how the watch ends, if it does.
    async fn inject(&mut self, effect: Effect) -> Option<Next> {
        let gate = self.gate.clone();
        let record = |what: &str| {
            gate.recorder.fault(Lane::Cache, format!("watch of {}: {what}", self.resource));
        };
        match effect {
            Effect::Cut | Effect::EndEmpty => record("cut"),
            Effect::Gap => {
                record("cut, events are missed");
                gate.state.lock().faults.open_gap(&self.resource);
            }
            Effect::Reset => {
                record("connection reset");
                self.ended = true;
                return Some(Some(Err(connection_reset())));
            }
            Effect::Expire => {
                record("error event 410");
                self.ended = true;
                let error = json!({"type": "ERROR", "object": faults::expired_status()});
                return Some(Some(Ok(Frame::data(format!("{error}\n").into()))));
            }
            Effect::Freeze => {
                record("silent from now on");
                std::future::pending::<()>().await;
            }
            Effect::Lag(seconds) => {
                record(&format!("lags {seconds} s"));
                let until = Instant::now() + Duration::from_secs(seconds.into());
                let hold = Hold { until, until_write: None };
                gate.state.lock().faults.hold(&self.resource, hold);
                return None;
            }
            Effect::LagUntilWrite => {
                record("lags until the operator's next write");
                let until_write = Some(*gate.written.borrow() + 1);
                let hold = Hold { until: Instant::now() + LAG_MAX, until_write };
                gate.state.lock().faults.hold(&self.resource, hold);
                return None;
            }
            _ => return None,
        }
        self.ended = true;
        Some(None)
    }

    /// Waits while events of the resource are held; returns whether the server has become
    /// unreachable.
    async fn wait_while_held(&mut self) -> bool {
        let mut written = self.gate.written.subscribe();
        loop {
            let count = *written.borrow_and_update();
            let (hold, outage) = {
                let mut state = self.gate.state.lock();
                (state.faults.held(&self.resource, count), state.outage)
            };
            if outage.is_some_and(|until| Instant::now() < until) {
                return true;
            }
            let Some(hold) = hold else { return false };
            tokio::select! {
                biased;
                _ = written.changed() => {}
                () = tokio::time::sleep_until(hold.until) => {}
            }
        }
    }
}

fn connection_reset() -> BoxError {
    BoxError::from(std::io::Error::from(std::io::ErrorKind::ConnectionReset))
}
