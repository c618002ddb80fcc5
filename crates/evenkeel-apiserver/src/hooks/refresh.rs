//! Kinds that the server reads from its storage again after each write, so that a change is in effect
//! when the write returns: webhook configurations, admission policies and their bindings, FlowSchemas
//! and PriorityLevelConfigurations.

use std::sync::Arc;

use evenkeel_schema::field;
use serde_json::Value;

use crate::context::{Core, HookFuture, Hooks, RequestContext};
use crate::status::Status;
use crate::storage::Record;

/// The hooks of a kind whose objects are read again by a function.
pub(super) struct Refresh<F, A = AuthorizeFn> {
    pub(super) read: F,
    /// Implements [`Hooks::authorize`].
    pub(super) authorize: A,
}

/// The type of a function for [`Hooks::authorize`].
pub(super) type AuthorizeFn = fn(&RequestContext, &Value, Option<&Value>) -> Option<field::Error>;

impl<F> Refresh<F> {
    /// Returns the hooks of a kind whose objects need no further authorization.
    pub(super) fn new(read: F) -> Self {
        Self { read, authorize: |_, _, _| None }
    }
}

impl<F, A> Hooks for Refresh<F, A>
where
    F: Fn(&Core) + Send + Sync,
    A: Fn(&RequestContext, &Value, Option<&Value>) -> Option<field::Error> + Send + Sync,
{
    fn authorize(
        &self,
        cx: &RequestContext,
        object: &Value,
        old: Option<&Value>,
    ) -> Option<field::Error> {
        (self.authorize)(cx, object, old)
    }

    fn after_write<'a>(&'a self, cx: &'a RequestContext, _: &'a Record) -> Option<HookFuture<'a>> {
        (self.read)(&cx.core);
        None
    }

    fn after_delete<'a>(
        &'a self,
        cx: &'a RequestContext,
        _: &'a Value,
        _: &'a Record,
    ) -> Option<HookFuture<'a>> {
        (self.read)(&cx.core);
        None
    }

    fn restore<'a>(&'a self, core: &'a Arc<Core>) -> Option<HookFuture<'a, Result<(), Status>>> {
        (self.read)(core);
        None
    }
}
