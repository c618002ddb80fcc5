//! Admission policies and their bindings: in effect when their write returns.

use std::sync::Arc;

use serde_json::Value;

use crate::admission::policy::{Evaluator, Index};
use crate::context::{Core, HookFuture, Hooks, RequestContext};
use crate::status::Status;
use crate::storage::Record;

/// The hooks of one kind of policy, or of its bindings.
pub(super) struct AdmissionPolicies<E>(pub(super) Arc<Index<E>>);

impl<E: Evaluator> Hooks for AdmissionPolicies<E> {
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
