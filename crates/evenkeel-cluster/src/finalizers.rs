//! Checks and removes finalizers of built-in objects.

#[cfg(test)]
mod model;

use evenkeel::client::{Client, Patch};
use evenkeel::{Key, Object, Result};
use serde_json::json;

/// Whether the object has this finalizer.
pub(crate) fn has<K: Object>(object: &K, finalizer: &str) -> bool {
    object.meta().finalizers.iter().flatten().any(|name| name == finalizer)
}

/// Removes one finalizer from exactly this version of the object. A deleted object is ignored.
///
/// As upstream's controllers of storage, whose roles do not allow patches. A concurrent change of
/// the object makes it fail.
///
/// # Errors
/// When the API server rejects the request or does not respond.
pub(crate) async fn remove_by_update<K: Object>(
    client: &Client,
    object: &K,
    finalizer: &str,
) -> Result<()> {
    if !has(object, finalizer) {
        return Ok(());
    }
    let mut next = object.clone();
    if let Some(finalizers) = &mut next.meta_mut().finalizers {
        finalizers.retain(|name| name != finalizer);
    }
    match client.update(&next).await {
        Err(error) if !error.is_not_found() => Err(error.into()),
        _ => Ok(()),
    }
}

/// Removes one finalizer from exactly this object. A deleted object is ignored.
///
/// The patch names the entry to remove and no resourceVersion: a concurrent change of the object,
/// such as a kubelet writing the status of a pod, cannot make it fail.
///
/// # Errors
/// When the API server rejects the request or does not respond.
pub(crate) async fn remove<K: Object>(client: &Client, object: &K, finalizer: &str) -> Result<()> {
    if !has(object, finalizer) {
        return Ok(());
    }
    let patch = Patch::Strategic(json!({"metadata": {
        "uid": object.meta().uid,
        "$deleteFromPrimitiveList/finalizers": [finalizer],
    }}));
    match client.patch::<K>(&Key::of(object), &patch).await {
        Err(error) if !error.is_not_found() => Err(error.into()),
        _ => Ok(()),
    }
}
