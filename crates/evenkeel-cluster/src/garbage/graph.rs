//! The graph of owners and dependents, by uid.
//!
//! An object without owners and dependents is not in it, so most objects cost nothing. The graph
//! holds edges only; names of owners and whatever else classification needs are read from the
//! cache.
//!
//! The graph receives every change and returns the objects to process. It is pure: no IO, no clock,
//! and the order of its results depends only on the order of the changes. Mirrors upstream's
//! `GraphBuilder`.

use std::collections::{BTreeSet, HashMap, VecDeque};

use evenkeel::cache::{Meta, Owner};
use evenkeel::{Key, Kind, Uid};

/// Keeps an object until its dependents are deleted.
pub(super) const FOREGROUND: &str = "foregroundDeletion";
/// Keeps an object until its dependents no longer reference it.
pub(super) const ORPHAN: &str = "orphan";

/// The deletion state of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Named as an owner by others, but not seen yet or deleted.
    Unseen,
    /// Exists.
    Live,
    /// Being deleted, with nothing left to do for the collector.
    Deleting,
    /// Being deleted once its dependents are deleted.
    Foreground,
    /// Being deleted once its dependents are orphaned.
    Orphaning,
}

impl State {
    pub(super) fn of(meta: &Meta) -> Self {
        let has = |name: &str| meta.finalizers().any(|finalizer| finalizer == name);
        match meta.is_deleting() {
            false => Self::Live,
            true if has(ORPHAN) => Self::Orphaning,
            true if has(FOREGROUND) => Self::Foreground,
            true => Self::Deleting,
        }
    }
}

/// The type and key of an object that exists or is assumed to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) kind: Kind,
    pub(super) key: Key,
}

impl Identity {
    /// Whether `owner`, as named by the dependent `child`, is the object at this place.
    pub(super) fn matches(&self, owner: &Owner, child: &Key) -> bool {
        self.kind.is(&owner.group, &owner.kind)
            && self.key.name() == &*owner.name
            && (!self.kind.namespaced() || self.key.namespace() == child.namespace())
    }
}

#[derive(Debug)]
struct Node {
    uid: Uid,
    state: State,
    identity: Option<Identity>,
    owners: Box<[Edge]>,
    dependents: BTreeSet<Slot>,
    /// Where a read did not find it, or where it was before its deletion.
    absent: Vec<Identity>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Edge {
    owner: Slot,
    /// Whether a foreground deletion of the owner waits for this dependent.
    blocks: bool,
}

type Slot = u32;

/// The ownership graph.
#[derive(Debug, Default)]
pub(super) struct Graph {
    nodes: Vec<Option<Node>>,
    free: Vec<Slot>,
    slots: HashMap<Uid, Slot>,
    /// Owners that orphaned their dependents recently, the latest last.
    orphaned_owners: VecDeque<Uid>,
}

/// How many such owners are remembered: a dependent may be observed moments later.
const MAX_ORPHANED_OWNERS: usize = 256;

/// An object in the graph.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) identity: Identity,
    pub(super) state: State,
    /// Whether it has dependents.
    pub(super) owns: bool,
}

/// What is known of an owner that a dependent names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KnownOwner {
    /// It exists where the reference points, in this state.
    Present(State),
    /// An object with this uid exists, but elsewhere.
    Elsewhere,
    /// It does not exist where the reference points.
    Absent,
    /// Nothing is known.
    Unknown,
}

