//! Helpers for child objects: names, create-or-update, adoption and orphaning.

use std::sync::Arc;

use evenkeel_types::hash::fnv1a;
use kube::api::Patch;
use serde_json::json;

use crate::client::{Client, Error, ErrorKind, RequestInfo, Target};
use crate::difference;
use crate::key::Key;
use crate::kind::{Kind, Object};
use crate::owner::{self, OwnerError};

/// The maximum length of a DNS label.
const LONGEST: usize = 63;

/// Returns a deterministic name for a child of `parent`, so that a repeated create fails with
/// AlreadyExists instead of creating a second child.
///
/// A name that would be too long is truncated and gets a hash of the full name as suffix.
///
/// ```
/// assert_eq!(evenkeel::child_name("web", "cache"), "web-cache");
/// assert!(evenkeel::child_name(&"x".repeat(70), "cache").len() <= 63);
/// ```
#[must_use]
pub fn child_name(parent: &str, suffix: &str) -> String {
    let whole = format!("{parent}-{suffix}");
    if whole.len() <= LONGEST {
        return whole;
    }
    let digest = format!("{:08x}", fnv1a(whole.bytes()));
    let end = whole.floor_char_boundary(LONGEST - 1 - digest.len());
    format!("{}-{digest}", whole[..end].trim_end_matches(['-', '.']))
}

/// The result of [`Client::create_or_update`], as in controller-runtime.
///
/// ```no_run
/// # use evenkeel::prelude::*;
/// # use evenkeel::k8s_openapi::api::core::v1::ConfigMap;
/// use evenkeel::OperationResult;
///
/// # async fn example(cx: &Context<ConfigMap>, key: &Key) -> Result<()> {
/// let (_, result) = cx.client().create_or_update(key, |_: &mut ConfigMap| {}).await?;
/// if result == OperationResult::Created {
///     cx.event("Created", "Created the settings");
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OperationResult {
    /// The object was not changed.
    None,
    /// The object was created.
    Created,
    /// The object was updated.
    Updated,
}

impl Client {
    /// Creates the object `key` if it does not exist, or updates it if `change` changes it.
    ///
    /// `change` is called with the current object and sets only the fields it manages; fields that
    /// the type does not have are kept. Prefer [`Client::apply`], which needs no read and does not
    /// change the fields of other managers.
    ///
    /// ```no_run
    /// # use evenkeel::prelude::*;
    /// # use evenkeel::k8s_openapi::api::core::v1::ConfigMap;
    /// # async fn example(client: &evenkeel::client::Client, key: &Key) -> Result<()> {
    /// client
    ///     .create_or_update(key, |map: &mut ConfigMap| {
    ///         map.data.get_or_insert_default().insert("level".to_owned(), "info".to_owned());
    ///     })
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// When the API server rejects the request or does not respond.
    pub async fn create_or_update<K: Object + Default>(
        &self,
        key: &Key,
        change: impl FnOnce(&mut K),
    ) -> Result<(Arc<K>, OperationResult), Error> {
        let Some(present) = self.get::<K>(key).await? else {
            let mut object = K::default();
            object.meta_mut().name = Some(key.name().to_owned());
            object.meta_mut().namespace = key.namespace().map(str::to_owned);
            change(&mut object);
            return Ok((self.create(&object).await?, OperationResult::Created));
        };
        let mut object = (*present).clone();
        change(&mut object);
        let json = |object: &K| serde_json::to_value(object).unwrap_or_default();
        let Some(mut patch) = difference::between(&json(&present), &json(&object)) else {
            return Ok((present, OperationResult::None));
        };
        // Fails with a conflict if the object has changed since it was read.
        let meta = present.meta();
        patch["metadata"]["uid"] = json!(meta.uid);
        patch["metadata"]["resourceVersion"] = json!(meta.resource_version);
        Ok((self.patch(key, &Patch::Merge(patch)).await?, OperationResult::Updated))
    }

    /// Sets `owner` as the controller of an existing object that has none.
    ///
    /// ```no_run
    /// # use evenkeel::prelude::*;
    /// # use evenkeel::k8s_openapi::api::core::v1::{ConfigMap, Pod};
    /// # async fn example(client: &evenkeel::client::Client, key: &Key, owner: &Pod) -> Result<()> {
    /// let Some(map) = client.get::<ConfigMap>(key).await? else { return Ok(()) };
    /// client.adopt(owner, &*map).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`AdoptError::Owner`] if the object has another controller or the owner reference is
    /// invalid; a conflict if the object has changed or was replaced.
    pub async fn adopt<O: Object, C: Object>(
        &self,
        owner: &O,
        child: &C,
    ) -> Result<Arc<C>, AdoptError> {
        let mut owned = child.clone();
        owner::set_controller_reference(owner, &mut owned)?;
        Ok(self.set_owners(&owned).await?)
    }

    /// Removes the owner reference to `owner` from `child`, so that it is not garbage-collected.
    ///
    /// # Errors
    /// When the API server rejects the request or does not respond; a conflict if the object has
    /// changed.
    pub async fn orphan<O: Object, C: Object>(
        &self,
        owner: &O,
        child: &C,
    ) -> Result<Arc<C>, AdoptError> {
        let mut freed = child.clone();
        owner::remove_owner_reference(owner, &mut freed);
        Ok(self.set_owners(&freed).await?)
    }

    /// Sets the owner references, with uid and resourceVersion as preconditions.
    async fn set_owners<C: Object>(&self, child: &C) -> Result<Arc<C>, Error> {
        let meta = child.meta();
        if meta.uid.is_none() || meta.resource_version.is_none() {
            // A null would remove the precondition, and the patch replaces the whole list.
            let (kind, target) = (Kind::of::<C>(), Target::Object(Key::of(child)));
            let request_info = RequestInfo { verb: "patch", kind, subresource: None, target };
            let reason = "the object has no uid or resourceVersion; read it from the server first";
            return Err(ErrorKind::NotSent { request_info, reason: reason.to_owned() }.into());
        }
        let patch = Patch::Merge(json!({ "metadata": {
            "ownerReferences": meta.owner_references,
            "resourceVersion": meta.resource_version,
            "uid": meta.uid,
        }}));
        self.patch::<C>(&Key::of(child), &patch).await
    }
}

/// Why an adoption failed.
///
/// ```no_run
/// # use evenkeel::prelude::*;
/// # use evenkeel::AdoptError;
/// # use evenkeel::k8s_openapi::api::core::v1::ConfigMap;
/// # async fn example(client: &Client, owner: &ConfigMap, map: &ConfigMap) -> Result<()> {
/// match client.adopt(owner, map).await {
///     Err(AdoptError::Owner(error)) => println!("left alone: {error}"),
///     adopted => drop(adopted?),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdoptError {
    /// The owner reference is invalid.
    #[error(transparent)]
    Owner(#[from] OwnerError),
    /// The write failed.
    #[error(transparent)]
    Write(#[from] Error),
}
