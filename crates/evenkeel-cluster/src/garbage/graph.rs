//! Who owns whom, by uid, of all objects that own or are owned.
//!
//! An object that neither owns nor is owned is not here, so most of a cluster costs nothing. What is
//! here are edges: names of owners and what else is needed to judge an object is read from the
//! cache, which has it anyway.
//!
//! The graph is told of every change and answers with the objects that have to be looked at. It is
//! pure: no IO, no clock, and the order of what it answers follows from the order of what it was
//! told.

use std::collections::{BTreeSet, HashMap, VecDeque};

use evenkeel::cache::{Meta, Owner};
use evenkeel::{Key, Kind, Uid};

/// Keeps an object until those it owns are gone.
pub(super) const FOREGROUND: &str = "foregroundDeletion";
/// Keeps an object until those it owns are no longer owned by it.
pub(super) const ORPHAN: &str = "orphan";

/// Where an object is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Others name it as owner, and it has not been seen, or is no longer there.
    Unseen,
    /// It is there.
    Live,
    /// It goes, and nothing is left to do about it.
    Deleting,
    /// It goes once what it owns is gone.
    Foreground,
    /// It goes once what it owns has been let go.
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

/// The place of an object that is there or is thought to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) kind: Kind,
    pub(super) key: Key,
}

impl Place {
    /// Whether `owner`, as named by a dependent called `child`, is what is here.
    pub(super) fn is_meant(&self, owner: &Owner, child: &Key) -> bool {
        self.kind.is(&owner.group, &owner.kind)
            && self.key.name() == &*owner.name
            && (!self.kind.namespaced() || self.key.namespace() == child.namespace())
    }
}

#[derive(Debug)]
struct Node {
    uid: Uid,
    state: State,
    place: Option<Place>,
    owners: Box<[Edge]>,
    dependents: BTreeSet<Slot>,
    /// Where it was looked for and is not, or was and is no longer.
    absent: Vec<Place>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Edge {
    owner: Slot,
    /// Whether a foreground deletion of the owner waits for this dependent.
    blocks: bool,
}

type Slot = u32;

/// The graph.
#[derive(Debug, Default)]
pub(super) struct Graph {
    nodes: Vec<Option<Node>>,
    free: Vec<Slot>,
    slots: HashMap<Uid, Slot>,
    /// Who let its dependents go lately, the latest last.
    orphaners: VecDeque<Uid>,
}

/// How many are remembered that let their dependents go: a dependent is heard of moments later.
const ORPHANERS: usize = 256;

/// What a look at one object finds.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) place: Place,
    pub(super) state: State,
    /// Whether there is anything it owns.
    pub(super) owns: bool,
}

/// What is known of an owner that a dependent names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// It is there, where the dependent says, in this state.
    There(State),
    /// An object of this uid is there, but elsewhere than the dependent says.
    Elsewhere,
    /// It is known not to be where the dependent says.
    Absent,
    /// Nothing is known.
    Nothing,
}

impl Graph {
    /// Takes in that an object is there, as `meta` says. `lookup` tells what the cache has where an
    /// owner reference points. Whoever has to be looked at is added to `due`.
    pub(super) fn seen(
        &mut self,
        kind: &Kind,
        meta: &Meta,
        lookup: impl Fn(&Owner) -> Option<(Place, State)>,
        due: &mut Vec<Uid>,
    ) {
        let state = State::of(meta);
        let known = self.slots.get(meta.uid()).copied();
        let waits = matches!(state, State::Foreground | State::Orphaning);
        if known.is_none() && meta.owners().is_empty() && !waits {
            return;
        }
        let slot = known.unwrap_or_else(|| self.insert(meta.uid()));
        let Some(node) = self.node(slot) else { return };
        let before = std::mem::replace(&mut node.state, state);
        // A type may come to be watched in another version.
        if node.place.as_ref().is_none_or(|place| place.kind != *kind) {
            node.place = Some(Place { kind: kind.clone(), key: meta.key().clone() });
        }
        if before == State::Unseen {
            node.absent.clear();
            // They may mean an object elsewhere.
            self.dependents_of(slot, due);
        }
        if state != before && waits {
            due.push(meta.uid().clone());
            if state == State::Foreground {
                self.dependents_of(slot, due);
            }
        }
        self.set_owners(slot, meta, lookup, due);
        self.tidy(slot);
    }

