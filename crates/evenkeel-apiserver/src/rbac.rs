//! RBAC: decides requests by the roles and bindings that are stored.
//!
//! The store calls the hooks of the four kinds with each commit, so a binding is effective before its
//! create returns.

mod escalation;
mod policy;
mod role;
mod rule;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use parking_lot::RwLock;

pub(crate) use self::escalation::uncovered;
use self::policy::Policy;
pub(crate) use self::policy::{Content, Kind, Missing, RoleRef};
use self::role::Request;
use crate::authz::{Attributes, Authorizer, Decision, PolicyRule, Rules};
use crate::identity::{Identity, MASTERS};
use crate::storage::Key;

/// The RBAC authorizer. Clones share one policy.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rbac(Arc<RwLock<Policy>>);

impl Rbac {
    /// Inserts or replaces a role or binding.
    pub(crate) fn put(&self, kind: Kind, key: &Key, content: Content) {
        self.0.write().put(kind, key, content);
    }

    /// Grants rules to a user in all namespaces, without a binding.
    pub(crate) fn grant(&self, user: &str, rules: impl IntoIterator<Item = PolicyRule>) {
        self.0.write().granted.entry(user.to_owned()).or_default().extend(rules);
    }

    /// Removes a role or binding.
    pub(crate) fn remove(&self, kind: Kind, key: &Key) {
        self.0.write().remove(kind, key.namespace(), key.name());
    }

    /// Returns the rules of `user` in `namespace`, and why some are missing.
    fn rules_and_errors(&self, user: &Identity, namespace: &str) -> (Vec<PolicyRule>, Vec<String>) {
        let (mut rules, mut errors) = (Vec::new(), Vec::new());
        let mut seen = Vec::new();
        self.0.read().visit(user, namespace, |binding, found| {
            // A binding may apply to the user and to several of its groups.
            if !seen.iter().any(|other| Arc::ptr_eq(other, binding)) {
                seen.push(binding.clone());
                match found {
                    Ok(role) => rules.extend_from_slice(&role.rules),
                    Err(missing) => errors.push(missing.to_string()),
                }
            }
            true
        });
        (rules, errors)
    }

    /// Returns the rules of the role of a binding in `namespace`.
    pub(crate) fn rules_of(
        &self,
        role: &RoleRef,
        namespace: &str,
    ) -> Result<Arc<[PolicyRule]>, Missing> {
        self.0.read().rules_of(role, namespace)
    }

    /// Checks that `user` has all permissions of `granted`; returns the message of the error
    /// otherwise.
    pub(crate) fn confirm_no_escalation(
        &self,
        user: &Identity,
        namespace: &str,
        granted: &[PolicyRule],
    ) -> Result<(), String> {
        let (own, errors) = self.rules_and_errors(user, namespace);
        escalation::confirm_no_escalation(user, &own, &errors, granted)
    }
}

impl Authorizer for Rbac {
    fn decide(&self, attributes: &Attributes<'_>) -> Decision {
        if attributes.user.is_in(MASTERS) {
            return Decision::Allow;
        }
        let (request, policy) = (Request::new(attributes), self.0.read());
        let granted = policy.granted.get(&attributes.user.user);
        if granted.is_some_and(|rules| rules.iter().any(|rule| rule.allows(attributes))) {
            return Decision::Allow;
        }
        let (mut allowed, mut errors) = (false, Vec::new());
        policy.visit(attributes.user, namespace_of(attributes), |_, role| {
            match role {
                Ok(role) => allowed = role.allows(&request),
                Err(missing) => errors.push(missing),
            }
            !allowed
        });
        drop(policy);
        if allowed { Decision::Allow } else { Decision::Deny(deny_reason(&errors)) }
    }

    fn allow_reason(&self, attributes: &Attributes<'_>) -> Option<String> {
        if attributes.user.is_in(MASTERS) {
            return None;
        }
        let (request, mut reason) = (Request::new(attributes), None);
        self.0.read().visit(attributes.user, namespace_of(attributes), |binding, role| {
            if role.is_ok_and(|role| role.allows(&request)) {
                let source = binding.describe(attributes.user);
                reason = Some(format!("RBAC: allowed by {source}"));
            }
            reason.is_none()
        });
        reason
    }

    fn rules(&self, user: &Identity, namespace: &str) -> Rules {
        let (rules, errors) = self.rules_and_errors(user, namespace);
        let error = if errors.is_empty() { String::new() } else { aggregate(errors) };
        Rules { rules, error, incomplete: false }
    }
}

fn namespace_of<'a>(attributes: &Attributes<'a>) -> &'a str {
    attributes.resource.map_or("", |resource| resource.namespace)
}

fn deny_reason(errors: &[Missing]) -> String {
    match errors {
        [] => String::new(),
        errors => format!("RBAC: {}", aggregate(errors.iter().map(Missing::to_string))),
    }
}

/// Formats errors as Go's `errors.NewAggregate`, each once.
fn aggregate(errors: impl IntoIterator<Item = String>) -> String {
    let mut messages: Vec<String> = Vec::new();
    for message in errors {
        if !messages.contains(&message) {
            messages.push(message);
        }
    }
    match messages.as_slice() {
        [one] => one.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}
