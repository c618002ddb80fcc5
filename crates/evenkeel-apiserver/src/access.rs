//! The access trail: which permissions the requests of each user needed.
//!
//! From it follow the roles that an operator needs, the permissions that it was granted and never
//! used, and the requests that it was denied.

mod report;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

pub use self::report::{AccessReport, CountedAccess, MinimalRole};

use crate::authz::{Attributes, Authorizer, Decision};

/// The number of different accesses that are recorded.
const MAX_ACCESSES: usize = 10_000;

/// The number of names that are recorded of each access.
const MAX_NAMES: usize = 16;

/// Records the accesses of all requests of a server. Clones share the records.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// use evenkeel_apiserver::{AccessTrail, ApiServer};
///
/// let trail = AccessTrail::default();
/// let server = ApiServer::builder().rbac().record_access(trail.clone()).build().await?;
/// // … requests of an operator …
/// let report = trail.report("system:serviceaccount:default:operator", &[]);
/// assert!(report.is_least_privilege());
/// # drop(server);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct AccessTrail(Arc<Mutex<Recorded>>);

#[derive(Debug, Default)]
struct Recorded {
    /// The requests by user and access.
    users: BTreeMap<String, BTreeMap<Access, Requests>>,
    /// The number of different accesses of all users.
    accesses: usize,
    /// The number of requests that were not recorded because there were too many accesses.
    dropped: u64,
}

/// The requests of one access.
#[derive(Clone, Debug, Default)]
struct Requests {
    count: u64,
    /// The names of their objects, or that there are too many, or requests without a name.
    names: Names,
}

#[derive(Clone, Debug)]
enum Names {
    Known(BTreeSet<String>),
    Any,
}

impl Default for Names {
    fn default() -> Self {
        Self::Known(BTreeSet::new())
    }
}

impl Requests {
    /// Adds other requests of the same access.
    fn merge(&mut self, other: Self) {
        self.count = self.count.saturating_add(other.count);
        match (&mut self.names, other.names) {
            (Names::Known(names), Names::Known(others)) => names.extend(others),
            _ => self.names = Names::Any,
        }
    }

    fn add(&mut self, name: &str) {
        self.count = self.count.saturating_add(1);
        let Names::Known(names) = &mut self.names else { return };
        if names.contains(name) {
            return;
        }
        if name.is_empty() || names.len() == MAX_NAMES {
            self.names = Names::Any;
        } else {
            names.insert(name.to_owned());
        }
    }
}

/// What requests of the same kind needed, in the terms of RBAC.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Access {
    /// The API group; empty for the core group.
    pub api_group: String,
    /// The resource with its subresource (`pods/status`); empty for other paths.
    pub resource: String,
    /// The verb.
    pub verb: String,
    /// The namespace; empty for cluster-scoped requests and across namespaces.
    pub namespace: String,
    /// The path of a request that is not on a resource; else empty.
    #[serde(rename = "nonResourceURL", default, skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// Whether the request was allowed.
    pub allowed: bool,
}

impl AccessTrail {
    /// Records a decision of the authorizer about a request.
    pub(crate) fn record(&self, attributes: &Attributes<'_>, allowed: bool) {
        let access = Access::new(attributes, allowed);
        let recorded = &mut *self.0.lock();
        let user = &attributes.user.user;
        let name = attributes.resource.as_ref().map_or("", |resource| resource.name);
        if let Some(requests) =
            recorded.users.get_mut(user).and_then(|accesses| accesses.get_mut(&access))
        {
            requests.add(name);
        } else if recorded.accesses < MAX_ACCESSES {
            recorded.accesses += 1;
            let accesses = recorded.users.entry(user.clone()).or_default();
            accesses.entry(access).or_default().add(name);
        } else {
            recorded.dropped = recorded.dropped.saturating_add(1);
        }
    }

    /// Returns the number of requests that were not recorded because there were more than 10,000
    /// different accesses.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.0.lock().dropped
    }

    /// Returns the recorded users.
    #[must_use]
    pub fn users(&self) -> Vec<String> {
        self.0.lock().users.keys().cloned().collect()
    }

    /// Returns the namespaces of the requests of `user`; empty for the cluster scope.
    pub(crate) fn namespaces(&self, user: &str) -> BTreeSet<String> {
        self.of(user).into_keys().map(|access| access.namespace).collect()
    }

    /// Returns the accesses of `user` with their requests.
    fn of(&self, user: &str) -> BTreeMap<Access, Requests> {
        self.0.lock().users.get(user).cloned().unwrap_or_default()
    }
}

/// An authorizer whose decisions are recorded.
pub(crate) struct Recording<'a> {
    pub(crate) authorizer: &'a dyn Authorizer,
    pub(crate) trail: &'a AccessTrail,
    /// Which decisions are recorded: that a request is allowed, or that it is denied.
    pub(crate) allowed: bool,
}

impl Authorizer for Recording<'_> {
    fn decide(&self, attributes: &Attributes<'_>) -> Decision {
        let decision = self.authorizer.decide(attributes);
        if (decision == Decision::Allow) == self.allowed {
            self.trail.record(attributes, self.allowed);
        }
        decision
    }
}

impl Access {
    fn new(attributes: &Attributes<'_>, allowed: bool) -> Self {
        let verb = attributes.verb.to_owned();
        let Some(resource) = &attributes.resource else {
            return Self {
                api_group: String::new(),
                resource: String::new(),
                verb,
                namespace: String::new(),
                path: attributes.path.to_owned(),
                allowed,
            };
        };
        Self {
            api_group: resource.group.to_owned(),
            resource: match resource.subresource {
                "" => resource.resource.to_owned(),
                subresource => format!("{}/{subresource}", resource.resource),
            },
            verb,
            namespace: resource.namespace.to_owned(),
            path: String::new(),
            allowed,
        }
    }

    /// Returns whether every authenticated user has this permission by the bootstrap roles: that
    /// of discovery, of health checks and of reviews of its own permissions.
    fn is_granted_to_all(&self) -> bool {
        if self.resource.is_empty() {
            let prefixes =
                ["/api", "/apis", "/openapi", "/healthz", "/livez", "/readyz", "/version"];
            return self.verb == "get"
                && prefixes.iter().any(|prefix| {
                    let rest = self.path.strip_prefix(prefix);
                    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
                });
        }
        matches!(&*self.api_group, "authorization.k8s.io" | "authentication.k8s.io")
            && self.resource.starts_with("selfsubject")
    }
}
