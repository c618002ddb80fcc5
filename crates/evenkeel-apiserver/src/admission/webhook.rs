//! `MutatingAdmissionWebhook` and `ValidatingAdmissionWebhook`: call the webhooks of the stored
//! configurations that match a request.
//!
//! The configurations are parsed when they are written, so a request without a matching one reads
//! no storage and allocates nothing. Mutating webhooks are called one after the other, by the name
//! of their configuration and their position in it; validating webhooks in parallel.

mod call;

mod hook;

mod index;

mod matching;

mod mutating;

mod review;

mod validating;

use std::sync::Arc;

pub(crate) use self::index::{Index, Webhooks};

use crate::context::{Attributes, HookFuture, Plugin};
use crate::status::Status;

/// Calls mutating webhooks.
pub(super) struct Mutating(pub(super) Arc<Index>);

/// Calls validating webhooks.
pub(super) struct Validating(pub(super) Arc<Index>);

impl Plugin for Mutating {
    fn mutate_async<'a, 'b: 'a>(
        &'a self,
        attributes: &'a mut Attributes<'b>,
    ) -> Option<HookFuture<'a, Result<(), Status>>> {
        let invocations = matching::invocations(&self.0, attributes);
        (!invocations.is_empty())
            .then(|| Box::pin(mutating::dispatch(attributes, invocations)) as HookFuture<'a, _>)
    }
}

impl Plugin for Validating {
    fn validate_async<'a, 'b: 'a>(
        &'a self,
        attributes: &'a Attributes<'b>,
    ) -> Option<HookFuture<'a, Result<(), Status>>> {
        let invocations = matching::invocations(&self.0, attributes);
        (!invocations.is_empty())
            .then(|| Box::pin(validating::dispatch(attributes, invocations)) as HookFuture<'a, _>)
    }
}