impl Graph {
    /// Adds or updates an object. `lookup` returns the cached object that an owner reference names.
    /// Objects to process are added to `due`.
    pub(super) fn upsert(
        &mut self,
        kind: &Kind,
        meta: &Meta,
        lookup: impl Fn(&Owner) -> Option<(Identity, State)>,
        due: &mut Vec<Uid>,
    ) {
        let state = State::of(meta);
        let known = self.slots.get(meta.uid()).copied();
        let waits = matches!(state, State::Foreground | State::Orphaning);
        // Not an owner so far and without owners: there is no edge to keep.
        if known.is_none() && meta.owners().is_empty() && !waits {
            return;
        }
        let slot = known.unwrap_or_else(|| self.insert(meta.uid()));
        let Some(node) = self.node(slot) else { return };
        let before = std::mem::replace(&mut node.state, state);
        // The preferred version of a type may change.
        if node.identity.as_ref().is_none_or(|identity| identity.kind != *kind) {
            node.identity = Some(Identity { kind: kind.clone(), key: meta.key().clone() });
        }
        if before == State::Unseen {
            // Dependents were added before their owner (upstream: a virtual node becomes observed).
            // Their references may point elsewhere, so each is processed again.
            node.absent.clear();
            self.dependents_of(slot, due);
        }
        // The finalizer was set (upstream: `processTransitions`): the owner is processed, and in
        // foreground its dependents, which are deleted first.
        if state != before && waits {
            due.push(meta.uid().clone());
            if state == State::Foreground {
                self.dependents_of(slot, due);
            }
        }
        self.set_owners(slot, meta, lookup, due);
        self.remove_if_isolated(slot);
    }

    fn set_owners(
        &mut self,
        slot: Slot,
        meta: &Meta,
        lookup: impl Fn(&Owner) -> Option<(Identity, State)>,
        due: &mut Vec<Uid>,
    ) {
        let unchanged = self.nodes[slot as usize].as_ref().is_some_and(|node| {
            node.owners.len() == meta.owners().len()
                && node.owners.iter().zip(meta.owners()).all(|(edge, owner)| {
                    edge.blocks == owner.blocks_deletion
                        && self.slots.get(&owner.uid) == Some(&edge.owner)
                })
        });
        if unchanged {
            return;
        }
        let mut edges: Vec<Edge> = Vec::with_capacity(meta.owners().len());
        let mut needs_processing = false;
        for owner in meta.owners() {
            let (known, there) = match self.slots.get(&owner.uid) {
                Some(known) => (Some(*known), self.known(owner, meta.key())),
                None => (None, KnownOwner::Unknown),
            };
            let target = known.unwrap_or_else(|| self.insert(&owner.uid));
            edges.push(Edge { owner: target, blocks: owner.blocks_deletion });
            let Some(node) = self.node(target) else { continue };
            node.dependents.insert(slot);
            match there {
                // The owner waits for this dependent too, and may have been processed before.
                KnownOwner::Present(State::Foreground) => needs_processing = true,
                KnownOwner::Present(State::Orphaning) => due.push(owner.uid.clone()),
                KnownOwner::Present(_) => {}
                KnownOwner::Unknown if node.state == State::Unseen => match lookup(owner) {
                    Some((identity, state)) => {
                        node.identity = Some(identity);
                        node.state = state;
                        // The owner's own event will find the state unchanged.
                        if matches!(state, State::Foreground | State::Orphaning) {
                            due.push(owner.uid.clone());
                            needs_processing = true;
                        }
                    }
                    None => needs_processing = true,
                },
                KnownOwner::Elsewhere | KnownOwner::Absent | KnownOwner::Unknown => {
                    needs_processing = true
                }
            }
        }
        // New edges are linked before old ones are removed, so that an owner that stays is not removed
        // as isolated in between.
        let Some(node) = self.node(slot) else { return };
        let former = std::mem::replace(&mut node.owners, edges.clone().into());
        for edge in former {
            let now = edges.iter().find(|now| now.owner == edge.owner);
            // A foreground deletion no longer waits for this dependent; nothing else enqueues the owner.
            if edge.blocks && !now.is_some_and(|now| now.blocks) {
                self.push_if_foreground(edge.owner, due);
            }
            if now.is_none() {
                self.unlink(edge.owner, slot);
            }
        }
        if needs_processing {
            due.push(meta.uid().clone());
        }
    }

