//! Privilege escalation: a user can grant only permissions that the user has.
//!
//! Mirrors upstream's `Covers`, `CompactRules` and `ConfirmNoEscalation`. A rule stands for the
//! product of its lists, so the work is limited: upstream's is not.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_types::go::{Quoted, quote_list};

use super::rule::{has, has_or_all, matches_url};
use crate::authz::PolicyRule;
use crate::identity::Identity;

/// The number of string comparisons that one check may need. The bootstrap role `admin`, granted by
/// a user that has it, needs a tenth of a percent of it.
const MAX_COMPARISONS: usize = 20_000_000;
/// The number of missing permissions that one check reports.
const MAX_MISSING: usize = 10_000;

/// A check needs more work than is allowed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooManyRules;

/// Checks that `own`, the rules of `user`, cover `granted`; returns the message of the error
/// otherwise.
pub(super) fn confirm_no_escalation(
    user: &Identity,
    own: &[PolicyRule],
    errors: &[String],
    granted: &[PolicyRule],
) -> Result<(), String> {
    let groups = quote_list(user.groups.iter().map(String::as_str));
    let attempt = format!("user {} (groups={groups})", Quoted(&user.user));
    let missing = uncovered(own, granted).map_err(|TooManyRules| {
        format!("{attempt} is attempting to grant more RBAC permissions than can be checked")
    })?;
    if missing.is_empty() {
        return Ok(());
    }
    let shown: BTreeSet<String> = compact(missing).iter().map(PolicyRule::compact_string).collect();
    let shown: Vec<String> = shown.into_iter().collect();
    let mut message = format!(
        "{attempt} is attempting to grant RBAC permissions not currently held:\n{}",
        shown.join("\n")
    );
    if !errors.is_empty() {
        message.push_str(&format!("; resolution errors: [{}]", errors.join(" ")));
    }
    Err(message)
}

/// Returns the permissions of `granted` that `own` does not cover, each as a rule of its own.
pub(crate) fn uncovered(
    own: &[PolicyRule],
    granted: &[PolicyRule],
) -> Result<Vec<PolicyRule>, TooManyRules> {
    let mut comparisons = 0;
    let mut missing = Vec::new();
    for single in granted.iter().flat_map(break_down) {
        let mut covered = false;
        // Counted also if there are no rules of the user.
        comparisons += 1;
        for own in own {
            comparisons += size(own);
            covered = single.is_covered_by(own);
            if covered {
                break;
            }
        }
        if comparisons > MAX_COMPARISONS || missing.len() == MAX_MISSING {
            return Err(TooManyRules);
        }
        if !covered {
            missing.push(single.into_rule());
        }
    }
    Ok(missing)
}

fn size(rule: &PolicyRule) -> usize {
    let PolicyRule { verbs, api_groups, resources, resource_names, non_resource_urls } = rule;
    [verbs, api_groups, resources, resource_names, non_resource_urls].map(Vec::len).iter().sum()
}

/// A permission: one verb on one resource, object or URL.
struct Single<'a> {
    verb: &'a str,
    target: Target<'a>,
}

enum Target<'a> {
    Resource { group: &'a str, resource: &'a str, name: Option<&'a str> },
    Url(&'a str),
}

/// Breaks a rule down to single permissions, one after another: there may be very many.
fn break_down(rule: &PolicyRule) -> impl Iterator<Item = Single<'_>> {
    let names = || {
        let unnamed = rule.resource_names.is_empty().then_some(None);
        unnamed.into_iter().chain(rule.resource_names.iter().map(|name| Some(name.as_str())))
    };
    let resources = rule.api_groups.iter().flat_map(move |group| {
        rule.resources.iter().flat_map(move |resource| {
            rule.verbs.iter().flat_map(move |verb| {
                names().map(move |name| Single {
                    verb,
                    target: Target::Resource { group, resource, name },
                })
            })
        })
    });
    let urls = rule.non_resource_urls.iter().flat_map(|url| {
        rule.verbs.iter().map(move |verb| Single { verb, target: Target::Url(url) })
    });
    resources.chain(urls)
}

impl Single<'_> {
    fn is_covered_by(&self, own: &PolicyRule) -> bool {
        has_or_all(&own.verbs, self.verb)
            && match self.target {
                Target::Resource { group, resource, name } => {
                    let named = |name: Option<&str>| {
                        own.resource_names.is_empty()
                            || name.is_some_and(|name| has(&own.resource_names, name))
                    };
                    has_or_all(&own.api_groups, group)
                        && covers_resource(&own.resources, resource)
                        && named(name)
                }
                // As upstream, a rule with names covers no URLs.
                Target::Url(url) => {
                    own.resource_names.is_empty()
                        && own.non_resource_urls.iter().any(|own| matches_url(own, url))
                }
            }
    }

    fn into_rule(self) -> PolicyRule {
        let verbs = vec![self.verb.to_owned()];
        match self.target {
            Target::Resource { group, resource, name } => PolicyRule {
                verbs,
                api_groups: vec![group.to_owned()],
                resources: vec![resource.to_owned()],
                resource_names: name.map(str::to_owned).into_iter().collect(),
                ..PolicyRule::default()
            },
            Target::Url(url) => PolicyRule {
                verbs,
                non_resource_urls: vec![url.to_owned()],
                ..PolicyRule::default()
            },
        }
    }
}

fn covers_resource(own: &[String], resource: &str) -> bool {
    let all_parents = |subresource: &str| {
        own.iter().any(|own| own.strip_prefix("*/").is_some_and(|own| own == subresource))
    };
    has_or_all(own, resource)
        || resource.split_once('/').is_some_and(|(_, subresource)| all_parents(subresource))
}

/// Merges rules of single permissions that differ only by their verb.
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

    #[test]
    fn a_product_of_long_lists_is_rejected_without_being_built() {
        let many = |prefix: &str| -> Vec<String> {
            (0..100_000).map(|index| format!("{prefix}{index}")).collect()
        };
        let granted = PolicyRule {
            verbs: many("v"),
            api_groups: many("g"),
            resources: many("r"),
            resource_names: many("n"),
            ..PolicyRule::default()
        };
        for own in [vec![], vec![granted.clone()]] {
            let user = Identity::authenticated("bob", ["dev"]);
            let why = confirm_no_escalation(&user, &own, &[], std::slice::from_ref(&granted))
                .unwrap_err();
            assert!(why.ends_with("more RBAC permissions than can be checked"), "{why}");
        }
    }
}
