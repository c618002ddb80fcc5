//! Stage 2: authentication.

use std::sync::Arc;

use super::Routed;
use crate::context::Core;
use crate::identity::Identity;
use crate::status::Status;

/// A request with the identity of its sender, which may be anonymous.
pub(crate) struct Authenticated {
    pub(super) routed: Routed,
    pub(crate) identity: Identity,
}

/// Authenticates a request. Invalid credentials are rejected; without credentials the request is
/// anonymous.
pub(crate) fn authenticate(core: &Arc<Core>, mut routed: Routed) -> Result<Authenticated, Status> {
    let identity = core.authenticator.authenticate(&routed.parts).map_err(|why| {
        tracing::debug!(%why, path = routed.parts.uri.path(), "credentials refused");
        Status::unauthorized()
    })?;
    // Later stages must not see credentials.
    routed.parts.headers.remove(http::header::AUTHORIZATION);
    Ok(Authenticated { routed, identity })
}
