//! Where the keys live: one slot for each distinct key the queue knows, found by hash.
//!
//! Everything else in the queue (class lists, the delay heap, the running table) refers to a key by
//! the number of its slot, so a key is stored once and moving it costs no allocation. The links in a
//! slot belong to whichever structure holds the slot at the time; [`Slot`] says which.

use std::ops::{Index, IndexMut};

use hashbrown::HashTable;

/// No slot.
pub(super) const NIL: u32 = u32::MAX;

/// Up to this many slots (a megabyte) the memory of a burst is kept for the next one.
const KEPT: usize = 16 * 1024;

/// One key and all that the queue knows about it.
///
/// A key that is running uses `prev` for its place in the running table; one that is waiting uses
/// `next` for its place in the delay heap; it may be both. A key that is neither uses both as links
/// of the list it is in.
#[derive(Debug)]
pub(super) struct Slot<T, C> {
    /// None in a free slot, whose `next` is the next free one.
    pub(super) key: Option<T>,
    /// Why the key is pending; none while it is not.
    pub(super) causes: Option<C>,
    /// When it became due.
    pub(super) since: u64,
    pub(super) prev: u32,
    pub(super) next: u32,
    pub(super) priority: i32,
    pub(super) failures: u32,
    hash: u32,
    pub(super) pending: Pending,
    pub(super) running: bool,
}

/// What a key is waiting for, apart from its present run to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pending {
    /// Nothing: it is running, or only remembered for its failures.
    No,
    /// A worker.
    Due,
    /// Its time.
    Delayed,
}

#[derive(Debug)]
pub(super) struct Slots<T, C> {
    slots: Vec<Slot<T, C>>,
    free: u32,
    by_hash: HashTable<u32>,
}

impl<T, C> Slots<T, C> {
    pub(super) const fn new() -> Self {
        Self { slots: Vec::new(), free: NIL, by_hash: HashTable::new() }
    }

    pub(super) fn find(&self, hash: u32, key: &T) -> Option<u32>
    where
        T: Eq,
    {
        self.by_hash
            .find(spread(hash), |&slot| {
                let slot = &self[slot];
                slot.hash == hash && slot.key.as_ref() == Some(key)
            })
            .copied()
    }

    /// A slot for a key that has none.
    pub(super) fn insert(&mut self, hash: u32, key: T) -> u32 {
        let slot = Slot {
            key: Some(key),
            causes: None,
            since: 0,
            prev: NIL,
            next: NIL,
            priority: 0,
            failures: 0,
            hash,
            pending: Pending::No,
            running: false,
        };
        let at = match self.free {
            NIL => {
                let at = u32::try_from(self.slots.len()).expect("memory ends before numbers do");
                self.slots.push(slot);
                at
            }
            at => {
                self.free = self[at].next;
                self[at] = slot;
                at
            }
        };
        let slots = &self.slots;
        self.by_hash.insert_unique(spread(hash), at, |&at| spread(slots[at as usize].hash));
        at
    }

    pub(super) fn remove(&mut self, at: u32) {
        let hash = spread(self[at].hash);
        if let Ok(entry) = self.by_hash.find_entry(hash, |&other| other == at) {
            entry.remove();
        }
        let free = self.free;
        let slot = &mut self[at];
        slot.key = None;
        slot.causes = None;
        slot.next = free;
        self.free = at;
    }

    /// Whether a burst is over and most of the memory is air.
    pub(super) fn is_sparse(&self) -> bool {
        self.slots.len() > KEPT && self.by_hash.len() < self.slots.len() / 8
    }

    /// Gives back the memory of free slots. Who has numbers of slots must put them through the
    /// answer; the links in the slots are done.
    pub(super) fn compact(&mut self) -> Renumbering {
        let old = std::mem::replace(self, Self::new());
        let mut numbers = vec![NIL; old.slots.len()];
        let used = (0_u32..).zip(old.slots).filter(|(_, slot)| slot.key.is_some());
        for (number, (was, slot)) in (0..).zip(used) {
            numbers[was as usize] = number;
            self.slots.push(slot);
        }
        let renumbering = Renumbering(numbers);
        for slot in &mut self.slots {
            if !slot.running {
                slot.prev = renumbering.of(slot.prev);
            }
            if slot.pending != Pending::Delayed {
                slot.next = renumbering.of(slot.next);
            }
        }
        let slots = &self.slots;
        self.by_hash = HashTable::with_capacity(slots.len());
        for (at, slot) in (0..).zip(slots) {
            let hasher = |&at: &u32| spread(slots[at as usize].hash);
            self.by_hash.insert_unique(spread(slot.hash), at, hasher);
        }
        renumbering
    }

    /// The slots in use, in no order that means anything.
    pub(super) fn used(&self) -> impl Iterator<Item = u32> {
        (0..).zip(&self.slots).filter(|(_, slot)| slot.key.is_some()).map(|(at, _)| at)
    }
}

/// Which number a slot has now, by the one it had.
#[derive(Debug)]
pub(super) struct Renumbering(Vec<u32>);

impl Renumbering {
    pub(super) fn of(&self, slot: u32) -> u32 {
        self.0.get(slot as usize).copied().unwrap_or(NIL)
    }
}

impl<T, C> Index<u32> for Slots<T, C> {
    type Output = Slot<T, C>;

    fn index(&self, at: u32) -> &Slot<T, C> {
        &self.slots[at as usize]
    }
}

impl<T, C> IndexMut<u32> for Slots<T, C> {
    fn index_mut(&mut self, at: u32) -> &mut Slot<T, C> {
        &mut self.slots[at as usize]
    }
}

/// The table takes its bucket from the low bits and its tag from the high ones; 32 bits of hash
/// serve for both, and cost a slot half as much as 64.
fn spread(hash: u32) -> u64 {
    u64::from(hash) << 32 | u64::from(hash)
}
