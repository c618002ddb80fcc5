//! `AlwaysDeny`: rejects all requests that admission sees. Disabled by default.

use crate::context::{Attributes, Plugin};
use crate::identity::Identity;
use crate::status::Status;

pub(super) struct AlwaysDeny;

impl Plugin for AlwaysDeny {
    fn mutate(&self, attributes: &mut Attributes<'_>) -> Result<(), Status> {
        deny(attributes)
    }

    fn validate(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        deny(attributes)
    }
}

fn deny(attributes: &Attributes<'_>) -> Result<(), Status> {
    // Upstream's server denies its own writes, too, and never becomes ready.
    if attributes.cx.identity == Identity::apiserver() {
        return Ok(());
    }
    Err(attributes.forbidden("admission control is denying all modifications"))
}
