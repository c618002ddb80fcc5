//! The signer of tokens in Secrets, for the controller that fills them.

use std::sync::Arc;

use crate::context::Core;

/// Signs the tokens in Secrets of service accounts, as the token controller of
/// kube-controller-manager does with the same key.
#[derive(Clone)]
pub struct LegacyTokenSigner(Arc<Core>);

impl LegacyTokenSigner {
    pub(super) fn new(core: Arc<Core>) -> Self {
        Self(core)
    }

    /// Returns the token of the service account with this name and uid, for the Secret `secret`.
    pub fn sign(&self, namespace: &str, name: &str, uid: &str, secret: &str) -> Option<String> {
        self.0.authenticator.service_accounts.issue_legacy(namespace, (name, uid), secret)
    }
}

impl std::fmt::Debug for LegacyTokenSigner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LegacyTokenSigner")
    }
}
