//! The rules of a webhook: which operations on which resources it is called for.

use serde_json::Value;

use crate::context::Operation;

/// A rule; a request matches if it matches all of its lists.
pub(in crate::admission) struct Rule {
    operations: Vec<String>,
    groups: Vec<String>,
    versions: Vec<String>,
    resources: Vec<(String, String)>,
    scope: Scope,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    All,
    Cluster,
    Namespaced,
    Unknown,
}

/// What a rule matches.
#[derive(Clone, Copy)]
pub(in crate::admission) struct Requested<'a> {
    pub(in crate::admission) operation: Operation,
    pub(in crate::admission) group: &'a str,
    pub(in crate::admission) version: &'a str,
    pub(in crate::admission) resource: &'a str,
    pub(in crate::admission) subresource: &'a str,
    /// Whether the object is in a namespace.
    pub(in crate::admission) namespaced: bool,
}

impl Rule {
    pub(in crate::admission) fn parse(rule: &Value) -> Self {
        let texts = |field: &str| {
            let list = rule[field].as_array().into_iter().flatten();
            list.filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>()
        };
        let resources = texts("resources").into_iter().map(|resource| {
            let (resource, subresource) = resource.split_once('/').unwrap_or((&resource, ""));
            (resource.to_owned(), subresource.to_owned())
        });
        Self {
            operations: texts("operations"),
            groups: texts("apiGroups"),
            versions: texts("apiVersions"),
            resources: resources.collect(),
            scope: match rule["scope"].as_str() {
                None | Some("*") => Scope::All,
                Some("Cluster") => Scope::Cluster,
                Some("Namespaced") => Scope::Namespaced,
                Some(_) => Scope::Unknown,
            },
        }
    }

    pub(in crate::admission) fn matches(&self, requested: Requested<'_>) -> bool {
        let listed = |list: &[String], value: &str| list.iter().any(|it| it == "*" || it == value);
        let in_scope = match self.scope {
            Scope::All => true,
            Scope::Cluster => !requested.namespaced,
            Scope::Namespaced => requested.namespaced,
            Scope::Unknown => false,
        };
        in_scope
            && listed(&self.operations, name(requested.operation))
            && listed(&self.groups, requested.group)
            && listed(&self.versions, requested.version)
            && self.resources.iter().any(|(resource, subresource)| {
                (resource == "*" || resource == requested.resource)
                    && (subresource == "*" || subresource == requested.subresource)
            })
    }
}

/// Returns the operation as rules and reviews name it.
pub(in crate::admission) fn name(operation: Operation) -> &'static str {
    match operation {
        Operation::Create => "CREATE",
        Operation::Update => "UPDATE",
        Operation::Delete => "DELETE",
        Operation::Connect => "CONNECT",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn resources_match_with_their_subresources() {
        let requested = |resource, subresource| Requested {
            operation: Operation::Create,
            group: "",
            version: "v1",
            resource,
            subresource,
            namespaced: true,
        };
        for (pattern, resource, subresource, matches) in [
            ("pods", "pods", "", true),
            ("pods", "pods", "status", false),
            ("pods", "services", "", false),
            ("*", "pods", "", true),
            ("*", "pods", "status", false),
            ("*/*", "pods", "", true),
            ("*/*", "pods", "status", true),
            ("pods/*", "pods", "status", true),
            ("pods/*", "pods", "", true),
            ("*/status", "pods", "status", true),
            ("*/status", "pods", "", false),
            ("pods/status", "pods", "status", true),
        ] {
            let rule = Rule::parse(&json!({
                "operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"],
                "resources": [pattern],
            }));
            let found = rule.matches(requested(resource, subresource));
            assert_eq!(found, matches, "{pattern} {resource}/{subresource}");
        }
    }

    #[test]
    fn scope_group_version_and_operation_restrict_a_rule() {
        let base = json!({
            "operations": ["CREATE", "DELETE"], "apiGroups": ["apps"], "apiVersions": ["*"],
            "resources": ["*"], "scope": "Namespaced",
        });
        let requested = Requested {
            operation: Operation::Create,
            group: "apps",
            version: "v1",
            resource: "deployments",
            subresource: "",
            namespaced: true,
        };
        let rule = Rule::parse(&base);
        assert!(rule.matches(requested));
        assert!(!rule.matches(Requested { namespaced: false, ..requested }));
        assert!(!rule.matches(Requested { group: "", ..requested }));
        assert!(!rule.matches(Requested { operation: Operation::Update, ..requested }));
        let mut cluster = base;
        cluster["scope"] = "Cluster".into();
        assert!(!Rule::parse(&cluster).matches(requested));
    }
}
