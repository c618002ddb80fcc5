//! `NodeRestriction`: what a kubelet may write, besides what its authorizer checks.
//!
//! A node may change its own Node, lease and CSINode, the status of pods and claims that are bound
//! to it, and request tokens for its pods. It may not set labels that steer workloads to it.

mod node;

mod token;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use evenkeel_kinds::references::{self, MIRROR};
use evenkeel_pki::x509::CertificateRequest;
use serde_json::Value;

use crate::context::{Attributes, Operation, Plugin, RequestContext};
use crate::nodes::{LEASES, node_of};
use crate::object::Metadata as _;
use crate::status::{GroupResource, Status};
use crate::storage::Key;

pub(super) struct NodeRestriction;

/// The signers of certificates of kubelets.
const KUBELET_SIGNERS: [&str; 2] =
    ["kubernetes.io/kubelet-serving", "kubernetes.io/kube-apiserver-client-kubelet"];

impl Plugin for NodeRestriction {
    fn mutate(&self, attributes: &mut Attributes<'_>) -> Result<(), Status> {
        let cx = attributes.cx;
        let Some(node) = node_of(&cx.identity) else { return Ok(()) };
        if attributes.operation == Operation::Connect {
            return Ok(());
        }
        if node.is_empty() {
            let user = &cx.identity.user;
            let why = format!("could not determine node from user {user:?}");
            return Err(attributes.forbidden(&why));
        }
        let request = Request { node, attributes };
        let subresource = cx.subresource.as_deref().unwrap_or_default();
        match (&*cx.resource.group, &*cx.resource.plural, subresource) {
            ("", "pods", "") => request.check_pod(),
            ("", "pods", "status") => request.check_pod_status(),
            ("", "pods", "eviction") => request.check_eviction(),
            ("", "pods", other) => request.refuse(&format!(
                "unexpected pod subresource {other:?}, only 'status' and 'eviction' are allowed"
            )),
            ("", "nodes", _) => request.check_node(),
            ("", "persistentvolumeclaims", "status") => request.check_claim_status(),
            ("", "persistentvolumeclaims", _) => request.refuse("may only update PVC status"),
            ("", "serviceaccounts", "token") => request.check_token(),
            ("coordination.k8s.io", "leases", _) => request.check_lease(),
            ("storage.k8s.io", "csinodes", _) => request.check_own_name(
                "can only access CSINode with the same name as the requesting node",
            ),
            ("resource.k8s.io", "resourceslices", _) => request.check_slice(),
            ("certificates.k8s.io", "certificatesigningrequests", "") => {
                request.check_certificate_request()
            }
            _ => Ok(()),
        }
    }
}

/// A write of a node.
struct Request<'a, 'b> {
    node: &'a str,
    attributes: &'a Attributes<'b>,
}