    fn set_owners(
        &mut self,
        slot: Slot,
        meta: &Meta,
        lookup: impl Fn(&Owner) -> Option<(Place, State)>,
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
        let mut doubtful = false;
        for owner in meta.owners() {
            let (known, there) = match self.slots.get(&owner.uid) {
                Some(known) => (Some(*known), self.known(owner, meta.key())),
                None => (None, Known::Nothing),
            };
            let target = known.unwrap_or_else(|| self.insert(&owner.uid));
            edges.push(Edge { owner: target, blocks: owner.blocks_deletion });
            let Some(node) = self.node(target) else { continue };
            node.dependents.insert(slot);
            match there {
                // It waits for this one too, and has perhaps been looked at before.
                Known::There(State::Foreground) => doubtful = true,
                Known::There(State::Orphaning) => due.push(owner.uid.clone()),
                Known::There(_) => {}
                Known::Nothing if node.state == State::Unseen => match lookup(owner) {
                    Some((place, state)) => {
                        node.place = Some(place);
                        node.state = state;
                        // Its own event, which is still to come, will not be news.
                        if matches!(state, State::Foreground | State::Orphaning) {
                            due.push(owner.uid.clone());
                            doubtful = true;
                        }
                    }
                    None => doubtful = true,
                },
                Known::Elsewhere | Known::Absent | Known::Nothing => doubtful = true,
            }
        }
        let Some(node) = self.node(slot) else { return };
        let former = std::mem::replace(&mut node.owners, edges.clone().into());
        for edge in former {
            let now = edges.iter().find(|now| now.owner == edge.owner);
            if edge.blocks && !now.is_some_and(|now| now.blocks) {
                self.foreground(edge.owner, due);
            }
            if now.is_none() {
                self.unlink(edge.owner, slot);
            }
        }
        if doubtful {
            due.push(meta.uid().clone());
        }
    }

    /// Takes in that the object of this uid is gone.
    pub(super) fn gone(&mut self, uid: &Uid, due: &mut Vec<Uid>) {
        let Some(slot) = self.slots.get(uid).copied() else { return };
        let Some(node) = self.node(slot) else { return };
        node.state = State::Unseen;
        let place = node.place.take();
        node.absent.extend(place);
        let owners = std::mem::take(&mut node.owners);
        self.dependents_of(slot, due);
        for edge in owners {
            self.unlink(edge.owner, slot);
            self.foreground(edge.owner, due);
        }
        self.tidy(slot);
    }

    /// Takes in that a type is no longer there, and so none of its objects.
    pub(super) fn gone_with(&mut self, kind: &Kind, due: &mut Vec<Uid>) {
        for uid in self.of(kind) {
            self.gone(&uid, due);
        }
    }

    /// Takes in that a type is no longer served: nothing is known of its objects any more.
    pub(super) fn forget(&mut self, kind: &Kind) {
        for uid in self.of(kind) {
            self.gone(&uid, &mut Vec::new());
            if let Some(slot) = self.slots.get(&uid).copied()
                && let Some(node) = self.node(slot)
            {
                node.absent.retain(|place| place.kind != *kind);
            }
        }
    }

    fn of(&self, kind: &Kind) -> Vec<Uid> {
        let is_one = |node: &&Node| node.place.as_ref().is_some_and(|place| place.kind == *kind);
        let all = self.nodes.iter().flatten().filter(is_one);
        all.map(|node| node.uid.clone()).collect()
    }

    /// Takes in that the server was asked, and what `uid` names is not at `place`.
    pub(super) fn absent(&mut self, uid: &Uid, place: Place) {
        if let Some(slot) = self.slots.get(uid).copied()
            && let Some(node) = self.node(slot)
            && !node.absent.contains(&place)
        {
            node.absent.push(place);
        }
    }