    /// Removes a deleted object.
    pub(super) fn remove(&mut self, uid: &Uid, due: &mut Vec<Uid>) {
        let Some(slot) = self.slots.get(uid).copied() else { return };
        let Some(node) = self.node(slot) else { return };
        // It stays as long as dependents name it, as an owner that is known to be absent.
        node.state = State::Unseen;
        let identity = node.identity.take();
        node.absent.extend(identity);
        let owners = std::mem::take(&mut node.owners);
        self.dependents_of(slot, due);
        for edge in owners {
            self.unlink(edge.owner, slot);
            self.push_if_foreground(edge.owner, due);
        }
        self.remove_if_isolated(slot);
    }

    /// Removes all objects of a type that no longer exists.
    pub(super) fn remove_kind(&mut self, kind: &Kind, due: &mut Vec<Uid>) {
        for uid in self.uids_of_kind(kind) {
            self.remove(&uid, due);
        }
    }

    /// Removes all objects of a type that is no longer served: whether they exist is unknown.
    pub(super) fn forget_kind(&mut self, kind: &Kind) {
        for uid in self.uids_of_kind(kind) {
            // No dependent is processed: they would be deleted as if their owners were.
            self.remove(&uid, &mut Vec::new());
            if let Some(slot) = self.slots.get(&uid).copied()
                && let Some(node) = self.node(slot)
            {
                node.absent.retain(|identity| identity.kind != *kind);
            }
        }
    }

    fn uids_of_kind(&self, kind: &Kind) -> Vec<Uid> {
        let is_one =
            |node: &&Node| node.identity.as_ref().is_some_and(|identity| identity.kind == *kind);
        let all = self.nodes.iter().flatten().filter(is_one);
        all.map(|node| node.uid.clone()).collect()
    }

    /// Records that a live read did not find `uid` at `identity`.
    pub(super) fn record_absent(&mut self, uid: &Uid, identity: Identity) {
        if let Some(slot) = self.slots.get(uid).copied()
            && let Some(node) = self.node(slot)
            && !node.absent.contains(&identity)
        {
            node.absent.push(identity);
        }
    }

    /// Records that an object has orphaned its dependents. This also applies to a dependent that
    /// was created just before and is observed later.
    pub(super) fn record_orphaned(&mut self, uid: &Uid) {
        if self.has_orphaned(uid) {
            return;
        }
        if self.orphaned_owners.len() == MAX_ORPHANED_OWNERS {
            self.orphaned_owners.pop_front();
        }
        self.orphaned_owners.push_back(uid.clone());
    }

    /// Whether an object has orphaned its dependents.
    pub(super) fn has_orphaned(&self, uid: &Uid) -> bool {
        self.orphaned_owners.contains(uid)
    }

    /// Returns an object that exists.
    pub(super) fn find(&self, uid: &Uid) -> Option<Found> {
        let node = self.get(*self.slots.get(uid)?)?;
        let identity = node.identity.clone()?;
        Some(Found { identity, state: node.state, owns: !node.dependents.is_empty() })
    }

    /// Returns what is known of `owner`, as named by `child`.
    pub(super) fn known(&self, owner: &Owner, child: &Key) -> KnownOwner {
        let node = self.slots.get(&owner.uid).and_then(|slot| self.get(*slot));
        let Some(node) = node else { return KnownOwner::Unknown };
        if node.absent.iter().any(|identity| identity.matches(owner, child)) {
            return KnownOwner::Absent;
        }
        match &node.identity {
            Some(identity) if identity.matches(owner, child) => KnownOwner::Present(node.state),
            Some(_) => KnownOwner::Elsewhere,
            None => KnownOwner::Unknown,
        }
    }

    /// Whether a dependent of the object itself waits for its dependents.
    pub(super) fn has_waiting_dependent(&self, uid: &Uid) -> bool {
        self.dependent_nodes(uid).any(|(_, node)| node.state == State::Foreground)
    }

