//! What a user did, compared with what it may do.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Serialize;

use super::{Access, AccessTrail};
use crate::authz::{Attributes, PolicyRule, ResourceAttributes};
use crate::identity::Identity;

/// What a user did, compared with what it may do. Its JSON form is stable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct AccessReport {
    /// The user.
    pub user: String,
    /// The requests that were allowed.
    pub used: Vec<CountedAccess>,
    /// The requests that were denied.
    pub denied: Vec<CountedAccess>,
    /// The granted permissions that no request used: each rule has one verb and one resource. With
    /// `watch`, `get` and `list` count as used: informers fall back to them.
    pub unused: Vec<PolicyRule>,
    /// The roles that allow the verbs, resources and namespaces of all requests, and no others.
    pub minimal: Vec<MinimalRole>,
}

/// An [`Access`] and its number of requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CountedAccess {
    /// What the requests needed.
    #[serde(flatten)]
    pub access: Access,
    /// The number of requests.
    pub count: u64,
}

/// The rules of a Role, or of a ClusterRole if there is no namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct MinimalRole {
    /// The namespace of the Role; `None` for a ClusterRole.
    pub namespace: Option<String>,
    /// The rules.
    pub rules: Vec<PolicyRule>,
}

impl AccessTrail {
    /// Compares the requests of `user` with the rules that were `granted` to it. Permissions that
    /// every authenticated user has are left out.
    #[must_use]
    pub fn report(&self, user: &str, granted: &[PolicyRule]) -> AccessReport {
        let accesses = self.of(user);
        let (used, denied): (Vec<_>, Vec<_>) = accesses
            .into_iter()
            .filter(|(access, _)| !access.is_granted_to_all())
            .map(|(access, count)| CountedAccess { access, count })
            .partition(|counted| counted.access.allowed);
        let unused = granted
            .iter()
            .flat_map(split)
            .filter(|rule| !used.iter().any(|counted| needs(&counted.access, rule)));
        AccessReport {
            user: user.to_owned(),
            unused: unused.collect(),
            minimal: minimal(used.iter().chain(&denied).map(|counted| &counted.access)),
            used,
            denied,
        }
    }
}

impl AccessReport {
    /// Returns whether nothing was denied and nothing was granted in vain.
    #[must_use]
    pub fn is_least_privilege(&self) -> bool {
        self.denied.is_empty() && self.unused.is_empty()
    }
}

/// Splits a rule into rules with one verb and one resource or path each.
fn split(rule: &PolicyRule) -> impl Iterator<Item = PolicyRule> {
    let one = |list: &[String]| -> Vec<Vec<String>> {
        list.iter().map(|item| vec![item.clone()]).collect()
    };
    let (groups, resources, paths) =
        (one(&rule.api_groups), one(&rule.resources), one(&rule.non_resource_urls));
    let names = rule.resource_names.clone();
    rule.verbs.clone().into_iter().flat_map(move |verb| {
        let with_resource = groups.iter().flat_map(|group| {
            resources.iter().map(|resource| PolicyRule {
                verbs: vec![verb.clone()],
                api_groups: group.clone(),
                resources: resource.clone(),
                resource_names: names.clone(),
                non_resource_urls: Vec::new(),
            })
        });
        let with_path = paths.iter().map(|path| PolicyRule {
            verbs: vec![verb.clone()],
            non_resource_urls: path.clone(),
            ..PolicyRule::default()
        });
        with_resource.chain(with_path).collect::<Vec<_>>()
    })
}

/// The verbs that informers fall back to: a server that streams lists needs only `watch` of them.
const WITH_WATCH: [&str; 2] = ["get", "list"];

/// Returns whether the access needs the rule, itself or for the fallback of an informer.
fn needs(access: &Access, rule: &PolicyRule) -> bool {
    let falls_back = access.verb == "watch"
        && WITH_WATCH
            .iter()
            .any(|verb| covers(rule, &Access { verb: (*verb).to_owned(), ..access.clone() }));
    falls_back || covers(rule, access)
}

/// Returns whether the rule covers the access, whatever the names of its objects.
fn covers(rule: &PolicyRule, access: &Access) -> bool {
    let (resource, subresource) = access.resource.split_once('/').unwrap_or((&access.resource, ""));
    let resource = ResourceAttributes {
        group: &access.api_group,
        version: "",
        resource,
        subresource,
        namespace: &access.namespace,
        name: "",
    };
    let attributes = Attributes {
        user: &Identity::default(),
        verb: &access.verb,
        path: &access.path,
        resource: (!access.resource.is_empty()).then_some(resource),
    };
    let any_name = PolicyRule { resource_names: Vec::new(), ..rule.clone() };
    any_name.allows(&attributes)
}

