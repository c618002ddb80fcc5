//! Pods: their grace period.

use serde_json::Value;

use crate::context::Hooks;

/// The grace period of pods that do not set one.
const DEFAULT_SECONDS: i64 = 30;

/// The hooks of Pods.
pub(super) struct Pods;

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
}