    /// Returns the dependents that block a foreground deletion of this object, and whether each of
    /// them waits in turn. An object that owns itself does not block itself.
    pub(super) fn blocking_dependents(&self, uid: &Uid) -> Vec<(Uid, bool)> {
        let blocking = self.dependent_nodes(uid).filter(|(slot, node)| {
            node.uid != *uid && node.owners.iter().any(|edge| edge.owner == *slot && edge.blocks)
        });
        blocking.map(|(_, node)| (node.uid.clone(), node.state == State::Foreground)).collect()
    }

    /// Returns the dependents of the object and their places.
    pub(super) fn dependents(&self, uid: &Uid) -> Vec<(Uid, Identity)> {
        let owned = self.dependent_nodes(uid).map(|(_, node)| node);
        owned.filter_map(|node| Some((node.uid.clone(), node.identity.clone()?))).collect()
    }

    /// Returns the objects with an owner that has not been seen.
    pub(super) fn with_unknown_owner(&self) -> Vec<Uid> {
        let unseen =
            |edge: &Edge| self.get(edge.owner).is_some_and(|owner| owner.identity.is_none());
        let nodes = self.nodes.iter().flatten();
        nodes.filter(|node| node.owners.iter().any(unseen)).map(|node| node.uid.clone()).collect()
    }

    /// Returns the number of objects.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    fn dependent_nodes(&self, uid: &Uid) -> impl Iterator<Item = (Slot, &Node)> {
        let owner = self.slots.get(uid).copied();
        let dependents = owner.and_then(|slot| self.get(slot)).map(|node| &node.dependents);
        let slots = dependents.into_iter().flatten();
        slots.filter_map(move |slot| Some((owner?, self.get(*slot)?)))
    }

    fn insert(&mut self, uid: &Uid) -> Slot {
        let node = Some(Node {
            uid: uid.clone(),
            state: State::Unseen,
            identity: None,
            owners: Box::default(),
            dependents: BTreeSet::new(),
            absent: Vec::new(),
        });
        let slot = match self.free.pop() {
            Some(slot) => {
                self.nodes[slot as usize] = node;
                slot
            }
            None => {
                self.nodes.push(node);
                Slot::try_from(self.nodes.len() - 1).unwrap_or(Slot::MAX)
            }
        };
        self.slots.insert(uid.clone(), slot);
        slot
    }

    fn get(&self, slot: Slot) -> Option<&Node> {
        self.nodes.get(slot as usize)?.as_ref()
    }

    fn node(&mut self, slot: Slot) -> Option<&mut Node> {
        self.nodes.get_mut(slot as usize)?.as_mut()
    }

    fn dependents_of(&self, slot: Slot, due: &mut Vec<Uid>) {
        let dependents = self.get(slot).into_iter().flat_map(|node| &node.dependents);
        due.extend(dependents.filter_map(|slot| Some(self.get(*slot)?.uid.clone())));
    }

    /// Enqueues an owner in foreground deletion.
    fn push_if_foreground(&self, slot: Slot, due: &mut Vec<Uid>) {
        if let Some(owner) = self.get(slot).filter(|owner| owner.state == State::Foreground) {
            due.push(owner.uid.clone());
        }
    }

    fn unlink(&mut self, owner: Slot, dependent: Slot) {
        if let Some(node) = self.node(owner) {
            node.dependents.remove(&dependent);
        }
        self.remove_if_isolated(owner);
    }

    /// Removes an object without owners and dependents.
    fn remove_if_isolated(&mut self, slot: Slot) {
        let Some(node) = self.get(slot) else { return };
        let waits = matches!(node.state, State::Foreground | State::Orphaning);
        if waits || !node.owners.is_empty() || !node.dependents.is_empty() {
            return;
        }
        if let Some(node) = self.nodes[slot as usize].take() {
            self.slots.remove(&node.uid);
            self.free.push(slot);
        }
    }
}