/// Returns the roles that the accesses need. A permission at the cluster scope covers all
/// namespaces.
fn minimal<'a>(accesses: impl Iterator<Item = &'a Access>) -> Vec<MinimalRole> {
    type Verbs<'a> = BTreeMap<(&'a str, &'a str), BTreeSet<&'a str>>;
    let mut namespaces = BTreeMap::<&str, Verbs<'_>>::new();
    let mut paths = BTreeMap::<&str, BTreeSet<&str>>::new();
    for access in accesses {
        if access.resource.is_empty() {
            paths.entry(&access.path).or_default().insert(&access.verb);
        } else {
            let verbs = namespaces.entry(&access.namespace).or_default();
            let resource = (&*access.api_group, &*access.resource);
            let verbs = verbs.entry(resource).or_default();
            verbs.insert(&access.verb);
            if access.verb == "watch" {
                verbs.extend(WITH_WATCH);
            }
        }
    }
    let cluster = namespaces.remove("").unwrap_or_default();
    for verbs in namespaces.values_mut() {
        for (resource, verbs) in verbs.iter_mut() {
            let covered = cluster.get(resource);
            verbs.retain(|verb| !covered.is_some_and(|covered| covered.contains(verb)));
        }
        verbs.retain(|_, verbs| !verbs.is_empty());
    }
    let mut cluster = rules(&cluster);
    cluster.extend(paths.into_iter().map(|(path, verbs)| PolicyRule {
        verbs: owned(verbs),
        non_resource_urls: vec![path.to_owned()],
        ..PolicyRule::default()
    }));
    let roles = namespaces.into_iter().map(|(namespace, verbs)| MinimalRole {
        namespace: Some(namespace.to_owned()),
        rules: rules(&verbs),
    });
    let cluster = MinimalRole { namespace: None, rules: cluster };
    std::iter::once(cluster).chain(roles).filter(|role| !role.rules.is_empty()).collect()
}

/// Returns one rule for all resources of a group that need the same verbs.
fn rules(needed: &BTreeMap<(&str, &str), BTreeSet<&str>>) -> Vec<PolicyRule> {
    let mut merged = BTreeMap::<(&str, &BTreeSet<&str>), Vec<String>>::new();
    for ((group, resource), verbs) in needed {
        merged.entry((group, verbs)).or_default().push((*resource).to_owned());
    }
    let rule = |((group, verbs), resources): ((&str, &BTreeSet<&str>), Vec<String>)| PolicyRule {
        verbs: owned(verbs.iter().copied()),
        api_groups: vec![group.to_owned()],
        resources,
        ..PolicyRule::default()
    };
    merged.into_iter().map(rule).collect()
}

fn owned<'a>(items: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    items.into_iter().map(str::to_owned).collect()
}

/// Prints the denied and unused permissions, one per line, and the minimal roles.
impl fmt::Display for AccessReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {} permissions used", self.user, self.used.len())?;
        for CountedAccess { access, count } in &self.denied {
            writeln!(f, "  denied: {access} ({count} requests)")?;
        }
        for rule in &self.unused {
            writeln!(f, "  never used: {rule}")?;
        }
        for role in &self.minimal {
            match &role.namespace {
                None => writeln!(f, "  minimal ClusterRole:")?,
                Some(namespace) => writeln!(f, "  minimal Role in namespace {namespace}:")?,
            }
            role.rules.iter().try_for_each(|rule| writeln!(f, "    {rule}"))?;
        }
        Ok(())
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { api_group, resource, verb, namespace, path, .. } = self;
        if resource.is_empty() {
            return write!(f, "{verb} {path}");
        }
        write!(f, "{verb} {resource} in API group {api_group:?}")?;
        match &**namespace {
            "" => f.write_str(" at the cluster scope"),
            namespace => write!(f, " in namespace {namespace}"),
        }
    }
}

