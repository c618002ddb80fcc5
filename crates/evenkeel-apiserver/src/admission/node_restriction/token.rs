//! The tokens that a kubelet may request: those of its pods, for audiences that the pods use.

use evenkeel_kinds::references;
use serde_json::Value;

use super::Request;
use crate::authz::{self, Decision, ResourceAttributes};
use crate::context::Operation;
use crate::object::Metadata as _;
use crate::status::Status;
use crate::storage::Key;

impl Request<'_, '_> {
    pub(super) fn check_token(&self) -> Result<(), Status> {
        if self.attributes.operation != Operation::Create {
            return Ok(());
        }
        let bound = &self.object()["spec"]["boundObjectRef"];
        let text = |field: &str| bound[field].as_str().unwrap_or_default();
        let is_pod =
            text("apiVersion") == "v1" && text("kind") == "Pod" && !text("name").is_empty();
        self.require(is_pod, "node requested token not bound to a pod")?;
        let uid = text("uid");
        self.require(!uid.is_empty(), "node requested token with a pod binding without a uid")?;
        let pod = self.stored("pods", &self.cx().namespace, text("name"))?;
        self.require(
            uid == pod.meta_str("uid"),
            &format!(
                "the UID in the bound object reference ({uid}) does not match the UID in record. \
                 The object might have been deleted and then recreated"
            ),
        )?;
        self.require(
            pod["spec"]["nodeName"] == self.node,
            "node requested token bound to a pod scheduled on a different node",
        )?;
        self.check_audience(&pod)
    }

    /// Checks that the pod uses the audience, or that the node may request it.
    fn check_audience(&self, pod: &Value) -> Result<(), Status> {
        let audiences = self.object()["spec"]["audiences"].as_array();
        let audience = match audiences.map_or(&[][..], Vec::as_slice) {
            [] => "",
            [one] => one.as_str().unwrap_or_default(),
            _ => return self.refuse("node may only request 0 or 1 audiences"),
        };
        if self.uses_audience(pod, audience) {
            return Ok(());
        }
        let user = &self.cx().identity;
        let decision = self.cx().core.decide(&authz::Attributes {
            user,
            verb: "request-serviceaccounts-token-audience",
            path: "",
            resource: Some(ResourceAttributes {
                version: "v1",
                resource: audience,
                namespace: &self.cx().namespace,
                name: self.cx().name(),
                ..ResourceAttributes::default()
            }),
        });
        let name = &user.user;
        self.require(
            decision == Decision::Allow,
            &format!(
                "audience {audience:?} not found in pod spec volume, {name} is not authorized to \
                 request tokens for this audience"
            ),
        )
    }

    /// Returns whether a projected volume of the pod, or the driver of one of its CSI volumes, has
    /// tokens for the audience.
    fn uses_audience(&self, pod: &Value, audience: &str) -> bool {
        let list = |value: &'_ Value| value.as_array().cloned().unwrap_or_default();
        let volumes = list(&pod["spec"]["volumes"]);
        volumes.iter().any(|volume| {
            let projected = list(&volume["projected"]["sources"]);
            let in_projected = projected.iter().any(|source| {
                let token = source.get("serviceAccountToken");
                token.is_some_and(|token| token["audience"].as_str().unwrap_or("") == audience)
            });
            in_projected
                || self.driver(pod, volume).is_some_and(|driver| {
                    let requests = list(&driver["spec"]["tokenRequests"]);
                    requests.iter().any(|it| it["audience"].as_str().unwrap_or("") == audience)
                })
        })
    }

    /// Returns the CSIDriver of a volume, directly or by its claim.
    fn driver(&self, pod: &Value, volume: &Value) -> Option<Value> {
        let inline = volume["csi"]["driver"].as_str().map(str::to_owned);
        let name = inline.or_else(|| {
            let claim = references::claim_of_volume(pod, volume)?;
            let namespace = &self.cx().namespace;
            let claim = self.stored("persistentvolumeclaims", namespace, &claim).ok()?;
            let volume = claim["spec"]["volumeName"].as_str()?;
            let volume = self.stored("persistentvolumes", "", volume).ok()?;
            volume["spec"]["csi"]["driver"].as_str().map(str::to_owned)
        })?;
        let drivers = self.cx().core.builtin("storage.k8s.io", "csidrivers")?;
        let record = drivers.table.get(&Key::new("", &name))?;
        serde_json::from_slice(&record.body).ok()
    }
}
