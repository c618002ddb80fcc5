//! Keys whose time has not come: a heap by time, in which each slot knows its place.
//!
//! Knowing the place is what lets a key move to an earlier time or leave at once, so that the heap
//! never holds more than one entry for a key and nothing stale.

use super::slots::{Renumbering, Slots};

/// Children of one entry. Four make the heap flatter than two, and they share a cache line.
const ARITY: usize = 4;

#[derive(Debug)]
pub(super) struct Delays {
    heap: Vec<Entry>,
    /// Tells apart those due at one instant: first come, first served.
    sequence: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    at: u64,
    sequence: u32,
    slot: u32,
}

impl Delays {
    pub(super) const fn new() -> Self {
        Self { heap: Vec::new(), sequence: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.heap.len()
    }

    /// When the first key is due.
    pub(super) fn first(&self) -> Option<u64> {
        self.heap.first().map(|entry| entry.at)
    }

    /// When a waiting key is due.
    pub(super) fn at<T, C>(&self, slots: &Slots<T, C>, slot: u32) -> u64 {
        self.heap[slots[slot].next as usize].at
    }

    /// The first key that is due by `now`, taken out.
    pub(super) fn pop<T, C>(&mut self, slots: &mut Slots<T, C>, now: u64) -> Option<(u64, u32)> {
        let first = self.heap.first().filter(|first| first.at <= now)?;
        let (at, slot) = (first.at, first.slot);
        self.remove(slots, slot);
        Some((at, slot))
    }

    pub(super) fn push<T, C>(&mut self, slots: &mut Slots<T, C>, slot: u32, at: u64) {
        let entry = Entry { at, sequence: self.sequence, slot };
        self.sequence = self.sequence.wrapping_add(1);
        self.heap.push(entry);
        self.rise(slots, self.heap.len() - 1);
    }

    /// Moves a waiting key to `at` if that is earlier.
    pub(super) fn hasten<T, C>(&mut self, slots: &mut Slots<T, C>, slot: u32, at: u64) {
        let place = slots[slot].next as usize;
        if at < self.heap[place].at {
            self.heap[place].at = at;
            self.heap[place].sequence = self.sequence;
            self.sequence = self.sequence.wrapping_add(1);
            self.rise(slots, place);
        }
    }

    /// Takes out a waiting key.
    pub(super) fn remove<T, C>(&mut self, slots: &mut Slots<T, C>, slot: u32) {
        let place = slots[slot].next as usize;
        self.heap.swap_remove(place);
        if place < self.heap.len() {
            self.sink(slots, place);
            self.rise(slots, place);
        }
        // After a burst of delays the heap is mostly air.
        if self.heap.capacity() > 1024 && self.heap.len() < self.heap.capacity() / 4 {
            self.heap.shrink_to(self.heap.len() * 2);
        }
    }

    pub(super) fn renumber(&mut self, numbers: &Renumbering) {
        self.heap.iter_mut().for_each(|entry| entry.slot = numbers.of(entry.slot));
    }

    fn rise<T, C>(&mut self, slots: &mut Slots<T, C>, mut place: usize) {
        let entry = self.heap[place];
        while place > 0 {
            let parent = (place - 1) / ARITY;
            if self.heap[parent] < entry {
                break;
            }
            self.put(slots, place, self.heap[parent]);
            place = parent;
        }
        self.put(slots, place, entry);
    }

    fn sink<T, C>(&mut self, slots: &mut Slots<T, C>, mut place: usize) {
        let entry = self.heap[place];
        loop {
            let first = place * ARITY + 1;
            let children = first..self.heap.len().min(first + ARITY);
            let Some(least) = children.min_by_key(|&child| self.heap[child]) else { break };
            if entry < self.heap[least] {
                break;
            }
            self.put(slots, place, self.heap[least]);
            place = least;
        }
        self.put(slots, place, entry);
    }

    fn put<T, C>(&mut self, slots: &mut Slots<T, C>, place: usize, entry: Entry) {
        self.heap[place] = entry;
        slots[entry.slot].next = u32::try_from(place).expect("no more entries than slots");
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn keys_leave_in_the_order_of_their_times_whatever_moves_or_goes(
            ops in prop::collection::vec((0..100_u32, 0..1000_u64, 0..4), 1..400),
        ) {
            let mut slots: Slots<u32, ()> = Slots::new();
            (0..100).for_each(|slot| assert_eq!(slots.insert(slot, slot), slot));
            let (mut delays, mut model) = (Delays::new(), BTreeMap::new());
            for (slot, at, op) in ops {
                match model.get_mut(&slot) {
                    None => {
                        delays.push(&mut slots, slot, at);
                        model.insert(slot, at);
                    }
                    Some(was) if op > 0 => {
                        delays.hasten(&mut slots, slot, at);
                        *was = at.min(*was);
                    }
                    Some(_) => {
                        delays.remove(&mut slots, slot);
                        model.remove(&slot);
                    }
                }
                prop_assert_eq!(delays.first(), model.values().min().copied());
            }
            let mut order = Vec::new();
            while let Some((at, slot)) = delays.pop(&mut slots, 1000) {
                prop_assert_eq!(model.remove(&slot), Some(at));
                order.push(at);
            }
            prop_assert!(model.is_empty() && order.is_sorted());
            prop_assert_eq!(delays.pop(&mut slots, u64::MAX), None);
        }
    }
}
