//! The ServiceCIDR of the range that cluster IPs are allocated from.

use std::sync::Arc;

use serde_json::json;

use crate::codec;
use crate::context::Core;
use crate::status::Status;
use crate::storage::Key;

/// Creates the object, with the condition that upstream's controller sets. An existing one is kept.
pub(super) async fn run(core: &Arc<Core>, cidr: &str) -> Result<(), Status> {
    const API_VERSION: &str = "networking.k8s.io/v1";
    let Some(resource) = core.builtin("networking.k8s.io", "servicecidrs") else { return Ok(()) };
    let key = Key::new("", "kubernetes");
    if resource.table.get(&key).is_some() {
        return Ok(());
    }
    let now = core.clock_rng.timestamp();
    let condition = json!({"f:status": {"f:conditions": {"k:{\"type\":\"Ready\"}": {
        ".": {}, "f:lastTransitionTime": {}, "f:message": {}, "f:status": {}, "f:type": {},
    }}}});
    let object = json!({
        "apiVersion": API_VERSION,
        "kind": "ServiceCIDR",
        "metadata": {
            "name": key.name(),
            "uid": core.clock_rng.uid(),
            "creationTimestamp": now,
            "managedFields": [
                {
                    "manager": "kubernetes-service-cidr-controller", "operation": "Apply",
                    "apiVersion": API_VERSION, "time": now, "fieldsType": "FieldsV1",
                    "fieldsV1": condition, "subresource": "status",
                },
                {
                    "manager": "kube-apiserver", "operation": "Update",
                    "apiVersion": API_VERSION, "time": now, "fieldsType": "FieldsV1",
                    "fieldsV1": {"f:spec": {"f:cidrs": {}}},
                },
            ],
        },
        "spec": {"cidrs": [cidr]},
        "status": {"conditions": [{
            "type": "Ready", "status": "True", "lastTransitionTime": now, "reason": "",
            "message": "Kubernetes default Service CIDR is ready",
        }]},
    });
    let unsaved = codec::to_unsaved_record(&resource, object)?;
    super::create_all(vec![resource.table.create(key, unsaved)]).await
}
