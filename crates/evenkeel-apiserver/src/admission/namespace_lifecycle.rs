//! `NamespaceLifecycle`: rejects creates in a missing or terminating namespace, and the deletion of
//! system namespaces.

use crate::context::{Attributes, Operation, Plugin};
use crate::status::{GroupResource, Status};
use crate::storage::Key;

pub(super) struct NamespaceLifecycle;

const IMMORTAL: &[&str] = &["default", "kube-system", "kube-public"];

impl Plugin for NamespaceLifecycle {
    fn mutate(&self, attributes: &mut Attributes<'_>) -> Result<(), Status> {
        let cx = attributes.cx;
        let resource = &cx.resource;
        if resource.is("", "namespaces") {
            if attributes.operation == Operation::Delete && IMMORTAL.contains(&cx.name()) {
                let why = "this namespace may not be deleted";
                return Err(Status::forbidden(resource.group_resource(), cx.name(), why));
            }
            return Ok(());
        }
        let creates = attributes.operation == Operation::Create;
        // Access reviews are allowed for namespaces that do not exist.
        if cx.namespace.is_empty()
            || !creates
            || resource.is("authorization.k8s.io", "localsubjectaccessreviews")
        {
            return Ok(());
        }
        let namespaces = GroupResource { group: "", resource: "namespaces" };
        let table = cx.core.store.table("namespaces");
        let Some(record) = table.get(&Key::new("", &cx.namespace)) else {
            return Err(Status::not_found(namespaces, &cx.namespace));
        };
        let terminating = record.fields.iter().next() == Some("Terminating");
        if !terminating {
            return Ok(());
        }
        let name = attributes
            .object
            .as_deref()
            .and_then(|object| object.pointer("/metadata/name"))
            .and_then(serde_json::Value::as_str)
            .unwrap_or("");
        let namespace = &cx.namespace;
        let why = format!(
            "unable to create new content in namespace {namespace} because it is being terminated"
        );
        let cause = format!("namespace {namespace} is being terminated");
        Err(Status::forbidden(resource.group_resource(), name, &why).with_cause(
            "NamespaceTerminating",
            &cause,
            "metadata.namespace",
        ))
    }
}
