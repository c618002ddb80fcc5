//! An intrusive FIFO list of slots.

use super::slots::{NIL, Renumbering, Slots};

/// A list of slots; a slot is in at most one list.
#[derive(Clone, Copy, Debug)]
pub(super) struct List {
    head: u32,
    tail: u32,
    len: usize,
}

impl List {
    pub(super) const fn new() -> Self {
        Self { head: NIL, tail: NIL, len: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the oldest slot.
    pub(super) fn first(&self) -> Option<u32> {
        (self.head != NIL).then_some(self.head)
    }

    pub(super) fn push<T, C>(&mut self, slots: &mut Slots<T, C>, at: u32) {
        slots[at].prev = self.tail;
        slots[at].next = NIL;
        match self.tail {
            NIL => self.head = at,
            tail => slots[tail].next = at,
        }
        self.tail = at;
        self.len += 1;
    }

    /// Removes a slot of this list.
    pub(super) fn unlink<T, C>(&mut self, slots: &mut Slots<T, C>, at: u32) {
        let (prev, next) = (slots[at].prev, slots[at].next);
        match prev {
            NIL => self.head = next,
            prev => slots[prev].next = next,
        }
        match next {
            NIL => self.tail = prev,
            next => slots[next].prev = prev,
        }
        self.len -= 1;
    }

    pub(super) fn renumber(&mut self, numbers: &Renumbering) {
        self.head = numbers.of(self.head);
        self.tail = numbers.of(self.tail);
    }
}
