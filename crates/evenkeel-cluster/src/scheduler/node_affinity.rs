//! Node selectors and required node affinity.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{NodeSelectorRequirement, NodeSelectorTerm, PodSpec};

/// Whether the pod's node selector and required node affinity match this node.
pub(crate) fn selects(spec: &PodSpec, name: &str, labels: &BTreeMap<String, String>) -> bool {
    let mut selector = spec.node_selector.iter().flatten();
    if !selector.all(|(name, value)| labels.get(name) == Some(value)) {
        return false;
    }
    let affinity = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let required = affinity
        .and_then(|affinity| affinity.required_during_scheduling_ignored_during_execution.as_ref());
    // Terms are ORed, the requirements of a term are ANDed, and an empty term matches no node.
    required.is_none_or(|required| {
        required.node_selector_terms.iter().any(|term| term_matches(term, name, labels))
    })
}

fn term_matches(term: &NodeSelectorTerm, name: &str, labels: &BTreeMap<String, String>) -> bool {
    let expressions = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    if expressions.is_empty() && fields.is_empty() {
        return false;
    }
    let label = |expression: &NodeSelectorRequirement| {
        requirement_matches(expression, labels.get(&expression.key).map(String::as_str))
    };
    let field = |expression: &NodeSelectorRequirement| {
        expression.key == "metadata.name" && requirement_matches(expression, Some(name))
    };
    expressions.iter().all(label) && fields.iter().all(field)
}

fn requirement_matches(expression: &NodeSelectorRequirement, value: Option<&str>) -> bool {
    let values = expression.values.as_deref().unwrap_or_default();
    let contained = |value: &str| values.iter().any(|other| other == value);
    let numbers = || {
        let bound = values.first()?.parse::<i64>().ok()?;
        Some((value?.parse::<i64>().ok()?, bound))
    };
    match expression.operator.as_str() {
        "In" => value.is_some_and(contained),
        "NotIn" => !value.is_some_and(contained),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => numbers().is_some_and(|(value, bound)| value > bound),
        "Lt" => numbers().is_some_and(|(value, bound)| value < bound),
        _ => false,
    }
}
