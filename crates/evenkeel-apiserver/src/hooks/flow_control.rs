//! FlowSchemas and PriorityLevelConfigurations: a change takes effect with its write.

use std::sync::Arc;

use serde_json::Value;

use crate::context::{Core, HookFuture, Hooks, RequestContext};
use crate::status::Status;
use crate::storage::Record;

pub(super) struct FlowControl;

impl Hooks for FlowControl {
    fn after_write<'a>(&'a self, cx: &'a RequestContext, _: &'a Record) -> Option<HookFuture<'a>> {
        cx.core.flow_control.reload(&cx.core.store);
        None
    }

    fn after_delete<'a>(
        &'a self,
        cx: &'a RequestContext,
        _: &'a Value,
        _: &'a Record,
    ) -> Option<HookFuture<'a>> {
        cx.core.flow_control.reload(&cx.core.store);
        None
    }

    fn restore<'a>(&'a self, core: &'a Arc<Core>) -> Option<HookFuture<'a, Result<(), Status>>> {
        core.flow_control.reload(&core.store);
        None
    }
}
