//! The roles and bindings of the cluster, indexed by subject: a decision costs a lookup for the user
//! and for each of its groups, and visits the bindings that name them.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use foldhash::fast::RandomState;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::role::{Role, Roles};
use crate::authz::PolicyRule;
use crate::identity::Identity;
use crate::storage::Key;

/// The four kinds of RBAC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Role,
    ClusterRole,
    RoleBinding,
    ClusterRoleBinding,
}

/// What decisions need of a role or binding.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Content {
    /// Rules that do not decode grant nothing.
    #[serde(deserialize_with = "valid")]
    rules: Vec<PolicyRule>,
    #[serde(deserialize_with = "valid_or_default")]
    role_ref: RoleRef,
    #[serde(deserialize_with = "valid")]
    subjects: Vec<Subject>,
}

/// Reads a list without the elements that do not decode.
fn valid<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    let values = Value::deserialize(deserializer)?;
    let values = values.as_array().into_iter().flatten();
    Ok(values.filter_map(|value| T::deserialize(value).ok()).collect())
}

fn valid_or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned + Default,
{
    Ok(T::deserialize(Value::deserialize(deserializer)?).unwrap_or_default())
}

/// All roles and bindings.
#[derive(Debug, Default)]
pub(super) struct Policy {
    roles: Roles,
    /// By namespace; ClusterRoleBindings have none.
    bindings: HashMap<String, Bindings, RandomState>,
    /// By user, without bindings.
    pub(super) granted: HashMap<String, Vec<PolicyRule>, RandomState>,
}

/// The bindings of one namespace, or of the cluster.
#[derive(Debug, Default)]
struct Bindings {
    by_name: HashMap<String, Arc<Binding>, RandomState>,
    by_user: HashMap<String, Vec<Arc<Binding>>, RandomState>,
    by_group: HashMap<String, Vec<Arc<Binding>>, RandomState>,
}

/// A RoleBinding, or a ClusterRoleBinding without a namespace.
#[derive(Debug)]
pub(super) struct Binding {
    namespace: String,
    name: String,
    role: RoleRef,
    /// The slot of the role; `None` if the kind of the reference is unknown.
    slot: Option<usize>,
    subjects: Vec<Subject>,
}

/// The role of a binding.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct RoleRef {
    pub(crate) api_group: String,
    pub(crate) kind: String,
    pub(crate) name: String,
}

/// A subject of a binding.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Subject {
    kind: String,
    name: String,
    namespace: String,
}

impl RoleRef {
    /// Returns the role of a binding.
    pub(crate) fn of(binding: &Value) -> Self {
        binding.get("roleRef").and_then(|role| Self::deserialize(role).ok()).unwrap_or_default()
    }

    /// Returns the namespace of the role, given that of the binding; `None` if the kind is unknown.
    fn namespace<'a>(&self, binding_namespace: &'a str) -> Option<&'a str> {
        match self.kind.as_str() {
            "Role" => Some(binding_namespace),
            "ClusterRole" => Some(""),
            _ => None,
        }
    }

    fn missing(&self) -> Missing {
        match self.kind.as_str() {
            "Role" => Missing::Role(self.name.clone()),
            "ClusterRole" => Missing::ClusterRole(self.name.clone()),
            _ => Missing::Kind(self.kind.clone()),
        }
    }
}

impl Subject {
    /// Returns the user name that the subject stands for, unless it is a group.
    fn user(&self, binding_namespace: &str) -> Option<String> {
        match self.kind.as_str() {
            "User" => Some(self.name.clone()),
            "ServiceAccount" => {
                let namespace = self.namespace_or(binding_namespace);
                let named = !namespace.is_empty();
                named.then(|| format!("system:serviceaccount:{namespace}:{}", self.name))
            }
            _ => None,
        }
    }

    fn namespace_or<'a>(&'a self, binding_namespace: &'a str) -> &'a str {
        if self.namespace.is_empty() { binding_namespace } else { &self.namespace }
    }

    fn applies_to(&self, user: &Identity, binding_namespace: &str) -> bool {
        match self.kind.as_str() {
            "Group" => user.is_in(&self.name),
            _ => self.user(binding_namespace).is_some_and(|name| name == user.user),
        }
    }
}

impl Policy {
    /// Inserts or replaces an object.
    pub(super) fn put(&mut self, kind: Kind, key: &Key, content: Content) {
        let (namespace, name) = (key.namespace(), key.name());
        match kind {
            Kind::Role | Kind::ClusterRole => self.roles.put(namespace, name, content.rules),
            Kind::RoleBinding | Kind::ClusterRoleBinding => {
                let Content { role_ref: role, subjects, .. } = content;
                // Before the last version is removed, so that the slot of the same role stays.
                let of_role = role.namespace(namespace);
                let slot = of_role.map(|of_role| self.roles.bind(of_role, &role.name));
                self.remove(kind, namespace, name);
                let (own, name) = (namespace.to_owned(), name.to_owned());
                let binding = Binding { namespace: own, name, role, slot, subjects };
                let bindings = self.bindings.entry(namespace.to_owned()).or_default();
                bindings.insert(Arc::new(binding));
            }
        }
    }

