//! Keys that are due, by priority: the highest class first, the oldest key first within a class.
//!
//! Strict priorities starve. So of every few hand-outs one may go to the class whose first key has
//! been passed over for longer than allowed; see [`Ageing`].

use std::collections::BTreeMap;

use super::Ageing;
use super::limit::nanos;
use super::list::List;
use super::slots::{Renumbering, Slots};

#[derive(Debug)]
pub(super) struct Classes {
    /// Only classes that have keys.
    lists: BTreeMap<i32, List>,
    len: usize,
    /// [`Ageing::after`] and [`Ageing::share`].
    after: u64,
    share: u32,
    /// Hand-outs that passed over a lower class since one went to it.
    passed: u32,
}

impl Classes {
    pub(super) fn new(ageing: Ageing) -> Self {
        let Ageing { after, share } = ageing;
        Self { lists: BTreeMap::new(), len: 0, after: nanos(after), share, passed: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Puts a slot at the tail of the class of its priority.
    pub(super) fn push<T, C>(&mut self, slots: &mut Slots<T, C>, slot: u32) {
        self.lists.entry(slots[slot].priority).or_insert(List::new()).push(slots, slot);
        self.len += 1;
    }

    /// Takes out a slot that is in the class of its priority.
    pub(super) fn unlink<T, C>(&mut self, slots: &mut Slots<T, C>, slot: u32) {
        let priority = slots[slot].priority;
        let Some(list) = self.lists.get_mut(&priority) else { return };
        list.unlink(slots, slot);
        self.len -= 1;
        if list.is_empty() {
            self.lists.remove(&priority);
        }
    }

    /// Takes out the slot whose turn it is.
    pub(super) fn pop<T, C>(&mut self, slots: &mut Slots<T, C>, now: u64) -> Option<u32> {
        let highest = self.lists.last_key_value()?.1.first();
        let next = match self.aged(slots, now) {
            Some(aged) => {
                self.passed = 0;
                aged
            }
            None => highest?,
        };
        self.unlink(slots, next);
        Some(next)
    }

    /// The key of a lower class that has waited too long, if its class has a turn now.
    fn aged<T, C>(&mut self, slots: &Slots<T, C>, now: u64) -> Option<u32> {
        if self.lists.len() < 2 {
            self.passed = 0;
            return None;
        }
        self.passed = self.passed.saturating_add(1);
        if self.passed < self.share {
            return None;
        }
        let lower = self.lists.values().rev().skip(1).filter_map(List::first);
        let oldest = lower.min_by_key(|&slot| slots[slot].since)?;
        (now.saturating_sub(slots[oldest].since) >= self.after).then_some(oldest)
    }

    /// Each class from the highest down: priority, number of keys, the first of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = (i32, usize, u32)> {
        let classes = self.lists.iter().rev();
        classes.filter_map(|(priority, list)| Some((*priority, list.len(), list.first()?)))
    }

    pub(super) fn renumber(&mut self, numbers: &Renumbering) {
        self.lists.values_mut().for_each(|list| list.renumber(numbers));
    }
}
