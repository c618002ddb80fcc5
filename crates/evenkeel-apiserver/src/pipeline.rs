//! The request path, top to bottom: the table of contents of the server.
//!
//! [`run`] names every stage a request passes. Each stage consumes what the one before it
//! made, so a stage cannot be left out. For writes the object's own path goes on in the verbs:
//!
//! ```text
//! route → authenticate → impersonate → authorize → receive → decode → manage → mutate
//!       → prepare → validate → persist → encode
//! ```
//!
//! On update and patch everything from `decode` to `validate` runs inside `persist`'s
//! compare-and-swap loop, once for every state of the object it meets.

pub(crate) mod authenticate;

mod impersonate;

pub(crate) mod authorize;

pub(crate) mod receive;

pub(crate) mod decode;

pub(crate) mod manage;

pub(crate) mod mutate;

pub(crate) mod prepare;

pub(crate) mod validate;

pub(crate) mod persist;

pub(crate) mod encode;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::request::Parts;
use http::{Method, Request, Response, Version};
use http_body::Body as _;
use tokio::time;

use self::receive::Unread;
use crate::body::Body;
use crate::context::Remote;
use crate::core::Core;
use crate::listen::Peer;
use crate::negotiate;
use crate::query::Query;
use crate::route::{self, Route};
use crate::status::Status;
use crate::throttle::User;
use crate::{paths, verbs};

/// A request whose path has been read.
pub(crate) struct Routed {
    pub(crate) parts: Parts,
    pub(crate) query: Query,
    pub(crate) route: Route,
}

/// Carries a request through all stages. Never fails: refusals are answers too.
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
    let stages = async {
        let version = parts.version;
        let routed = Routed { parts, query, route };
        let authenticated = authenticate::authenticate(core, routed);
        // Counts for the sender, not for the impersonated user.
        let remote = peer.as_ref().and_then(|peer| report_peer(peer, version, &authenticated));
        let remote = remote.map(Arc::new);
        let impersonated = impersonate::impersonate(core, authenticated?)?;
        let authorized = authorize::authorize(core, impersonated)?;
        // Ends with this future: when its client has gone, or its time is over.
        let _cancel_on_drop = remote.as_ref().map(|remote| remote.cancellation.drop_guard());
        match authorized.route() {
            Route::Resource(_) => {
                let user = remote.as_ref().map(|remote| remote.user.clone());
                let body = Unread::new(core, user, &headers, body);
                verbs::dispatch(core, authorized, body, remote).await
            }
            Route::Path => paths::respond(core, authorized, remote).await,
        }
    };
    let outcome = match limit {
        // Before credentials are looked at, as upstream does.
        Err(status) => Err(status),
        Ok(None) => stages.await,
        Ok(Some(limit)) => {
            time::timeout(limit, stages).await.unwrap_or_else(|_| Err(Status::timed_out()))
        }
    };
    let response =
        outcome.unwrap_or_else(|status| encode::error_response(&headers, pretty, &status));
    let mut response = encode::common_headers(core, response);
    if wants_head {
        strip_body(&mut response);
    }
    in_flight.end(&core.registry.snapshot(), response.status().as_u16());
    response
}

/// Reports to the listener who is calling, so that it can tell its connections apart.
fn report_peer(
    peer: &Peer,
    version: Version,
    authenticated: &Result<authenticate::Authenticated, Status>,
) -> Option<Remote> {
    let user = authenticated.as_ref().ok().map(|request| User::of(&request.identity));
    match &user {
        Some(user) if !user.is_anonymous() => peer.authenticated(user.name()),
        // As upstream: HTTP/2 costs the server too much to leave it to strangers.
        _ if version == Version::HTTP_2 => peer.drain(),
        _ => {}
    }
    user.map(Remote::new)
}

/// How long the request may take: as long as it says, and through a socket no longer than others.
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

/// Leaves out what a client that asks for the head alone does not read.
fn strip_body(response: &mut Response<Body>) {
    if let Some(length) = response.body().size_hint().exact() {
        response.headers_mut().insert(CONTENT_LENGTH, length.into());
    }
    *response.body_mut() = Body::default();
}
