//! The permissions of an operator under test, as RBAC rules.

use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// Allows verbs on resources of an API group, like an RBAC `PolicyRule`; `*` matches all.
///
/// ```no_run
/// use evenkeel_test::{Rule, TestCluster};
///
/// const RULES: &[Rule] = &[Rule::new("", &["configmaps"], &["get", "list", "watch", "patch"])];
///
/// # async fn example(cluster: TestCluster) {
/// let manager = cluster.manager_with("greeter", RULES).await;
/// // … run the operator …
/// cluster.assert_least_privilege("greeter");
/// # drop(manager);
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The API group; empty for the core group.
    pub group: &'static str,
    /// The plural resource names; subresources as `deployments/status`.
    pub resources: &'static [&'static str],
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete` or `deletecollection`.
    pub verbs: &'static [&'static str],
    /// The names of the objects; all if empty.
    pub resource_names: &'static [&'static str],
}

impl Rule {
    /// Creates a rule that allows `verbs` on `resources` of `group`.
    #[must_use]
    pub const fn new(
        group: &'static str,
        resources: &'static [&'static str],
        verbs: &'static [&'static str],
    ) -> Self {
        Self { group, resources, verbs, resource_names: &[] }
    }

    /// Limits the rule to objects of these names.
    #[must_use]
    pub const fn named(mut self, names: &'static [&'static str]) -> Self {
        self.resource_names = names;
        self
    }

    /// Returns a ClusterRole with these rules, to install the permissions that a test proved to be
    /// sufficient.
    ///
    /// ```
    /// use evenkeel_test::Rule;
    ///
    /// const RULES: &[Rule] = &[Rule::new("apps", &["deployments"], &["get", "list", "watch"])];
    ///
    /// let yaml = evenkeel::manifest::yaml(&Rule::cluster_role("my-operator", RULES))?;
    /// assert!(yaml.contains("kind: ClusterRole"));
    /// # Ok::<(), evenkeel::manifest::ManifestError>(())
    /// ```
    ///
    /// A test can compare it with a manifest in the repository, read with `include_str!`.
    #[must_use]
    pub fn cluster_role(name: &str, rules: &[Self]) -> ClusterRole {
        let owned = |list: &[&str]| list.iter().map(|item| (*item).to_owned()).collect();
        let policy = |rule: &Self| PolicyRule {
            api_groups: Some(vec![rule.group.to_owned()]),
            resources: Some(owned(rule.resources)),
            verbs: owned(rule.verbs),
            resource_names: Some(owned(rule.resource_names)).filter(|names| !names.is_empty()),
            ..PolicyRule::default()
        };
        let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
        let rules = Some(rules.iter().map(policy).collect());
        ClusterRole { metadata, rules, ..ClusterRole::default() }
    }
}
