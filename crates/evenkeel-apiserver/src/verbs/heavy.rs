//! Which requests work on much data at once, and so run on a thread of their own.

use std::sync::Arc;

use http::Response;

use crate::body::Body;
use crate::call::Call;
use crate::limits::HEAVY_BYTES;
use crate::negotiate::Output;
use crate::pipeline::encode::{self, Answer};
use crate::route::Verb;
use crate::status::Status;

/// Whether a request is heavy before anything is done.
pub(super) fn is_heavy(call: &Call, body: &[u8]) -> bool {
    match call.verb {
        Verb::Get | Verb::List | Verb::Watch | Verb::Other => false,
        Verb::DeleteCollection => true,
        Verb::Create | Verb::Update | Verb::Patch | Verb::Delete => {
            body.len() > HEAVY_BYTES
                || stored_bytes(call) > HEAVY_BYTES
                // Serves other resources from then on, and may delete all their objects.
                || call.resource.is("apiextensions.k8s.io", "customresourcedefinitions")
        }
    }
}

/// The size of the object that the request changes.
fn stored_bytes(call: &Call) -> usize {
    let Some(name) = &call.name else { return 0 };
    call.resource.table.get(&call.key(name)).map_or(0, |record| record.body.len())
}

/// Encodes an answer; a large one that is made as a whole is counted until it is sent.
pub(super) async fn encode(
    call: &Arc<Call>,
    output: Output,
    answer: Answer,
) -> Result<Response<Body>, Status> {
    let size = encode::size_at_once(output, &answer);
    let Some(remote) = call.remote.as_ref().filter(|_| size > HEAVY_BYTES) else {
        return encode::respond(call, output, answer);
    };
    let place = call.core.throttle.response(&remote.user, size).await?;
    let shared = call.clone();
    let response = call.offload(async move { encode::respond(&shared, output, answer) }).await?;
    Ok(response.map(|body| body.counted(place)))
}
