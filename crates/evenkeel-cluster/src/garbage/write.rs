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

use super::graph::{FOREGROUND, Identity, ORPHAN};
use super::{Collector, Outcome};

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
        identity: &Identity,
        entry: &Entry,
        policy: PropagationPolicy,
    ) -> Result<Outcome, BoxError> {
        let meta = entry.meta();
        let objects = self.client.dynamic(&identity.kind);
        let delete = |policy| {
            objects.delete_by_key(&identity.key).uid_precondition(meta.uid()).propagation(policy)
        };
        tracing::debug!(kind = %identity.kind, key = %identity.key, ?policy, "deleting garbage-collected object");
        let delete_classified =
            delete(policy.clone()).resource_version_precondition(&meta.version().to_string());
        match delete_classified.await {
            Ok(_) => return Ok(Outcome::Done),
            Err(error) if error.is_conflict() => {}
            Err(error) => return Err(error.into()),
        }
        // It changed. If its owners did not, it is still garbage: objects that change all the time
        // must be collected too.
        let Some(live) = objects.live().get(&identity.key).await? else { return Ok(Outcome::Done) };
        let same = live.metadata.uid.as_deref().is_some_and(|uid| *meta.uid() == *uid);
        if !same {
            return Ok(Outcome::Done);
        }
        let owners = live.metadata.owner_references.unwrap_or_default();
        if owners != metadata(entry)?.owner_references.unwrap_or_default() {
            return Ok(Outcome::Requeue);
        }
        delete(policy).await?;
        Ok(Outcome::Done)
    }

    /// Deletes an object that was just changed, with foreground propagation.
    pub(super) async fn delete_foreground(
        &self,
        uid: &Uid,
        identity: &Identity,
    ) -> Result<Outcome, BoxError> {
        let objects = self.client.dynamic(&identity.kind);
        let delete = objects.delete_by_key(&identity.key).uid_precondition(uid);
        match delete.propagation(PropagationPolicy::Foreground).await {
            Ok(_) => Ok(Outcome::Done),
            Err(error) if error.is_conflict() => Ok(Outcome::Requeue),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes the references to these owners from the object.
    pub(super) async fn remove_owners(
        &self,
        identity: &Identity,
        entry: &Entry,
        owners: &[&Uid],
    ) -> Result<(), BoxError> {
        let mut references = metadata(entry)?.owner_references.unwrap_or_default();
        references.retain(|reference| !owners.contains(&&Uid::new(&reference.uid)));
        self.set_owners(identity, entry, &references).await?;
        Ok(())
    }

    /// Sets `blockOwnerDeletion` to false in all owner references.
    pub(super) async fn unblock_owner_deletion(
        &self,
        identity: &Identity,
        entry: &Entry,
    ) -> Result<(), BoxError> {
        let mut references = metadata(entry)?.owner_references.unwrap_or_default();
        for reference in &mut references {
            reference.block_owner_deletion = reference.block_owner_deletion.map(|_| false);
        }
        self.set_owners(identity, entry, &references).await?;
        Ok(())
    }

    async fn set_owners(
        &self,
        identity: &Identity,
        entry: &Entry,
        owners: &[OwnerReference],
    ) -> Result<(), Error> {
        let owners = if owners.is_empty() { Value::Null } else { json!(owners) };
        self.patch(identity, entry, "ownerReferences", owners).await.map(drop)
    }

    /// Sets a metadata field, provided the object is still as it was read.
    async fn patch(
        &self,
        identity: &Identity,
        entry: &Entry,
        field: &str,
        value: Value,
    ) -> Result<Arc<DynamicObject>, Error> {
        let patch = Patch::Merge(json!({ "metadata": {
            field: value,
            "resourceVersion": entry.meta().version().to_string(),
            "uid": entry.meta().uid().to_string(),
        }}));
        self.client.dynamic(&identity.kind).patch(&identity.key, &patch).await
    }

    /// Orphans the dependents of the object, then removes its `orphan` finalizer.
    pub(super) async fn orphan_dependents(
        &self,
        uid: &Uid,
        identity: &Identity,
    ) -> Result<Outcome, BoxError> {
        let dependents = self.graph.lock().dependents(uid);
        for (dependent, at) in dependents {
            let Some(entry) = self.read_object(&at, &dependent).await? else { continue };
            if !entry.meta().owners().iter().any(|owner| owner.uid == *uid) {
                continue;
            }
            match self.remove_owners(&at, &entry, &[uid]).await {
                Err(error) if !is_not_found(&error) => return Err(error),
                _ => {}
            }
        }
        self.graph.lock().record_orphaned(uid);
        self.remove_finalizer(uid, identity, ORPHAN).await
    }

    /// Removes the `foregroundDeletion` finalizer if no dependent blocks; otherwise enqueues the
    /// blocking dependents.
    pub(super) async fn release_foreground(
        &self,
        uid: &Uid,
        identity: &Identity,
    ) -> Result<Outcome, BoxError> {
        let blocking = self.graph.lock().blocking_dependents(uid);
        if blocking.is_empty() {
            return self.remove_finalizer(uid, identity, FOREGROUND).await;
        }
        let idle = blocking.into_iter().filter(|(_, waits)| !waits);
        self.enqueue(idle.map(|(dependent, _)| dependent).collect());
        Ok(Outcome::Done)
    }

    async fn remove_finalizer(
        &self,
        uid: &Uid,
        identity: &Identity,
        name: &str,
    ) -> Result<Outcome, BoxError> {
        let Some(entry) = self.read_object(identity, uid).await? else { return Ok(Outcome::Done) };
        let present: Vec<&str> = entry.meta().finalizers().collect();
        if !present.contains(&name) {
            return Ok(Outcome::Done);
        }
        let left: Vec<&str> = present.into_iter().filter(|present| *present != name).collect();
        let left = if left.is_empty() { Value::Null } else { json!(left) };
        match self.patch(identity, &entry, "finalizers", left).await {
            Ok(_) => Ok(Outcome::Done),
            Err(error) if error.is_not_found() => Ok(Outcome::Done),
            Err(error) if error.is_conflict() => Ok(Outcome::Requeue),
            Err(error) => Err(error.into()),
        }
    }
}

fn is_not_found(error: &BoxError) -> bool {
    error.downcast_ref::<Error>().is_some_and(Error::is_not_found)
}
