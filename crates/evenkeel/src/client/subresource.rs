//! Subresources, such as status and scale.

use http::Method;
use kube::api::Patch;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::api_request::ApiRequest;
use super::error::Error;
use super::write::{Verb, Write, encode};
use super::{Client, live};
use crate::journal::ReadRecord;
use crate::key::Key;
use crate::kind::{Kind, Object};

/// A subresource of an object. Its type may differ from the object's, such as `Scale`.
///
/// ```no_run
/// # use evenkeel::prelude::*;
/// use evenkeel::k8s_openapi::api::apps::v1::Deployment;
/// use evenkeel::k8s_openapi::api::autoscaling::v1::Scale;
/// use evenkeel::serde_json::json;
///
/// # async fn example(client: &Client, key: &Key) -> Result<()> {
/// let scale = client.subresource::<Deployment>(key, "scale");
/// scale.patch::<Scale>(&Patch::Merge(json!({"spec": {"replicas": 3}}))).await?;
/// # Ok(())
/// # }
/// ```
pub struct Subresource<'a> {
    client: &'a Client,
    kind: Kind,
    key: Key,
    name: &'static str,
}

impl Client {
    /// Returns a subresource of an object: `client.subresource::<Deployment>(&key, "scale")`.
    ///
    /// ```no_run
    /// # use evenkeel::prelude::*;
    /// # use evenkeel::k8s_openapi::api::apps::v1::Deployment;
    /// # use evenkeel::k8s_openapi::api::autoscaling::v1::Scale;
    /// # async fn example(client: &evenkeel::client::Client, key: &Key) -> Result<()> {
    /// let scale = client.subresource::<Deployment>(key, "scale").get::<Scale>().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn subresource<K: Object>(&self, key: &Key, name: &'static str) -> Subresource<'_> {
        self.subresource_of(Kind::of::<K>(), key, name)
    }

    pub(crate) fn subresource_of(
        &self,
        kind: Kind,
        key: &Key,
        name: &'static str,
    ) -> Subresource<'_> {
        Subresource { client: self, kind, key: key.clone(), name }
    }
}

impl<'a> Subresource<'a> {
    /// Reads the subresource from the API server.
    ///
    /// # Errors
    /// When the API server rejects the request or does not respond.
    pub async fn get<R: DeserializeOwned>(&self) -> Result<R, Error> {
        let bytes = ApiRequest::object("get", Method::GET, &self.kind, &self.key)
            .subresource(Some(self.name))
            .send(self.client)
            .await?;
        if let Some(operations) = &self.client.operations {
            operations.record_read(ReadRecord::live(&self.kind, &self.key, true));
        }
        live::decode(&self.kind, &self.key, &bytes)
    }

    /// Creates the subresource: an eviction, a binding, a token request.
    pub fn create<R: Serialize + DeserializeOwned + Send + Sync + 'static>(
        &self,
        body: &R,
    ) -> Write<'a, R> {
        self.write(Verb::Create, encode(body))
    }

    /// Updates the subresource.
    pub fn update<R: Serialize + DeserializeOwned + Send + Sync + 'static>(
        &self,
        body: &R,
    ) -> Write<'a, R> {
        self.write(Verb::Update, encode(body))
    }

    /// Patches the subresource.
    pub fn patch<R: DeserializeOwned + Send + Sync + 'static>(
        &self,
        patch: &Patch<impl Serialize>,
    ) -> Write<'a, R> {
        let (kind, key) = (self.kind.clone(), self.key.clone());
        Write::patch(self.client, kind, key, Some(self.name), patch)
    }

    /// Applies the subresource with server-side apply.
    pub fn apply<R: Serialize + DeserializeOwned + Send + Sync + 'static>(
        &self,
        body: &R,
    ) -> Write<'a, R> {
        let body = serde_json::to_value(body).map_err(|error| error.to_string());
        Write::apply(self.client, self.kind.clone(), self.key.clone(), Some(self.name), body)
    }

    fn write<R: DeserializeOwned + Send + Sync + 'static>(
        &self,
        verb: Verb,
        body: Result<Vec<u8>, String>,
    ) -> Write<'a, R> {
        Write::new(self.client, verb, self.kind.clone(), self.key.clone(), body).on(Some(self.name))
    }
}
