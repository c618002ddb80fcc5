//! Policy rules, and which requests they allow.

use evenkeel_types::go::quote_list;
use serde::Deserialize as _;

use crate::authz::{Attributes, PolicyRule, ResourceAttributes};

impl PolicyRule {
    /// Returns the rules of a Role or ClusterRole; those that do not decode grant nothing.
    pub(crate) fn of_role(role: &serde_json::Value) -> Vec<Self> {
        let rules = role.get("rules").and_then(serde_json::Value::as_array);
        rules.into_iter().flatten().filter_map(|rule| Self::deserialize(rule).ok()).collect()
    }

    /// Returns whether the rule allows the request.
    pub(crate) fn allows(&self, attributes: &Attributes<'_>) -> bool {
        has_or_all(&self.verbs, attributes.verb)
            && match &attributes.resource {
                Some(resource) => self.matches_resource(resource),
                None => self.non_resource_urls.iter().any(|url| matches_url(url, attributes.path)),
            }
    }

    fn matches_resource(&self, request: &ResourceAttributes<'_>) -> bool {
        has_or_all(&self.api_groups, request.group)
            && self.resources.iter().any(|resource| is_resource(resource, request))
            && (self.resource_names.is_empty() || has(&self.resource_names, request.name))
    }

    /// Returns the rule as upstream prints it in messages.
    pub(crate) fn compact_string(&self) -> String {
        let parts = [
            ("APIGroups", &self.api_groups),
            ("Resources", &self.resources),
            ("NonResourceURLs", &self.non_resource_urls),
            ("ResourceNames", &self.resource_names),
            ("Verbs", &self.verbs),
        ];
        let shown: Vec<String> = parts
            .into_iter()
            .filter(|(_, values)| !values.is_empty())
            .map(|(name, values)| {
                format!("{name}:{}", quote_list(values.iter().map(String::as_str)))
            })
            .collect();
        format!("{{{}}}", shown.join(", "))
    }
}

pub(super) fn has(values: &[String], value: &str) -> bool {
    values.iter().any(|own| own == value)
}

pub(super) fn has_or_all(values: &[String], value: &str) -> bool {
    values.iter().any(|own| own == "*" || own == value)
}

/// Returns whether `resource` of a rule is the requested resource: `pods`, `pods/log`, `*/scale`
/// or `*`.
fn is_resource(resource: &str, request: &ResourceAttributes<'_>) -> bool {
    if resource == "*" {
        return true;
    }
    match (resource.split_once('/'), request.subresource) {
        (None, "") => resource == request.resource,
        (Some((parent, subresource)), requested) if !requested.is_empty() => {
            subresource == requested && (parent == "*" || parent == request.resource)
        }
        _ => false,
    }
}

/// Returns whether `pattern` of a rule matches the path: an equal one, `*`, or a prefix with `*`.
pub(super) fn matches_url(pattern: &str, path: &str) -> bool {
    pattern == path || pattern.ends_with('*') && path.starts_with(pattern.trim_end_matches('*'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::Identity;

    fn rule(json: serde_json::Value) -> PolicyRule {
        PolicyRule::deserialize(json).unwrap()
    }

    fn allows(rule: &PolicyRule, verb: &str, resource: (&str, &str, &str), name: &str) -> bool {
        let (group, plural, subresource) = resource;
        let resource = ResourceAttributes {
            group,
            version: "v1",
            resource: plural,
            subresource,
            namespace: "shop",
            name,
            selected_fields: &[],
        };
        let user = Identity::authenticated("bob", ["dev"]);
        rule.allows(&Attributes { user: &user, verb, path: "/x", resource: Some(resource) })
    }

    #[test]
    fn resources_and_subresources_match_separately() {
        let pods = rule(serde_json::json!({
            "verbs": ["get"], "apiGroups": [""], "resources": ["pods", "*/scale", "a/b"],
        }));
        assert!(allows(&pods, "get", ("", "pods", ""), "web"));
        assert!(!allows(&pods, "get", ("", "pods", "log"), "web"), "another subresource");
        assert!(!allows(&pods, "list", ("", "pods", ""), ""), "another verb");
        assert!(!allows(&pods, "get", ("apps", "pods", ""), "web"), "another group");
        assert!(allows(&pods, "get", ("", "deployments", "scale"), "web"));
        assert!(allows(&pods, "get", ("", "a", "b"), "web"));
        assert!(!allows(&pods, "get", ("", "a", ""), "web"));
        let all = rule(serde_json::json!({
            "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "resourceNames": null,
        }));
        assert!(allows(&all, "patch", ("apps", "deployments", "status"), "web"));
    }

    #[test]
    fn resource_names_restrict_to_these_objects() {
        let named = rule(serde_json::json!({
            "verbs": ["get"], "apiGroups": [""], "resources": ["secrets"],
            "resourceNames": ["tls"],
        }));
        assert!(allows(&named, "get", ("", "secrets", ""), "tls"));
        assert!(!allows(&named, "get", ("", "secrets", ""), "other"));
        assert!(!allows(&named, "get", ("", "secrets", ""), ""), "no name");
    }

    #[test]
    fn urls_match_exactly_or_by_prefix() {
        for (pattern, path, matches) in [
            ("*", "/anything", true),
            ("/healthz", "/healthz", true),
            ("/healthz", "/healthz/ping", false),
            ("/healthz/*", "/healthz/ping", true),
            ("/healthz/*", "/healthz", false),
        ] {
            assert_eq!(matches_url(pattern, path), matches, "{pattern} {path}");
        }
    }

    #[test]
    fn rules_print_as_in_go() {
        let printed = rule(serde_json::json!({
            "verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"],
        }));
        assert_eq!(
            printed.compact_string(),
            r#"{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}"#
        );
    }
}
