//! `OwnerReferencesPermissionEnforcement`: a change of owner references needs the permission to
//! delete the object, and a reference that blocks the deletion of an owner the permission to set its
//! finalizers. Disabled by default.

use std::sync::Arc;

use serde_json::Value;

use crate::authz::{self, Decision, ResourceAttributes};
use crate::context::{Attributes, Operation, Plugin};
use crate::object::Metadata as _;
use crate::registry::resource::Resource;
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
            if let Err(why) = authorize(attributes, &check(attributes, "delete", own)) {
                return Err(attributes.forbidden(&format!(
                    "cannot set an ownerRef on a resource you can't delete: {why}, <nil>"
                )));
            }
        }
        let blocking: Vec<&Value> =
            owners.iter().filter(|owner| blocks(owner) && !blocked(before, owner)).collect();
        if blocking.is_empty() {
            return Ok(());
        }
        let any = check(attributes, "update", ANY_FINALIZERS);
        if cx.core.authorizer.decide(&any) == Decision::Allow {
            // Recorded as the permissions that were needed of it.
            for owner in blocking {
                if let Ok(owner) = Owner::of(attributes, owner) {
                    cx.core.record_access(&owner.check(attributes), true);
                }
            }
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

/// An owner whose finalizers the user must be able to set.
struct Owner<'a> {
    resource: Arc<Resource>,
    name: &'a str,
}

impl<'a> Owner<'a> {
    fn of(attributes: &Attributes<'_>, owner: &'a Value) -> Result<Self, Status> {
        let text = |field: &str| owner.get(field).and_then(Value::as_str).unwrap_or_default();
        let (api_version, kind) = (text("apiVersion"), text("kind"));
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        let snapshot = attributes.cx.core.registry.snapshot();
        let served = snapshot.group_version(group, version);
        let served = served.and_then(|served| served.resources.iter().find(|r| *r.kind == *kind));
        match served {
            Some(resource) => Ok(Self { resource: resource.clone(), name: text("name") }),
            None => {
                let shown =
                    if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
                Err(attributes.forbidden(&format!(
                    "cannot set blockOwnerDeletion in this case because cannot find RESTMapping \
                     for APIVersion {api_version} Kind {kind}: no matches for kind \"{shown}\" in \
                     version \"{version}\""
                )))
            }
        }
    }

    fn check<'b>(&'b self, attributes: &'b Attributes<'_>) -> authz::Attributes<'b> {
        let Resource { group, version, plural, namespaced, .. } = &*self.resource;
        let finalizers = ResourceAttributes {
            group,
            version,
            resource: plural,
            subresource: "finalizers",
            namespace: if *namespaced { &attributes.cx.namespace } else { "" },
            name: self.name,
            selected_fields: &[],
        };
        check(attributes, "update", finalizers)
    }
}

/// Checks that the user may set the finalizers of an owner.
fn check_owner(attributes: &Attributes<'_>, owner: &Value) -> Result<(), Status> {
    let owner = Owner::of(attributes, owner)?;
    authorize(attributes, &owner.check(attributes)).map_err(|why| {
        attributes.forbidden(&format!(
            "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't \
             set finalizers on: {why}, <nil>"
        ))
    })
}

fn check<'a>(
    attributes: &'a Attributes<'_>,
    verb: &'a str,
    resource: ResourceAttributes<'a>,
) -> authz::Attributes<'a> {
    let user = &attributes.cx.identity;
    authz::Attributes { user, verb, path: "", resource: Some(resource) }
}

fn authorize(attributes: &Attributes<'_>, check: &authz::Attributes<'_>) -> Result<(), String> {
    match attributes.cx.core.decide(check) {
        Decision::Allow => Ok(()),
        Decision::Deny(why) => Err(why),
    }
}
