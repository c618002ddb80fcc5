//! The storage of keys: one slot per distinct key, found by hash.
//!
//! The class lists, the delay heap and the running table refer to a key by the index of its slot,
//! so that a key is stored once and moving it needs no allocation. The links in a slot belong to
//! the structure that contains it; see [`Slot`].

use std::ops::{Index, IndexMut};

use hashbrown::HashTable;

/// No slot.
pub(super) const NIL: u32 = u32::MAX;

/// Memory up to this many slots (one megabyte) is never released.
const RETAINED_SLOTS: usize = 16 * 1024;

/// One key and its state.
///
/// For a running key, `prev` is the index in the running table; for a delayed key, `next` is the
/// index in the delay heap; a key may be both. Otherwise both are links of the list that contains
/// the key.
#[derive(Debug)]
pub(super) struct Slot<T, C> {
    /// `None` in a free slot, whose `next` is the next free slot.
    pub(super) key: Option<T>,
    /// The causes while the key is pending.
    pub(super) causes: Option<C>,
    /// When the key became due.
    pub(super) since: u64,
    pub(super) prev: u32,
    pub(super) next: u32,
    pub(super) priority: i32,
    pub(super) failures: u32,
    hash: u32,
    pub(super) pending: Pending,
    pub(super) running: bool,
}

/// Whether a key is queued, apart from its current run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pending {
    /// Not queued: running, or stored only for its failures.
    No,
    /// Due: waiting for a worker.
    Due,
    /// Delayed: waiting for its time.
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

    /// Inserts a key that has no slot.
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
                let at = u32::try_from(self.slots.len()).expect("fewer than 2^32 slots");
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

    /// Iterates over the slots in use.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &Slot<T, C>)> {
        (0..).zip(&self.slots).filter(|(_, slot)| slot.key.is_some())
    }

    /// Returns whether most slots are free after a burst.
    pub(super) fn is_sparse(&self) -> bool {
        self.slots.len() > RETAINED_SLOTS && self.by_hash.len() < self.slots.len() / 8
    }

    /// Releases the memory of free slots. The caller must renumber all indexes outside of the slots
    /// with the result.
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

    /// Iterates over the slots in use, in arbitrary order.
    pub(super) fn used(&self) -> impl Iterator<Item = u32> {
        (0..).zip(&self.slots).filter(|(_, slot)| slot.key.is_some()).map(|(at, _)| at)
    }
}

/// Maps old slot indexes to new ones.
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

/// Expands a 32-bit hash: the table uses the low bits for the bucket and the high bits for the tag.
fn spread(hash: u32) -> u64 {
    u64::from(hash) << 32 | u64::from(hash)
}
