//! Runs a request from its route to its response.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::{Method, Request, Response, Version};
use http_body::Body as _;
use tokio::time;

use crate::body::Body;
use crate::context::{Core, Remote};
use crate::flow_control::Flow;
use crate::listen::Peer;
use crate::pipeline::encode;
use crate::request::negotiate;
use crate::request::query::Query;
use crate::request::receive::Unread;
use crate::request::route::{self, Route, Verb};
use crate::request::{Routed, authenticate, authorize, impersonate};
use crate::status::Status;
use crate::throttle::User;
use crate::{paths, verbs};

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
    let in_flight = core.metrics.begin(&route);
    let headers = parts.headers.clone();
    let pretty = negotiate::pretty(&headers, &query);
    let wants_head = parts.method == Method::HEAD;
    let peer = parts.extensions.get::<Peer>().cloned();
    let limit = time_limit(core, peer.as_ref(), &query, &route);
    let flow = OnceLock::new();
    let stages = async {
        let version = parts.version;
        let routed = Routed { parts, query, route };
        let authenticated =
            authenticate::authenticate(&core.authenticator, core.authentication_state(), routed);
        // Accounted to the sender, not to the impersonated user.
        let remote = peer.as_ref().and_then(|peer| report_peer(peer, version, &authenticated));
        let remote = remote.map(Arc::new);
        let impersonated = impersonate::impersonate(&*core.authorizer, authenticated?)?;
        classify(core, &impersonated, &flow);
        let authorized =
            authorize::authorize(&*core.authorizer, core.access.as_ref(), impersonated)?;
        // Cancels with this future: when the client disconnects or the request times out.
        let _cancel_on_drop = remote.as_ref().map(|remote| remote.cancellation.drop_guard());
        match authorized.route() {
            Route::Resource(_) => {
                let user = remote.as_ref().map(|remote| remote.user.clone());
                let body = Unread::new(&core.throttle, user, &headers, body);
                verbs::dispatch(core, authorized, body, remote).await
            }
            Route::Path => paths::respond(core, authorized, remote).await,
        }
    };
    let outcome = match limit {
        // Before authentication, as upstream does.
        Err(status) => Err(status),
        Ok(None) => stages.await,
        Ok(Some(limit)) => {
            time::timeout(limit, stages).await.unwrap_or_else(|_| Err(Status::timed_out()))
        }
    };
    let response =
        outcome.unwrap_or_else(|status| encode::error_response(&headers, pretty, &status));
    let mut response = encode::common_headers(core, response);
    if let Some(flow) = flow.get() {
        flow.add_headers(response.headers_mut());
    }
    if wants_head {
        strip_body(&mut response);
    }
    in_flight.end(&core.registry.snapshot(), response.status().as_u16());
    response
}

/// Sets the flow of a request; requests that stream other data than events have none, as upstream.
fn classify(core: &Core, request: &authenticate::Authenticated, flow: &OnceLock<Flow>) {
    let Routed { parts, route, .. } = request.routed();
    let watches = matches!(route, Route::Resource(route) if route.verb == Verb::Watch);
    if route.is_long_running() && !watches {
        return;
    }
    let method = parts.method.as_str().to_ascii_lowercase();
    let attributes = authorize::attributes(&request.identity, route, &method, parts.uri.path());
    if let Some(found) = core.flow_control.classify(&attributes) {
        flow.get_or_init(|| found);
    }
}

/// Reports the user to the listener, which accounts the connection to it.
fn report_peer(
    peer: &Peer,
    version: Version,
    authenticated: &Result<authenticate::Authenticated, Status>,
) -> Option<Remote> {
    let user = authenticated.as_ref().ok().map(|request| User::of(&request.identity));
    match &user {
        Some(user) if !user.is_anonymous() => peer.authenticated(user.name()),
        // As upstream: HTTP/2 costs the server too much to allow it to anonymous clients.
        _ if version == Version::HTTP_2 => peer.drain(),
        _ => {}
    }
    user.map(Remote::new)
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

/// Removes the body of a response to a HEAD request.
fn strip_body(response: &mut Response<Body>) {
    if let Some(length) = response.body().size_hint().exact() {
        response.headers_mut().insert(CONTENT_LENGTH, length.into());
    }
    *response.body_mut() = Body::default();
}
