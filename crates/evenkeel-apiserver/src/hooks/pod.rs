//! Pods: their grace period, and the node they are bound to.

use std::sync::Arc;

use serde_json::Value;

use super::stored;
use crate::context::{Core, HookFuture, Hooks};
use crate::nodes::PodsByNode;
use crate::status::Status;
use crate::storage::Record;

/// The grace period of pods that do not set one.
const DEFAULT_SECONDS: i64 = 30;

/// The hooks of Pods.
pub(super) struct Pods {
    /// What the Node authorizer decides by; `None` if there is none.
    pub(super) by_node: Option<PodsByNode>,
}

impl Hooks for Pods {
    /// Pods without a node, and pods whose containers have ended, are deleted immediately.
    fn grace_period(&self, pod: &Value, requested: Option<i64>) -> i64 {
        let own = pod.pointer("/spec/terminationGracePeriodSeconds").and_then(Value::as_i64);
        let text = |path: &str| pod.pointer(path).and_then(Value::as_str).unwrap_or("");
        let ended = matches!(text("/status/phase"), "Failed" | "Succeeded");
        if text("/spec/nodeName").is_empty() || ended {
            return 0;
        }
        requested.or(own).unwrap_or(DEFAULT_SECONDS)
    }

    /// Also indexes all later writes, in the order of their commits.
    fn restore<'a>(&'a self, core: &'a Arc<Core>) -> Option<HookFuture<'a, Result<(), Status>>> {
        let by_node = self.by_node.clone()?;
        Some(Box::pin(async move {
            let Some(resource) = core.builtin("", "pods") else { return Ok(()) };
            let mut selectable = resource.selectable.iter();
            let Some(at) = selectable.position(|field| &**field == "spec.nodeName") else {
                return Ok(());
            };
            let observed = by_node.clone();
            resource.table.observe(Box::new(move |event| {
                let pod = &event.record;
                match node(at, pod) {
                    Some(node) if event.deleted => observed.remove(node, &pod.key),
                    Some(node) => observed.add(node, &pod.key),
                    None => {}
                }
            }));
            for pod in stored(core, "", "pods")? {
                if let Some(node) = node(at, &pod) {
                    by_node.add(node, &pod.key);
                }
            }
            Ok(())
        }))
    }
}

/// Returns the node that a pod is bound to: its selectable field at this position, so that the pod is
/// not decoded.
fn node(at: usize, pod: &Record) -> Option<&str> {
    pod.fields.get(at).filter(|node| !node.is_empty())
}
