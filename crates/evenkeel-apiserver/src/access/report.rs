//! What a user did, compared with what it may do.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Access, AccessTrail, Names, Requests};
use crate::authz::{Attributes, PolicyRule, ResourceAttributes};
use crate::identity::Identity;

/// What a user did, compared with what it may do. Its JSON form is stable.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct AccessReport {
    /// The user.
    pub user: String,
    /// The requests that were allowed.
    pub used: Vec<CountedAccess>,
    /// The requests that were denied.
    pub denied: Vec<CountedAccess>,
    /// The granted permissions that no request used: each rule has one verb, one resource and at
    /// most one name. With `watch`, `get` and `list` count as used: informers fall back to them.
    pub unused: Vec<PolicyRule>,
    /// The roles that allow the verbs, resources and namespaces of all requests, and no others. They
    /// contain names of objects where the granted rules do.
    pub minimal: Vec<MinimalRole>,
}

/// An [`Access`] and its requests.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CountedAccess {
    /// What the requests needed.
    #[serde(flatten)]
    pub access: Access,
    /// The number of requests.
    pub count: u64,
    /// The names of the requested objects; empty if there are more than 16, or requests without a
    /// name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resource_names: Vec<String>,
}

impl CountedAccess {
    fn new(access: Access, requests: Requests) -> Self {
        let resource_names = match requests.names {
            Names::Known(names) => names.into_iter().collect(),
            Names::Any => Vec::new(),
        };
        Self { access, count: requests.count, resource_names }
    }
}

/// The rules of a Role, or of a ClusterRole if there is no namespace.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
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
        AccessReport::new(user, self.of(user), granted)
    }
}

impl AccessReport {
    fn new(user: &str, accesses: BTreeMap<Access, Requests>, granted: &[PolicyRule]) -> Self {
        let (used, denied): (Vec<_>, Vec<_>) = accesses
            .into_iter()
            .filter(|(access, _)| !access.is_granted_to_all())
            .map(|(access, requests)| CountedAccess::new(access, requests))
            .partition(|counted| counted.access.allowed);
        let unused = granted
            .iter()
            .flat_map(split)
            .filter(|rule| !used.iter().any(|counted| needs(counted, rule)));
        Self {
            user: user.to_owned(),
            unused: unused.collect(),
            minimal: minimal(used.iter().chain(&denied), granted),
            used,
            denied,
        }
    }

    /// Compares the requests of several reports with rules, as if these had been `granted` in all
    /// namespaces: requests that they do not allow are [`denied`](Self::denied).
    #[must_use]
    pub fn merged(
        user: &str,
        reports: impl IntoIterator<Item = Self>,
        granted: &[PolicyRule],
    ) -> Self {
        let mut accesses = BTreeMap::<Access, Requests>::new();
        let requests = reports.into_iter().flat_map(|report| [report.used, report.denied]);
        for counted in requests.flatten() {
            let allowed = allows(granted, &counted);
            let CountedAccess { access, count, resource_names } = counted;
            let names = match resource_names.is_empty() {
                true => Names::Any,
                false => Names::Known(resource_names.into_iter().collect()),
            };
            let entry = accesses.entry(Access { allowed, ..access });
            entry.or_default().merge(Requests { count, names });
        }
        Self::new(user, accesses, granted)
    }

    /// Returns whether nothing was denied and all that was granted was used.
    #[must_use]
    pub fn is_least_privilege(&self) -> bool {
        self.denied.is_empty() && self.unused.is_empty()
    }
}

/// Splits a rule into rules with one verb, one resource or path, and one name each.
fn split(rule: &PolicyRule) -> Vec<PolicyRule> {
    let one = |item: &String| vec![item.clone()];
    let names = match rule.resource_names.as_slice() {
        [] => vec![Vec::new()],
        names => names.iter().map(one).collect(),
    };
    let mut rules = Vec::new();
    for verb in &rule.verbs {
        for group in &rule.api_groups {
            for resource in &rule.resources {
                rules.extend(names.iter().map(|name| PolicyRule {
                    verbs: one(verb),
                    api_groups: one(group),
                    resources: one(resource),
                    resource_names: name.clone(),
                    non_resource_urls: Vec::new(),
                }));
            }
        }
        rules.extend(rule.non_resource_urls.iter().map(|path| PolicyRule {
            verbs: one(verb),
            non_resource_urls: one(path),
            ..PolicyRule::default()
        }));
    }
    rules
}

