//! Defaults of every namespace are created and restored.

use evenkeel::Key;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ServiceAccount};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;

use super::{ACCOUNTS, ROOT_CA};
use crate::testing::{cluster, object, options, until, until_deleted};
use crate::{Cluster, namespace};

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
