//! A service account with RBAC permissions.
//!
//! As in production: a ServiceAccount, a ClusterRole with the rules, and a ClusterRoleBinding; over
//! the network with a token of the service account.

use std::collections::BTreeMap;
use std::time::Duration;

use evenkeel::BoxError;
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::authorization::v1::SelfSubjectAccessReview;
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::rules::Rule;

/// The interval of access reviews; the RBAC authorizer sees new rules through a watch.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// How long new RBAC rules may take to become effective.
const RBAC_TIMEOUT: Duration = Duration::from_secs(30);

/// Returns the labels of the cluster-scoped objects of a test, to find those of failed tests.
pub(crate) fn labels() -> BTreeMap<String, String> {
    [("app.kubernetes.io/managed-by".to_owned(), "evenkeel-test".to_owned())].into()
}

/// A service account and its permissions.
pub(crate) struct Account {
    client: kube::Client,
    namespace: String,
    name: String,
    /// The name of the ClusterRole and of the ClusterRoleBinding.
    role: String,
}

impl Account {
    /// Creates the service account, or replaces the permissions of an existing one.
    pub(crate) async fn create(
        client: &kube::Client,
        namespace: &str,
        name: &str,
        rules: &[Rule],
    ) -> Result<Self, BoxError> {
        let role = format!("evenkeel-test:{namespace}:{name}");
        let metadata = json!({"name": role, "labels": labels()});
        let rules = Rule::cluster_role(&role, rules).rules;
        let roles = Api::<ClusterRole>::all(client.clone());
        apply(&roles, &role, json!({"metadata": metadata, "rules": rules})).await?;
        let bindings = Api::<ClusterRoleBinding>::all(client.clone());
        let binding = json!({
            "metadata": metadata,
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role,
            },
            "subjects": [{"kind": "ServiceAccount", "namespace": namespace, "name": name}],
        });
        apply(&bindings, &role, binding).await?;
        let accounts = Api::<ServiceAccount>::namespaced(client.clone(), namespace);
        apply(&accounts, name, json!({"metadata": {"name": name, "labels": labels()}})).await?;
        let (client, namespace, name) = (client.clone(), namespace.to_owned(), name.to_owned());
        Ok(Self { client, namespace, name, role })
    }

    /// Returns a client that authenticates as the service account, once `rules` are effective.
    pub(crate) async fn client(
        &self,
        config: &kube::Config,
        rules: &[Rule],
    ) -> Result<kube::Client, BoxError> {
        let accounts = Api::<ServiceAccount>::namespaced(self.client.clone(), &self.namespace);
        let (params, request) = (PostParams::default(), TokenRequest::default());
        let issued = accounts.create_token_request(&self.name, &params, &request).await?;
        let token = issued.status.ok_or("the server issued no token")?.token;
        let mut config = config.clone();
        config.auth_info = serde_json::from_value(json!({ "token": token }))?;
        let client = kube::Client::try_from(config)?;
        let deadline = Instant::now() + RBAC_TIMEOUT;
        for rule in rules {
            while !is_allowed(&client, rule).await? {
                if Instant::now() >= deadline {
                    return Err(format!("{rule:?} is not effective after {RBAC_TIMEOUT:?}").into());
                }
                sleep(POLL_INTERVAL).await;
            }
        }
        Ok(client)
    }

    /// Deletes the permissions. The ServiceAccount is deleted with its namespace.
    pub(crate) async fn remove(self) -> Result<(), kube::Error> {
        let params = DeleteParams::default();
        let bindings = Api::<ClusterRoleBinding>::all(self.client.clone());
        bindings.delete(&self.role, &params).await?;
        Api::<ClusterRole>::all(self.client).delete(&self.role, &params).await?;
        Ok(())
    }
}

async fn apply<K>(api: &Api<K>, name: &str, mut object: Value) -> Result<(), kube::Error>
where
    K: kube::Resource<DynamicType = ()> + Clone + Serialize + DeserializeOwned + std::fmt::Debug,
{
    object["apiVersion"] = K::api_version(&()).into();
    object["kind"] = K::kind(&()).into();
    api.patch(name, &PatchParams::apply("evenkeel-test").force(), &Patch::Apply(object)).await?;
    Ok(())
}

/// Whether the client has the first verb of the rule on its first resource.
async fn is_allowed(client: &kube::Client, rule: &Rule) -> Result<bool, BoxError> {
    let (Some(resource), Some(verb)) = (rule.resources.first(), rule.verbs.first()) else {
        return Ok(true);
    };
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let review = json!({"spec": {"resourceAttributes": {
        "group": rule.group, "resource": resource, "subresource": subresource, "verb": verb,
    }}});
    let review: SelfSubjectAccessReview = serde_json::from_value(review)?;
    let review = Api::all(client.clone()).create(&PostParams::default(), &review).await?;
    Ok(review.status.is_some_and(|status| status.allowed))
}
