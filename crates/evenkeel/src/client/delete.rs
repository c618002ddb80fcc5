//! Delete and delete collection.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

use http::Method;
use kube::api::PropagationPolicy;
use serde::Serialize;

use super::Client;
use super::api_request::ApiRequest;
use super::error::Error;
use super::pending::Pending;
use super::write::{Header, encode};
use crate::journal::WriteRecord;
use crate::key::Key;
use crate::kind::{Kind, Object};
use crate::select::{Select, ServerOperation};
use crate::uid::Uid;

/// The body of a delete request.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct DeleteOptions {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    dry_run: Vec<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    grace_period_seconds: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    propagation_policy: Option<PropagationPolicy>,
    #[serde(skip_serializing_if = "Option::is_none")]
    preconditions: Option<Preconditions>,
}

#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Preconditions {
    #[serde(skip_serializing_if = "Option::is_none")]
    uid: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_version: Option<String>,
}

/// A delete request; `.await` sends it and returns whether the object existed.
///
/// ```no_run
/// # use evenkeel::prelude::*;
/// use evenkeel::k8s_openapi::api::apps::v1::Deployment;
/// use evenkeel::kube::api::PropagationPolicy;
///
/// # async fn example(client: &Client, key: &Key) -> Result<()> {
/// let delete = client.delete_by_key::<Deployment>(key);
/// let existed = delete.propagation(PropagationPolicy::Foreground).dry_run().await?;
/// # let _ = existed;
/// # Ok(())
/// # }
/// ```
#[must_use = "a delete request is sent when it is awaited"]
pub struct Delete<'a> {
    client: &'a Client,
    kind: Kind,
    key: Key,
    options: DeleteOptions,
}

impl Client {
    /// Deletes the object, with its uid as precondition. A missing object is not an error.
    ///
    /// ```no_run
    /// # use evenkeel::prelude::*;
    /// # use evenkeel::k8s_openapi::api::core::v1::ConfigMap;
    /// # async fn example(client: &evenkeel::client::Client, key: &Key) -> Result<()> {
    /// if let Some(map) = client.get::<ConfigMap>(key).await? {
    ///     let existed = client.delete(&*map).await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn delete<K: Object>(&self, object: &K) -> Delete<'_> {
        let delete = Delete::new(self, Kind::of::<K>(), Key::of(object));
        match &object.meta().uid {
            Some(uid) => delete.uid_precondition(&Uid::new(uid)),
            None => delete,
        }
    }

    /// Deletes the object with this key, without a uid precondition.
    ///
    /// ```no_run
    /// # use evenkeel::prelude::*;
    /// # use evenkeel::k8s_openapi::api::core::v1::Pod;
    /// # async fn example(client: &evenkeel::client::Client, key: &Key) -> Result<()> {
    /// client.delete_by_key::<Pod>(key).grace_period(Duration::ZERO).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn delete_by_key<K: Object>(&self, key: &Key) -> Delete<'_> {
        Delete::new(self, Kind::of::<K>(), key.clone())
    }

    /// Deletes all objects of a type that match the returned selection, with one request. The API
    /// server requires a namespace if the type is namespaced.
    ///
    /// ```no_run
    /// # use evenkeel::prelude::*;
    /// # use evenkeel::k8s_openapi::api::core::v1::ConfigMap;
    /// # async fn clean_up(client: &evenkeel::client::Client) -> Result<()> {
    /// client.delete_collection::<ConfigMap>().in_namespace("shop").label("app", "web").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn delete_collection<K: Object>(&self) -> Select<K, DeleteCollection<'_>> {
        Select::new(Kind::of::<K>(), DeleteCollection::new(self))
    }
}

impl<'a> Delete<'a> {
    pub(super) fn new(client: &'a Client, kind: Kind, key: Key) -> Self {
        Self { client, key: kind.scoped(key), kind, options: DeleteOptions::default() }
    }

    /// Deletes only the object with this uid.
    pub fn uid_precondition(mut self, uid: &Uid) -> Self {
        self.options.preconditions.get_or_insert_default().uid = Some(uid.to_string());
        self
    }

    /// Deletes the object only at this resourceVersion.
    pub fn resource_version_precondition(mut self, version: &str) -> Self {
        self.options.preconditions.get_or_insert_default().resource_version =
            Some(version.to_owned());
        self
    }

    /// Sets the propagation policy for its dependents.
    pub fn propagation(mut self, policy: PropagationPolicy) -> Self {
        self.options.propagation_policy = Some(policy);
        self
    }

    /// Sets the grace period, for types that have one.
    pub fn grace_period(mut self, period: Duration) -> Self {
        self.options.grace_period_seconds = Some(period.as_secs());
        self
    }

    /// Sends a dry run; nothing is deleted.
    pub fn dry_run(mut self) -> Self {
        self.options.dry_run = vec!["All"];
        self
    }

