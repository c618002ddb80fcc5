//! The hooks of single kinds; see [`Hooks`](crate::context::Hooks).

pub(crate) mod service;

mod custom_resource_definition;

mod custom_resource;

mod namespace;

mod persistent_volume_claim;

mod event;

mod flow_control;

mod pod;

mod job;

mod rbac;

mod admission_policy;

mod webhook_configuration;

use std::sync::Arc;

use self::service::allocator::Allocator;
use crate::admission::policy::{Evaluator, Index, Policies};
use crate::admission::webhook::Webhooks;
use crate::context::{Core, HookTable, Hooks};
use crate::flow_control::GROUP;
use crate::nodes::PodsByNode;
use crate::rbac::Kind;
use crate::status::Status;
use crate::storage::{Range, Record};

/// Returns the hooks of all kinds. Services get their addresses from `allocator`; writes to webhook
/// configurations update `webhooks`, those to policies and their bindings `policies`, and those to
/// pods `pods`.
pub(crate) fn table(
    allocator: Allocator,
    policies: &Policies,
    webhooks: &Webhooks,
    pods: Option<PodsByNode>,
) -> HookTable {
    let configurations = |index| Arc::new(webhook_configuration::WebhookConfigurations(index));
    HookTable::new(
        vec![
            ("", "services", Arc::new(service::Services::new(allocator))),
            (
                "apiextensions.k8s.io",
                "customresourcedefinitions",
                Arc::new(custom_resource_definition::CustomResourceDefinitions),
            ),
            ("", "namespaces", Arc::new(namespace::Namespaces)),
            (
                "",
                "persistentvolumeclaims",
                Arc::new(persistent_volume_claim::PersistentVolumeClaims),
            ),
            ("", "pods", Arc::new(pod::Pods { by_node: pods })),
            ("", "events", Arc::new(event::Events)),
            ("events.k8s.io", "events", Arc::new(event::Events)),
            (GROUP, "flowschemas", Arc::new(flow_control::FlowControl)),
            (GROUP, "prioritylevelconfigurations", Arc::new(flow_control::FlowControl)),
            ("batch", "jobs", Arc::new(job::Jobs)),
            role_hooks(Kind::Role, "roles"),
            role_hooks(Kind::ClusterRole, "clusterroles"),
            role_hooks(Kind::RoleBinding, "rolebindings"),
            role_hooks(Kind::ClusterRoleBinding, "clusterrolebindings"),
            policy_hooks("mutatingadmissionpolicies", &policies.mutating),
            policy_hooks("mutatingadmissionpolicybindings", &policies.mutating),
            policy_hooks("validatingadmissionpolicies", &policies.validating),
            policy_hooks("validatingadmissionpolicybindings", &policies.validating),
            (
                "admissionregistration.k8s.io",
                "mutatingwebhookconfigurations",
                configurations(webhooks.mutating.clone()),
            ),
            (
                "admissionregistration.k8s.io",
                "validatingwebhookconfigurations",
                configurations(webhooks.validating.clone()),
            ),
        ],
        Arc::new(custom_resource::CustomResources),
    )
}

fn role_hooks(kind: Kind, plural: &'static str) -> (&'static str, &'static str, Arc<dyn Hooks>) {
    (rbac::GROUP, plural, Arc::new(rbac::RbacObjects { kind, plural }))
}

fn policy_hooks<E: Evaluator>(
    plural: &'static str,
    index: &Arc<Index<E>>,
) -> (&'static str, &'static str, Arc<dyn Hooks>) {
    let hooks = admission_policy::AdmissionPolicies(index.clone());
    ("admissionregistration.k8s.io", plural, Arc::new(hooks))
}

/// Returns the stored objects of a built-in resource.
fn stored(core: &Core, group: &str, plural: &str) -> Result<Vec<Arc<Record>>, Status> {
    let Some(resource) = core.builtin(group, plural) else { return Ok(Vec::new()) };
    let page = resource.table.list(Range::default(), None).map_err(Status::internal)?;
    Ok(page.items)
}
