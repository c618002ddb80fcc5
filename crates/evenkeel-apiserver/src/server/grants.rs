//! Permissions that the embedding program grants.

use super::ApiServer;
use crate::authz::PolicyRule;

impl ApiServer {
    /// Grants rules to a user, in all namespaces, besides those of roles, if the server authorizes
    /// by RBAC. For users of the same process: no object shows these rules, and they are not stored.
    pub fn grant(&self, user: &str, rules: impl IntoIterator<Item = PolicyRule>) {
        self.core.rbac.grant(user, rules);
    }
}