    async fn send(self) -> Result<bool, Error> {
        let Self { client, kind, key, options } = self;
        let dry_run = !options.dry_run.is_empty();
        let known = client.shared.cache.peek(&kind, &key).map(|entry| entry.meta().uid().clone());
        let body = encode(&options).unwrap_or_default();
        let call = ApiRequest::object("delete", Method::DELETE, &kind, &key)
            .body("application/json", body);
        let request_info = call.request_info().clone();
        let record = |write: WriteRecord| {
            if let Some(operations) = &client.operations
                && !dry_run
            {
                operations.record_write(write);
            }
        };
        let pending = || Pending::new(client, request_info.clone(), vec![key.clone()]);
        let pending = (!dry_run).then(pending);
        let response = call.send(client).await;
        pending.map(Pending::complete);
        let response = match response {
            Ok(response) => response,
            Err(error) if error.is_not_found() => {
                // The cache is stale.
                if known.is_some() && !dry_run {
                    client.invalidate(&kind, &key);
                }
                record(WriteRecord::unchanged(request_info));
                return Ok(false);
            }
            Err(error) => {
                if (error.is_outcome_unknown() || error.is_conflict()) && !dry_run {
                    client.invalidate(&kind, &key);
                }
                record(WriteRecord::failed(request_info, error.message()));
                return Err(error);
            }
        };
        let header = Header::of(&response);
        if !dry_run {
            if header.is(&kind) && header.terminating {
                client.shared.cache.wrote(&kind, &response);
            } else if let Some(uid) = header.uid.as_deref().map(Uid::new).or(known) {
                client.shared.cache.deleted(&kind, &key, &uid);
            } else {
                client.invalidate(&kind, &key);
            }
        }
        record(WriteRecord::deleted(request_info));
        Ok(true)
    }
}

impl<'a> IntoFuture for Delete<'a> {
    type Output = Result<bool, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}

/// A delete-collection request; `.await` sends it. See [`Client::delete_collection`].
///
/// ```no_run
/// # use evenkeel::prelude::*;
/// use evenkeel::k8s_openapi::api::core::v1::Pod;
///
/// # async fn example(client: &Client) -> Result<()> {
/// let old = client.delete_collection::<Pod>().in_namespace("shop").label("tier", "old");
/// old.grace_period(Duration::ZERO).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct DeleteCollection<'a> {
    client: &'a Client,
    options: DeleteOptions,
}

impl<'a> DeleteCollection<'a> {
    pub(super) fn new(client: &'a Client) -> Self {
        Self { client, options: DeleteOptions::default() }
    }
}

impl ServerOperation for DeleteCollection<'_> {}

impl<K> Select<K, DeleteCollection<'_>> {
    /// Sets the propagation policy for their dependents.
    pub fn propagation(mut self, policy: PropagationPolicy) -> Self {
        self.operation.options.propagation_policy = Some(policy);
        self
    }

    /// Sets the grace period, for types that have one.
    pub fn grace_period(mut self, period: Duration) -> Self {
        self.operation.options.grace_period_seconds = Some(period.as_secs());
        self
    }

    /// Sends a dry run; nothing is deleted.
    pub fn dry_run(mut self) -> Self {
        self.operation.options.dry_run = vec!["All"];
        self
    }

    async fn send(self) -> Result<(), Error> {
        let (kind, DeleteCollection { client, options }) = (&self.kind, &self.operation);
        let namespace = self.namespace.as_deref();
        let call = ApiRequest::collection("deletecollection", Method::DELETE, kind, namespace)
            .parameter("labelSelector", &self.labels.to_string())
            .parameter("fieldSelector", &self.fields)
            .body("application/json", encode(options).unwrap_or_default());
        let request_info = call.request_info().clone();
        // The response lists the objects, not whether they are deleted or only marked for deletion.
        // The cache does not evaluate the field selector, so these may be more objects.
        let query = self.query();
        let shown = || {
            let entries = client.shared.cache.peek_list(kind, &query);
            entries.iter().map(|entry| entry.meta().key().clone()).collect::<Vec<_>>()
        };
        let dry_run = !options.dry_run.is_empty();
        let pending = (!dry_run).then(|| Pending::new(client, request_info.clone(), shown()));
        let response = call.send(client).await;
        if let Some(before) = pending.map(Pending::complete) {
            // Objects that the cache added meanwhile may be deleted as well.
            for key in before.iter().chain(&shown()) {
                client.invalidate(kind, key);
            }
            // One list now replaces a live read of each object later.
            if response.is_ok()
                && !before.is_empty()
                && let Err(error) = client.shared.cache.find(kind, &query)
            {
                let _ = client.shared.cache.recover(kind, error, &client.live()).await;
            }
        }
        if let Some(operations) = &client.operations
            && !dry_run
        {
            operations.record_write(match &response {
                Ok(_) => WriteRecord::deleted(request_info),
                Err(error) => WriteRecord::failed(request_info, error.message()),
            });
        }
        response.map(drop)
    }
}

impl<'a, K: 'static> IntoFuture for Select<K, DeleteCollection<'a>> {
    type Output = Result<(), Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}
