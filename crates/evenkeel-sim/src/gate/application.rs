//! Calls of the application that the operator manages: faults act on them as on requests.

use std::sync::Arc;

use evenkeel::BoxError;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use kube::client::Body;

use super::service::OperatorService;
use super::{Call, Gate, SimBody, faults};
use crate::application::{CallError, Stub};
use crate::plan::Effect;
use crate::trace::Lane;
use crate::workload::ObjectRef;

impl Gate {
    /// Returns the application.
    pub(crate) fn application(&self) -> Option<Arc<dyn Stub>> {
        self.application.clone()
    }

    /// Passes a call of the application.
    pub(crate) async fn call<R: Send>(
        &self,
        incarnation: u32,
        call: &Call,
        perform: impl FnOnce() -> R + Send,
    ) -> Result<R, CallError> {
        let text = format!("{} {} {}", call.verb, call.resource, call.object());
        self.note_thread(&text);
        self.note_escape(incarnation, &text);
        if !self.is_open(incarnation) {
            std::future::pending::<()>().await;
        }
        self.until_resumed(incarnation).await;
        let effect = {
            let mut state = self.state.lock();
            state.requests.count += 1;
            let (nth, effect) = state.faults.at_request(call);
            state.requests.calls.push(call.at(nth));
            effect
        };
        self.slow_down().await;
        match effect {
            None => {
                self.recorder.record(Lane::Application, text);
                Ok(perform())
            }
            Some(Effect::CrashBefore) => {
                self.crash(incarnation, format!("crashes before {text}")).await
            }
            Some(Effect::CrashAfter | Effect::StaleRestart) => {
                drop(perform());
                self.recorder.fault(Lane::Application, text.clone());
                self.crash(incarnation, format!("crashes after {text}")).await
            }
            Some(Effect::Reject(code)) => {
                self.recorder.fault(Lane::Application, format!("rejects {text} with {code}"));
                Err(CallError::Rejected(code))
            }
            Some(Effect::LoseResponse) => {
                drop(perform());
                self.recorder.fault(Lane::Application, format!("the response is lost: {text}"));
                Err(CallError::ConnectionReset)
            }
            Some(Effect::Pause(seconds)) => {
                self.state.lock().conditions.pause(incarnation, seconds);
                self.recorder.fault(Lane::Operator, format!("is paused before {text}"));
                self.until_resumed(incarnation).await;
                Ok(perform())
            }
            Some(_) => Ok(perform()),
        }
    }
}

impl OperatorService {
    /// Passes a request that the proxy of the API server forwards to a pod or Service.
    pub(super) async fn pass_proxied(
        &self,
        call: &Call,
        target: &ObjectRef,
        application: Arc<dyn Stub>,
        request: Request<Body>,
    ) -> Result<Response<SimBody>, BoxError> {
        let (mut parts, body) = request.into_parts();
        let bytes = body.collect().await?.to_bytes();
        let uri = parts.uri.to_string();
        let path = uri.split_once("/proxy").map_or("", |(_, path)| path);
        parts.uri = if path.starts_with('/') { path } else { "/" }.parse()?;
        let request = Request::from_parts(parts, bytes);
        let serve = || application.serve(target, request);
        match self.gate.call(self.incarnation, call, serve).await {
            Ok(response) => Ok(response.map(faults::full)),
            Err(CallError::Rejected(code)) => Ok(faults::rejection(code)),
            Err(CallError::ConnectionReset) => {
                Err(BoxError::from(std::io::Error::from(std::io::ErrorKind::ConnectionReset)))
            }
        }
    }
}
