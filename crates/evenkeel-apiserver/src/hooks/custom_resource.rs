//! Custom resources: the last object of a terminating CRD lets the CRD be deleted.

use serde_json::Value;

use super::custom_resource_definition::reconcile;
use crate::context::{HookFuture, Hooks, RequestContext};
use crate::storage::Record;

/// The hooks of all custom resources.
pub(super) struct CustomResources;

impl Hooks for CustomResources {
    fn after_delete<'a>(
        &'a self,
        cx: &'a RequestContext,
        _: &'a Value,
        _: &'a Record,
    ) -> Option<HookFuture<'a>> {
        let crd = &*cx.resource.custom()?.crd;
        let served = cx.core.crds.resources_of(crd);
        let terminating = served.iter().any(|resource| {
            resource.custom().is_some_and(|custom| custom.terminating) && resource.table.is_empty()
        });
        terminating.then(|| reconcile(&cx.core, crd))
    }
}
