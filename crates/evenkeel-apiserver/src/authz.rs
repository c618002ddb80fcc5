//! The authorization interface, which RBAC and the Node authorizer implement.

use serde::{Deserialize, Serialize};

use crate::identity::{AUTHENTICATED, Identity, MASTERS};

/// The attributes of a request that is authorized, in the terms of RBAC.
#[derive(Debug)]
#[non_exhaustive]
pub struct Attributes<'a> {
    /// The user.
    pub user: &'a Identity,
    /// `get`, `list`, … for resources; the lower-case method for other paths.
    pub verb: &'a str,
    /// The request's path.
    pub path: &'a str,
    /// Set for requests on resources.
    pub resource: Option<ResourceAttributes<'a>>,
}

/// The resource part of [`Attributes`].
#[derive(Clone, Copy, Debug, Default)]
pub struct ResourceAttributes<'a> {
    /// The API group; empty for the core group.
    pub group: &'a str,
    /// The API version.
    pub version: &'a str,
    /// The resource, in its plural form.
    pub resource: &'a str,
    /// The subresource; empty if there is none.
    pub subresource: &'a str,
    /// The namespace; empty for cluster-scoped requests and across namespaces.
    pub namespace: &'a str,
    /// The name of the object; empty for collections.
    pub name: &'a str,
    /// The fields whose values the field selector of a collection requires, with these values.
    pub selected_fields: &'a [(String, String)],
}

impl ResourceAttributes<'_> {
    /// Returns whether the field selector requires this value.
    pub(crate) fn selects(&self, field: &str, value: &str) -> bool {
        self.selected_fields.iter().any(|(name, required)| name == field && required == value)
    }
}

/// The decision of an [`Authorizer`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Decision {
    /// The request is allowed.
    Allow,
    /// The request is denied; the text is appended to the message of the 403 response.
    Deny(String),
}

/// A rule of a Role or ClusterRole.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PolicyRule {
    /// The allowed verbs; `*` for all.
    #[serde(deserialize_with = "strings")]
    pub verbs: Vec<String>,
    /// The API groups of the resources; `*` for all.
    #[serde(deserialize_with = "strings", skip_serializing_if = "Vec::is_empty")]
    pub api_groups: Vec<String>,
    /// The resources: `pods`, `pods/log`, `*/scale`; `*` for all.
    #[serde(deserialize_with = "strings", skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<String>,
    /// The names of the objects; all if empty.
    #[serde(deserialize_with = "strings", skip_serializing_if = "Vec::is_empty")]
    pub resource_names: Vec<String>,
    /// The paths outside of resources: `/healthz`, `/logs/*`; `*` for all.
    #[serde(
        rename = "nonResourceURLs",
        deserialize_with = "strings",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub non_resource_urls: Vec<String>,
}

/// Reads a list; stored objects contain `null` for an empty one.
fn strings<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

impl PolicyRule {
    /// Returns the rules that allow everything.
    pub fn all() -> [Self; 2] {
        let all = || vec!["*".to_owned()];
        [
            Self { verbs: all(), api_groups: all(), resources: all(), ..Self::default() },
            Self { verbs: all(), non_resource_urls: all(), ..Self::default() },
        ]
    }
}

/// The rules that apply to a user.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// The rules.
    pub rules: Vec<PolicyRule>,
    /// Why some are missing; empty if none are.
    pub error: String,
    /// Whether there are permissions that cannot be shown as rules.
    pub incomplete: bool,
}

/// Decides what an identity may do.
pub trait Authorizer: Send + Sync {
    /// Decides whether the request is allowed. Must not block.
    fn decide(&self, attributes: &Attributes<'_>) -> Decision;

    /// Returns why an allowed request is allowed, for access reviews.
    fn allow_reason(&self, attributes: &Attributes<'_>) -> Option<String> {
        let _ = attributes;
        None
    }

    /// Returns the rules that apply to `user` in `namespace`, for `SelfSubjectRulesReview`. By
    /// default those that allow everything.
    fn rules(&self, user: &Identity, namespace: &str) -> Rules {
        let _ = (user, namespace);
        Rules { rules: PolicyRule::all().into(), ..Rules::default() }
    }
}

/// Several authorizers: the first that allows a request decides.
pub(crate) struct Union(pub(crate) Vec<Box<dyn Authorizer>>);

impl Authorizer for Union {
    fn decide(&self, attributes: &Attributes<'_>) -> Decision {
        let mut reasons = Vec::new();
        for authorizer in &self.0 {
            match authorizer.decide(attributes) {
                Decision::Allow => return Decision::Allow,
                Decision::Deny(reason) if reason.is_empty() => {}
                Decision::Deny(reason) => reasons.push(reason),
            }
        }
        Decision::Deny(reasons.join("\n"))
    }

    fn allow_reason(&self, attributes: &Attributes<'_>) -> Option<String> {
        let mut authorizers = self.0.iter();
        let first = authorizers.find(|it| it.decide(attributes) == Decision::Allow)?;
        first.allow_reason(attributes)
    }

    fn rules(&self, user: &Identity, namespace: &str) -> Rules {
        let mut all = Rules::default();
        for authorizer in &self.0 {
            let Rules { rules, error, incomplete } = authorizer.rules(user, namespace);
            all.rules.extend(rules);
            all.incomplete |= incomplete;
            if !error.is_empty() && !all.error.is_empty() {
                all.error.push_str(", ");
            }
            all.error.push_str(&error);
        }
        all
    }
}

/// Allows everything to members of `system:masters`, and has no opinion about others.
pub(crate) struct Privileged;

impl Authorizer for Privileged {
    fn decide(&self, attributes: &Attributes<'_>) -> Decision {
        match attributes.user.is_in(MASTERS) {
            true => Decision::Allow,
            false => Decision::Deny(String::new()),
        }
    }

    /// As upstream, its permissions are not shown as rules.
    fn rules(&self, _: &Identity, _: &str) -> Rules {
        Rules::default()
    }
}

/// Allows nothing.
pub(crate) struct AlwaysDeny;

impl Authorizer for AlwaysDeny {
    fn decide(&self, _: &Attributes<'_>) -> Decision {
        Decision::Deny("Everything is forbidden.".to_owned())
    }

    fn rules(&self, _: &Identity, _: &str) -> Rules {
        Rules::default()
    }
}

/// An [`Authorizer`] that allows everything to authenticated users, and health checks to all.
#[derive(Clone, Copy, Debug, Default)]
pub struct AllowAuthenticated;

impl Authorizer for AllowAuthenticated {
    fn decide(&self, attributes: &Attributes<'_>) -> Decision {
        let health = || {
            ["/healthz", "/livez", "/readyz", "/version"].iter().any(|open| {
                let rest = attributes.path.strip_prefix(open);
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            })
        };
        let user = attributes.user;
        if user.is_authenticated()
            || user.is_in(AUTHENTICATED)
            || user.is_in(MASTERS)
            || (attributes.resource.is_none() && health())
        {
            Decision::Allow
        } else {
            Decision::Deny(String::new())
        }
    }
}
