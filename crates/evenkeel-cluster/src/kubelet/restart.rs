//! Restart policies and backoff of containers.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, ContainerRestartRule, Pod};

/// The initial backoff of a kubelet, for restarts and pulls; it doubles up to the maximum.
const INITIAL_BACKOFF: Duration = Duration::from_secs(10);
const MAX_BACKOFF: Duration = Duration::from_secs(300);

/// Returns the backoff that follows `before`.
pub(super) fn next(before: Duration) -> Duration {
    (before * 2).clamp(INITIAL_BACKOFF, MAX_BACKOFF)
}

/// Whether a container has run long enough to reset its backoff.
pub(super) fn resets_backoff(ran: Duration) -> bool {
    ran > MAX_BACKOFF * 2
}

/// Whether a container is restarted after this exit code, by its own restart policy or that of its
/// pod.
pub(super) fn should_restart(pod: &Pod, container: Option<&Container>, code: i32) -> bool {
    let rules = container.and_then(|container| container.restart_policy_rules.as_ref());
    if rules.into_iter().flatten().any(|rule| matches(rule, code)) {
        return true;
    }
    match policy(pod, container) {
        "Never" => false,
        "OnFailure" => code != 0,
        _ => true,
    }
}

/// Whether a container that the kubelet killed is restarted, regardless of its exit code.
pub(super) fn should_restart_killed(pod: &Pod, container: Option<&Container>) -> bool {
    policy(pod, container) != "Never"
}

fn policy<'a>(pod: &'a Pod, container: Option<&'a Container>) -> &'a str {
    let own = container.and_then(|container| container.restart_policy.as_deref());
    let spec = pod.spec.as_ref();
    own.or_else(|| spec.and_then(|spec| spec.restart_policy.as_deref())).unwrap_or("Always")
}

fn matches(rule: &ContainerRestartRule, code: i32) -> bool {
    let Some(codes) = &rule.exit_codes else { return false };
    let listed = codes.values.iter().flatten().any(|value| *value == code);
    match codes.operator.as_str() {
        "In" => listed,
        "NotIn" => !listed,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn restart_rules_override_container_and_pod_policies() {
        let rule = json!({"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}});
        for (pod, own, rules, code, wanted) in [
            ("Always", None, json!([]), 0, true),
            ("OnFailure", None, json!([]), 0, false),
            ("OnFailure", None, json!([]), 1, true),
            ("Never", None, json!([]), 1, false),
            ("Never", Some("OnFailure"), json!([]), 1, true),
            ("Always", Some("Never"), json!([]), 1, false),
            ("Never", Some("Never"), json!([rule]), 42, true),
            ("Never", Some("Never"), json!([rule]), 1, false),
        ] {
            let spec = json!({"spec": {"restartPolicy": pod, "containers": []}});
            let pod: Pod = serde_json::from_value(spec).unwrap();
            let container =
                json!({"name": "app", "restartPolicy": own, "restartPolicyRules": rules});
            let container: Container = serde_json::from_value(container).unwrap();
            assert_eq!(
                should_restart(&pod, Some(&container), code),
                wanted,
                "{own:?} {rules} {code}"
            );
        }
    }

    #[test]
    fn the_backoff_doubles_up_to_five_minutes() {
        let mut delay = Duration::ZERO;
        let delays: Vec<u64> = std::iter::repeat_with(|| {
            delay = next(delay);
            delay.as_secs()
        })
        .take(7)
        .collect();
        assert_eq!(delays, [10, 20, 40, 80, 160, 300, 300]);
    }
}
