//! Classifies the owners of an object to decide whether it is garbage.

use evenkeel::cache::{Entry, Owner};
use evenkeel::{BoxError, Uid};
use kube::api::PropagationPolicy;

use super::graph::{FOREGROUND, Found, KnownOwner, ORPHAN, State};
use super::{Collector, Outcome};

/// The class of an owner reference. Mirrors `classifyReferences`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReferenceClass {
    /// The owner exists.
    Solid,
    /// The owner exists and waits for its dependents to be deleted.
    Waiting,
    /// The owner does not exist.
    Dangling,
    /// The owner no longer exists, and orphaned its dependents.
    Orphaned,
    /// Unknown: the type is not known, or a cluster-scoped object names a namespaced owner. Such an
    /// object is never deleted.
    Unknown,
}

impl Collector {
    /// Deletes the object if none of its owners exists, and removes references that block deletion.
    /// Mirrors `attemptToDeleteItem`.
    pub(super) async fn attempt_to_delete(
        &self,
        uid: &Uid,
        found: &Found,
    ) -> Result<Outcome, BoxError> {
        let identity = &found.identity;
        // The object classified is the object deleted: references and resourceVersion are of one
        // state.
        let Some(entry) = self.read_object(identity, uid).await? else { return Ok(Outcome::Done) };
        let meta = entry.meta();
        if meta.is_deleting() || meta.owners().is_empty() {
            return Ok(Outcome::Done);
        }
        let mut classes = Vec::with_capacity(meta.owners().len());
        let mut unseen = false;
        for owner in meta.owners() {
            let (class, seen) = self.classify(&entry, owner).await?;
            if class == ReferenceClass::Unknown {
                return Ok(Outcome::Done);
            }
            unseen |= !seen;
            classes.push(class);
        }
        let any = |class| classes.contains(&class);
        let owners_where = |wanted: fn(ReferenceClass) -> bool| -> Vec<&Uid> {
            let references = meta.owners().iter().zip(&classes);
            references.filter(|(_, at)| wanted(**at)).map(|(owner, _)| &owner.uid).collect()
        };
        if any(ReferenceClass::Orphaned) {
            // The other references are classified once the released ones are removed.
            let orphaned = owners_where(|class| class == ReferenceClass::Orphaned);
            self.remove_owners(identity, &entry, &orphaned).await?;
            let only = orphaned.len() == classes.len();
            return Ok(if only { Outcome::Done } else { Outcome::Requeue });
        }
        if any(ReferenceClass::Solid) {
            let useless = owners_where(|class| class != ReferenceClass::Solid);
            if !useless.is_empty() {
                self.remove_owners(identity, &entry, &useless).await?;
            }
            // No event arrives for an owner that was created and deleted unobserved, so it is read
            // again.
            return Ok(if unseen { Outcome::Requeue } else { Outcome::Done });
        }
        let has = |name: &str| meta.finalizers().any(|finalizer| finalizer == name);
        let policy = if any(ReferenceClass::Waiting) && found.owns {
            // A cycle of objects that wait for each other would never end.
            if self.graph.lock().has_waiting_dependent(uid) {
                self.unblock_owner_deletion(identity, &entry).await?;
                return self.delete_foreground(uid, identity).await;
            }
            PropagationPolicy::Foreground
        } else if has(ORPHAN) {
            PropagationPolicy::Orphan
        } else if has(FOREGROUND) {
            PropagationPolicy::Foreground
        } else {
            PropagationPolicy::Background
        };
        self.delete(identity, &entry, policy).await
    }

    /// Classifies a reference. Also returns whether the graph receives an event when that changes.
    async fn classify(
        &self,
        child: &Entry,
        owner: &Owner,
    ) -> Result<(ReferenceClass, bool), BoxError> {
        let key = child.meta().key();
        let known = self.graph.lock().known(owner, key);
        match known {
            KnownOwner::Present(State::Foreground) => return Ok((ReferenceClass::Waiting, true)),
            KnownOwner::Present(_) => return Ok((ReferenceClass::Solid, true)),
            KnownOwner::Absent => return Ok((self.classify_absent(owner), true)),
            KnownOwner::Elsewhere | KnownOwner::Unknown => {}
        }
        let Some(identity) = self.resolve_owner(owner, key) else {
            self.record_invalid_namespace(child, owner);
            return Ok((ReferenceClass::Unknown, true));
        };
        let live = self.client.dynamic(&identity.kind).live().get(&identity.key).await?;
        let live =
            live.filter(|live| live.metadata.uid.as_deref().is_some_and(|uid| owner.uid == *uid));
        let Some(live) = live else {
            self.record_invalid_namespace(child, owner);
            self.graph.lock().record_absent(&owner.uid, identity);
            return Ok((self.classify_absent(owner), true));
        };
        let finalizers = live.metadata.finalizers.unwrap_or_default();
        let waits = live.metadata.deletion_timestamp.is_some()
            && finalizers.iter().any(|finalizer| finalizer == FOREGROUND);
        Ok((if waits { ReferenceClass::Waiting } else { ReferenceClass::Solid }, false))
    }

    /// Classifies a reference to an absent owner.
    fn classify_absent(&self, owner: &Owner) -> ReferenceClass {
        match self.graph.lock().has_orphaned(&owner.uid) {
            true => ReferenceClass::Orphaned,
            false => ReferenceClass::Dangling,
        }
    }

    /// Records an event if the named owner is in another namespace.
    fn record_invalid_namespace(&self, child: &Entry, owner: &Owner) {
        let Some(kind) = self.types.read().find(&owner.group, &owner.kind).cloned() else {
            return;
        };
        let is_declared = self.cache().is_declared(&kind);
        if !kind.namespaced() || !is_declared {
            return;
        }
        // Objects are not indexed by uid: this scans all objects of the type, once per such owner.
        let Ok(all) = self.cache().list(&kind).entries() else { return };
        let there = all.iter().find(|entry| *entry.meta().uid() == owner.uid);
        let elsewhere = there
            .is_some_and(|entry| entry.meta().key().namespace() != child.meta().key().namespace());
        if elsewhere {
            let namespace = child.meta().key().namespace().unwrap_or_default();
            let message = format!(
                "ownerRef [{}/{}, namespace: {namespace}, name: {}, uid: {}] does not exist in \
                 namespace {namespace:?}",
                kind.api_version(),
                owner.kind,
                owner.name,
                owner.uid,
            );
            self.event_recorder.warning_event(
                &child.object_reference(),
                "OwnerRefInvalidNamespace",
                &message,
            );
        }
    }
}
