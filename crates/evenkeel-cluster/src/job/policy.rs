//! Pod failure policy and success policy of a Job.

use k8s_openapi::api::batch::v1::{
    JobSpec, PodFailurePolicyOnExitCodesRequirement, PodFailurePolicyRule, SuccessPolicyRule,
};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodCondition};

use super::indexes::Indexes;

/// The effect of a failed pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// It counts towards the backoff limit.
    Counts,
    /// It is not counted; the pod is replaced.
    Ignored,
    /// Its index is not retried.
    FailsIndex,
    /// The Job fails with this message.
    FailsJob(String),
}

/// Returns the effect of this failed pod, by the first rule that matches. Mirrors
/// `matchPodFailurePolicy`.
pub(super) fn failure(spec: &JobSpec, pod: &Pod) -> Failure {
    let rules = spec.pod_failure_policy.iter().flat_map(|policy| &policy.rules);
    let met = rules.enumerate().find_map(|(at, rule)| Some((at, rule, matched(rule, pod)?)));
    let Some((at, rule, what)) = met else { return Failure::Counts };
    match rule.action.as_str() {
        "Ignore" => Failure::Ignored,
        "FailIndex" => Failure::FailsIndex,
        "FailJob" => Failure::FailsJob(format!("{what} matching FailJob rule at index {at}")),
        _ => Failure::Counts,
    }
}

/// Returns what of the pod matches the rule, as text for the message.
fn matched(rule: &PodFailurePolicyRule, pod: &Pod) -> Option<String> {
    let status = pod.status.as_ref()?;
    let name = || {
        let part = |part: &Option<String>| part.clone().unwrap_or_default();
        format!("{}/{}", part(&pod.metadata.namespace), part(&pod.metadata.name))
    };
    if let Some(codes) = &rule.on_exit_codes {
        let containers = status.container_statuses.iter().flatten();
        let mut all = containers.chain(status.init_container_statuses.iter().flatten());
        let (container, code) = all.find_map(|container| exit(container, codes))?;
        return Some(format!(
            "Container {container} for pod {} failed with exit code {code}",
            name()
        ));
    }
    let patterns = rule.on_pod_conditions.as_ref()?;
    let matches = |condition: &&PodCondition| {
        patterns.iter().any(|pattern| {
            pattern.type_ == condition.type_
                && pattern.status.as_deref().unwrap_or("True") == condition.status
        })
    };
    let condition = status.conditions.iter().flatten().find(matches)?;
    Some(format!("Pod {} has condition {}", name(), condition.type_))
}

/// Returns the container and its exit code if the rule matches them.
fn exit<'a>(
    container: &'a ContainerStatus,
    codes: &PodFailurePolicyOnExitCodesRequirement,
) -> Option<(&'a str, i32)> {
    let code = container.state.as_ref()?.terminated.as_ref()?.exit_code;
    let named = codes.container_name.as_ref().is_none_or(|name| *name == container.name);
    let listed = codes.values.contains(&code);
    let matches = match codes.operator.as_str() {
        "In" => listed,
        "NotIn" => !listed,
        _ => false,
    };
    (named && code != 0 && matches).then_some((container.name.as_str(), code))
}

/// Returns the message of the success policy rule that is met, if any.
pub(super) fn success(spec: &JobSpec, done: &Indexes, completions: u32) -> Option<String> {
    let rules = spec.success_policy.iter().flat_map(|policy| &policy.rules);
    let enough = |rule: &SuccessPolicyRule| {
        let Some(text) = rule.succeeded_indexes.as_deref() else {
            return rule.succeeded_count.is_some_and(|count| reached(done.len(), count));
        };
        let wanted = Indexes::parse(text, completions);
        let found = wanted.count_in(done);
        wanted.len() > 0
            && (found == wanted.len()
                || rule.succeeded_count.is_some_and(|count| reached(found, count)))
    };
    let at = rules.enumerate().find(|(_, rule)| enough(rule))?.0;
    (done.len() > 0).then(|| format!("Matched rules at index {at}"))
}

fn reached(found: usize, count: i32) -> bool {
    usize::try_from(count).is_ok_and(|count| found >= count)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn spec(value: Value) -> JobSpec {
        let mut spec = value;
        spec["template"] = json!({});
        serde_json::from_value(spec).unwrap()
    }

    fn pod(code: i32, conditions: &Value) -> Pod {
        serde_json::from_value(json!({
            "metadata": {"namespace": "default", "name": "sum-x"},
            "status": {"phase": "Failed", "conditions": conditions, "containerStatuses": [{
                "name": "app", "image": "i", "imageID": "", "ready": false, "restartCount": 0,
                "state": {"terminated": {"exitCode": code}},
            }]},
        }))
        .unwrap()
    }

    #[test]
    fn the_first_matching_rule_of_a_pod_failure_policy_applies() {
        let spec = spec(json!({"podFailurePolicy": {"rules": [
            {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
            {"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [7]}},
            {"action": "Count", "onExitCodes":
                {"containerName": "other", "operator": "In", "values": [3]}},
            {"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": [1, 2]}},
        ]}}));
        let disrupted = json!([{"type": "DisruptionTarget", "status": "True"}]);
        assert_eq!(failure(&spec, &pod(3, &disrupted)), Failure::Ignored);
        assert_eq!(failure(&spec, &pod(7, &json!([]))), Failure::FailsIndex);
        assert_eq!(failure(&spec, &pod(2, &json!([]))), Failure::Counts);
        assert_eq!(failure(&spec, &pod(0, &json!([]))), Failure::Counts, "0 is no failure");
        let message = "Container app for pod default/sum-x failed with exit code 3 matching FailJob \
                       rule at index 3";
        assert_eq!(failure(&spec, &pod(3, &json!([]))), Failure::FailsJob(message.to_owned()));
    }

    #[test]
    fn success_policies_match_counts_indexes_or_both() {
        let met = |rules: Value, done: &str| {
            let spec = spec(json!({"successPolicy": {"rules": rules}}));
            success(&spec, &Indexes::parse(done, 10), 10)
        };
        let first = Some("Matched rules at index 0".to_owned());
        assert_eq!(met(json!([{"succeededCount": 2}]), "3"), None);
        assert_eq!(met(json!([{"succeededCount": 2}]), "3,5"), first);
        assert_eq!(met(json!([{"succeededIndexes": "0,2-3"}]), "0,2"), None);
        assert_eq!(met(json!([{"succeededIndexes": "0,2-3"}]), "0-3"), first);
        let some =
            json!([{"succeededIndexes": "7-9"}, {"succeededIndexes": "0-4", "succeededCount": 2}]);
        assert_eq!(met(some.clone(), "0,6"), None);
        assert_eq!(met(some, "0,4,6"), Some("Matched rules at index 1".to_owned()));
    }
}
