//! The request path, top to bottom: the table of contents of the server.
//!
//! [`run`] names every stage a request passes. Each stage consumes what the one before it
//! made, so a stage cannot be left out. For writes the object's own path goes on in the verbs:
//!
//! ```text
//! route → authenticate → impersonate → authorize → decode → manage → mutate → validate_schema → validate
//!       → persist → encode
//! ```
//!
//! On update and patch everything from `decode` to `validate` runs inside `persist`'s
//! compare-and-swap loop, once for every state of the object it meets.

pub(crate) mod authenticate;

mod impersonate;

pub(crate) mod authorize;

pub(crate) mod decode;

pub(crate) mod manage;

pub(crate) mod mutate;

pub(crate) mod validate_schema;

pub(crate) mod validate;

pub(crate) mod persist;

pub(crate) mod encode;

use std::sync::Arc;

use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::request::Parts;
use http::{Method, Request, Response};
use http_body::Body as _;
use http_body_util::{BodyExt as _, Limited};

use crate::body::Body;
use crate::core::Core;
use crate::query::Query;
use crate::route::{self, Route};
use crate::status::{BODY_LIMIT, Status};
use crate::{paths, verbs};

/// A request whose path has been read.
pub(crate) struct Routed {
    pub(crate) parts: Parts,
    /// Or why it cannot be had, which matters to those who want it.
    pub(crate) body: Result<Bytes, Status>,
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
    let seen = core.metrics.begin(&route);
    let headers = parts.headers.clone();
    let wants_head = parts.method == Method::HEAD;
    let outcome = async {
        // Before credentials are looked at, as upstream does.
        query.timeout(&route)?;
        let routed = Routed { parts, body: read(body).await, query, route };
        let authenticated = authenticate::authenticate(core, routed)?;
        let impersonated = impersonate::impersonate(core, authenticated)?;
        let authorized = authorize::authorize(core, impersonated)?;
        match authorized.route() {
            Route::Resource(_) => verbs::dispatch(core, authorized).await,
            Route::Path => paths::answer(core, &authorized),
        }
    }
    .await;
    let response = outcome.unwrap_or_else(|status| encode::refusal(&headers, &status));
    let mut response = encode::common_headers(core, response);
    if wants_head {
        keep_head(&mut response);
    }
    seen.end(&core.registry.snapshot(), response.status().as_u16());
    response
}

/// Leaves out what a client that asks for the head alone does not read.
fn keep_head(response: &mut Response<Body>) {
    if let Some(length) = response.body().size_hint().exact() {
        response.headers_mut().insert(CONTENT_LENGTH, length.into());
    }
    *response.body_mut() = Body::default();
}

async fn read<B>(body: B) -> Result<Bytes, Status>
where
    B: http_body::Body<Data = Bytes> + Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let whole = Limited::new(body, BODY_LIMIT).collect().await.map_err(|error| {
        if error.is::<http_body_util::LengthLimitError>() {
            Status::too_large()
        } else {
            Status::bad_request(format!("unable to read the request body: {error}"))
        }
    })?;
    Ok(whole.to_bytes())
}
