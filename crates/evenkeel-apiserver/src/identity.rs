//! The identity of a caller.
//!
//! The listener and the token file create identities; authorization and admission only read them.
//! An [`Identity`] already contains the group of all authenticated (or unauthenticated) callers, so
//! later stages need not add it.

pub mod token_file;
pub mod x509;

use std::collections::BTreeMap;

pub use evenkeel_pki::MASTERS;
use evenkeel_schema::names;

/// The name of a caller that presented no credentials.
pub const ANONYMOUS: &str = "system:anonymous";
/// The group of every caller that presented no credentials.
pub const UNAUTHENTICATED: &str = "system:unauthenticated";
/// The group of every caller whose credentials were accepted.
pub const AUTHENTICATED: &str = "system:authenticated";
/// The [`Identity::extra`] key that names the credential itself, such as a certificate's digest.
pub const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// Precedes namespace and name in the user names of service accounts.
const SERVICE_ACCOUNT: &str = "system:serviceaccount:";

/// The caller, as authorization, admission webhooks and `SelfSubjectReview` see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Identity {
    /// The user name.
    pub user: String,
    /// Distinguishes users with the same name at different times; often empty.
    pub uid: String,
    /// The groups, in the order of the credential.
    pub groups: Vec<String>,
    /// Further attributes from the authenticator.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl Identity {
    /// Creates the identity of a caller whose credentials were accepted.
    pub fn authenticated(
        user: impl Into<String>,
        groups: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        let groups = groups.into_iter().map(Into::into).collect();
        Self { user: user.into(), groups, ..Self::default() }.with_authenticated_group()
    }

    /// Returns the administrator, the user of the server's own kubeconfig.
    pub fn admin() -> Self {
        Self::authenticated("admin", [MASTERS])
    }

    /// Creates the identity of a service account, without its uid.
    pub fn service_account(namespace: &str, name: &str) -> Self {
        service_account_identity(namespace, name, "")
    }

    /// Returns the identity of a caller without credentials.
    pub fn anonymous() -> Self {
        Self {
            user: ANONYMOUS.to_owned(),
            groups: vec![UNAUTHENTICATED.to_owned()],
            ..Self::default()
        }
    }

    /// Returns the identity of the server's own writes.
    pub(crate) fn apiserver() -> Self {
        Self::authenticated("system:apiserver", [MASTERS])
    }

    /// Returns whether the caller is authenticated.
    pub fn is_authenticated(&self) -> bool {
        !self.is_in(UNAUTHENTICATED)
    }

    /// Returns whether the caller is in `group`.
    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|own| own == group)
    }

    /// Adds [`AUTHENTICATED`], unless the credential already contains either of the two groups.
    pub(crate) fn with_authenticated_group(mut self) -> Self {
        let decided =
            self.user == ANONYMOUS || self.is_in(AUTHENTICATED) || self.is_in(UNAUTHENTICATED);
        if !decided {
            self.groups.push(AUTHENTICATED.to_owned());
        }
        self
    }
}

/// Returns the user name of a service account.
pub(crate) fn service_account_name(namespace: &str, name: &str) -> String {
    format!("{SERVICE_ACCOUNT}{namespace}:{name}")
}

/// Returns the groups of the service accounts of a namespace.
pub(crate) fn service_account_groups(namespace: &str) -> Vec<String> {
    vec!["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")]
}

/// Returns the identity of a service account.
pub(crate) fn service_account_identity(namespace: &str, name: &str, uid: &str) -> Identity {
    let groups = service_account_groups(namespace);
    let user = service_account_name(namespace, name);
    Identity { uid: uid.to_owned(), ..Identity::authenticated(user, groups) }
}

/// Returns the namespace and name of the service account with this user name.
pub(crate) fn service_account(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix(SERVICE_ACCOUNT)?.split_once(':')?;
    let valid = names::label_name(namespace, false).is_empty()
        && names::subdomain_name(name, false).is_empty();
    valid.then_some((namespace, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authenticated_group_is_appended_last() {
        let identity = Identity::authenticated("bob", ["dev", "ops"]);
        assert_eq!(identity.groups, ["dev", "ops", AUTHENTICATED]);
        assert_eq!(Identity::admin().groups, [MASTERS, AUTHENTICATED]);
    }

    #[test]
    fn credential_with_either_system_group_is_unchanged() {
        let twice = Identity::authenticated("bob", [AUTHENTICATED, "dev"]);
        assert_eq!(twice.groups, [AUTHENTICATED, "dev"]);
        let contrary = Identity::authenticated("bob", [UNAUTHENTICATED]);
        assert_eq!(contrary.groups, [UNAUTHENTICATED]);
        let anonymous = Identity::authenticated(ANONYMOUS, ["dev"]);
        assert_eq!(anonymous.groups, ["dev"]);
        assert_eq!(Identity::anonymous().groups, [UNAUTHENTICATED]);
    }
}
