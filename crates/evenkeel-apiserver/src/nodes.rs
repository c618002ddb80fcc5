//! The Node authorizer: what kubelets may do, by the pods that are bound to their nodes.
//!
//! A node is a user `system:node:NAME` in the group `system:nodes`. It may read its own Node and
//! pods, and the objects that these refer to. NodeRestriction limits what it may write. Other
//! resources are granted by the rules of the ClusterRole `system:node`, which no binding names.

mod related;

pub(crate) use self::related::PodsByNode;
use self::related::{Related, Relations};
use crate::authz::{Attributes, Authorizer, Decision, ResourceAttributes, Rules};
use crate::identity::Identity;
use crate::rbac::{Rbac, RoleRef};
use crate::storage::Store;

/// The role of nodes.
const ROLE: &str = "system:node";

/// The namespace of the leases of nodes.
pub(crate) const LEASES: &str = "kube-node-lease";

/// Returns the name of the node whose kubelet the user is; empty if the user is a node without one.
pub(crate) fn node_of(user: &Identity) -> Option<&str> {
    let name = user.user.strip_prefix("system:node:")?;
    user.is_in("system:nodes").then_some(name)
}

/// The Node authorizer.
pub(crate) struct NodeAuthorizer {
    relations: Relations,
    rbac: Rbac,
}

/// Why a request is not allowed; empty if there is nothing to add.
type Refusal = String;

impl NodeAuthorizer {
    pub(crate) fn new(store: Store, pods: PodsByNode, rbac: Rbac) -> Self {
        Self { relations: Relations::new(store, pods), rbac }
    }

    fn check(&self, node: &str, attributes: &Attributes<'_>) -> Result<(), Refusal> {
        let Some(resource) = &attributes.resource else { return self.check_role(attributes) };
        let verb = attributes.verb;
        let read = |related| self.check_read(node, verb, resource, related);
        let get = |related| self.check_get(node, verb, resource, related);
        match (resource.group, resource.resource) {
            ("", "secrets") => read(Related::Secret),
            ("", "configmaps") => read(Related::ConfigMap),
            ("", "persistentvolumeclaims") if resource.subresource == "status" => match verb {
                "update" | "patch" => self.check_related(node, resource, Related::Claim),
                _ => Err("can only get/update/patch this type".into()),
            },
            ("", "persistentvolumeclaims") => get(Related::Claim),
            ("", "persistentvolumes") => get(Related::Volume),
            ("resource.k8s.io", "resourceclaims") => get(Related::ResourceClaim),
            ("storage.k8s.io", "volumeattachments") => get(Related::VolumeAttachment),
            ("", "serviceaccounts") if verb == "get" && resource.subresource.is_empty() => {
                read(Related::ServiceAccount)
            }
            ("", "serviceaccounts") => self.check_token(node, verb, resource),
            ("coordination.k8s.io", "leases") => check_lease(node, verb, resource),
            ("storage.k8s.io", "csinodes") => check_csi_node(node, verb, resource),
            ("resource.k8s.io", "resourceslices") => self.check_slice(node, verb, resource),
            ("", "nodes") => check_node(node, verb, resource),
            ("", "pods") => self.check_pod(node, verb, resource),
            _ => self.check_role(attributes),
        }
    }

    /// Checks the rules of [`ROLE`].
    fn check_role(&self, attributes: &Attributes<'_>) -> Result<(), Refusal> {
        let kind = "ClusterRole".to_owned();
        let role = RoleRef { kind, name: ROLE.to_owned(), ..RoleRef::default() };
        let rules = self.rbac.rules_of(&role, "");
        let allowed = rules.is_ok_and(|rules| rules.iter().any(|rule| rule.allows(attributes)));
        refuse_unless(allowed, "")
    }

    fn check_related(
        &self,
        node: &str,
        resource: &ResourceAttributes<'_>,
        related: Related,
    ) -> Result<(), Refusal> {
        if resource.name.is_empty() {
            return Err("No Object name found".into());
        }
        let found = self.relations.has(node, related, resource.namespace, resource.name);
        let why = || format!("no relationship found between node '{node}' and this object");
        if found { Ok(()) } else { Err(why()) }
    }

    fn check_get(
        &self,
        node: &str,
        verb: &str,
        resource: &ResourceAttributes<'_>,
        related: Related,
    ) -> Result<(), Refusal> {
        refuse_unless(verb == "get", "can only get individual resources of this type")?;
        refuse_unless(resource.subresource.is_empty(), "cannot get subresource")?;
        self.check_related(node, resource, related)
    }

    fn check_read(
        &self,
        node: &str,
        verb: &str,
        resource: &ResourceAttributes<'_>,
        related: Related,
    ) -> Result<(), Refusal> {
        let reads = matches!(verb, "get" | "list" | "watch");
        refuse_unless(reads, "can only read resources of this type")?;
        refuse_unless(resource.subresource.is_empty(), "cannot read subresource")?;
        let namespaced = !resource.namespace.is_empty();
        refuse_unless(namespaced, "can only read namespaced object of this type")?;
        self.check_related(node, resource, related)
    }

