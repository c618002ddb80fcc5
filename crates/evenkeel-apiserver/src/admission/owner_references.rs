//! `OwnerReferencesPermissionEnforcement`: a user who changes owner references needs the permission
//! to delete the object, and one who blocks the deletion of an owner needs the permission to set its
//! finalizers. Disabled by default.

use serde_json::Value;

use crate::authz::{self, Decision, ResourceAttributes};
use crate::context::{Attributes, Operation, Plugin};
use crate::object::Metadata as _;
use crate::status::Status;

pub(super) struct OwnerReferencesPermissionEnforcement;

impl Plugin for OwnerReferencesPermissionEnforcement {
    fn validate(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        let cx = attributes.cx;
        let Some(object) = attributes.object.as_deref() else { return Ok(()) };
        // The garbage collector does not see the status, and a status cannot change owners.
        let exempt = cx.resource.is("", "pods") && cx.subresource.as_deref() == Some("status");
        let (owners, before) = (owners(object), attributes.old.map_or(&[][..], owners));
        if exempt || owners == before {
            return Ok(());
        }
        if attributes.operation != Operation::Create {
            let own = ResourceAttributes {
                group: &cx.resource.group,
                version: &cx.resource.version,
                resource: &cx.resource.plural,
                subresource: cx.subresource.as_deref().unwrap_or_default(),
                namespace: &cx.namespace,
                name: cx.name(),
                selected_fields: &[],
            };
            if let Err(why) = authorize(attributes, "delete", own) {
                return Err(attributes.forbidden(&format!(
                    "cannot set an ownerRef on a resource you can't delete: {why}, <nil>"
                )));
            }
        }
        let blocking: Vec<&Value> =
            owners.iter().filter(|owner| blocks(owner) && !blocked(before, owner)).collect();
        if blocking.is_empty() || authorize(attributes, "update", ANY_FINALIZERS).is_ok() {
            return Ok(());
        }
        blocking.into_iter().try_for_each(|owner| check_owner(attributes, owner))
    }
}

const ANY_FINALIZERS: ResourceAttributes<'static> = ResourceAttributes {
    group: "*",
    version: "*",
    resource: "*",
    subresource: "finalizers",
    namespace: "",
    name: "*",
    selected_fields: &[],
};

fn owners(object: &Value) -> &[Value] {
    object.meta("ownerReferences").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn blocks(owner: &Value) -> bool {
    owner.get("blockOwnerDeletion").and_then(Value::as_bool) == Some(true)
}

/// Returns whether the deletion of this owner was blocked before.
fn blocked(before: &[Value], owner: &Value) -> bool {
    before.iter().any(|other| other.get("uid") == owner.get("uid") && blocks(other))
}

/// Checks that the user may set the finalizers of an owner.
fn check_owner(attributes: &Attributes<'_>, owner: &Value) -> Result<(), Status> {
    let text = |field: &str| owner.get(field).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    let cx = attributes.cx;
    let snapshot = cx.core.registry.snapshot();
    let served = snapshot.group_version(group, version);
    let served = served.and_then(|served| served.resources.iter().find(|r| *r.kind == *kind));
    let Some(resource) = served else {
        let shown = if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
        return Err(attributes.forbidden(&format!(
            "cannot set blockOwnerDeletion in this case because cannot find RESTMapping for \
             APIVersion {api_version} Kind {kind}: no matches for kind \"{shown}\" in version \
             \"{version}\""
        )));
    };
    let finalizers = ResourceAttributes {
        group: &resource.group,
        version: &resource.version,
        resource: &resource.plural,
        subresource: "finalizers",
        namespace: if resource.namespaced { &cx.namespace } else { "" },
        name: text("name"),
        selected_fields: &[],
    };
    authorize(attributes, "update", finalizers).map_err(|why| {
        attributes.forbidden(&format!(
            "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't \
             set finalizers on: {why}, <nil>"
        ))
    })
}

fn authorize(
    attributes: &Attributes<'_>,
    verb: &str,
    resource: ResourceAttributes<'_>,
) -> Result<(), String> {
    let cx = attributes.cx;
    let user = &cx.identity;
    let attributes = authz::Attributes { user, verb, path: "", resource: Some(resource) };
    match cx.core.authorizer.decide(&attributes) {
        Decision::Allow => Ok(()),
        Decision::Deny(why) => Err(why),
    }
}
