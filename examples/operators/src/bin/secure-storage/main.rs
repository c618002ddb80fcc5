//! Works in phases, with a slow system outside of the cluster.
//!
//! A `SecureStorage` is an account at a storage provider whose data are encrypted with a
//! customer-managed key: create the account, wait until the provider assigns it an identity, grant
//! that identity access to the key, enable encryption. The phase is not stored: each reconcile
//! performs all phases in order, and completed ones are idempotent.
//!
//! `cargo run -p operators --bin secure-storage -- --kubeconfig FILE` uses the provider that
//! `STORAGE_API` names as `host:port`, or a fake in the same process.

mod provider;

mod fake;

#[cfg(test)]
mod tests;

use evenkeel::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use fake::FakeProvider;
use provider::{Provider, ProviderError};

const FINALIZER: &str = "storage.example.com/account";
/// The requeue interval while the provider has not completed a phase.
const RETRY_INTERVAL: Duration = Duration::from_secs(30);

/// A storage account whose data are encrypted with a customer-managed key.
#[derive(Clone, CustomResource, Debug, Deserialize, JsonSchema, Serialize)]
#[kube(group = "storage.example.com", version = "v1", kind = "SecureStorage", namespaced)]
#[kube(status = "SecureStorageStatus")]
struct SecureStorageSpec {
    /// The vault of the key.
    vault: String,
    /// The name of the key.
    key: String,
}

#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
struct SecureStorageStatus {
    #[serde(default, skip_serializing_if = "Conditions::is_empty")]
    conditions: Conditions,
    #[serde(skip_serializing_if = "Option::is_none")]
    observed_generation: Option<i64>,
    /// The identity of the account, once assigned.
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
                let message = "the provider has not assigned an identity to the account yet";
                let waiting = Condition::new("Ready", false, "WaitingForIdentity", message);
                (Ok((waiting, Action::requeue_after(RETRY_INTERVAL))), None)
            }
            // A user has to fix the spec or the provider: report it in event and status, and retry.
            Err(ProviderError::Rejected { status, message }) => {
                cx.warning_event("Rejected", &message);
                let message = format!("{status}: {message}");
                let rejected = Condition::new("Ready", false, "RejectedByProvider", &message);
                (Ok((rejected, Action::requeue_after(RETRY_INTERVAL))), None)
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
    /// Runs the phases as far as possible; returns the account's identity once all are complete.
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

/// Converts a provider error: a busy provider is retried after its `Retry-After`, other errors with
/// exponential backoff.
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
