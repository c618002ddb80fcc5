//! Decides which requests are heavy, and so run on their own thread.

use std::sync::Arc;

use http::Response;

use crate::body::Body;
use crate::context::RequestContext;
use crate::limits::HEAVY_BYTES;
use crate::pipeline::encode::{self, Reply};
use crate::request::negotiate::Output;
use crate::request::route::Verb;
use crate::status::Status;

/// Returns whether a request is heavy, before it is executed.
pub(super) fn is_heavy(cx: &RequestContext, body: &[u8]) -> bool {
    match cx.verb {
        Verb::Get | Verb::List | Verb::Watch | Verb::Other => false,
        Verb::DeleteCollection => true,
        Verb::Create | Verb::Update | Verb::Patch | Verb::Delete => {
            body.len() > HEAVY_BYTES || stored_bytes(cx) > HEAVY_BYTES || cx.hooks.is_heavy()
        }
    }
}

/// Returns the size of the object that the request changes.
fn stored_bytes(cx: &RequestContext) -> usize {
    let Some(name) = &cx.name else { return 0 };
    cx.resource.table.get(&cx.key(name)).map_or(0, |record| record.body.len())
}

/// Encodes a reply; a large buffered response is accounted until it is sent.
pub(super) async fn encode(
    cx: &Arc<RequestContext>,
    output: Output,
    reply: Reply,
) -> Result<Response<Body>, Status> {
    let size = encode::buffered_size(output, &reply);
    let Some(remote) = cx.remote.as_ref().filter(|_| size > HEAVY_BYTES) else {
        return encode::respond(cx, output, reply);
    };
    let permit = cx.core.throttle.reserve_response(&remote.user, size).await?;
    let shared = cx.clone();
    let response = cx.offload(async move { encode::respond(&shared, output, reply) }).await?;
    Ok(response.map(|body| body.with_permit(permit)))
}
