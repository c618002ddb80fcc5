//! Pods: their grace period, and the node they are bound to.

use std::sync::Arc;

use serde_json::Value;

use super::stored;
use crate::context::{Core, HookFuture, Hooks, RequestContext};
use crate::nodes::PodsByNode;
use crate::registry::resource::Resource;
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

    fn after_write<'a>(
        &'a self,
        cx: &'a RequestContext,
        record: &'a Record,
    ) -> Option<HookFuture<'a>> {
        self.add(&cx.resource, record);
        None
    }

    fn after_delete<'a>(
        &'a self,
        cx: &'a RequestContext,
        _: &'a Value,
        record: &'a Record,
    ) -> Option<HookFuture<'a>> {
        if let (Some(by_node), Some(node)) = (&self.by_node, node(&cx.resource, record)) {
            by_node.remove(node, &record.key);
            // Another pod of the same name may have been bound in the meantime.
            if let Some(next) = cx.resource.table.get(&record.key) {
                self.add(&cx.resource, &next);
            }
        }
        None
    }

    fn restore<'a>(&'a self, core: &'a Arc<Core>) -> Option<HookFuture<'a, Result<(), Status>>> {
        Some(Box::pin(async move {
            let Some(resource) = core.builtin("", "pods") else { return Ok(()) };
            for record in stored(core, "", "pods")? {
                self.add(&resource, &record);
            }
            Ok(())
        }))
    }
}

impl Pods {
    fn add(&self, resource: &Resource, record: &Record) {
        if let (Some(by_node), Some(node)) = (&self.by_node, node(resource, record)) {
            by_node.add(node, &record.key);
        }
    }
}

/// Returns the node that a pod is bound to. It is a selectable field, so the pod is not decoded.
fn node<'a>(resource: &Resource, pod: &'a Record) -> Option<&'a str> {
    let at = resource.selectable.iter().position(|field| &**field == "spec.nodeName")?;
    pod.fields.get(at).filter(|node| !node.is_empty())
}
