//! No webhook of the operator prevents what it needs itself: if it is down, or not ready, it could
//! never start.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Oracle, Violation};
use crate::world::Run;

/// What a process needs to serve webhooks: its pods, and the lease if it is elected.
const NEEDED: &[(&str, &str)] =
    &[("", "pods"), ("apps", "replicasets"), ("coordination.k8s.io", "leases")];

/// The label that every namespace has: its name.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

/// Checks that no webhook that fails closed matches what its own process needs in its own namespace.
pub(super) fn own_namespace(run: &Run, violations: &mut Vec<Violation>) {
    let configurations = run.changes.iter().filter(|change| {
        !change.deleted
            && change
                .object
                .resource
                .ends_with("webhookconfigurations.admissionregistration.k8s.io")
    });
    for change in configurations {
        let webhooks = change.object.value["webhooks"].as_array();
        for webhook in webhooks.into_iter().flatten() {
            let Some(namespace) = webhook["clientConfig"]["service"]["namespace"].as_str() else {
                continue;
            };
            if webhook["failurePolicy"] == "Ignore"
                || !is_empty(&webhook["objectSelector"])
                || webhook["matchConditions"].as_array().is_some_and(|it| !it.is_empty())
                || !selects(&webhook["namespaceSelector"], &labels(run, namespace))
            {
                continue;
            }
            let matched = NEEDED.iter().find(|(group, plural)| matches(webhook, group, plural));
            if let Some((_, plural)) = matched {
                let name = webhook["name"].as_str().unwrap_or_default();
                let found = format!(
                    "{name} fails closed and matches {plural} in {namespace}, its own namespace"
                );
                violations
                    .push(Violation::new(Oracle::Webhooks, change.object.path()).found(found));
                return;
            }
        }
    }
}

/// Checks that the operator is not kept from a write by its own webhook, if the cluster does not
/// converge.
pub(super) fn own_writes(run: &Run, calm: &Run, violations: &mut Vec<Violation>) {
    let states = run.states.iter().zip(&calm.states);
    let converges = states.into_iter().all(|(found, expected)| found == expected);
    if let Some((object, message)) = run.requests.blocked.first_key_value()
        && !converges
    {
        let found = format!("the operator's webhook rejects the operator's write: {message}");
        violations.push(Violation::new(Oracle::Webhooks, object).found(found));
    }
}

/// Returns the labels of a namespace.
fn labels(run: &Run, namespace: &str) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::from([(NAMESPACE_NAME.to_owned(), namespace.to_owned())]);
    let own =
        run.changes.iter().rev().find(|change| {
            change.object.resource == "namespaces" && change.object.name == namespace
        });
    let declared = own.and_then(|own| own.object.value["metadata"]["labels"].as_object());
    for (name, value) in declared.into_iter().flatten() {
        labels.insert(name.clone(), value.as_str().unwrap_or_default().to_owned());
    }
    labels
}

fn is_empty(selector: &Value) -> bool {
    selector.as_object().is_none_or(|fields| {
        fields.values().all(|value| match value {
            Value::Array(items) => items.is_empty(),
            Value::Object(items) => items.is_empty(),
            other => other.is_null(),
        })
    })
}

/// Whether a label selector selects an object with these labels.
fn selects(selector: &Value, labels: &BTreeMap<String, String>) -> bool {
    let equal = selector["matchLabels"].as_object().into_iter().flatten();
    let mut equal =
        equal.map(|(name, value)| labels.get(name).map(String::as_str) == value.as_str());
    let mut expressions = selector["matchExpressions"].as_array().into_iter().flatten();
    equal.all(|holds| holds)
        && expressions.all(|expression| {
            let label = expression["key"].as_str().and_then(|key| labels.get(key));
            let values = expression["values"].as_array();
            let listed = label.is_some_and(|label| {
                values.is_some_and(|values| values.iter().any(|value| value == label))
            });
            match expression["operator"].as_str().unwrap_or_default() {
                "In" => listed,
                "NotIn" => !listed,
                "Exists" => label.is_some(),
                _ => label.is_none(),
            }
        })
}

/// Whether a rule of the webhook matches creates of a resource.
fn matches(webhook: &Value, group: &str, plural: &str) -> bool {
    let has = |rule: &Value, field: &str, value: &str| {
        let values = rule[field].as_array();
        values.is_some_and(|values| values.iter().any(|it| it == value || it == "*"))
    };
    let rules = webhook["rules"].as_array();
    rules.into_iter().flatten().any(|rule| {
        has(rule, "apiGroups", group)
            && (has(rule, "resources", plural) || has(rule, "resources", "*/*"))
            && has(rule, "operations", "CREATE")
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn selectors_of_namespaces_are_evaluated_as_by_the_server() {
        let labels = BTreeMap::from([(NAMESPACE_NAME.to_owned(), "own".to_owned())]);
        let by = |operator: &str, values: &[&str]| {
            let expression = json!({"key": NAMESPACE_NAME, "operator": operator, "values": values});
            selects(&json!({"matchExpressions": [expression]}), &labels)
        };
        assert!(selects(&Value::Null, &labels) && selects(&json!({}), &labels));
        assert!(by("In", &["own", "b"]) && !by("In", &["b"]));
        assert!(by("NotIn", &["b"]) && !by("NotIn", &["own"]));
        assert!(by("Exists", &[]) && !by("DoesNotExist", &[]));
        assert!(selects(&json!({"matchLabels": {NAMESPACE_NAME: "own"}}), &labels));
        assert!(!selects(&json!({"matchLabels": {"team": "a"}}), &labels));
    }

    #[test]
    fn rules_match_creates_of_a_resource() {
        let webhook = |group: &str, resource: &str, operation: &str| {
            json!({"rules": [{"apiGroups": [group], "resources": [resource],
                "operations": [operation]}]})
        };
        assert!(matches(&webhook("", "pods", "CREATE"), "", "pods"));
        assert!(matches(&webhook("*", "*", "*"), "apps", "replicasets"));
        assert!(matches(&webhook("*", "*/*", "*"), "", "pods"));
        assert!(!matches(&webhook("", "pods", "DELETE"), "", "pods"));
        assert!(!matches(&webhook("", "pods/exec", "CREATE"), "", "pods"));
        assert!(!matches(&webhook("apps", "pods", "CREATE"), "", "pods"));
    }
}
