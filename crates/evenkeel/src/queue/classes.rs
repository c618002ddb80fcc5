//! Due keys by priority: the highest class first, first in first out within a class.
//!
//! [`Ageing`] prevents starvation: one of every few items is taken from the class whose first key
//! has waited too long.

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
    /// Items taken since one was taken from a lower class.
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

    /// Adds a slot to the tail of the class of its priority.
    pub(super) fn push<T, C>(&mut self, slots: &mut Slots<T, C>, slot: u32) {
        self.lists.entry(slots[slot].priority).or_insert(List::new()).push(slots, slot);
        self.len += 1;
    }

    /// Removes a slot from the class of its priority.
    pub(super) fn unlink<T, C>(&mut self, slots: &mut Slots<T, C>, slot: u32) {
        let priority = slots[slot].priority;
        let Some(list) = self.lists.get_mut(&priority) else { return };
        list.unlink(slots, slot);
        self.len -= 1;
        if list.is_empty() {
            self.lists.remove(&priority);
        }
    }

    /// Removes and returns the next slot.
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

    /// Returns the key of a lower class that has waited too long, if ageing applies now.
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

    /// Iterates over the classes from the highest: priority, number of keys, first key.
    pub(super) fn iter(&self) -> impl Iterator<Item = (i32, usize, u32)> {
        let classes = self.lists.iter().rev();
        classes.filter_map(|(priority, list)| Some((*priority, list.len(), list.first()?)))
    }

    pub(super) fn renumber(&mut self, numbers: &Renumbering) {
        self.lists.values_mut().for_each(|list| list.renumber(numbers));
    }
}