impl<'a> Request<'a, '_> {
    fn cx(&self) -> &'a RequestContext {
        self.attributes.cx
    }

    fn object(&self) -> &Value {
        self.attributes.object.as_deref().unwrap_or(&Value::Null)
    }

    fn old(&self) -> &Value {
        self.attributes.old.unwrap_or(&Value::Null)
    }

    fn refuse(&self, why: &str) -> Result<(), Status> {
        Err(self.attributes.forbidden(why))
    }

    fn require(&self, allowed: bool, why: &str) -> Result<(), Status> {
        if allowed { Ok(()) } else { self.refuse(why) }
    }

    /// Returns the name of the operation in errors.
    fn operation(&self) -> &'static str {
        match self.attributes.operation {
            Operation::Create => "CREATE",
            Operation::Update => "UPDATE",
            Operation::Delete => "DELETE",
            Operation::Connect => "CONNECT",
        }
    }

    /// Returns a stored object of the core group.
    fn stored(&self, plural: &str, namespace: &str, name: &str) -> Result<Value, Status> {
        let found = self.cx().core.builtin("", plural);
        let found = found.and_then(|resource| resource.table.get(&Key::new(namespace, name)));
        let object = found.and_then(|record| serde_json::from_slice(&record.body).ok());
        let missing = || Status::not_found(GroupResource { group: "", resource: plural }, name);
        object.ok_or_else(missing)
    }

    /// A node creates and deletes mirror pods of itself only.
    fn check_pod(&self) -> Result<(), Status> {
        let node = self.node;
        match self.attributes.operation {
            Operation::Create => self.check_mirror_pod(),
            Operation::Delete => self.require(
                self.old()["spec"]["nodeName"] == node,
                &format!("node {node:?} can only delete pods with spec.nodeName set to itself"),
            ),
            _ => self.refuse(&format!(
                "unexpected operation {:?}, node {node:?} can only create and delete mirror pods",
                self.operation()
            )),
        }
    }

    fn check_mirror_pod(&self) -> Result<(), Status> {
        let (node, pod) = (self.node, self.object());
        self.require(
            references::is_mirror(pod),
            &format!(
                "pod does not have {MIRROR:?} annotation, node {node:?} can only create mirror pods"
            ),
        )?;
        let refuse =
            |what: &str| self.refuse(&format!("node {node:?} can only create pods with {what}"));
        if pod["spec"]["nodeName"] != node {
            return refuse("spec.nodeName set to itself");
        }
        let owners = pod["metadata"]["ownerReferences"].as_array().map_or(&[][..], Vec::as_slice);
        let owner = match owners {
            [owner] => owner,
            [] => return refuse("an owner reference set to itself"),
            _ => return refuse("a single owner reference set to itself"),
        };
        if owner["apiVersion"] != "v1" || owner["kind"] != "Node" || owner["name"] != node {
            return refuse("an owner reference set to itself");
        }
        if owner["controller"] != true {
            return refuse("a controller owner reference set to itself");
        }
        self.require(
            owner["blockOwnerDeletion"] != true,
            &format!("node {node:?} must not set blockOwnerDeletion on an owner reference"),
        )?;
        let own = self.stored("nodes", "", node)?;
        let (claimed, uid) = (owner["uid"].as_str().unwrap_or_default(), own.meta_str("uid"));
        self.require(
            claimed == uid,
            &format!("node {node} UID mismatch: expected {claimed} got {uid}"),
        )?;
        match references::first_of_pod(pod) {
            None => Ok(()),
            Some(what) => {
                self.refuse(&format!("node {node:?} can not create pods that reference {what}"))
            }
        }
    }

    fn check_pod_status(&self) -> Result<(), Status> {
        let node = self.node;
        self.require_update()?;
        let (new, old) = (self.object(), self.old());
        self.require(
            old["spec"]["nodeName"] == node,
            &format!(
                "node {node:?} can only update pod status for pods with spec.nodeName set to itself"
            ),
        )?;
        self.require(
            is_same(&new["metadata"]["labels"], &old["metadata"]["labels"]),
            &format!("node {node:?} cannot update labels through pod status"),
        )?;
        let same = |field: &str| is_same(&new["status"][field], &old["status"][field]);
        self.require(
            same("resourceClaimStatuses"),
            &format!("node {node:?} cannot update resource claim statues"),
        )?;
        self.require(
            same("extendedResourceClaimStatus"),
            &format!("node {node:?} cannot update extended resource claim status"),
        )
    }

    fn require_update(&self) -> Result<(), Status> {
        let updates = self.attributes.operation == Operation::Update;
        self.require(updates, &format!("unexpected operation {:?}", self.operation()))
    }

    fn check_eviction(&self) -> Result<(), Status> {
        let name = match self.cx().name() {
            "" => self.object().meta_str("name"),
            name => name,
        };
        self.require(!name.is_empty(), "could not determine pod from request data")?;
        let pod = self.stored("pods", &self.cx().namespace, name)?;
        let node = self.node;
        self.require(
            pod["spec"]["nodeName"] == node,
            &format!("node {node} can only evict pods with spec.nodeName set to itself"),
        )
    }

    fn check_claim_status(&self) -> Result<(), Status> {
        self.require_update()?;
        let rest = |claim: &Value| {
            let mut claim = claim.clone();
            if let Some(metadata) = claim["metadata"].as_object_mut() {
                metadata.remove("resourceVersion");
                metadata.remove("managedFields");
            }
            if let Some(status) = claim.get_mut("status").and_then(Value::as_object_mut) {
                for field in
                    ["capacity", "conditions", "allocatedResourceStatuses", "allocatedResources"]
                {
                    status.remove(field);
                }
            }
            claim
        };
        let node = self.node;
        self.require(
            rest(self.object()) == rest(self.old()),
            &format!(
                "node {node:?} is not allowed to update fields other than status.quantity and \
                 status.conditions"
            ),
        )
    }

    fn check_lease(&self) -> Result<(), Status> {
        let why = format!("can only access leases in the {LEASES:?} system namespace");
        self.require(*self.cx().namespace == *LEASES, &why)?;
        self.check_own_name("can only access node lease with the same name as the requesting node")
    }

    /// Checks that the object has the name of the node.
    fn check_own_name(&self, why: &str) -> Result<(), Status> {
        let name = match self.attributes.operation {
            // The name in the URL may be empty.
            Operation::Create => self.object().meta_str("name"),
            _ => self.cx().name(),
        };
        self.require(name == self.node, why)
    }

    fn check_slice(&self) -> Result<(), Status> {
        let own = |slice: &Value| slice["spec"]["nodeName"] == self.node;
        match self.attributes.operation {
            Operation::Create => self.require(
                own(self.object()),
                "can only create ResourceSlice with the same NodeName as the requesting node",
            ),
            Operation::Delete => self.require(
                own(self.old()),
                "can only delete ResourceSlice with the same NodeName as the requesting node",
            ),
            _ => Ok(()),
        }
    }

    fn check_certificate_request(&self) -> Result<(), Status> {
        let spec = &self.object()["spec"];
        let signer = spec["signerName"].as_str().unwrap_or_default();
        let creates = self.attributes.operation == Operation::Create;
        if !creates || !KUBELET_SIGNERS.contains(&signer) {
            return Ok(());
        }
        let pem = STANDARD.decode(spec["request"].as_str().unwrap_or_default()).unwrap_or_default();
        let request = CertificateRequest::from_pem(&pem)
            .map_err(|error| self.attributes.forbidden(&format!("unable to parse csr: {error}")))?;
        let expected = format!("system:node:{}", self.node);
        self.require(
            request.common_name() == expected,
            &format!("can only create a node CSR with CN={expected}"),
        )
    }
}

/// Returns whether two fields are equal; an empty one equals an absent one.
fn is_same(new: &Value, old: &Value) -> bool {
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    };
    new == old || is_empty(new) && is_empty(old)
}
