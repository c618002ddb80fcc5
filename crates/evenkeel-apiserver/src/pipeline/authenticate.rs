//! Stage 2: who asks.

use std::sync::Arc;

use super::Routed;
use crate::core::Core;
use crate::identity::Identity;
use crate::status::Status;

/// A request whose sender is known, be it as nobody in particular.
pub(crate) struct Authenticated {
    pub(super) routed: Routed,
    pub(super) identity: Identity,
}

/// Refuses credentials that do not hold; no credentials at all make an anonymous request.
pub(crate) fn authenticate(core: &Arc<Core>, mut routed: Routed) -> Result<Authenticated, Status> {
    let identity = core.authenticator.authenticate(&routed.parts).map_err(|why| {
        tracing::debug!(%why, path = routed.parts.uri.path(), "credentials refused");
        Status::unauthorized()
    })?;
    // No later stage sees a credential.
    routed.parts.headers.remove(http::header::AUTHORIZATION);
    Ok(Authenticated { routed, identity })
}
