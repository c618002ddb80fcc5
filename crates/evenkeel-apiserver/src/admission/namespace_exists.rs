//! `NamespaceAutoProvision` creates the missing namespace of a new object; `NamespaceExists` rejects
//! writes in a missing namespace. Both are disabled by default.

use serde_json::json;

use crate::context::{Attributes, HookFuture, Operation, Plugin, RequestContext};
use crate::pipeline;
use crate::request::route::Verb;
use crate::status::{GroupResource, Status};
use crate::storage::Key;

pub(super) struct NamespaceAutoProvision;

pub(super) struct NamespaceExists;

impl Plugin for NamespaceAutoProvision {
    fn mutate_async<'a, 'b: 'a>(
        &'a self,
        attributes: &'a mut Attributes<'b>,
    ) -> Option<HookFuture<'a, Result<(), Status>>> {
        let creates = attributes.operation == Operation::Create && !attributes.dry_run;
        if !creates || !is_missing(attributes.cx) {
            return None;
        }
        Some(Box::pin(provision(attributes)))
    }
}

async fn provision(attributes: &Attributes<'_>) -> Result<(), Status> {
    let cx = attributes.cx;
    let Some(namespaces) = cx.core.builtin("", "namespaces") else { return Ok(()) };
    let key = Key::new("", "");
    let internal = RequestContext::internal(&cx.core, &namespaces, Verb::Create, &key, None);
    let namespace = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": cx.namespace},
    });
    match pipeline::create_internal(&internal, &namespace).await {
        Err(status) if status.reason() != "AlreadyExists" => {
            Err(attributes.forbidden(status.message()))
        }
        _ => Ok(()),
    }
}

impl Plugin for NamespaceExists {
    fn validate(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        let cx = attributes.cx;
        if attributes.operation == Operation::Connect || !is_missing(cx) {
            return Ok(());
        }
        let namespaces = GroupResource { group: "", resource: "namespaces" };
        Err(Status::not_found(namespaces, &cx.namespace))
    }
}

/// Returns whether the namespace of the request does not exist.
fn is_missing(cx: &RequestContext) -> bool {
    // A namespace has itself as its namespace in some requests.
    !cx.namespace.is_empty()
        && !cx.resource.is("", "namespaces")
        && cx.core.store.table("namespaces").get(&Key::new("", &cx.namespace)).is_none()
}
