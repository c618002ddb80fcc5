//! Reads Secrets without caching them: a `SecretCheck` checks that a Secret has the required keys.
//!
//! Caching all Secrets of a cluster would keep every password in the operator's memory. Only their
//! metadata is watched, to reconcile on changes; the reconciler reads the one Secret it needs from
//! the API server.
//!
//! `cargo run -p operators --bin secret-check -- --kubeconfig FILE`

use evenkeel::BoxError;
use evenkeel::prelude::*;
use k8s_openapi::api::core::v1::Secret;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The index of checks by their Secret.
const SECRET_INDEX: &str = "secret";

/// Keys that a Secret must have.
#[derive(Clone, CustomResource, Debug, Deserialize, JsonSchema, Serialize)]
#[kube(group = "security.example.com", version = "v1", kind = "SecretCheck", namespaced)]
#[kube(status = "SecretCheckStatus")]
struct SecretCheckSpec {
    /// The Secret, in the namespace of the check.
    secret: String,
    /// The keys its data must have.
    keys: Vec<String>,
}

#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
struct SecretCheckStatus {
    #[serde(default, skip_serializing_if = "Conditions::is_empty")]
    conditions: Conditions,
    #[serde(skip_serializing_if = "Option::is_none")]
    observed_generation: Option<i64>,
}

struct Checks;

impl Reconciler for Checks {
    type Object = SecretCheck;

    async fn reconcile(&self, cx: &Context<SecretCheck>) -> Result<Action> {
        let Some(check) = cx.object() else { return Ok(Action::done()) };
        let complete = match cx.client().live().get::<Secret>(&secret_of(&check)).await? {
            Some(secret) => complete(&check.spec, &secret),
            None => Condition::new("Complete", false, "NoSecret", "the Secret does not exist"),
        };
        cx.status(&check).condition(complete).write().await?;
        Ok(Action::done())
    }
}

/// Key names are not secret; values must not appear in status, events or logs.
fn complete(spec: &SecretCheckSpec, secret: &Secret) -> Condition {
    let has = |key: &&String| secret.data.as_ref().is_some_and(|data| data.contains_key(*key));
    let missing: Vec<&str> = spec.keys.iter().filter(|key| !has(key)).map(String::as_str).collect();
    match missing.is_empty() {
        true => Condition::new("Complete", true, "AllKeys", "the Secret has every key"),
        false => {
            Condition::new("Complete", false, "MissingKeys", &format!("no {}", missing.join(", ")))
        }
    }
}

fn secret_of(check: &SecretCheck) -> Key {
    Key::of(check).sibling(&check.spec.secret)
}

fn register(manager: &Manager) -> Result<(), BoxError> {
    manager.index::<SecretCheck>(SECRET_INDEX, |check| vec![secret_of(check).to_string()])?;
    manager
        .controller(Checks)
        .watch(Watch::mapped_metadata::<Secret>(|meta, cx| {
            cx.select::<SecretCheck>().index(SECRET_INDEX, meta.key().as_str()).keys()
        }))
        .register()?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    let manager = Manager::builder("secret-check")
        .version(env!("CARGO_PKG_VERSION"))
        .crd::<SecretCheck>()
        .connect_with_args()
        .await?;
    register(&manager)?;
    Ok(manager.run().await?)
}

#[cfg(test)]
mod tests {
    use evenkeel_test::{Rule, TestCluster};
    use serde_json::json;

    use super::*;

    /// The required permissions. RBAC cannot restrict `list` and `watch` to metadata.
    const RULES: &[Rule] = &[
        Rule::new("security.example.com", &["secretchecks"], &["list", "watch"]),
        Rule::new("security.example.com", &["secretchecks/status"], &["patch"]),
        Rule::new("", &["secrets"], &["get", "list", "watch"]),
    ];

    fn complete(check: &SecretCheck) -> Option<(String, String)> {
        let condition = check.status.as_ref()?.conditions.get("Complete")?;
        Some((condition.status.clone(), condition.message.clone()))
    }

    #[tokio::test]
    async fn check_follows_its_secret_and_caches_only_metadata() {
        let mut cluster = TestCluster::builder().virtual_time(1).start().await;
        cluster.install::<SecretCheck>().await.unwrap();
        let manager = cluster.manager_with("secret-check", RULES).await;
        register(&manager).unwrap();
        cluster.run(&manager);

        let client = cluster.client();
        let check = cluster.parse::<SecretCheck>(
            "metadata: {name: db}\nspec: {secret: login, keys: [username, password]}",
        );
        client.create(&check).await.unwrap();
        let key = Key::of(&check);
        let is = |status: &'static str, message: &'static str| {
            move |check: &SecretCheck| {
                complete(check) == Some((status.to_owned(), message.to_owned()))
            }
        };
        cluster.eventually(&key, is("False", "the Secret does not exist")).await;

        let secret =
            cluster.parse::<Secret>("metadata: {name: login}\nstringData: {username: ada}");
        client.create(&secret).await.unwrap();
        cluster.eventually(&key, is("False", "no password")).await;

        let change = Patch::Merge(json!({"stringData": {"password": "correct horse"}}));
        client.patch::<Secret>(&key.sibling("login"), &change).await.unwrap();
        cluster.eventually(&key, is("True", "the Secret has every key")).await;

        let kind = evenkeel::Kind::of::<Secret>();
        let cached = manager.cache().get(&kind, &key.sibling("login")).unwrap().unwrap();
        let error = cached.decode::<Secret>().unwrap_err().to_string();
        assert!(error.contains("metadata-only"), "its data is not in the cache: {error}");
        cluster.stop().await;
    }

    #[test]
    fn secret_check_survives_faults() {
        evenkeel_sim::operator("secret-check", register)
            .install::<SecretCheck>()
            .sample(
                "{apiVersion: security.example.com/v1, kind: SecretCheck, metadata: {name: db}, \
                 spec: {secret: login, keys: [username, password]}}",
            )
            .sample(
                "{apiVersion: v1, kind: Secret, metadata: {name: login}, \
                 stringData: {username: ada-of-lovelace}}",
            )
            .patch::<Secret>("login", json!({"stringData": {"password": "correct horse"}}))
            .delete::<Secret>("login")
            .check();
    }
}
