//! Kinds that the server reads from its storage again after each write, so that a change is in effect
//! when the write returns: webhook configurations, admission policies and their bindings, FlowSchemas
//! and PriorityLevelConfigurations.

use std::sync::Arc;

use serde_json::Value;

use crate::context::{Core, HookFuture, Hooks, RequestContext};
use crate::status::Status;
use crate::storage::Record;

/// The hooks of a kind whose objects are read again by a function.
pub(super) struct Refresh<F>(pub(super) F);

impl<F: Fn(&Core) + Send + Sync> Hooks for Refresh<F> {
    fn after_write<'a>(&'a self, cx: &'a RequestContext, _: &'a Record) -> Option<HookFuture<'a>> {
        (self.0)(&cx.core);
        None
    }

    fn after_delete<'a>(
        &'a self,
        cx: &'a RequestContext,
        _: &'a Value,
        _: &'a Record,
    ) -> Option<HookFuture<'a>> {
        (self.0)(&cx.core);
        None
    }

    fn restore<'a>(&'a self, core: &'a Arc<Core>) -> Option<HookFuture<'a, Result<(), Status>>> {
        (self.0)(core);
        None
    }
}
