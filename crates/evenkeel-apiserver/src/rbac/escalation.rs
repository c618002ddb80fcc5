//! Privilege escalation: a user can grant only permissions that the user has.
//!
//! Mirrors upstream's `Covers`, `CompactRules` and `ConfirmNoEscalation`.

use std::collections::{BTreeMap, BTreeSet};

use super::rule::{has, has_or_all, matches_url, quoted};
use crate::authz::PolicyRule;
use crate::identity::Identity;

/// Checks that `own`, the rules of `user`, cover `granted`; returns the message of the error
/// otherwise.
pub(super) fn confirm_no_escalation(
    user: &Identity,
    own: &[PolicyRule],
    errors: &[String],
    granted: &[PolicyRule],
) -> Result<(), String> {
    let missing: Vec<PolicyRule> = granted
        .iter()
        .flat_map(break_down)
        .filter(|granted| !own.iter().any(|own| covers(own, granted)))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let shown: BTreeSet<String> = compact(missing).iter().map(PolicyRule::compact_string).collect();
    let shown: Vec<String> = shown.into_iter().collect();
    let mut message = format!(
        "user {:?} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
        user.user,
        quoted(&user.groups),
        shown.join("\n")
    );
    if !errors.is_empty() {
        message.push_str(&format!("; resolution errors: [{}]", errors.join(" ")));
    }
    Err(message)
}

/// Breaks a rule down to rules with one verb and one resource, name or URL.
fn break_down(rule: &PolicyRule) -> Vec<PolicyRule> {
    let mut rules = Vec::new();
    let one = |value: &String| vec![value.clone()];
    for group in &rule.api_groups {
        for resource in &rule.resources {
            for verb in &rule.verbs {
                let single = PolicyRule {
                    verbs: one(verb),
                    api_groups: one(group),
                    resources: one(resource),
                    ..PolicyRule::default()
                };
                if rule.resource_names.is_empty() {
                    rules.push(single);
                    continue;
                }
                for name in &rule.resource_names {
                    rules.push(PolicyRule { resource_names: one(name), ..single.clone() });
                }
            }
        }
    }
    for url in &rule.non_resource_urls {
        for verb in &rule.verbs {
            rules.push(PolicyRule {
                verbs: one(verb),
                non_resource_urls: one(url),
                ..PolicyRule::default()
            });
        }
    }
    rules
}

/// Returns whether `own` covers a rule of [`break_down`].
fn covers(own: &PolicyRule, single: &PolicyRule) -> bool {
    let all = |own: &[String], single: &[String]| single.iter().all(|value| has_or_all(own, value));
    let resources = single.resources.iter().all(|resource| {
        has_or_all(&own.resources, resource)
            || resource
                .split_once('/')
                .is_some_and(|(_, subresource)| has(&own.resources, &format!("*/{subresource}")))
    });
    let urls = single
        .non_resource_urls
        .iter()
        .all(|url| own.non_resource_urls.iter().any(|own| matches_url(own, url)));
    let names = own.resource_names.is_empty()
        || !single.resource_names.is_empty()
            && single.resource_names.iter().all(|name| has(&own.resource_names, name));
    all(&own.verbs, &single.verbs)
        && all(&own.api_groups, &single.api_groups)
        && resources
        && urls
        && names
}

/// Merges rules of [`break_down`] that differ only by their verb.
fn compact(rules: Vec<PolicyRule>) -> Vec<PolicyRule> {
    let mut compacted = Vec::new();
    let mut simple = BTreeMap::<_, PolicyRule>::new();
    for rule in rules {
        if !rule.non_resource_urls.is_empty() {
            compacted.push(rule);
            continue;
        }
        let key = (rule.api_groups.clone(), rule.resources.clone(), rule.resource_names.clone());
        match simple.get_mut(&key) {
            Some(present) => present.verbs.extend(rule.verbs),
            None => {
                simple.insert(key, rule);
            }
        }
    }
    compacted.extend(simple.into_values());
    compacted
}

#[cfg(test)]
mod tests {
    use serde::Deserialize as _;
    use serde_json::{Value, json};

    use super::*;

    fn rules(rules: Value) -> Vec<PolicyRule> {
        Vec::deserialize(rules).unwrap()
    }

    fn check(own: Value, granted: Value) -> Result<(), String> {
        let user = Identity::authenticated("bob", ["dev"]);
        confirm_no_escalation(&user, &rules(own), &[], &rules(granted))
    }

    #[test]
    fn own_permissions_can_be_granted() {
        let own = json!([
            {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods", "*/status"]},
            {"verbs": ["get"], "nonResourceURLs": ["/logs/*"]},
            {"verbs": ["*"], "apiGroups": ["apps"], "resources": ["*"]},
            {"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"],
             "resourceNames": ["a", "b"]},
        ]);
        for granted in [
            json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]),
            json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"],
                    "resourceNames": ["web"]}]),
            json!([{"verbs": ["list"], "apiGroups": [""], "resources": ["nodes/status"]}]),
            json!([{"verbs": ["get"], "nonResourceURLs": ["/logs/x"]}]),
            json!([{"verbs": ["*"], "apiGroups": ["apps"], "resources": ["*"]}]),
            json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"],
                    "resourceNames": ["b"]}]),
        ] {
            assert_eq!(check(own.clone(), granted.clone()), Ok(()), "{granted}");
        }
        for granted in [
            json!([{"verbs": ["*"], "apiGroups": [""], "resources": ["pods"]}]),
            json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods/log"]}]),
            json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"]}]),
            json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"],
                    "resourceNames": ["c"]}]),
            json!([{"verbs": ["get"], "nonResourceURLs": ["*"]}]),
        ] {
            assert!(check(own.clone(), granted.clone()).is_err(), "{granted}");
        }
    }

    #[test]
    fn the_message_lists_the_missing_permissions() {
        let granted = json!([
            {"verbs": ["get", "list"], "apiGroups": ["", "apps"], "resources": ["pods"]},
            {"verbs": ["get"], "nonResourceURLs": ["/logs"]},
        ]);
        assert_eq!(
            check(json!([]), granted).unwrap_err(),
            "user \"bob\" (groups=[\"dev\" \"system:authenticated\"]) is attempting to grant RBAC \
             permissions not currently held:\n\
             {APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"get\" \"list\"]}\n\
             {APIGroups:[\"apps\"], Resources:[\"pods\"], Verbs:[\"get\" \"list\"]}\n\
             {NonResourceURLs:[\"/logs\"], Verbs:[\"get\"]}"
        );
    }
}
