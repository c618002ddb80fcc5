//! The audit policy: kube-apiserver's `audit.k8s.io/v1` Policy.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use evenkeel_schema::{field, names};

use crate::authz::{Attributes, ResourceAttributes};
use crate::yaml;

/// How much of a request is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Level {
    /// Nothing.
    None,
    /// User, verb, object and status.
    Metadata,
    /// Also the object of the request.
    Request,
    /// Also the object of the response.
    RequestResponse,
}

/// A stage of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Stage {
    /// The request was received and authenticated.
    RequestReceived,
    /// The response of a watch has started, or authentication failed.
    ResponseStarted,
    /// The response is complete.
    ResponseComplete,
    /// The server panicked; never recorded.
    Panic,
}

const LEVELS: [(&str, Level); 4] = [
    ("None", Level::None),
    ("Metadata", Level::Metadata),
    ("Request", Level::Request),
    ("RequestResponse", Level::RequestResponse),
];

const STAGES: [(&str, Stage); 4] = [
    ("RequestReceived", Stage::RequestReceived),
    ("ResponseStarted", Stage::ResponseStarted),
    ("ResponseComplete", Stage::ResponseComplete),
    ("Panic", Stage::Panic),
];

/// Decides at which [`Level`] a request is recorded: that of the first rule that matches it.
///
/// ```
/// use evenkeel_apiserver::audit::Policy;
///
/// let policy = Policy::from_yaml(
///     "
/// apiVersion: audit.k8s.io/v1
/// kind: Policy
/// omitStages: [RequestReceived]
/// rules:
/// - level: RequestResponse
///   resources: [{group: '', resources: [secrets]}]
/// - level: Metadata
/// ",
/// )?;
/// # drop(policy);
/// # Ok::<(), evenkeel_apiserver::audit::PolicyError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Policy {
    rules: Vec<Rule>,
}

#[derive(Clone, Debug)]
struct Rule {
    decision: Decision,
    matcher: RuleFile,
}

/// What is recorded of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) level: Level,
    pub(super) omit_stages: Vec<Stage>,
    pub(super) omit_managed_fields: bool,
}

