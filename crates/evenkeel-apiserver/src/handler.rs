//! Runs a request from its route to its response.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::{Method, Request, Response, Version};
use http_body::Body as _;
use tokio::time;

use crate::audit::Completion;
use crate::body::Body;
use crate::context::{Core, Remote};
use crate::flow_control::Flow;
use crate::listen::Peer;
use crate::pipeline::encode;
use crate::request::negotiate;
use crate::request::query::Query;
use crate::request::receive::Unread;
use crate::request::record::{self, Recorder};
use crate::request::route::{self, Route, Verb};
use crate::request::{Routed, authenticate, authorize, impersonate};
use crate::status::Status;
use crate::throttle::User;
use crate::{paths, token_tracking, verbs};

/// Runs a request through all stages. Never fails: errors become responses.
pub(crate) async fn run<B>(core: &Arc<Core>, request: Request<B>) -> Response<Body>
where
    B: http_body::Body<Data = Bytes> + Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let (parts, body) = request.into_parts();
    let query = Query::parse(parts.uri.query().unwrap_or(""));
    let route = route::route(&parts.method, parts.uri.path(), &query);
    core.compactor.run(&core.store).await;
    let in_flight = core.metrics.begin(&route, &query);
    let headers = parts.headers.clone();
    let pretty = negotiate::pretty(&headers, &query);
    let wants_head = parts.method == Method::HEAD;
    let peer = parts.extensions.get::<Peer>().cloned();
    let limit = time_limit(core, peer.as_ref(), &query, &route);
    let audit_id = encode::audit_id(core, &headers);
    let queue_wait = queue_wait(core, &limit);
    let (flow, warning) = (OnceLock::<Flow>::new(), OnceLock::new());
    let recorder = core.audit.as_ref().map(|audit| Recorder {
        audit: audit.clone(),
        audit_id: audit_id.clone(),
        method: parts.method.as_str().to_ascii_lowercase(),
        uri: parts.uri.clone(),
        route: route.clone(),
        headers: headers.clone(),
        peer: peer.clone(),
    });
    let completion = OnceLock::<Completion>::new();
    let stages = async {
        let version = parts.version;
        let routed = Routed { parts, query, route };
        let authenticated =
            authenticate::authenticate(&core.authenticator, core.authentication_state(), routed);
        if let (Some(recorder), Ok(request)) = (&recorder, &authenticated) {
            completion.get_or_init(|| recorder.received(&request.identity));
        }
        token_tracking::record(core).await;
        if let Some(text) = authenticated.as_ref().ok().and_then(|request| request.warning()) {
            warning.get_or_init(|| text);
        }
        // Accounted to the sender, not to the impersonated user.
        let user = peer.as_ref().and_then(|peer| report_peer(peer, version, &authenticated));
        let remote = user.map(|user| Arc::new(Remote::new(user, queue_wait)));
        let audit = completion.get().map(Completion::trail).unwrap_or_default();
        let impersonated =
            impersonate::impersonate(&*core.authorizer, core.access.as_ref(), authenticated?)?;
        if let Some(constraint) = impersonated.impersonated_by() {
            audit.impersonated(&impersonated.identity, constraint);
        }
        if let Some(found) = classify(core, &impersonated) {
            if let Some(remote) = &remote {
                remote.flow.get_or_init(|| found.clone());
            }
            flow.get_or_init(|| found);
        }
        let authorized =
            authorize::authorize(&*core.authorizer, core.access.as_ref(), &audit, impersonated)?;
        // Cancels with this future: when the client disconnects or the request times out.
        let _cancel_on_drop = remote.as_ref().map(|remote| remote.cancellation.drop_guard());
        match authorized.route() {
            Route::Resource(_) => {
                let user = remote.as_ref().map(|remote| remote.user.clone());
                let body = Unread::new(&core.throttle, user, &headers, body);
                verbs::dispatch(core, authorized, body, remote, audit).await
            }
            Route::Path => paths::respond(core, authorized, remote).await,
        }
    };
    let outcome = match limit {
        // Before authentication, as upstream does.
        Err(status) => {
            drop(stages);
            Err(status)
        }
        Ok(None) => stages.await,
        Ok(Some(limit)) => {
            time::timeout(limit, stages).await.unwrap_or_else(|_| Err(Status::timed_out()))
        }
    };
    let response = outcome.unwrap_or_else(|status| {
        match (completion.get(), &recorder) {
            (Some(completion), _) => record::failed(&completion.trail(), &headers, &status),
            (None, Some(recorder)) => recorder.rejected(&status),
            (None, None) => {}
        }
        encode::error_response(&headers, pretty, &status)
    });
    let mut response = encode::common_headers(&audit_id, response);
    if let Some(flow) = flow.get() {
        flow.add_headers(response.headers_mut());
    }
    if let Some(text) = warning.get() {
        encode::add_warning(text, response.headers_mut());
    }
    if wants_head {
        strip_body(&mut response);
    }
    let code = response.status();
    in_flight.end(&core.registry.snapshot(), code);
    match completion.into_inner() {
        Some(completion) => {
            completion.trail().responded(code.as_u16());
            response.map(|body| body.with_completion(completion))
        }
        None => response,
    }
}

/// Returns the flow of a request; requests that stream other data than events have none, as
/// upstream.
fn classify(core: &Core, request: &authenticate::Authenticated) -> Option<Flow> {
    let Routed { parts, route, .. } = request.routed();
    let watches = matches!(route, Route::Resource(route) if route.verb == Verb::Watch);
    if route.is_long_running() && !watches {
        return None;
    }
    let method = parts.method.as_str().to_ascii_lowercase();
    let attributes = authorize::attributes(&request.identity, route, &method, parts.uri.path());
    core.flow_control.classify(&attributes)
}

/// Reports the user to the listener, which accounts the connection to it.
fn report_peer(
    peer: &Peer,
    version: Version,
    authenticated: &Result<authenticate::Authenticated, Status>,
) -> Option<User> {
    let user = authenticated.as_ref().ok().map(|request| User::of(&request.identity));
    match &user {
        Some(user) if !user.is_anonymous() => peer.authenticated(user.name()),
        // As upstream: HTTP/2 costs the server too much to allow it to anonymous clients.
        _ if version == Version::HTTP_2 => peer.drain(),
        _ => {}
    }
    user
}

/// Returns the timeout of the request: the requested one and, through a socket, at most the limit.
fn time_limit(
    core: &Core,
    peer: Option<&Peer>,
    query: &Query,
    route: &Route,
) -> Result<Option<Duration>, Status> {
    let given = query.timeout(route)?;
    let Some(peer) = peer else { return Ok(given) };
    if route.is_long_running() {
        peer.long_running();
        return Ok(None);
    }
    let most = core.throttle.limits.request_timeout;
    Ok(Some(given.map_or(most, |given| given.min(most))))
}

/// Returns how long the request waits for its seats, as upstream: a quarter of its timeout.
fn queue_wait(core: &Core, limit: &Result<Option<Duration>, Status>) -> Duration {
    let limits = &core.throttle.limits;
    let timeout = limit.as_ref().ok().copied().flatten().unwrap_or(limits.request_timeout);
    limits.queue_wait.min(timeout / 4)
}

/// Removes the body of a response to a HEAD request.
fn strip_body(response: &mut Response<Body>) {
    if let Some(length) = response.body().size_hint().exact() {
        response.headers_mut().insert(CONTENT_LENGTH, length.into());
    }
    *response.body_mut() = Body::default();
}
