//! The service that a listener serves: the API server behind the faults of its plan.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Frame, SizeHint};

use super::{ApiServer, ApiServerBuilder, Service};
use crate::body::Body;
use crate::faults::{Effect, Faults, Gap, Mode, Place, Plan, Reset, Watched, expired, rejection};
use crate::handler;
use crate::listen::Abort;
use crate::pipeline::encode;
use crate::request::negotiate;
use crate::request::query::Query;
use crate::status::Status;

/// The API server as listeners serve it. Without a fault plan it passes requests on.
#[derive(Clone, Debug)]
pub struct ListenerService {
    service: Service,
    faults: Option<Arc<Faults>>,
}

/// The body of a response: that of the server, or a watch that faults may hit.
#[derive(Debug)]
pub struct FaultyBody(Kind);

#[derive(Debug)]
enum Kind {
    Served(Body),
    Watched(Box<Watched>),
}

impl ListenerService {
    pub(super) fn new(service: Service, faults: Option<Arc<Faults>>) -> Self {
        Self { service, faults }
    }
}

impl ApiServer {
    /// Consumes the server and returns the service to be served by another listener. It
    /// authenticates each request, and the faults of the plan act in front of it.
    pub fn into_service(self) -> ListenerService {
        ListenerService::new(self.authenticating_service(), self.faults.clone())
    }
}

impl ApiServerBuilder {
    /// Injects the faults of `plan` into requests through sockets, and writes a line of JSON to `log`
    /// for each. Components of the control plane are only hit if the plan names them; services in
    /// this process never are.
    pub fn faults(mut self, plan: Plan, log: impl std::io::Write + Send + 'static) -> Self {
        self.faults = Some((plan, Box::new(log)));
        self
    }
}

impl<B> tower_service::Service<Request<B>> for ListenerService
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<FaultyBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let service = self.service.clone();
        let faults = self.faults.clone();
        Box::pin(async move {
            let response = match faults {
                Some(faults) => inject(&service, &faults, request).await,
                None => served(handler::run(service.core(), service.prepare(request)).await),
            };
            Ok(response)
        })
    }
}

/// Processes a request with the fault that happens at it.
async fn inject<B>(
    service: &Service,
    faults: &Arc<Faults>,
    request: Request<B>,
) -> Response<FaultyBody>
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let request = service.prepare(request);
    let core = service.core();
    let (parts, body) = request.into_parts();
    let place = Place::of(core, &parts);
    let gap = place.as_ref().and_then(|place| faults.gap(place));
    let effect = place.as_ref().filter(|_| gap.is_none()).and_then(|place| faults.at(place));
    let refused = |status: &Status| {
        let query = Query::parse(parts.uri.query().unwrap_or(""));
        let pretty = negotiate::pretty(&parts.headers, &query);
        let response = encode::error_response(&parts.headers, pretty, status);
        served(encode::common_headers(&encode::audit_id(core, &parts.headers), response))
    };
    let Some(place) = place else {
        return served(handler::run(core, Request::from_parts(parts, body)).await);
    };
    let mode = match (gap, effect) {
        (Some(Gap::Unreachable), _) | (_, Some(Effect::LoseRequest)) => return aborted(),
        (Some(Gap::Expired), _) => return refused(&expired(&place)),
        (_, Some(Effect::Reject(code))) => return refused(&rejection(&place, code)),
        (_, Some(Effect::Expire)) => return refused(&expired(&place)),
        (_, Some(Effect::LoseResponse)) => {
            handler::run(core, Request::from_parts(parts, body)).await;
            return aborted();
        }
        (_, Some(Effect::EndEmpty)) => Mode::Ended,
        (_, Some(Effect::Freeze)) => Mode::Frozen,
        (_, Some(Effect::NoBookmarks)) => Mode::NoBookmarks,
        (_, Some(Effect::LateBookmarks(seconds))) => Mode::LateBookmarks(seconds),
        _ => Mode::Plain,
    };
    let response = handler::run(core, Request::from_parts(parts, body)).await;
    if place.verb != "watch" || !response.status().is_success() {
        return served(response);
    }
    let watched = |body| Watched::new(faults.clone(), place.event(), mode, body);
    response.map(|body| FaultyBody(Kind::Watched(Box::new(watched(body)))))
}

fn served(response: Response<Body>) -> Response<FaultyBody> {
    response.map(|body| FaultyBody(Kind::Served(body)))
}

/// Returns what makes the listener close the connection without a response.
fn aborted() -> Response<FaultyBody> {
    let mut response = served(Response::new(Body::default()));
    response.extensions_mut().insert(Abort);
    response
}

impl http_body::Body for FaultyBody {
    type Data = Bytes;
    type Error = Reset;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Reset>>> {
        match &mut self.0 {
            Kind::Served(body) => {
                let frame = Pin::new(body).poll_frame(cx);
                frame.map(|next| next.map(|frame| frame.map_err(|never| match never {})))
            }
            Kind::Watched(watched) => {
                watched.poll_next(cx).map(|next| next.map(|line| line.map(Frame::data)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Kind::Served(body) => body.is_end_stream(),
            Kind::Watched(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Served(body) => body.size_hint(),
            Kind::Watched(_) => SizeHint::default(),
        }
    }
}