/// Why a text is not an audit policy.
#[derive(Debug, thiserror::Error)]
#[error("invalid audit policy: {0}")]
pub struct PolicyError(String);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct PolicyFile {
    api_version: String,
    kind: String,
    rules: Option<Vec<RuleFile>>,
    omit_stages: Option<Vec<String>>,
    omit_managed_fields: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RuleFile {
    level: String,
    users: Option<Vec<String>>,
    user_groups: Option<Vec<String>>,
    verbs: Option<Vec<String>>,
    resources: Option<Vec<GroupResources>>,
    namespaces: Option<Vec<String>>,
    #[serde(rename = "nonResourceURLs")]
    non_resource_urls: Option<Vec<String>>,
    omit_stages: Option<Vec<String>>,
    omit_managed_fields: Option<bool>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct GroupResources {
    group: String,
    resources: Option<Vec<String>>,
    resource_names: Option<Vec<String>>,
}

const POLICY_FIELDS: &[&str] =
    &["apiVersion", "kind", "metadata", "rules", "omitStages", "omitManagedFields"];

const RULE_FIELDS: &[&str] = &[
    "level",
    "users",
    "userGroups",
    "verbs",
    "resources",
    "namespaces",
    "nonResourceURLs",
    "omitStages",
    "omitManagedFields",
];

const RESOURCE_FIELDS: &[&str] = &["group", "resources", "resourceNames"];

impl Policy {
    /// Reads a policy from YAML or JSON. Unknown fields are ignored with a warning, as upstream
    /// does.
    ///
    /// # Errors
    ///
    /// If the text is not a Policy of `audit.k8s.io/v1`, or a rule is invalid.
    pub fn from_yaml(text: &str) -> Result<Self, PolicyError> {
        let value = yaml::decode(text.as_bytes()).map_err(PolicyError)?;
        warn_unknown_fields(&value);
        let file: PolicyFile =
            serde_json::from_value(value).map_err(|error| PolicyError(error.to_string()))?;
        if (&*file.api_version, &*file.kind) != ("audit.k8s.io/v1", "Policy") {
            return Err(PolicyError(format!(
                "the policy must have apiVersion audit.k8s.io/v1 and kind Policy, not {:?} and {:?}",
                file.api_version, file.kind
            )));
        }
        let mut errors = invalid_stages(file.omit_stages.as_deref(), "omitStages");
        let rules = file.rules.unwrap_or_default();
        for (index, rule) in rules.iter().enumerate() {
            errors.extend(rule.errors(&format!("rules[{index}]")));
        }
        if !errors.is_empty() {
            let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
            return Err(PolicyError(errors.join(", ")));
        }
        if rules.is_empty() {
            return Err(PolicyError("there are no rules".to_owned()));
        }
        let omitted = stages(file.omit_stages.as_deref());
        let rules = rules.into_iter().map(|rule| {
            let mut omit_stages = omitted.clone();
            omit_stages.extend(stages(rule.omit_stages.as_deref()));
            let decision = Decision {
                level: named(&LEVELS, &rule.level).unwrap_or(Level::None),
                omit_stages,
                omit_managed_fields: rule.omit_managed_fields.unwrap_or(file.omit_managed_fields),
            };
            Rule { decision, matcher: rule }
        });
        Ok(Self { rules: rules.collect() })
    }

    /// Returns a policy that records every request at one level.
    pub fn all(level: Level) -> Self {
        let decision = Decision { level, omit_stages: Vec::new(), omit_managed_fields: false };
        Self { rules: vec![Rule { decision, matcher: RuleFile::default() }] }
    }

    /// Returns what is recorded of a request; `None` if nothing is. Before authentication there is
    /// no user.
    pub(super) fn decide(
        &self,
        request: &Attributes<'_>,
        authenticated: bool,
    ) -> Option<&Decision> {
        let rule = self.rules.iter().find(|rule| rule.matcher.matches(request, authenticated))?;
        (rule.decision.level != Level::None).then_some(&rule.decision)
    }
}

fn named<T: Copy>(table: &[(&str, T)], name: &str) -> Option<T> {
    table.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
}

fn stages(names: Option<&[String]>) -> Vec<Stage> {
    names.unwrap_or_default().iter().filter_map(|name| named(&STAGES, name)).collect()
}

fn invalid_stages(names: Option<&[String]>, path: &str) -> Vec<field::Error> {
    let names = names.unwrap_or_default().iter().enumerate();
    let invalid = names.filter(|(_, name)| named(&STAGES, name).is_none());
    let allowed = STAGES.map(|(name, _)| name).join(",");
    invalid
        .map(|(index, name)| {
            let detail = format!("allowed stages are {allowed}");
            field::Error::invalid(format!("{path}[{index}]"), name.as_str(), detail)
        })
        .collect()
}

fn warn_unknown_fields(policy: &Value) {
    let unknown = |object: &Value, known: &[&str], path: &str| {
        for key in object.as_object().into_iter().flat_map(|object| object.keys()) {
            if !known.contains(&&**key) {
                tracing::warn!(field = format!("{path}{key}"), "unknown field in audit policy");
            }
        }
    };
    unknown(policy, POLICY_FIELDS, "");
    for (index, rule) in policy["rules"].as_array().into_iter().flatten().enumerate() {
        unknown(rule, RULE_FIELDS, &format!("rules[{index}]."));
        for (at, resources) in rule["resources"].as_array().into_iter().flatten().enumerate() {
            unknown(resources, RESOURCE_FIELDS, &format!("rules[{index}].resources[{at}]."));
        }
    }
}

impl RuleFile {
    fn errors(&self, path: &str) -> Vec<field::Error> {
        let mut errors = Vec::new();
        match &*self.level {
            "" => errors.push(field::Error::required(format!("{path}.level"), "")),
            level if named(&LEVELS, level).is_none() => errors.push(field::Error::not_supported(
                format!("{path}.level"),
                level,
                LEVELS.map(|(name, _)| name),
            )),
            _ => {}
        }
        let urls_path = format!("{path}.nonResourceURLs");
        let urls = self.non_resource_urls.as_deref().unwrap_or_default();
        for (index, url) in urls.iter().enumerate().filter(|(_, url)| *url != "*") {
            let mut invalid = |detail: &str| {
                let path = format!("{urls_path}[{index}]");
                errors.push(field::Error::invalid(path, url.as_str(), detail));
            };
            if !url.starts_with('/') {
                invalid("non-resource URL rules must begin with a '/' character");
            }
            if url.strip_suffix('*').unwrap_or(url).contains('*') {
                invalid("non-resource URL wildcards '*' must be the final character of the rule");
            }
        }
        for resources in self.resources.iter().flatten() {
            if !matches!(&*resources.group, "" | "*") {
                let why = names::subdomain_name(&resources.group, false);
                if !why.is_empty() {
                    let path = format!("{path}.resources.group");
                    let group = resources.group.as_str();
                    errors.push(field::Error::invalid(path, group, why.join(",")));
                }
            }
            let given = resources.resource_names.as_deref().unwrap_or_default();
            if !given.is_empty() && resources.resources.iter().flatten().next().is_none() {
                errors.push(field::Error::invalid(
                    format!("{path}.resources.resourceNames"),
                    Value::from(given.to_vec()),
                    "using resourceNames requires at least one resource",
                ));
            }
        }
        errors.extend(invalid_stages(self.omit_stages.as_deref(), &format!("{path}.omitStages")));
        if !urls.is_empty() && self.names_resources() {
            errors.push(field::Error::invalid(
                urls_path,
                Value::from(urls.to_vec()),
                "rules cannot apply to both regular resources and non-resource URLs",
            ));
        }
        errors
    }

    fn names_resources(&self) -> bool {
        self.resources.as_ref().is_some_and(|list| !list.is_empty())
            || self.namespaces.as_ref().is_some_and(|list| !list.is_empty())
    }

    fn matches(&self, request: &Attributes<'_>, authenticated: bool) -> bool {
        // An empty list matches everything.
        let any = |list: &Option<Vec<String>>, matches: &dyn Fn(&String) -> bool| match list {
            Some(list) if !list.is_empty() => list.iter().any(matches),
            _ => true,
        };
        let user = |matches: &dyn Fn() -> bool| authenticated && matches();
        any(&self.users, &|name| user(&|| *name == request.user.user))
            && any(&self.user_groups, &|group| user(&|| request.user.is_in(group)))
            && any(&self.verbs, &|verb| verb == request.verb)
            && match (&request.resource, self.names_resources()) {
                (Some(resource), true) => {
                    any(&self.namespaces, &|namespace| namespace == resource.namespace)
                        && match self.resources.as_deref() {
                            Some(list) if !list.is_empty() => {
                                list.iter().any(|it| it.matches(resource))
                            }
                            _ => true,
                        }
                }
                (None, true) => false,
                (resource, false) => match self.non_resource_urls.as_deref() {
                    Some(urls) if !urls.is_empty() => {
                        resource.is_none() && urls.iter().any(|url| is_path(url, request.path))
                    }
                    _ => true,
                },
            }
    }
}

fn is_path(url: &str, path: &str) -> bool {
    url == path || url == "*" || (url.ends_with('*') && path.starts_with(url.trim_end_matches('*')))
}

impl GroupResources {
    fn matches(&self, resource: &ResourceAttributes<'_>) -> bool {
        if self.group != "*" && self.group != resource.group {
            return false;
        }
        let names = self.resource_names.as_deref().unwrap_or_default();
        match self.resources.as_deref() {
            None | Some([]) => true,
            Some(rules) => {
                (names.is_empty() || names.iter().any(|name| name == resource.name))
                    && rules.iter().any(|rule| is_resource(rule, resource))
            }
        }
    }
}

/// Returns whether a rule names the resource: `pods`, `pods/log`, `pods/*`, `*/scale` or `*`.
fn is_resource(rule: &str, resource: &ResourceAttributes<'_>) -> bool {
    match rule.split_once('/') {
        None => rule == "*" || (rule == resource.resource && resource.subresource.is_empty()),
        Some(("*", subresource)) => {
            !resource.subresource.is_empty() && subresource == resource.subresource
        }
        Some((name, "*")) => name == resource.resource,
        Some((name, subresource)) => {
            name == resource.resource
                && subresource == resource.subresource
                && !subresource.is_empty()
        }
    }
}

#[cfg(test)]
mod tests;
