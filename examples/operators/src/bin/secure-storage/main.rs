//! Works in phases, with a system outside of the cluster that takes its time.
//!
//! A `SecureStorage` is an account at a storage provider whose data are encrypted with a key of
//! one's own: create the account, wait until the provider has given it an identity, grant that
//! identity the key, enable encryption. Which phase comes next is never remembered: each reconcile
//! asks for all of it, in order, and what is done already answers at once.
//!
//! `cargo run -p operators --bin secure-storage -- --kubeconfig FILE` talks to the provider that
//! `STORAGE_API` names as `host:port`, or to a stand-in in the same process.

mod provider;

mod fake;

#[cfg(test)]
mod tests;

use evenkeel::manager::RegisterError;
use evenkeel::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use fake::FakeProvider;
use provider::{Provider, ProviderError};

const FINALIZER: &str = "storage.example.com/account";
/// What takes minutes outside is not asked for every second.
const RETRY_INTERVAL: Duration = Duration::from_secs(30);

/// A storage account whose data are encrypted with a key of one's own.
#[derive(Clone, CustomResource, Debug, Deserialize, JsonSchema, Serialize)]
#[kube(group = "storage.example.com", version = "v1", kind = "SecureStorage", namespaced)]
#[kube(status = "SecureStorageStatus")]
struct SecureStorageSpec {
    /// The vault that has the key.
    vault: String,
    /// The key.
    key: String,
}

#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
struct SecureStorageStatus {
    #[serde(default, skip_serializing_if = "Conditions::is_empty")]
    conditions: Conditions,
    #[serde(skip_serializing_if = "Option::is_none")]
    observed_generation: Option<i64>,
    /// Who the account is to the vault, once known.
    #[serde(skip_serializing_if = "Option::is_none")]
    principal: Option<String>,
}

struct SecureStorages {
    provider: Provider,
}

impl Reconciler for SecureStorages {
    type Object = SecureStorage;

    async fn reconcile(&self, cx: &Context<SecureStorage>) -> Result<Action> {
        let account = cx.key().as_str().replace('/', "-");
        let clean_up = async |_| self.provider.remove_account(&account).await.map_err(into_error);
        let Some(storage) = cx.finalize(FINALIZER, clean_up).await? else {
            return Ok(Action::done());
        };
        let (outcome, principal) = match self.ensure(&storage.spec, &account).await {
            Ok(Some(principal)) => {
                let ready =
                    Condition::new("Ready", true, "Encrypted", "the account uses its own key");
                (Ok((ready, Action::done())), Some(principal))
            }
            Ok(None) => {
                let message = "the provider has not given the account an identity yet";
                let waiting = Condition::new("Ready", false, "WaitingForIdentity", message);
                (Ok((waiting, Action::requeue_after(RETRY_INTERVAL))), None)
            }
            // Somebody has to do something, at the provider or in the spec: it is told where they
            // look, and asked for again.
            Err(ProviderError::Refused { status, message }) => {
                cx.warning_event("Refused", &message);
                let message = format!("{status}: {message}");
                let refused = Condition::new("Ready", false, "RefusedByProvider", &message);
                (Ok((refused, Action::requeue_after(RETRY_INTERVAL))), None)
            }
            Err(error) => (Err(error), None),
        };
        let (condition, action) = outcome.map_err(into_error)?;
        let status = cx.status(&storage).set(|status| {
            status.principal = principal.or(status.principal.take());
        });
        status.condition(condition).write().await?;
        Ok(action)
    }
}

impl SecureStorages {
    /// Goes as far as it can; gives the account's identity once all is done.
    async fn ensure(
        &self,
        spec: &SecureStorageSpec,
        name: &str,
    ) -> Result<Option<String>, ProviderError> {
        let account = self.provider.ensure_account(name).await?;
        let Some(principal) = account.principal else { return Ok(None) };
        self.provider.ensure_access(&spec.vault, &principal).await?;
        let wanted = format!("{}/{}", spec.vault, spec.key);
        if account.key.as_ref() != Some(&wanted) {
            self.provider.enable_encryption(name, &wanted).await?;
        }
        Ok(Some(principal))
    }
}

/// A provider that is busy says when to come again; one that cannot be reached is tried at growing
/// intervals, as every error is.
fn into_error(error: ProviderError) -> evenkeel::Error {
    match error {
        ProviderError::Busy { retry } => {
            evenkeel::retry_after(error, retry.unwrap_or(RETRY_INTERVAL))
        }
        error => error.into(),
    }
}

fn register(manager: &Manager, provider: Provider) -> Result<(), RegisterError> {
    manager.controller(SecureStorages { provider }).workers(4).register()?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    let manager = Manager::from_args("secure-storage").await?;
    manager.client().install_crd::<SecureStorage>().await?;
    let provider = match std::env::var("STORAGE_API") {
        Ok(address) => Provider::at(&address),
        Err(_) => Provider::fake(&FakeProvider::new(RETRY_INTERVAL)),
    };
    register(&manager, provider)?;
    Ok(manager.run().await?)
}
