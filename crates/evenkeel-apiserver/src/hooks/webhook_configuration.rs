//! Webhook configurations: in effect when their write returns.

use std::sync::Arc;

use serde_json::Value;

use crate::admission::webhook::Index;
use crate::context::{Core, HookFuture, Hooks, RequestContext};
use crate::status::Status;
use crate::storage::Record;

/// The hooks of one kind of webhook configuration.
pub(super) struct WebhookConfigurations(pub(super) Arc<Index>);

impl Hooks for WebhookConfigurations {
    fn after_write<'a>(&'a self, cx: &'a RequestContext, _: &'a Record) -> Option<HookFuture<'a>> {
        self.0.refresh(&cx.core.store);
        None
    }

    fn after_delete<'a>(
        &'a self,
        cx: &'a RequestContext,
        _: &'a Value,
        _: &'a Record,
    ) -> Option<HookFuture<'a>> {
        self.0.refresh(&cx.core.store);
        None
    }

    fn restore<'a>(&'a self, core: &'a Arc<Core>) -> Option<HookFuture<'a, Result<(), Status>>> {
        self.0.refresh(&core.store);
        None
    }
}