    /// Takes in that an object has let everything go that it was known to own. A dependent that was
    /// made just before, and is heard of only now, is meant as well.
    pub(super) fn let_go(&mut self, uid: &Uid) {
        if self.has_let_go(uid) {
            return;
        }
        if self.orphaners.len() == ORPHANERS {
            self.orphaners.pop_front();
        }
        self.orphaners.push_back(uid.clone());
    }

    /// Whether an object has let go what it owned.
    pub(super) fn has_let_go(&self, uid: &Uid) -> bool {
        self.orphaners.contains(uid)
    }

    /// What is known of an object that is there.
    pub(super) fn find(&self, uid: &Uid) -> Option<Found> {
        let node = self.get(*self.slots.get(uid)?)?;
        let place = node.place.clone()?;
        Some(Found { place, state: node.state, owns: !node.dependents.is_empty() })
    }

    /// What is known of `owner`, which `child` names.
    pub(super) fn known(&self, owner: &Owner, child: &Key) -> Known {
        let node = self.slots.get(&owner.uid).and_then(|slot| self.get(*slot));
        let Some(node) = node else { return Known::Nothing };
        if node.absent.iter().any(|place| place.is_meant(owner, child)) {
            return Known::Absent;
        }
        match &node.place {
            Some(place) if place.is_meant(owner, child) => Known::There(node.state),
            Some(_) => Known::Elsewhere,
            None => Known::Nothing,
        }
    }

    /// Whether anything the object owns is itself waiting for what it owns.
    pub(super) fn owns_waiting(&self, uid: &Uid) -> bool {
        self.owned(uid).any(|(_, node)| node.state == State::Foreground)
    }

    /// The objects that a foreground deletion of this one waits for, and whether each of them waits
    /// in turn. One that owns itself does not wait for itself.
    pub(super) fn blocking(&self, uid: &Uid) -> Vec<(Uid, bool)> {
        let blocking = self.owned(uid).filter(|(slot, node)| {
            node.uid != *uid && node.owners.iter().any(|edge| edge.owner == *slot && edge.blocks)
        });
        blocking.map(|(_, node)| (node.uid.clone(), node.state == State::Foreground)).collect()
    }

    /// What the object owns, with where it is.
    pub(super) fn dependents(&self, uid: &Uid) -> Vec<(Uid, Place)> {
        let owned = self.owned(uid).map(|(_, node)| node);
        owned.filter_map(|node| Some((node.uid.clone(), node.place.clone()?))).collect()
    }

    /// The objects with an owner that has not been seen, so that nothing is known of it.
    pub(super) fn unknown(&self) -> Vec<Uid> {
        let unseen = |edge: &Edge| self.get(edge.owner).is_some_and(|owner| owner.place.is_none());
        let nodes = self.nodes.iter().flatten();
        nodes.filter(|node| node.owners.iter().any(unseen)).map(|node| node.uid.clone()).collect()
    }

    /// How many objects it holds.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    fn owned(&self, uid: &Uid) -> impl Iterator<Item = (Slot, &Node)> {
        let owner = self.slots.get(uid).copied();
        let dependents = owner.and_then(|slot| self.get(slot)).map(|node| &node.dependents);
        let slots = dependents.into_iter().flatten();
        slots.filter_map(move |slot| Some((owner?, self.get(*slot)?)))
    }

    fn insert(&mut self, uid: &Uid) -> Slot {
        let node = Some(Node {
            uid: uid.clone(),
            state: State::Unseen,
            place: None,
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

    /// Has an owner looked at that waits for what it owns.
    fn foreground(&self, slot: Slot, due: &mut Vec<Uid>) {
        if let Some(owner) = self.get(slot).filter(|owner| owner.state == State::Foreground) {
            due.push(owner.uid.clone());
        }
    }

    fn unlink(&mut self, owner: Slot, dependent: Slot) {
        if let Some(node) = self.node(owner) {
            node.dependents.remove(&dependent);
        }
        self.tidy(owner);
    }

    /// Lets go of an object that is in no relation any more.
    fn tidy(&mut self, slot: Slot) {
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
