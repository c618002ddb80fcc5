//! The FlowSchemas: which requests they match.

use std::sync::Arc;

use http::HeaderValue;
use serde::Deserialize;

use super::level::Level;
use crate::authz::{Attributes, ResourceAttributes};
use crate::identity::Identity;
use crate::storage::Record;

/// A FlowSchema.
pub(super) struct Schema {
    pub(super) uid: HeaderValue,
    pub(super) level: Arc<Level>,
    distinguished_by: Distinguisher,
    rules: Vec<Rule>,
}

/// What makes requests of one FlowSchema different flows.
#[derive(Clone, Copy)]
enum Distinguisher {
    Nothing,
    User,
    Namespace,
}

#[derive(Deserialize)]
struct Stored {
    spec: Spec,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    priority_level_configuration: Named,
    #[serde(default)]
    matching_precedence: i64,
    #[serde(default)]
    distinguisher_method: Option<Method>,
    #[serde(default)]
    rules: Option<Vec<Rule>>,
}

#[derive(Deserialize)]
struct Method {
    #[serde(rename = "type", default)]
    kind: String,
}

#[derive(Deserialize)]
struct Named {
    #[serde(default)]
    name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Rule {
    #[serde(default)]
    subjects: Option<Vec<Subject>>,
    #[serde(default)]
    resource_rules: Option<Vec<ResourceRule>>,
    #[serde(default)]
    non_resource_rules: Option<Vec<PathRule>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Subject {
    kind: String,
    #[serde(default)]
    user: Option<Named>,
    #[serde(default)]
    group: Option<Named>,
    #[serde(default)]
    service_account: Option<ServiceAccount>,
}

#[derive(Deserialize)]
struct ServiceAccount {
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResourceRule {
    #[serde(default)]
    verbs: Option<Vec<String>>,
    #[serde(default)]
    api_groups: Option<Vec<String>>,
    #[serde(default)]
    resources: Option<Vec<String>>,
    #[serde(default)]
    cluster_scope: bool,
    #[serde(default)]
    namespaces: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct PathRule {
    #[serde(default)]
    verbs: Option<Vec<String>>,
    #[serde(default, rename = "nonResourceURLs")]
    urls: Option<Vec<String>>,
}

/// Reads the FlowSchemas, in the order in which they are matched.
pub(super) fn read(records: &[Arc<Record>], levels: &[Arc<Level>]) -> Vec<Schema> {
    let read = records.iter().filter_map(|record| Schema::read(record, levels));
    let mut schemas: Vec<(i64, String, Schema)> = read.collect();
    schemas.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
    schemas.into_iter().map(|(_, _, schema)| schema).collect()
}

impl Schema {
    /// Returns the precedence and name of a FlowSchema with its rules. One whose priority level does
    /// not exist matches nothing.
    fn read(record: &Record, levels: &[Arc<Level>]) -> Option<(i64, String, Self)> {
        let spec = serde_json::from_slice::<Stored>(&record.body).ok()?.spec;
        let wanted = &spec.priority_level_configuration.name;
        let level = levels.iter().find(|level| level.name == *wanted)?.clone();
        let method = spec.distinguisher_method.map(|method| method.kind);
        let distinguished_by = match method.as_deref() {
            Some("ByUser") => Distinguisher::User,
            Some("ByNamespace") => Distinguisher::Namespace,
            _ => Distinguisher::Nothing,
        };
        let rules = spec.rules.unwrap_or_default();
        let uid = HeaderValue::from_str(&record.uid).ok()?;
        let schema = Self { uid, level, distinguished_by, rules };
        Some((spec.matching_precedence, record.key.name().to_owned(), schema))
    }

    pub(super) fn matches(&self, request: &Attributes<'_>) -> bool {
        self.rules.iter().any(|rule| rule.matches(request))
    }

    /// Returns what identifies the flow of a request within the FlowSchema.
    pub(super) fn distinguisher<'a>(&self, request: &Attributes<'a>) -> &'a str {
        match self.distinguished_by {
            Distinguisher::Nothing => "",
            Distinguisher::User => &request.user.user,
            Distinguisher::Namespace => {
                request.resource.as_ref().map_or("", |resource| resource.namespace)
            }
        }
    }
}

fn has(list: Option<&Vec<String>>, wanted: &str) -> bool {
    list.is_some_and(|list| list.iter().any(|item| item == "*" || item == wanted))
}

impl Rule {
    fn matches(&self, request: &Attributes<'_>) -> bool {
        let subject = self.subjects.iter().flatten().any(|subject| subject.matches(request.user));
        subject
            && match &request.resource {
                Some(resource) => self.resource_rules.iter().flatten().any(|rule| {
                    has(rule.verbs.as_ref(), request.verb)
                        && has(rule.api_groups.as_ref(), resource.group)
                        && rule.resources.iter().flatten().any(|rule| is_resource(rule, resource))
                        && match resource.namespace {
                            "" => rule.cluster_scope,
                            namespace => has(rule.namespaces.as_ref(), namespace),
                        }
                }),
                None => self.non_resource_rules.iter().flatten().any(|rule| {
                    has(rule.verbs.as_ref(), request.verb)
                        && rule.urls.iter().flatten().any(|url| matches_path(url, request.path))
                }),
            }
    }
}

/// Returns whether a rule names the resource, with its subresource: `pods/log`.
fn is_resource(rule: &str, resource: &ResourceAttributes<'_>) -> bool {
    let (name, subresource) = rule.split_once('/').unwrap_or((rule, ""));
    rule == "*" || (name == resource.resource && subresource == resource.subresource)
}

fn matches_path(url: &str, path: &str) -> bool {
    url == path || url.strip_suffix('*').is_some_and(|prefix| path.starts_with(prefix))
}

impl Subject {
    fn matches(&self, user: &Identity) -> bool {
        let is = |named: &Option<Named>, matches: &dyn Fn(&str) -> bool| {
            named.as_ref().is_some_and(|named| named.name == "*" || matches(&named.name))
        };
        match self.kind.as_str() {
            "User" => is(&self.user, &|name| name == user.user),
            "Group" => is(&self.group, &|name| user.groups.iter().any(|group| group == name)),
            "ServiceAccount" => self.service_account.as_ref().is_some_and(|account| {
                let name = user.user.strip_prefix("system:serviceaccount:");
                let name = name.and_then(|name| name.split_once(':'));
                name.is_some_and(|(namespace, name)| {
                    namespace == account.namespace && (account.name == "*" || account.name == name)
                })
            }),
            _ => false,
        }
    }
}
