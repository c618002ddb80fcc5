//! `DefaultTolerationSeconds`: pods stay on an unreachable or not-ready node for five minutes.

use serde_json::{Value, json};

use crate::context::{Attributes, Operation, Plugin};
use crate::status::Status;

pub(super) struct DefaultTolerationSeconds;

const SECONDS: i64 = 300;
const TAINTS: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];

impl Plugin for DefaultTolerationSeconds {
    fn mutate(&self, attributes: &mut Attributes<'_>) -> Result<(), Status> {
        let cx = attributes.cx;
        let applies = cx.resource.is("", "pods")
            && cx.subresource.is_none()
            && attributes.operation != Operation::Delete;
        let Some(spec) = attributes
            .object
            .as_deref_mut()
            .filter(|_| applies)
            .and_then(|pod| pod.get_mut("spec"))
            .and_then(Value::as_object_mut)
        else {
            return Ok(());
        };
        let present = spec.get("tolerations").and_then(Value::as_array);
        let missing: Vec<Value> = TAINTS
            .into_iter()
            .filter(|taint| !present.into_iter().flatten().any(|t| tolerates(t, taint)))
            .map(|taint| {
                json!({
                    "key": taint, "operator": "Exists", "effect": "NoExecute",
                    "tolerationSeconds": SECONDS,
                })
            })
            .collect();
        if !missing.is_empty() {
            let list = spec.entry("tolerations").or_insert_with(|| json!([]));
            match list {
                Value::Array(list) => list.extend(missing),
                other => *other = missing.into(),
            }
        }
        Ok(())
    }
}

/// Returns whether a toleration, valid or not, already refers to the taint.
fn tolerates(toleration: &Value, taint: &str) -> bool {
    let text = |name: &str| toleration[name].as_str().unwrap_or("");
    let key = text("key");
    (key.is_empty() || key == taint) && matches!(text("effect"), "" | "NoExecute")
}
