//! The hooks of single kinds; see [`Hooks`](crate::context::Hooks).

pub(crate) mod service;

mod custom_resource_definition;

mod custom_resource;

mod namespace;

mod persistent_volume_claim;

mod event;

mod pod;

mod job;

mod policy_params;

mod rbac;

mod refresh;

use std::sync::Arc;

use serde_json::Value;

use self::refresh::Refresh;
use self::service::allocator::Allocator;
use crate::admission::policy::{self, Evaluator, Policies};
use crate::admission::webhook::{self, Webhooks};
use crate::context::{Core, HookTable, Hooks, RequestContext};
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
            flow_control_hooks("flowschemas"),
            flow_control_hooks("prioritylevelconfigurations"),
            ("batch", "jobs", Arc::new(job::Jobs)),
            role_hooks(Kind::Role, "roles"),
            role_hooks(Kind::ClusterRole, "clusterroles"),
            role_hooks(Kind::RoleBinding, "rolebindings"),
            role_hooks(Kind::ClusterRoleBinding, "clusterrolebindings"),
            policy_hooks("mutatingadmissionpolicies", &policies.mutating),
            binding_hooks(
                "mutatingadmissionpolicybindings",
                &policies.mutating,
                policy_params::mutating_denied,
            ),
            policy_hooks("validatingadmissionpolicies", &policies.validating),
            binding_hooks(
                "validatingadmissionpolicybindings",
                &policies.validating,
                policy_params::validating_denied,
            ),
            webhook_hooks("mutatingwebhookconfigurations", &webhooks.mutating),
            webhook_hooks("validatingwebhookconfigurations", &webhooks.validating),
        ],
        Arc::new(custom_resource::CustomResources),
    )
}

/// The API group of policies and webhook configurations.
const ADMISSION: &str = "admissionregistration.k8s.io";

/// The group and the plural name of a kind, and its hooks.
type Row = (&'static str, &'static str, Arc<dyn Hooks>);

fn role_hooks(kind: Kind, plural: &'static str) -> Row {
    (rbac::GROUP, plural, Arc::new(rbac::RbacObjects { kind, plural }))
}

fn flow_control_hooks(plural: &'static str) -> Row {
    (GROUP, plural, Arc::new(Refresh::new(|core: &Core| core.flow_control.reload(&core.store))))
}

fn policy_hooks<E: Evaluator>(plural: &'static str, index: &Arc<policy::Index<E>>) -> Row {
    let index = index.clone();
    let read = move |core: &Core| index.refresh(&core.store);
    let hooks = Refresh { read, authorize: policy_params::authorize_policy };
    (ADMISSION, plural, Arc::new(hooks))
}

fn binding_hooks<E: Evaluator>(
    plural: &'static str,
    index: &Arc<policy::Index<E>>,
    denied: fn(&str, &str) -> String,
) -> Row {
    let index = index.clone();
    let read = move |core: &Core| index.refresh(&core.store);
    let [policies, _] = E::TABLES;
    let authorize = move |cx: &RequestContext, binding: &Value, _: Option<&Value>| {
        policy_params::authorize_binding(cx, binding, policies, denied)
    };
    (ADMISSION, plural, Arc::new(Refresh { read, authorize }))
}

fn webhook_hooks(plural: &'static str, index: &Arc<webhook::Index>) -> Row {
    let index = index.clone();
    let refresh = Refresh::new(move |core: &Core| index.refresh(&core.store));
    (ADMISSION, plural, Arc::new(refresh))
}

/// Returns the stored objects of a built-in resource.
fn stored(core: &Core, group: &str, plural: &str) -> Result<Vec<Arc<Record>>, Status> {
    let Some(resource) = core.builtin(group, plural) else { return Ok(Vec::new()) };
    let page = resource.table.list(Range::default(), None).map_err(Status::internal)?;
    Ok(page.items)
}
