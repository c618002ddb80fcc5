//! The benchmark scenarios.

pub(crate) mod apply;

pub(crate) mod attack;

pub(crate) mod authorized;

pub(crate) mod cache;

pub(crate) mod cel;

pub(crate) mod converge;

pub(crate) mod create;

pub(crate) mod lifecycle;

pub(crate) mod list;

pub(crate) mod memory;

pub(crate) mod observe;

pub(crate) mod operator;

pub(crate) mod queue;

pub(crate) mod read;

pub(crate) mod review;

pub(crate) mod webhook;

use bytes::Bytes;
use http::Method;

use crate::client::Endpoint;

/// A namespace for one scenario, deleted at its end to leave the rival unchanged.
struct Namespace<'a> {
    endpoint: &'a Endpoint,
    name: String,
}

impl<'a> Namespace<'a> {
    async fn create(endpoint: &'a Endpoint, scenario: &str) -> anyhow::Result<Self> {
        let name = format!("evenkeel-bench-{scenario}-{}", std::process::id());
        let body =
            format!(r#"{{"apiVersion":"v1","kind":"Namespace","metadata":{{"name":"{name}"}}}}"#);
        let mut connection = endpoint.connect().await?;
        let path = "/api/v1/namespaces";
        let (status, _) = connection.exchange(Method::POST, path, body.into()).await?;
        anyhow::ensure!(status.is_success(), "cannot create namespace {name}: {status}");
        Ok(Self { endpoint, name })
    }

    async fn delete(self) -> anyhow::Result<()> {
        let mut connection = self.endpoint.connect().await?;
        let name = &self.name;
        for path in [crate::load::path(name), format!("/api/v1/namespaces/{name}")] {
            let (status, _) = connection.exchange(Method::DELETE, &path, Bytes::new()).await?;
            anyhow::ensure!(status.is_success(), "cannot delete {path}: {status}");
        }
        Ok(())
    }
}