    /// Removes an object.
    pub(super) fn remove(&mut self, kind: Kind, namespace: &str, name: &str) {
        match kind {
            Kind::Role | Kind::ClusterRole => self.roles.remove(namespace, name),
            Kind::RoleBinding | Kind::ClusterRoleBinding => {
                let Some(bindings) = self.bindings.get_mut(namespace) else { return };
                let removed = bindings.remove(name);
                if bindings.by_name.is_empty() {
                    self.bindings.remove(namespace);
                }
                if let Some(Binding { role, namespace, .. }) = removed.as_deref()
                    && let Some(of_role) = role.namespace(namespace)
                {
                    self.roles.unbind(of_role, &role.name);
                }
            }
        }
    }

    /// Returns the rules of the role of a binding in `namespace`, or why there are none.
    pub(super) fn rules_of(
        &self,
        role: &RoleRef,
        namespace: &str,
    ) -> Result<Arc<[PolicyRule]>, Missing> {
        let found =
            role.namespace(namespace).and_then(|of_role| self.roles.get(of_role, &role.name));
        found.map(|found| found.rules.clone()).ok_or_else(|| role.missing())
    }

    /// Calls `visit` with the role of each binding that applies to `user` in `namespace` or in the
    /// cluster, until it returns false.
    pub(super) fn visit(
        &self,
        user: &Identity,
        namespace: &str,
        mut visit: impl FnMut(&Arc<Binding>, Result<&Role, Missing>) -> bool,
    ) {
        let scopes = [Some(""), Some(namespace).filter(|namespace| !namespace.is_empty())];
        for bindings in scopes.into_iter().flatten().filter_map(|scope| self.bindings.get(scope)) {
            let groups = user.groups.iter().filter_map(|group| bindings.by_group.get(group));
            let users = bindings.by_user.get(&user.user);
            for binding in users.into_iter().chain(groups).flatten() {
                let role = binding.slot.and_then(|slot| self.roles.at(slot));
                if !visit(binding, role.ok_or_else(|| binding.role.missing())) {
                    return;
                }
            }
        }
    }
}

impl Bindings {
    fn insert(&mut self, binding: Arc<Binding>) {
        for subject in &binding.subjects {
            let applying = match subject.kind.as_str() {
                "Group" => self.by_group.entry(subject.name.clone()),
                _ => match subject.user(&binding.namespace) {
                    Some(user) => self.by_user.entry(user),
                    None => continue,
                },
            };
            let applying = applying.or_default();
            // Ordered by name, so that the first rule that allows a request is always the same one.
            match applying.binary_search_by(|other| other.name.cmp(&binding.name)) {
                Ok(_) => {}
                Err(at) => applying.insert(at, binding.clone()),
            }
        }
        self.by_name.insert(binding.name.clone(), binding);
    }

    fn remove(&mut self, name: &str) -> Option<Arc<Binding>> {
        let binding = self.by_name.remove(name)?;
        for subject in &binding.subjects {
            let user = subject.user(&binding.namespace);
            let (index, key) = match &user {
                Some(user) => (&mut self.by_user, user),
                None => (&mut self.by_group, &subject.name),
            };
            if let Some(applying) = index.get_mut(key) {
                applying.retain(|other| other.name != name);
                if applying.is_empty() {
                    index.remove(key);
                }
            }
        }
        Some(binding)
    }
}

/// Why a binding grants nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    Role(String),
    ClusterRole(String),
    Kind(String),
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Role(name) => write!(f, "role.rbac.authorization.k8s.io {name:?} not found"),
            Self::ClusterRole(name) => {
                write!(f, "clusterrole.rbac.authorization.k8s.io {name:?} not found")
            }
            Self::Kind(kind) => write!(f, "unsupported role reference kind: {kind:?}"),
        }
    }
}

impl Binding {
    /// Describes the binding and its first subject that applies to `user`, as upstream does.
    pub(super) fn describe(&self, user: &Identity) -> String {
        let subject = self.subjects.iter().find(|it| it.applies_to(user, &self.namespace));
        let subject = subject.map_or_else(String::new, |subject| match subject.kind.as_str() {
            "ServiceAccount" => {
                let namespace = subject.namespace_or(&self.namespace);
                format!("ServiceAccount \"{}/{namespace}\"", subject.name)
            }
            kind => format!("{kind} {:?}", subject.name),
        });
        let RoleRef { kind, name: role, .. } = &self.role;
        match self.namespace.as_str() {
            "" => format!("ClusterRoleBinding {:?} of {kind} {role:?} to {subject}", self.name),
            namespace => {
                format!("RoleBinding \"{}/{namespace}\" of {kind} {role:?} to {subject}", self.name)
            }
        }
    }
}

#[cfg(test)]
impl Policy {
    pub(super) fn is_empty(&self) -> bool {
        self.bindings.is_empty() && self.roles.is_empty()
    }
}
