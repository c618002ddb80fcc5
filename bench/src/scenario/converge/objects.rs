//! The objects of the operator: a custom resource and its ConfigMap.

use std::collections::BTreeMap;

use bytes::Bytes;
use evenkeel::Conditions;
use http::Method;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{CustomResource, CustomResourceExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::client::Endpoint;

pub(super) const NAMESPACE: &str = "default";

/// A typical custom resource: some settings, and a status with conditions.
#[derive(Clone, Debug, CustomResource, Deserialize, Serialize, JsonSchema)]
#[kube(group = "example.com", version = "v1", kind = "Site", namespaced, status = "SiteStatus")]
#[serde(rename_all = "camelCase")]
pub(super) struct SiteSpec {
    pub(super) image: String,
    pub(super) replicas: i32,
    pub(super) hosts: Vec<String>,
    pub(super) settings: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct SiteStatus {
    pub(super) observed_generation: Option<i64>,
    pub(super) hosts: i32,
    #[serde(default)]
    pub(super) conditions: Conditions,
}

/// Returns the ConfigMap of a Site.
pub(super) fn child(site: &Site) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.name = site.metadata.name.clone();
    map.metadata.namespace = site.metadata.namespace.clone();
    map.metadata.labels =
        Some([("app.kubernetes.io/managed-by".to_owned(), "bench".to_owned())].into());
    let mut data = site.spec.settings.clone();
    data.insert("image".to_owned(), site.spec.image.clone());
    data.insert("replicas".to_owned(), site.spec.replicas.to_string());
    data.insert("hosts".to_owned(), site.spec.hosts.join(","));
    map.data = Some(data);
    map
}

/// Creates the CRD and `count` Sites.
pub(super) async fn fill(endpoint: &Endpoint, count: usize) -> anyhow::Result<()> {
    let mut connection = endpoint.connect().await?;
    let crd = serde_json::to_vec(&Site::crd())?;
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let (status, _) = connection.exchange(Method::POST, path, crd.into()).await?;
    anyhow::ensure!(status.is_success(), "cannot create the CRD: {status}");
    for at in 0..count {
        let name = format!("site-{at:05}");
        let site = json!({
            "apiVersion": "example.com/v1",
            "kind": "Site",
            "metadata": { "name": name, "labels": { "app.kubernetes.io/name": name } },
            "spec": {
                "image": "registry.example.com/team/web@sha256:9f86d081884c7d659a2feaa0c55ad015",
                "replicas": 3,
                "hosts": [format!("{name}.example.com"), "www.example.com"],
                "settings": { "LOG_LEVEL": "info", "TIMEOUT": "30s", "REGION": "eu-central-1" },
            },
        });
        let path = format!("/apis/example.com/v1/namespaces/{NAMESPACE}/sites");
        let body: Bytes = site.to_string().into();
        let (status, _) = connection.exchange(Method::POST, &path, body).await?;
        anyhow::ensure!(status.is_success(), "cannot create a site: {status}");
    }
    Ok(())
}
