//! Writes of the garbage collector, each conditional on the state it was decided on.

use std::sync::Arc;

use evenkeel::cache::Entry;
use evenkeel::client::{Error, Patch};
use evenkeel::{BoxError, Uid};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::PropagationPolicy;
use kube::core::DynamicObject;
use serde::Deserialize;
use serde_json::{Value, json};

use super::graph::{FOREGROUND, ORPHAN, Place};
use super::{Collector, Looked};

#[derive(Deserialize)]
struct Partial {
    metadata: ObjectMeta,
}

/// Returns the full metadata of a cached object.
fn metadata(entry: &Entry) -> Result<ObjectMeta, BoxError> {
    Ok(serde_json::from_slice::<Partial>(entry.json())?.metadata)
}

impl Collector {
    /// Deletes the object in the state that was classified.
    pub(super) async fn delete(
        &self,
        place: &Place,
        entry: &Entry,
        policy: PropagationPolicy,
    ) -> Result<Looked, BoxError> {
        let meta = entry.meta();
        let objects = self.client.dynamic(&place.kind);
        let delete = |policy| objects.delete(&place.key, Some(meta.uid())).propagation(policy);
        tracing::debug!(kind = %place.kind, key = %place.key, ?policy, "garbage goes");
        let judged =
            delete(policy.clone()).resource_version_precondition(&meta.version().to_string());
        match judged.await {
            Ok(_) => return Ok(Looked::Done),
            Err(error) if error.is_conflict() => {}
            Err(error) => return Err(error.into()),
        }
        // It changed. If its owners did not, it is still garbage: objects that change all the time
        // must be collected too.
        let Some(live) = objects.live(&place.key).await? else { return Ok(Looked::Done) };
        let same = live.metadata.uid.as_deref().is_some_and(|uid| *meta.uid() == *uid);
        if !same {
            return Ok(Looked::Done);
        }
        let owners = live.metadata.owner_references.unwrap_or_default();
        if owners != metadata(entry)?.owner_references.unwrap_or_default() {
            return Ok(Looked::Again);
        }
        delete(policy).await?;
        Ok(Looked::Done)
    }

    /// Deletes an object that was just changed, with foreground propagation.
    pub(super) async fn delete_now(&self, uid: &Uid, place: &Place) -> Result<Looked, BoxError> {
        let objects = self.client.dynamic(&place.kind);
        let delete = objects.delete(&place.key, Some(uid));
        match delete.propagation(PropagationPolicy::Foreground).await {
            Ok(_) => Ok(Looked::Done),
            Err(error) if error.is_conflict() => Ok(Looked::Again),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes the references to these owners from the object.
    pub(super) async fn drop_owners(
        &self,
        place: &Place,
        entry: &Entry,
        owners: &[&Uid],
    ) -> Result<(), BoxError> {
        let mut references = metadata(entry)?.owner_references.unwrap_or_default();
        references.retain(|reference| !owners.contains(&&Uid::new(&reference.uid)));
        self.set_owners(place, entry, &references).await?;
        Ok(())
    }

    /// Sets `blockOwnerDeletion` to false in all owner references.
    pub(super) async fn unblock(&self, place: &Place, entry: &Entry) -> Result<(), BoxError> {
        let mut references = metadata(entry)?.owner_references.unwrap_or_default();
        for reference in &mut references {
            reference.block_owner_deletion = reference.block_owner_deletion.map(|_| false);
        }
        self.set_owners(place, entry, &references).await?;
        Ok(())
    }

    async fn set_owners(
        &self,
        place: &Place,
        entry: &Entry,
        owners: &[OwnerReference],
    ) -> Result<(), Error> {
        let owners = if owners.is_empty() { Value::Null } else { json!(owners) };
        self.patch(place, entry, "ownerReferences", owners).await.map(drop)
    }

    /// Sets a metadata field, provided the object is still as it was read.
    async fn patch(
        &self,
        place: &Place,
        entry: &Entry,
        field: &str,
        value: Value,
    ) -> Result<Arc<DynamicObject>, Error> {
        let patch = Patch::Merge(json!({ "metadata": {
            field: value,
            "resourceVersion": entry.meta().version().to_string(),
            "uid": entry.meta().uid().to_string(),
        }}));
        self.client.dynamic(&place.kind).patch(&place.key, &patch).await
    }

    /// Orphans the dependents of the object, then removes its `orphan` finalizer.
    pub(super) async fn orphan(&self, uid: &Uid, place: &Place) -> Result<Looked, BoxError> {
        let dependents = self.graph.lock().dependents(uid);
        for (dependent, at) in dependents {
            let Some(entry) = self.entry(&at, &dependent).await? else { continue };
            if !entry.meta().owners().iter().any(|owner| owner.uid == *uid) {
                continue;
            }
            match self.drop_owners(&at, &entry, &[uid]).await {
                Err(error) if !is_not_found(&error) => return Err(error),
                _ => {}
            }
        }
        self.graph.lock().let_go(uid);
        self.drop_finalizer(uid, place, ORPHAN).await
    }

    /// Removes the `foregroundDeletion` finalizer if no dependent blocks; otherwise enqueues the
    /// blocking dependents.
    pub(super) async fn release(&self, uid: &Uid, place: &Place) -> Result<Looked, BoxError> {
        let blocking = self.graph.lock().blocking(uid);
        if blocking.is_empty() {
            return self.drop_finalizer(uid, place, FOREGROUND).await;
        }
        let idle = blocking.into_iter().filter(|(_, waits)| !waits);
        self.enqueue(idle.map(|(dependent, _)| dependent).collect());
        Ok(Looked::Done)
    }

    async fn drop_finalizer(
        &self,
        uid: &Uid,
        place: &Place,
        name: &str,
    ) -> Result<Looked, BoxError> {
        let Some(entry) = self.entry(place, uid).await? else { return Ok(Looked::Done) };
        let present: Vec<&str> = entry.meta().finalizers().collect();
        if !present.contains(&name) {
            return Ok(Looked::Done);
        }
        let left: Vec<&str> = present.into_iter().filter(|present| *present != name).collect();
        let left = if left.is_empty() { Value::Null } else { json!(left) };
        match self.patch(place, &entry, "finalizers", left).await {
            Ok(_) => Ok(Looked::Done),
            Err(error) if error.is_not_found() => Ok(Looked::Done),
            Err(error) if error.is_conflict() => Ok(Looked::Again),
            Err(error) => Err(error.into()),
        }
    }
}

fn is_not_found(error: &BoxError) -> bool {
    error.downcast_ref::<Error>().is_some_and(Error::is_not_found)
}