/// The verbs that informers fall back to: a server that streams lists needs only `watch` of them.
const WITH_WATCH: [&str; 2] = ["get", "list"];

/// Returns whether the requests need the rule, themselves or for the fallback of an informer.
fn needs(counted: &CountedAccess, rule: &PolicyRule) -> bool {
    let (access, names) = (&counted.access, &counted.resource_names);
    let named = &rule.resource_names;
    if !named.is_empty() && !names.is_empty() && !names.iter().any(|name| named.contains(name)) {
        return false;
    }
    let falls_back = access.verb == "watch"
        && WITH_WATCH
            .iter()
            .any(|verb| covers(rule, &Access { verb: (*verb).to_owned(), ..access.clone() }));
    falls_back || covers(rule, access)
}

/// Returns whether the rules allow all requests.
fn allows(rules: &[PolicyRule], counted: &CountedAccess) -> bool {
    let mut covering = rules.iter().filter(|rule| covers(rule, &counted.access));
    let any = |rule: &PolicyRule| rule.resource_names.is_empty();
    let names = &counted.resource_names;
    match names.is_empty() {
        true => covering.any(any),
        false => {
            let covering: Vec<_> = covering.collect();
            let named = |rule: &&PolicyRule, name| any(rule) || rule.resource_names.contains(name);
            names.iter().all(|name| covering.iter().any(|rule| named(rule, name)))
        }
    }
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
        selected_fields: &[],
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

/// Returns the names that the requests of an access are limited to: those of the requests, if the
/// granted rules name their objects. Of other rules, names are as arbitrary as the objects of a test.
fn limited_to<'a>(counted: &'a CountedAccess, granted: &[PolicyRule]) -> &'a [String] {
    let names = &counted.resource_names;
    let allows = |rule: &&PolicyRule| covers(rule, &counted.access);
    let mut rules = granted.iter().filter(allows).peekable();
    let is_limited = !names.is_empty()
        && rules.peek().is_some()
        && rules.all(|rule| names.iter().all(|name| rule.resource_names.contains(name)));
    if is_limited { names } else { &[] }
}

/// The verbs that are needed of a resource, by group, resource and names.
type Verbs<'a> = BTreeMap<(&'a str, &'a str, &'a [String]), BTreeSet<&'a str>>;

