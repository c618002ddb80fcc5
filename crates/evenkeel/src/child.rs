//! Names of children, and taking over objects that are there already.

use std::sync::Arc;

use kube::api::Patch;
use serde_json::json;

use crate::client::{Client, Error, RequestInfo, Target};
use crate::difference;
use crate::key::Key;
use crate::kind::{Kind, Object};
use crate::owner::{self, OwnerError};

/// The longest name that is valid as a DNS label.
const LONGEST: usize = 63;

/// A name for a child: always the same for the same parent and suffix, so that a create that is
/// repeated meets its own result instead of making a second child.
///
/// Names that would be too long are cut and get a digest of the whole, so that two long names that
/// begin alike stay apart.
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
    let digest = format!("{:08x}", digest(&whole));
    let end = whole.floor_char_boundary(LONGEST - 1 - digest.len());
    format!("{}-{digest}", whole[..end].trim_end_matches(['-', '.']))
}

/// FNV-1a. The digest is part of names that are stored, so its function must never change.
fn digest(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// What [`Client::create_or_update`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperationResult {
    /// The object was as it should be.
    None,
    /// It was missing and has been created.
    Created,
    /// It differed and has been updated.
    Updated,
}

impl Client {
    /// Makes the object `key` be as `change` leaves it: creates it when it is missing, updates it
    /// when `change` changes something.
    ///
    /// `change` starts from what the server has, so it must set only what it cares about; fields that
    /// the type does not know stay as they are. Where it
    /// can, prefer [`Client::apply`], which needs no read and leaves others' fields alone.
    ///
    /// # Errors
    /// When the API server refuses or does not answer.
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
        // Only if it is still what `change` started from.
        let meta = present.meta();
        patch["metadata"]["uid"] = json!(meta.uid);
        patch["metadata"]["resourceVersion"] = json!(meta.resource_version);
        Ok((self.patch(key, &Patch::Merge(patch)).await?, OperationResult::Updated))
    }

    /// Makes `owner` the controller of an object that exists already and has none.
    ///
    /// # Errors
    /// [`AdoptError::Owner`] when it belongs to another controller or cannot be owned; a conflict
    /// when the object changed, or is another one of the same name.
    pub async fn adopt<O: Object, C: Object>(
        &self,
        owner: &O,
        child: &C,
    ) -> Result<Arc<C>, AdoptError> {
        let mut owned = child.clone();
        owner::set_controller_reference(owner, &mut owned)?;
        Ok(self.set_owners(&owned).await?)
    }

    /// Ends `owner`'s ownership of `child`, which then outlives it.
    ///
    /// # Errors
    /// When the API server refuses or does not answer; a conflict when the object changed.
    pub async fn orphan<O: Object, C: Object>(
        &self,
        owner: &O,
        child: &C,
    ) -> Result<Arc<C>, AdoptError> {
        let mut freed = child.clone();
        owner::remove_owner_reference(owner, &mut freed);
        Ok(self.set_owners(&freed).await?)
    }

    /// Sets the owners, only if the object is still the one that was read, and as it was.
    async fn set_owners<C: Object>(&self, child: &C) -> Result<Arc<C>, Error> {
        let meta = child.meta();
        if meta.uid.is_none() || meta.resource_version.is_none() {
            // A null would lift the condition, and the list of owners is replaced whole.
            let (kind, target) = (Kind::of::<C>(), Target::Object(Key::of(child)));
            let request_info = RequestInfo { verb: "patch", kind, subresource: None, target };
            let reason = "it has no uid and resourceVersion; read it from the server first";
            return Err(Error::NotSent { request_info, reason: reason.to_owned() });
        }
        let patch = Patch::Merge(json!({ "metadata": {
            "ownerReferences": meta.owner_references,
            "resourceVersion": meta.resource_version,
            "uid": meta.uid,
        }}));
        self.patch::<C>(&Key::of(child), &patch).await
    }
}

/// An adoption that failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdoptError {
    /// The object cannot be owned by this owner.
    #[error(transparent)]
    Owner(#[from] OwnerError),
    /// The write failed.
    #[error(transparent)]
    Write(#[from] Error),
}
