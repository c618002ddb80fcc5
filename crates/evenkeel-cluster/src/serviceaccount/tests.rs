//! Defaults of every namespace are created and restored.

use evenkeel::{Clock, Key};
use evenkeel_apiserver::ApiServer;
use k8s_openapi::api::authentication::v1::TokenReview;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret, ServiceAccount};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;

use super::{ACCOUNTS, ROOT_CA, cleaner, tokens};
use crate::identities::AsControllers;
use crate::testing::{cluster, object, options, until, until_deleted};
use crate::{Cluster, ClusterOptions, namespace, run_controllers};

#[tokio::test(start_paused = true)]
async fn every_namespace_has_a_default_service_account() {
    let cluster = cluster(&[ACCOUNTS]).await;
    let api: Api<Namespace> = Api::all(cluster.client());
    api.create(&PostParams::default(), &object(json!({"metadata": {"name": "shop"}})))
        .await
        .unwrap();
    for name in ["default", "kube-system", "shop"] {
        until::<ServiceAccount>(&cluster, &Key::namespaced(name, "default"), |_| true).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_deleted_default_service_account_is_recreated() {
    let cluster = cluster(&[ACCOUNTS]).await;
    let key = Key::namespaced("default", "default");
    let first = until::<ServiceAccount>(&cluster, &key, |_| true).await;
    let api: Api<ServiceAccount> = Api::default_namespaced(cluster.client());
    api.delete("default", &DeleteParams::default()).await.unwrap();
    until::<ServiceAccount>(&cluster, &key, |account| account.metadata.uid != first.metadata.uid)
        .await;
}

#[tokio::test(start_paused = true)]
async fn the_root_ca_is_published_and_restored() {
    let mut options = options(&[ROOT_CA]);
    options.root_ca = Some("certificate".to_owned());
    let cluster = Cluster::start_with(&options).await.unwrap();
    let key = Key::namespaced("kube-public", "kube-root-ca.crt");
    let published =
        |map: &ConfigMap| map.data.as_ref().is_some_and(|data| data["ca.crt"] == "certificate");
    until::<ConfigMap>(&cluster, &key, published).await;
    let api: Api<ConfigMap> = Api::namespaced(cluster.client(), "kube-public");
    let patch = Patch::Merge(json!({"data": {"ca.crt": "forged"}}));
    api.patch("kube-root-ca.crt", &PatchParams::default(), &patch).await.unwrap();
    until::<ConfigMap>(&cluster, &key, published).await;
}

#[tokio::test(start_paused = true)]
async fn a_terminating_namespace_gets_no_defaults() {
    let cluster = cluster(&[ACCOUNTS, ROOT_CA, namespace::NAME]).await;
    let api: Api<Namespace> = Api::all(cluster.client());
    let shop = object(json!({"metadata": {"name": "shop"}}));
    let shop = api.create(&PostParams::default(), &shop).await.unwrap();
    until::<ServiceAccount>(&cluster, &Key::namespaced("shop", "default"), |_| true).await;
    until::<ConfigMap>(&cluster, &Key::namespaced("shop", "kube-root-ca.crt"), |_| true).await;
    api.delete("shop", &DeleteParams::default()).await.unwrap();
    until_deleted(&cluster, &shop).await;
}

/// Returns a field of a Secret as text.
fn text(secret: &Secret, field: &str) -> String {
    let value = secret.data.as_ref().and_then(|data| data.get(field));
    value.map_or_else(String::new, |value| String::from_utf8(value.0.clone()).unwrap())
}

fn token_secret(account: &str) -> Secret {
    object(json!({
        "metadata": {
            "name": "token", "annotations": {"kubernetes.io/service-account.name": account},
        },
        "type": "kubernetes.io/service-account-token",
    }))
}

#[tokio::test(start_paused = true)]
async fn token_secrets_are_filled_and_deleted_with_their_account() {
    let mut options = options(&[tokens::NAME]);
    options.root_ca = Some("certificate".to_owned());
    let cluster = Cluster::start_with(&options).await.unwrap();
    let accounts: Api<ServiceAccount> = Api::default_namespaced(cluster.client());
    let params = PostParams::default();
    accounts.create(&params, &object(json!({"metadata": {"name": "bob"}}))).await.unwrap();
    let secrets: Api<Secret> = Api::default_namespaced(cluster.client());
    secrets.create(&params, &token_secret("bob")).await.unwrap();
    let key = Key::namespaced("default", "token");
    let filled = until::<Secret>(&cluster, &key, |secret| !text(secret, "token").is_empty()).await;
    assert_eq!(text(&filled, "ca.crt"), "certificate");
    assert_eq!(text(&filled, "namespace"), "default");
    let review: TokenReview = object(json!({"spec": {"token": text(&filled, "token")}}));
    let reviews: Api<TokenReview> = Api::all(cluster.client());
    let status = reviews.create(&params, &review).await.unwrap().status.unwrap();
    let user = status.user.unwrap().username;
    assert_eq!(user.as_deref(), Some("system:serviceaccount:default:bob"), "{:?}", status.error);

    // Another account of the same name does not keep the token.
    accounts.delete("bob", &DeleteParams::default()).await.unwrap();
    accounts.create(&params, &object(json!({"metadata": {"name": "bob"}}))).await.unwrap();
    until_deleted(&cluster, &filled).await;
}

#[tokio::test(start_paused = true)]
async fn a_token_secret_without_an_account_is_deleted() {
    let cluster = cluster(&[tokens::NAME]).await;
    let secrets: Api<Secret> = Api::default_namespaced(cluster.client());
    let secret = secrets.create(&PostParams::default(), &token_secret("none")).await.unwrap();
    until_deleted(&cluster, &secret).await;
}

#[tokio::test(start_paused = true)]
async fn generated_tokens_that_are_not_used_are_invalidated_then_deleted() {
    // The server is in 2026; the controllers are later.
    let cluster = Cluster::api_only(ApiServer::builder().rbac().seed(1).build().await.unwrap());
    let secrets: Api<Secret> = Api::namespaced(cluster.client(), "default");
    let accounts: Api<ServiceAccount> = Api::namespaced(cluster.client(), "default");
    let account =
        json!({"metadata": {"name": "bob"}, "secrets": [{"name": "old"}, {"name": "used"}]});
    accounts.create(&PostParams::default(), &object(account)).await.unwrap();
    for (name, labels) in [
        ("old", json!({})),
        ("used", json!({"kubernetes.io/legacy-token-last-used": "2027-12-31"})),
        // The account does not name it, so a user has created it.
        ("manual", json!({})),
    ] {
        let secret = object(json!({
            "metadata": {
                "name": name, "labels": labels,
                "annotations": {"kubernetes.io/service-account.name": "bob"},
            },
            "type": "kubernetes.io/service-account-token",
        }));
        secrets.create(&PostParams::default(), &secret).await.unwrap();
    }
    let run_at = |time: &str| {
        let client = kube::Client::new(AsControllers::new(cluster.server()), "default");
        let clock = Some(Clock::starting_at(time.parse().unwrap()));
        let options = ClusterOptions { clock, ..options(&[cleaner::NAME]) };
        run_controllers(client, &options).unwrap()
    };
    let marked = |secret: &Secret| {
        let labels = secret.metadata.labels.as_ref();
        labels.and_then(|labels| labels.get("kubernetes.io/legacy-token-invalid-since").cloned())
    };
    let old = Key::namespaced("default", "old");
    let running = run_at("2028-01-02T00:00:00Z");
    let old = until::<Secret>(&cluster, &old, |secret| marked(secret).is_some()).await;
    assert_eq!(marked(&old).unwrap(), "2028-01-02");
    drop(running);

    let running = run_at("2029-06-01T00:00:00Z");
    until_deleted(&cluster, &old).await;
    let used = Key::namespaced("default", "used");
    until::<Secret>(&cluster, &used, |secret| marked(secret).is_some()).await;
    drop(running);
    assert!(marked(&secrets.get("manual").await.unwrap()).is_none());
}
