//! Tokens in Secrets of type `kubernetes.io/service-account-token`: filled when they are created,
//! and deleted with their service account.

use std::sync::Arc;

use evenkeel::cache::TypeOptions;
use evenkeel::{Action, BoxError, Context, Key, Manager, Reconciler, Result};
use evenkeel_apiserver::LegacyTokenSigner;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};

use crate::options::ClusterOptions;

/// The name of the token controller in `kube-controller-manager`.
pub(crate) const NAME: &str = "serviceaccount-token-controller";

pub(super) const TYPE: &str = "kubernetes.io/service-account-token";
const ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";
pub(super) const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";

/// The index of token Secrets by their service account.
const BY_ACCOUNT: &str = "token-by-service-account";

/// Registers the controller, if there is a signer: an API server in another process has its own.
pub(crate) fn register(manager: &Manager, options: &ClusterOptions) -> Result<(), BoxError> {
    let Some(signer) = options.token_signer.clone() else { return Ok(()) };
    manager.cache().index::<Secret>(BY_ACCOUNT, |secret| {
        account_of(secret).into_iter().map(|key| key.to_string()).collect()
    })?;
    manager
        .controller(Tokens { signer, root_ca: options.root_ca.clone() })
        .named(NAME)
        // The garbage collector uses the same cache, so it contains all of them.
        .cached(TypeOptions::new().cluster_wide_secrets())
        .watches::<ServiceAccount>(|account, cx| {
            cx.select::<Secret>().index(BY_ACCOUNT, &Key::of(account).to_string()).keys()
        })
        .register()?;
    Ok(())
}

/// Returns the service account of a token Secret.
pub(super) fn account_of(secret: &Secret) -> Option<Key> {
    if secret.type_.as_deref() != Some(TYPE) {
        return None;
    }
    let name = secret.metadata.annotations.as_ref()?.get(ACCOUNT_NAME)?;
    Some(Key::namespaced(secret.metadata.namespace.as_deref()?, name))
}

struct Tokens {
    signer: LegacyTokenSigner,
    root_ca: Option<String>,
}

impl Reconciler for Tokens {
    type Object = Secret;

    async fn reconcile(&self, cx: &Context<Secret>) -> Result<Action> {
        let Some(secret) = cx.object().filter(|it| it.metadata.deletion_timestamp.is_none()) else {
            return Ok(Action::done());
        };
        let Some(key) = account_of(&secret) else { return Ok(Action::done()) };
        let uid = secret.metadata.annotations.as_ref().and_then(|all| all.get(ACCOUNT_UID));
        let is_own = |account: &ServiceAccount| {
            uid.is_none_or(|uid| uid.is_empty() || account.metadata.uid.as_ref() == Some(uid))
        };
        let mut account = cx.client().get::<ServiceAccount>(&key).await?;
        if !account.as_ref().is_some_and(|account| is_own(account)) {
            // The cache may not contain a new account yet.
            account = cx.client().live().get::<ServiceAccount>(&key).await?.map(Arc::new);
        }
        match account.filter(|account| is_own(account)) {
            Some(account) => {
                if let Some(filled) = self.fill(&secret, &account) {
                    cx.client().update(&filled).await?;
                }
            }
            None => {
                cx.client().delete(&*secret).await?;
            }
        }
        Ok(Action::done())
    }
}

impl Tokens {
    /// Returns the Secret with what is missing in it.
    fn fill(&self, secret: &Secret, account: &ServiceAccount) -> Option<Secret> {
        let mut filled = secret.clone();
        let data = filled.data.get_or_insert_default();
        let namespace = secret.metadata.namespace.as_deref()?;
        let (name, uid) = (account.metadata.name.as_deref()?, account.metadata.uid.as_deref()?);
        if let Some(root_ca) = &self.root_ca {
            data.insert("ca.crt".to_owned(), ByteString(root_ca.clone().into_bytes()));
        }
        let is_missing = |data: &std::collections::BTreeMap<String, ByteString>, field: &str| {
            data.get(field).is_none_or(|value| value.0.is_empty())
        };
        if is_missing(data, "namespace") {
            data.insert("namespace".to_owned(), ByteString(namespace.as_bytes().to_vec()));
        }
        if is_missing(data, "token") {
            let secret = secret.metadata.name.as_deref()?;
            let token = self.signer.sign(namespace, name, uid, secret)?;
            data.insert("token".to_owned(), ByteString(token.into_bytes()));
        }
        if filled.data == secret.data {
            return None;
        }
        let annotations = filled.metadata.annotations.get_or_insert_default();
        annotations.insert(ACCOUNT_NAME.to_owned(), name.to_owned());
        annotations.insert(ACCOUNT_UID.to_owned(), uid.to_owned());
        Some(filled)
    }
}
