//! The service account of the operator, with the permissions of its manifests.

use anyhow::Context as _;
use evenkeel::k8s_openapi::api::authentication::v1::TokenRequest;
use evenkeel::k8s_openapi::api::core::v1::ServiceAccount;
use evenkeel::kube::Api;
use evenkeel::kube::api::PostParams;
use serde_json::{Value, json};

use crate::apply;
use crate::manifests::model::Model;
use crate::manifests::objects;
use crate::manifests::settings::Settings;
use crate::target::Connection;

/// The kinds of the manifests that are needed.
const KINDS: &[&str] =
    &["Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"];

/// Applies the service account and its permissions.
///
/// # Errors
/// If an object is rejected.
pub(crate) async fn prepare(
    admin: &Connection,
    model: &Model,
    settings: &Settings,
) -> anyhow::Result<()> {
    let documents = objects::all(model, settings);
    let mut objects: Vec<Value> = documents
        .into_iter()
        .map(|document| document.object)
        .filter(|object| object["kind"].as_str().is_some_and(|kind| KINDS.contains(&kind)))
        .collect();
    if model.webhooks.is_some() {
        objects.extend(webhook_role(model, settings));
    }
    apply::apply_quietly(admin, &objects).await
}

/// Returns the role that lets the operator install its webhooks with a URL on this machine. In a
/// cluster the manifests install them.
fn webhook_role(model: &Model, settings: &Settings) -> [Value; 2] {
    let name = format!("{}-development", model.name);
    let verbs = ["create", "get", "patch", "update"];
    let rule = |group: &str, resources: &[&str]| json!({"apiGroups": [group], "resources": resources, "verbs": verbs});
    let configurations = ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"];
    [
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": name},
            "rules": [
                rule("admissionregistration.k8s.io", &configurations),
                rule("apiextensions.k8s.io", &["customresourcedefinitions"]),
            ],
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name,
            },
            "subjects": [{
                "kind": "ServiceAccount", "name": model.name, "namespace": settings.namespace,
            }],
        }),
    ]
}

/// Returns the administrator's kubeconfig with a token of the service account instead of its
/// credentials. Its namespace is that of the operator.
///
/// # Errors
/// If there is no such service account.
pub(crate) async fn kubeconfig(
    admin: &Connection,
    kubeconfig: &str,
    model: &Model,
) -> anyhow::Result<String> {
    let accounts = Api::<ServiceAccount>::namespaced(admin.client.clone(), &model.namespace);
    let request = TokenRequest::default();
    let token = accounts.create_token_request(&model.name, &PostParams::default(), &request).await;
    let token = token.context("cannot create a token of the service account")?;
    let token = token.status.and_then(|status| status.token).unwrap_or_default();
    let mut config: Value =
        serde_saphyr::from_str(kubeconfig).context("cannot read the kubeconfig")?;
    config["users"][0]["user"] = json!({"token": token});
    config["contexts"][0]["context"]["namespace"] = model.namespace.clone().into();
    // JSON is YAML.
    Ok(config.to_string())
}
