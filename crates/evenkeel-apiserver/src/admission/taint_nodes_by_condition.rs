//! `TaintNodesByCondition`: taints new nodes as not ready, so that no pod is scheduled on them yet.

use serde_json::{Value, json};

use crate::context::{Attributes, Operation, Plugin};
use crate::status::Status;

pub(super) struct TaintNodesByCondition;

const NOT_READY: &str = "node.kubernetes.io/not-ready";

impl Plugin for TaintNodesByCondition {
    fn mutate(&self, attributes: &mut Attributes<'_>) -> Result<(), Status> {
        let applies =
            attributes.cx.resource.is("", "nodes") && attributes.operation == Operation::Create;
        let Some(node) = attributes.object.as_deref_mut().filter(|_| applies) else {
            return Ok(());
        };
        let taint = json!({"key": NOT_READY, "effect": "NoSchedule"});
        match node["spec"]["taints"].as_array_mut() {
            Some(taints) => {
                let has = |t: &Value| t["key"] == NOT_READY && t["effect"] == "NoSchedule";
                if !taints.iter().any(has) {
                    taints.push(taint);
                }
            }
            None => node["spec"]["taints"] = json!([taint]),
        }
        Ok(())
    }
}
