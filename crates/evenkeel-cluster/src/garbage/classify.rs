//! Classifies the owners of an object to decide whether it is garbage.

use evenkeel::cache::{Entry, Owner, Query};
use evenkeel::{BoxError, Uid};
use kube::api::PropagationPolicy;

use super::graph::{FOREGROUND, Found, Known, ORPHAN, State};
use super::{Collector, Looked};

/// The class of an owner reference. Mirrors `classifyReferences`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// The owner exists.
    Solid,
    /// The owner exists and waits for its dependents to be deleted.
    Waiting,
    /// The owner does not exist.
    Dangling,
    /// The owner no longer exists, and orphaned its dependents.
    Released,
    /// Unknown: the type is not known, or a cluster-scoped object names a namespaced owner. Such an
    /// object is never deleted.
    Undecidable,
}

impl Collector {
    /// Deletes the object if none of its owners exists, and removes references that block deletion.
    /// Mirrors `attemptToDeleteItem`.
    pub(super) async fn judge(&self, uid: &Uid, found: &Found) -> Result<Looked, BoxError> {
        let place = &found.place;
        // The object classified is the object deleted: references and resourceVersion are of one
        // state.
        let Some(entry) = self.entry(place, uid).await? else { return Ok(Looked::Done) };
        let meta = entry.meta();
        if meta.is_deleting() || meta.owners().is_empty() {
            return Ok(Looked::Done);
        }
        let mut verdicts = Vec::with_capacity(meta.owners().len());
        let mut unseen = false;
        for owner in meta.owners() {
            let (verdict, seen) = self.verdict(&entry, owner).await?;
            if verdict == Verdict::Undecidable {
                return Ok(Looked::Done);
            }
            unseen |= !seen;
            verdicts.push(verdict);
        }
        let any = |verdict| verdicts.contains(&verdict);
        let those = |wanted: fn(Verdict) -> bool| -> Vec<&Uid> {
            let references = meta.owners().iter().zip(&verdicts);
            references.filter(|(_, at)| wanted(**at)).map(|(owner, _)| &owner.uid).collect()
        };
        if any(Verdict::Released) {
            // The other references are classified once the released ones are removed.
            let released = those(|verdict| verdict == Verdict::Released);
            self.drop_owners(place, &entry, &released).await?;
            let only = released.len() == verdicts.len();
            return Ok(if only { Looked::Done } else { Looked::Again });
        }
        if any(Verdict::Solid) {
            let useless = those(|verdict| verdict != Verdict::Solid);
            if !useless.is_empty() {
                self.drop_owners(place, &entry, &useless).await?;
            }
            // No event arrives for an owner that was created and deleted unobserved, so it is read
            // again.
            return Ok(if unseen { Looked::Again } else { Looked::Done });
        }
        let has = |name: &str| meta.finalizers().any(|finalizer| finalizer == name);
        let policy = if any(Verdict::Waiting) && found.owns {
            // A cycle of objects that wait for each other would never end.
            if self.graph.lock().owns_waiting(uid) {
                self.unblock(place, &entry).await?;
                return self.delete_now(uid, place).await;
            }
            PropagationPolicy::Foreground
        } else if has(ORPHAN) {
            PropagationPolicy::Orphan
        } else if has(FOREGROUND) {
            PropagationPolicy::Foreground
        } else {
            PropagationPolicy::Background
        };
        self.delete(place, &entry, policy).await
    }

    /// Classifies a reference. Also returns whether the graph receives an event when that changes.
    async fn verdict(&self, child: &Entry, owner: &Owner) -> Result<(Verdict, bool), BoxError> {
        let key = child.meta().key();
        let known = self.graph.lock().known(owner, key);
        match known {
            Known::There(State::Foreground) => return Ok((Verdict::Waiting, true)),
            Known::There(_) => return Ok((Verdict::Solid, true)),
            Known::Absent => return Ok((self.absent(owner), true)),
            Known::Elsewhere | Known::Nothing => {}
        }
        let Some(place) = self.place(owner, key) else {
            self.report_elsewhere(child, owner);
            return Ok((Verdict::Undecidable, true));
        };
        let live = self.client.dynamic(&place.kind).live(&place.key).await?;
        let live =
            live.filter(|live| live.metadata.uid.as_deref().is_some_and(|uid| owner.uid == *uid));
        let Some(live) = live else {
            self.report_elsewhere(child, owner);
            self.graph.lock().absent(&owner.uid, place);
            return Ok((self.absent(owner), true));
        };
        let finalizers = live.metadata.finalizers.unwrap_or_default();
        let waits = live.metadata.deletion_timestamp.is_some()
            && finalizers.iter().any(|finalizer| finalizer == FOREGROUND);
        Ok((if waits { Verdict::Waiting } else { Verdict::Solid }, false))
    }

    /// Classifies a reference to an absent owner.
    fn absent(&self, owner: &Owner) -> Verdict {
        match self.graph.lock().has_let_go(&owner.uid) {
            true => Verdict::Released,
            false => Verdict::Dangling,
        }
    }

    /// Records an event if the named owner is in another namespace.
    fn report_elsewhere(&self, child: &Entry, owner: &Owner) {
        let Some(kind) = self.types.read().named(&owner.group, &owner.kind).cloned() else {
            return;
        };
        let is_declared = self.cache().is_declared(&kind);
        if !kind.namespaced() || !is_declared {
            return;
        }
        // Objects are not indexed by uid: this scans all objects of the type, once per such owner.
        let Ok(all) = self.cache().list(&kind, &Query::default()) else { return };
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
