//! `LimitPodHardAntiAffinityTopology`: required anti-affinity of pods is between nodes only. Disabled
//! by default.

use serde_json::Value;

use crate::context::{Attributes, Operation, Plugin};
use crate::object::Metadata as _;
use crate::status::Status;

pub(super) struct LimitPodHardAntiAffinityTopology;

const HOSTNAME: &str = "kubernetes.io/hostname";

const TERMS: &str = "/spec/affinity/podAntiAffinity/requiredDuringSchedulingIgnoredDuringExecution";

impl Plugin for LimitPodHardAntiAffinityTopology {
    fn validate(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        let cx = attributes.cx;
        let writes = matches!(attributes.operation, Operation::Create | Operation::Update);
        let applies = writes && cx.resource.is("", "pods") && cx.subresource.is_none();
        let Some(pod) = attributes.object.as_deref().filter(|_| applies) else { return Ok(()) };
        let terms = pod.pointer(TERMS).and_then(Value::as_array).into_iter().flatten();
        let mut keys = terms.map(|term| term["topologyKey"].as_str().unwrap_or_default());
        let Some(other) = keys.find(|key| *key != HOSTNAME) else { return Ok(()) };
        let why = format!(
            "affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey {other} but only \
             key {HOSTNAME} is allowed"
        );
        Err(Status::forbidden(cx.resource.group_resource(), pod.meta_str("name"), &why))
    }
}
