//! Roles and bindings: kept current in the RBAC authorizer, and protected from privilege escalation.
//!
//! The authorizer's index is updated by the store, not by the requests: of concurrent writes the last
//! one counts, and a revocation is in effect although the request that made it was dropped.
//!
//! A user can create or update a role only with permissions that the user has, or with the verb
//! `escalate` on it; and bind a role only with its permissions, or with the verb `bind` on it.

use std::sync::Arc;

use serde_json::Value;

use super::stored;
use crate::authz::{Attributes, PolicyRule, ResourceAttributes};
use crate::context::{Core, HookFuture, Hooks, RequestContext, Reservation};
use crate::identity::MASTERS;
use crate::object::Metadata as _;
use crate::rbac::{Content, Kind, Missing, Rbac, RoleRef};
use crate::registry::resource::Part;
use crate::status::{GroupResource, Status};
use crate::storage::Record;

/// The API group of the four kinds.
pub(super) const GROUP: &str = "rbac.authorization.k8s.io";

/// The hooks of one of the four kinds.
pub(super) struct RbacObjects {
    pub(super) kind: Kind,
    pub(super) plural: &'static str,
}

impl Hooks for RbacObjects {
    fn begin_create(
        &self,
        cx: &RequestContext,
        object: &mut Value,
    ) -> Result<Option<Box<dyn Reservation>>, Status> {
        self.check_escalation(cx, object, None)?;
        Ok(None)
    }

    fn begin_update(
        &self,
        cx: &RequestContext,
        object: &mut Value,
        old: &Value,
        _: Part<'_>,
    ) -> Result<Option<Box<dyn Reservation>>, Status> {
        self.check_escalation(cx, object, Some(old))?;
        Ok(None)
    }

    /// Also indexes all later writes, in the order of their commits.
    fn restore<'a>(&'a self, core: &'a Arc<Core>) -> Option<HookFuture<'a, Result<(), Status>>> {
        Some(Box::pin(async move {
            let Some(resource) = core.builtin(GROUP, self.plural) else { return Ok(()) };
            let (kind, rbac) = (self.kind, core.rbac.clone());
            resource.table.observe(Box::new(move |event| match event.deleted {
                false => index(&rbac, kind, &event.record),
                true => rbac.remove(kind, &event.record.key),
            }));
            for record in stored(core, GROUP, self.plural)? {
                index(&core.rbac, self.kind, &record);
            }
            Ok(())
        }))
    }
}

fn index(rbac: &Rbac, kind: Kind, record: &Record) {
    let content = serde_json::from_slice(&record.body).unwrap_or_else(|error| {
        tracing::error!(%error, object = %record.key, "invalid role or binding");
        Content::default()
    });
    rbac.put(kind, &record.key, content);
}

impl RbacObjects {
    fn check_escalation(
        &self,
        cx: &RequestContext,
        object: &Value,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        if cx.identity.is_in(MASTERS) || old.is_some_and(|old| only_gc_fields_differ(object, old)) {
            return Ok(());
        }
        match self.kind {
            Kind::Role | Kind::ClusterRole => self.check_role(cx, object, old),
            Kind::RoleBinding | Kind::ClusterRoleBinding => self.check_binding(cx, object),
        }
    }

    fn check_role(
        &self,
        cx: &RequestContext,
        object: &Value,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        let escalate = permission(cx, "escalate", self.plural, cx.name());
        if cx.core.decide_optional(&escalate) {
            return Ok(());
        }
        let covered = self.check_rules(cx, object, old);
        if covered.is_err() {
            cx.core.record_access(&escalate, false);
        }
        covered
    }

    /// Checks that the user has all permissions of a role.
    fn check_rules(
        &self,
        cx: &RequestContext,
        object: &Value,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        let confirm = |rules: &[PolicyRule]| {
            cx.core.rbac.confirm_no_escalation(&cx.identity, &cx.namespace, rules)
        };
        confirm(&PolicyRule::of_role(object)).map_err(|why| self.forbidden(object, &why))?;
        // An aggregation rule can select any rules.
        if has_aggregation_rule(object) || old.is_some_and(has_aggregation_rule) {
            let why = "must have cluster-admin privileges to use the aggregationRule";
            confirm(&PolicyRule::all()).map_err(|_| self.forbidden(object, why))?;
        }
        Ok(())
    }

    fn check_binding(&self, cx: &RequestContext, object: &Value) -> Result<(), Status> {
        let role = RoleRef::of(object);
        let plural = match role.kind.as_str() {
            "Role" => Some("roles"),
            "ClusterRole" => Some("clusterroles"),
            _ => None,
        };
        let bind = plural.map(|plural| permission(cx, "bind", plural, &role.name));
        if bind.as_ref().is_some_and(|bind| cx.core.decide_optional(bind)) {
            return Ok(());
        }
        let rules =
            cx.core.rbac.rules_of(&role, &cx.namespace).map_err(|missing| match missing {
                // As upstream: named after the resource of the request, not after that of the role.
                Missing::Role(name) | Missing::ClusterRole(name) => {
                    Status::not_found(self.group_resource(), &name)
                }
                Missing::Kind(_) => Status::without_reason(500, missing.to_string()),
            })?;
        let checked = cx.core.rbac.confirm_no_escalation(&cx.identity, &cx.namespace, &rules);
        checked.map_err(|why| {
            if let Some(bind) = &bind {
                cx.core.record_access(bind, false);
            }
            self.forbidden(object, &why)
        })
    }

    fn forbidden(&self, object: &Value, why: &str) -> Status {
        Status::forbidden(self.group_resource(), object.meta_str("name"), why)
    }

    fn group_resource(&self) -> GroupResource<'static> {
        GroupResource { group: GROUP, resource: self.plural }
    }
}

/// Returns the attributes of a verb on a role.
fn permission<'a>(
    cx: &'a RequestContext,
    verb: &'a str,
    resource: &'a str,
    name: &'a str,
) -> Attributes<'a> {
    let namespace = &*cx.namespace;
    let resource = ResourceAttributes {
        group: GROUP,
        version: "*",
        resource,
        namespace,
        name,
        ..ResourceAttributes::default()
    };
    Attributes { user: &cx.identity, verb, path: "", resource: Some(resource) }
}

fn has_aggregation_rule(role: &Value) -> bool {
    let selectors = role.pointer("/aggregationRule/clusterRoleSelectors").and_then(Value::as_array);
    selectors.is_some_and(|selectors| !selectors.is_empty())
}

/// Returns whether an update changes only what the garbage collector changes.
fn only_gc_fields_differ(object: &Value, old: &Value) -> bool {
    let rest = |object: &Value| {
        let mut object = object.clone();
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            for field in ["ownerReferences", "finalizers", "managedFields"] {
                metadata.remove(field);
            }
        }
        object
    };
    rest(object) == rest(old)
}
