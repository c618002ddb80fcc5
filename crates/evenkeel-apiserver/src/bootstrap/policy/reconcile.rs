//! What a start changes in roles and bindings of an earlier start, as upstream does: missing rules,
//! subjects, labels and annotations are added, and changes of administrators stay. The annotation
//! `rbac.authorization.kubernetes.io/autoupdate: "false"` keeps an object as it is.

use serde::Deserialize as _;
use serde_json::{Map, Value, json};

use crate::authz::PolicyRule;
use crate::rbac::uncovered;

const SELECTORS: &str = "/aggregationRule/clusterRoleSelectors";

/// What to do with an existing object.
#[derive(Debug, PartialEq)]
pub(super) enum Reconciled {
    Unchanged,
    Updated(Value),
    /// Delete and create it: the role of a binding cannot be changed.
    Recreate,
}

/// Compares an object with the expected one.
pub(super) fn reconcile(existing: &Value, expected: &Value) -> Reconciled {
    let annotation = "/metadata/annotations/rbac.authorization.kubernetes.io~1autoupdate";
    if existing.pointer(annotation).is_some_and(|value| value == "false") {
        return Reconciled::Unchanged;
    }
    if existing.get("roleRef") != expected.get("roleRef") {
        return Reconciled::Recreate;
    }
    let mut updated = existing.clone();
    for field in ["annotations", "labels"] {
        add_missing_keys(&mut updated["metadata"], &expected["metadata"], field);
    }
    append(&mut updated, "rules", missing_rules(existing, expected));
    append(&mut updated, "subjects", missing_items(existing, expected, "/subjects"));
    let selectors = missing_items(existing, expected, SELECTORS);
    if expected.get("aggregationRule").is_none() {
        if let Some(object) = updated.as_object_mut() {
            object.remove("aggregationRule");
        }
    } else if !selectors.is_empty() {
        if !updated["aggregationRule"].is_object() {
            updated["aggregationRule"] = json!({});
        }
        append(&mut updated["aggregationRule"], "clusterRoleSelectors", selectors);
    }
    if updated == *existing { Reconciled::Unchanged } else { Reconciled::Updated(updated) }
}

fn add_missing_keys(metadata: &mut Value, expected: &Value, field: &str) {
    let Some(expected) = expected.get(field).and_then(Value::as_object) else { return };
    if !metadata[field].is_object() {
        metadata[field] = Value::Object(Map::new());
    }
    if let Some(present) = metadata[field].as_object_mut() {
        for (key, value) in expected {
            present.entry(key).or_insert_with(|| value.clone());
        }
    }
}

/// Returns the rules that grant what the existing ones do not; none if there are too many to compare.
fn missing_rules(existing: &Value, expected: &Value) -> Vec<Value> {
    let (own, wanted) = (PolicyRule::of_role(existing), PolicyRule::of_role(expected));
    let missing = uncovered(&own, &wanted).unwrap_or_default();
    missing.iter().filter_map(|rule| serde_json::to_value(rule).ok()).collect()
}

fn missing_items(existing: &Value, expected: &Value, path: &str) -> Vec<Value> {
    let items = |object: &Value| -> Vec<Value> {
        object.pointer(path).and_then(|list| Vec::deserialize(list).ok()).unwrap_or_default()
    };
    let present = items(existing);
    items(expected).into_iter().filter(|item| !present.contains(item)).collect()
}

fn append(object: &mut Value, field: &str, items: Vec<Value>) {
    if items.is_empty() {
        return;
    }
    match object[field].as_array_mut() {
        Some(list) => list.extend(items),
        None => object[field] = Value::Array(items),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn role(rules: impl Into<Value>) -> Value {
        let rules: Value = rules.into();
        json!({
            "metadata": {
                "name": "reader",
                "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
                "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
            },
            "rules": rules,
        })
    }

    fn updated(existing: &Value, expected: &Value) -> Value {
        match reconcile(existing, expected) {
            Reconciled::Updated(updated) => updated,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn missing_rules_are_appended_and_others_stay() {
        let pods = json!({"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]});
        let own = json!({"verbs": ["*"], "apiGroups": ["example.com"], "resources": ["*"]});
        let get = json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]});
        let list = json!({"verbs": ["list"], "apiGroups": [""], "resources": ["pods"]});
        let expected = role(json!([pods]));
        assert_eq!(reconcile(&role(json!([own, pods])), &expected), Reconciled::Unchanged);
        assert_eq!(updated(&role(json!([own, get])), &expected), role(json!([own, get, list])));
        assert_eq!(updated(&role(Value::Null), &expected), role(json!([get, list])));
        let mut protected = role(Value::Null);
        protected["metadata"]["annotations"]["rbac.authorization.kubernetes.io/autoupdate"] =
            "false".into();
        assert_eq!(reconcile(&protected, &expected), Reconciled::Unchanged);
    }

    #[test]
    fn missing_labels_are_added_and_changed_ones_stay() {
        let expected = role(json!([]));
        let mut existing = expected.clone();
        existing["metadata"]["labels"] = json!({"kubernetes.io/bootstrapping": "own", "a": "b"});
        assert_eq!(reconcile(&existing, &expected), Reconciled::Unchanged);
        existing["metadata"]["labels"] = json!({"a": "b"});
        assert_eq!(
            updated(&existing, &expected)["metadata"]["labels"],
            json!({"kubernetes.io/bootstrapping": "rbac-defaults", "a": "b"})
        );
    }

    #[test]
    fn aggregation_rules_are_those_of_the_release() {
        let mut expected = role(Value::Null);
        let selector = |label: &str| json!({"matchLabels": {label: "true"}});
        expected["aggregationRule"] = json!({"clusterRoleSelectors": [selector("a")]});
        let mut existing = role(json!([{"verbs": ["get"], "nonResourceURLs": ["/x"]}]));
        assert_eq!(
            updated(&existing, &expected)["aggregationRule"]["clusterRoleSelectors"],
            json!([selector("a")])
        );
        existing["aggregationRule"] = json!({"clusterRoleSelectors": [selector("b")]});
        assert_eq!(
            updated(&existing, &expected)["aggregationRule"]["clusterRoleSelectors"],
            json!([selector("b"), selector("a")])
        );
        assert_eq!(updated(&existing, &role(json!([]))).get("aggregationRule"), None);
    }

    #[test]
    fn missing_subjects_are_appended_and_another_role_recreates_the_binding() {
        let binding = |role: &str, subjects: Value| json!({"metadata": {"name": "x"}, "roleRef": {"name": role}, "subjects": subjects});
        let group = json!({"kind": "Group", "name": "a"});
        let user = json!({"kind": "User", "name": "bob"});
        assert_eq!(
            updated(&binding("r", json!([user])), &binding("r", json!([group]))),
            binding("r", json!([user, group]))
        );
        assert_eq!(
            reconcile(&binding("other", json!([user])), &binding("r", json!([group]))),
            Reconciled::Recreate
        );
    }
}
