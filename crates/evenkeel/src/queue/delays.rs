//! Delayed keys: a heap ordered by time, with the heap index stored in each slot.
//!
//! With the index a key can be moved or removed directly, so that the heap has at most one entry
//! per key and no stale entries.

use super::slots::{Renumbering, Slots};

/// Children per entry. Four make the heap flatter than two and share a cache line.
const ARITY: usize = 4;

#[derive(Debug)]
pub(super) struct Delays {
    heap: Vec<Entry>,
    /// Orders entries of the same time: first in, first out.
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

    /// Returns when the first key is due.
    pub(super) fn first(&self) -> Option<u64> {
        self.heap.first().map(|entry| entry.at)
    }

    /// Returns when a delayed key is due.
    pub(super) fn at<T, C>(&self, slots: &Slots<T, C>, slot: u32) -> u64 {
        self.heap[slots[slot].next as usize].at
    }

    /// Removes and returns the first key that is due by `now`.
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
        self.sift_up(slots, self.heap.len() - 1);
    }

    /// Moves a delayed key to `at` if that is earlier.
    pub(super) fn decrease<T, C>(&mut self, slots: &mut Slots<T, C>, slot: u32, at: u64) {
        let place = slots[slot].next as usize;
        if at < self.heap[place].at {
            self.heap[place].at = at;
            self.heap[place].sequence = self.sequence;
            self.sequence = self.sequence.wrapping_add(1);
            self.sift_up(slots, place);
        }
    }

    /// Removes a delayed key.
    pub(super) fn remove<T, C>(&mut self, slots: &mut Slots<T, C>, slot: u32) {
        let place = slots[slot].next as usize;
        self.heap.swap_remove(place);
        if place < self.heap.len() {
            self.sift_down(slots, place);
            self.sift_up(slots, place);
        }
        // Releases memory after a burst of delays.
        if self.heap.capacity() > 1024 && self.heap.len() < self.heap.capacity() / 4 {
            self.heap.shrink_to(self.heap.len() * 2);
        }
    }

    pub(super) fn renumber(&mut self, numbers: &Renumbering) {
        self.heap.iter_mut().for_each(|entry| entry.slot = numbers.of(entry.slot));
    }

    fn sift_up<T, C>(&mut self, slots: &mut Slots<T, C>, mut place: usize) {
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

    fn sift_down<T, C>(&mut self, slots: &mut Slots<T, C>, mut place: usize) {
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
        slots[entry.slot].next = u32::try_from(place).expect("at most one entry per slot");
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
        fn keys_leave_in_time_order_after_moves_and_removals(
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
                        delays.decrease(&mut slots, slot, at);
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