impl fmt::Display for PolicyRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.verbs.join(","))?;
        if self.resources.is_empty() {
            return write!(f, " {}", self.non_resource_urls.join(","));
        }
        let groups: Vec<_> = self.api_groups.iter().map(|group| format!("{group:?}")).collect();
        write!(f, " {} in API group {}", self.resources.join(","), groups.join(","))?;
        if !self.resource_names.is_empty() {
            write!(f, " named {}", self.resource_names.join(","))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::MAX_ACCESSES;

    fn record(trail: &AccessTrail, verb: &str, group: &str, path: &str, namespace: &str) {
        let user = Identity::authenticated("operator", ["x"]);
        let (resource, subresource) = path.split_once('/').unwrap_or((path, ""));
        let resource =
            ResourceAttributes { group, version: "v1", resource, subresource, namespace, name: "" };
        let attributes = Attributes { user: &user, verb, path: "", resource: Some(resource) };
        trail.record(&attributes, verb != "delete");
    }

    fn rule(verbs: &[&str], group: &str, resources: &[&str]) -> PolicyRule {
        PolicyRule {
            verbs: owned(verbs.iter().copied()),
            api_groups: vec![group.to_owned()],
            resources: owned(resources.iter().copied()),
            ..PolicyRule::default()
        }
    }

    #[test]
    fn report_lists_denied_and_unused_permissions_and_minimal_roles() {
        let trail = AccessTrail::default();
        for (verb, group, path, namespace) in [
            ("list", "apps", "deployments", ""),
            ("watch", "apps", "deployments", ""),
            ("list", "apps", "replicasets", ""),
            ("watch", "apps", "replicasets", ""),
            ("patch", "apps", "deployments", "a"),
            ("patch", "apps", "deployments", "a"),
            ("list", "apps", "deployments", "a"),
            ("update", "apps", "deployments/status", "a"),
            ("delete", "", "pods", "b"),
            ("create", "authorization.k8s.io", "selfsubjectaccessreviews", ""),
        ] {
            record(&trail, verb, group, path, namespace);
        }
        let granted = [
            rule(&["list", "watch", "get", "delete"], "apps", &["deployments", "replicasets"]),
            rule(&["patch"], "apps", &["*"]),
            rule(&["update"], "apps", &["*/status", "*/scale"]),
        ];
        let report = trail.report("operator", &granted);
        assert_eq!(report.used.len(), 7, "{report}");
        assert!(report.used.iter().any(|it| it.access.verb == "patch" && it.count == 2));
        let [denied] = &*report.denied else { panic!("{report}") };
        assert_eq!(denied.access.to_string(), "delete pods in API group \"\" in namespace b");
        let unused: Vec<_> = report.unused.iter().map(ToString::to_string).collect();
        assert_eq!(
            unused,
            [
                "delete deployments in API group \"apps\"",
                "delete replicasets in API group \"apps\"",
                "update */scale in API group \"apps\"",
            ]
        );
        let namespaces: Vec<_> = report.minimal.iter().map(|role| &role.namespace).collect();
        assert_eq!(namespaces, [&None, &Some("a".to_owned()), &Some("b".to_owned())]);
        assert_eq!(
            report.minimal[0].rules,
            [rule(&["get", "list", "watch"], "apps", &["deployments", "replicasets"])]
        );
        // The list in the namespace is covered by that of the cluster.
        assert_eq!(
            report.minimal[1].rules,
            [
                rule(&["patch"], "apps", &["deployments"]),
                rule(&["update"], "apps", &["deployments/status"]),
            ]
        );
        assert!(!report.is_least_privilege());
        // The minimal roles are exactly what the requests need.
        let all: Vec<_> = report.minimal.iter().flat_map(|role| role.rules.clone()).collect();
        let again = trail.report("operator", &all);
        let unused: Vec<_> = again.unused.iter().map(ToString::to_string).collect();
        assert_eq!(unused, ["delete pods in API group \"\""], "denied, so not used");
    }

    #[test]
    fn json_form_is_stable() {
        let trail = AccessTrail::default();
        record(&trail, "get", "", "configmaps", "a");
        let report = trail.report("operator", &[rule(&["get"], "", &["pods"])]);
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(
            json,
            serde_json::json!({
                "user": "operator",
                "used": [{
                    "apiGroup": "", "resource": "configmaps", "verb": "get", "namespace": "a",
                    "allowed": true, "count": 1,
                }],
                "denied": [],
                "unused": [{ "verbs": ["get"], "apiGroups": [""], "resources": ["pods"] }],
                "minimal": [{
                    "namespace": "a",
                    "rules": [{ "verbs": ["get"], "apiGroups": [""], "resources": ["configmaps"] }],
                }],
            })
        );
    }

    #[test]
    fn number_of_accesses_is_bounded() {
        let trail = AccessTrail::default();
        for count in 0..MAX_ACCESSES + 5 {
            record(&trail, "get", "", "configmaps", &format!("n{count}"));
        }
        assert_eq!(trail.dropped(), 5);
        record(&trail, "get", "", "configmaps", "n0");
        assert_eq!(trail.dropped(), 5, "known accesses are counted");
    }
}