    fn check_token(
        &self,
        node: &str,
        verb: &str,
        resource: &ResourceAttributes<'_>,
    ) -> Result<(), Refusal> {
        let creates = verb == "create" && !resource.name.is_empty();
        refuse_unless(creates, "can only create tokens for individual service accounts")?;
        let is_token = resource.subresource == "token";
        refuse_unless(is_token, "can only create token subresource of serviceaccount")?;
        self.check_related(node, resource, Related::ServiceAccount)
    }

    fn check_slice(
        &self,
        node: &str,
        verb: &str,
        resource: &ResourceAttributes<'_>,
    ) -> Result<(), Refusal> {
        let whole = resource.subresource.is_empty();
        refuse_unless(whole, "cannot authorize ResourceSlice subresources")?;
        match verb {
            "create" => Ok(()),
            "get" | "update" | "patch" | "delete" => {
                self.check_related(node, resource, Related::ResourceSlice)
            }
            "watch" | "list" | "deletecollection" => refuse_unless(
                resource.selects("spec.nodeName", node),
                "can only list/watch/deletecollection resourceslices with nodeName field selector",
            ),
            _ => {
                Err("only the following verbs are allowed for a ResourceSlice: get, watch, list, \
                      create, update, patch, delete, deletecollection"
                    .into())
            }
        }
    }

    fn check_pod(
        &self,
        node: &str,
        verb: &str,
        resource: &ResourceAttributes<'_>,
    ) -> Result<(), Refusal> {
        match (resource.subresource, verb) {
            ("", "get") => self.check_get(node, verb, resource, Related::Pod),
            ("", "list" | "watch") if resource.selects("spec.nodeName", node) => Ok(()),
            ("", "list" | "watch") if !resource.name.is_empty() => {
                self.check_related(node, resource, Related::Pod)
            }
            ("", "list" | "watch") => {
                Err("can only list/watch pods with spec.nodeName field selector".into())
            }
            ("", "create" | "delete") | ("status", "update" | "patch") | ("eviction", "create") => {
                Ok(())
            }
            _ => Err(String::new()),
        }
    }
}

fn refuse_unless(allowed: bool, why: &str) -> Result<(), Refusal> {
    if allowed { Ok(()) } else { Err(why.into()) }
}

fn check_lease(node: &str, verb: &str, resource: &ResourceAttributes<'_>) -> Result<(), Refusal> {
    let known = matches!(verb, "get" | "create" | "update" | "patch" | "delete");
    refuse_unless(known, "can only get, create, update, patch, or delete a node lease")?;
    if resource.namespace != LEASES {
        return Err(format!("can only access leases in the {LEASES:?} system namespace"));
    }
    // The name of a new lease is in its body, which NodeRestriction checks.
    let own = verb == "create" || resource.name == node;
    refuse_unless(own, "can only access node lease with the same name as the requesting node")
}

fn check_csi_node(
    node: &str,
    verb: &str,
    resource: &ResourceAttributes<'_>,
) -> Result<(), Refusal> {
    let known = matches!(verb, "get" | "create" | "update" | "patch" | "delete");
    refuse_unless(known, "can only get, create, update, patch, or delete a CSINode")?;
    refuse_unless(resource.subresource.is_empty(), "cannot authorize CSINode subresources")?;
    let own = verb == "create" || resource.name == node;
    refuse_unless(own, "can only access CSINode with the same name as the requesting node")
}

fn check_node(node: &str, verb: &str, resource: &ResourceAttributes<'_>) -> Result<(), Refusal> {
    match (resource.subresource, verb, resource.name) {
        ("", "create" | "update" | "patch", _) | ("status", "update" | "patch", _) => Ok(()),
        ("", "get" | "list" | "watch", name) if name == node => Ok(()),
        ("", "get" | "list" | "watch", "") => {
            Err(format!("node '{node}' cannot read all nodes, only its own Node object"))
        }
        ("", "get" | "list" | "watch", other) => {
            Err(format!("node '{node}' cannot read '{other}', only its own Node object"))
        }
        _ => Err(String::new()),
    }
}

impl Authorizer for NodeAuthorizer {
    fn decide(&self, attributes: &Attributes<'_>) -> Decision {
        match node_of(attributes.user) {
            None => Decision::Deny(String::new()),
            Some("") => Decision::Deny(format!("unknown node for user {:?}", attributes.user.user)),
            Some(node) => match self.check(node, attributes) {
                Ok(()) => Decision::Allow,
                Err(why) => Decision::Deny(why),
            },
        }
    }

    fn rules(&self, user: &Identity, _: &str) -> Rules {
        if node_of(user).is_none() {
            return Rules::default();
        }
        let error = "node authorizer does not support user rule resolution".to_owned();
        Rules { rules: Vec::new(), error, incomplete: true }
    }
}