/// Returns the roles that the requests need. A permission at the cluster scope covers all
/// namespaces.
fn minimal<'a>(
    requests: impl Iterator<Item = &'a CountedAccess>,
    granted: &[PolicyRule],
) -> Vec<MinimalRole> {
    let mut namespaces = BTreeMap::<&str, Verbs<'_>>::new();
    let mut paths = BTreeMap::<&str, BTreeSet<&str>>::new();
    for counted in requests {
        let access = &counted.access;
        if access.resource.is_empty() {
            paths.entry(&access.path).or_default().insert(&access.verb);
        } else {
            let verbs = namespaces.entry(&access.namespace).or_default();
            let names = limited_to(counted, granted);
            let resource = (&*access.api_group, &*access.resource, names);
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
            let all_names = (resource.0, resource.1, &[][..]);
            let covered = [cluster.get(resource), cluster.get(&all_names)];
            let covered = covered.into_iter().flatten();
            let covered: BTreeSet<&str> = covered.flatten().copied().collect();
            verbs.retain(|verb| !covered.contains(verb));
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

/// Returns one rule for all resources of a group that need the same verbs on the same names.
fn rules(needed: &Verbs<'_>) -> Vec<PolicyRule> {
    let mut merged = BTreeMap::<_, Vec<String>>::new();
    for ((group, resource, names), verbs) in needed {
        merged.entry((*group, verbs, *names)).or_default().push((*resource).to_owned());
    }
    let rule =
        |((group, verbs, names), resources): ((&str, &BTreeSet<&str>, &[String]), _)| PolicyRule {
            verbs: owned(verbs.iter().copied()),
            api_groups: vec![group.to_owned()],
            resources,
            resource_names: names.to_vec(),
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
        for CountedAccess { access, count, resource_names } in &self.denied {
            let named = match resource_names.as_slice() {
                [] => String::new(),
                names => format!(" named {}", names.join(",")),
            };
            writeln!(f, "  denied: {access}{named} ({count} requests)")?;
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
        let resource = ResourceAttributes {
            group,
            version: "v1",
            resource,
            subresource,
            namespace,
            name: "",
            selected_fields: &[],
        };
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
    fn names_are_kept_where_rules_have_them() {
        let trail = AccessTrail::default();
        let user = Identity::authenticated("operator", ["x"]);
        let get = |resource: &str, name: &str| {
            let resource = ResourceAttributes {
                resource,
                namespace: "a",
                name,
                ..ResourceAttributes::default()
            };
            let attributes =
                Attributes { user: &user, verb: "get", path: "", resource: Some(resource) };
            trail.record(&attributes, true);
        };
        get("leases", "lock");
        get("leases", "lock");
        get("configmaps", "one");
        let named = |names: &[&str]| PolicyRule {
            resource_names: owned(names.iter().copied()),
            ..rule(&["get"], "", &["leases"])
        };
        let granted = [named(&["lock", "other"]), rule(&["get"], "", &["configmaps"])];
        let report = trail.report("operator", &granted);
        assert_eq!(report.unused, [named(&["other"])]);
        // No rule limits the names of ConfigMaps, so that of the test is of no importance.
        let minimal = [rule(&["get"], "", &["configmaps"]), named(&["lock"])];
        assert_eq!(report.minimal[0].rules, minimal);
        let names: Vec<_> = report.used.iter().map(|used| &*used.resource_names[0]).collect();
        assert_eq!(names, ["one", "lock"]);
        for name in 0..20 {
            get("configmaps", &format!("m{name}"));
        }
        let report = trail.report("operator", &granted);
        assert!(report.used[0].resource_names.is_empty(), "too many to list");
    }

    #[test]
    fn reports_of_several_tests_are_compared_with_the_rules_of_the_operator() {
        let report = |requests: &[(&str, &str, &str)]| {
            let trail = AccessTrail::default();
            let user = Identity::authenticated("operator", ["x"]);
            for (verb, resource, name) in requests {
                let resource = ResourceAttributes {
                    resource,
                    namespace: "a",
                    name,
                    ..ResourceAttributes::default()
                };
                let attributes =
                    Attributes { user: &user, verb, path: "", resource: Some(resource) };
                trail.record(&attributes, true);
            }
            let report = serde_json::to_string(&trail.report("operator", &[])).unwrap();
            serde_json::from_str::<AccessReport>(&report).unwrap()
        };
        let reports = [
            report(&[("get", "leases", "lock"), ("create", "leases", "")]),
            report(&[("get", "leases", "lock"), ("get", "secrets", "other")]),
        ];
        let named = |resource: &str, name: &str| PolicyRule {
            resource_names: vec![name.to_owned()],
            ..rule(&["get", "create"], "", &[resource])
        };
        let granted =
            [named("leases", "lock"), named("secrets", "own"), rule(&["list"], "", &["pods"])];
        let merged = AccessReport::merged("web", reports, &granted);
        let denied = merged.denied.iter().map(|it| (&*it.access.verb, &*it.access.resource));
        assert_eq!(denied.collect::<Vec<_>>(), [("create", "leases"), ("get", "secrets")]);
        assert_eq!((merged.used.len(), merged.used[0].count), (1, 2));
        let unused: Vec<_> = merged.unused.iter().map(ToString::to_string).collect();
        assert!(unused.contains(&"list pods in API group \"\"".to_owned()), "{unused:?}");
        assert!(
            !unused.contains(&"get leases in API group \"\" named lock".to_owned()),
            "{unused:?}"
        );
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
