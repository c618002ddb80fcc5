//! The keys that are being processed.

use super::slots::{NIL, Renumbering};

/// A table with a row per run; the index of a row is stable until the run ends.
#[derive(Debug)]
pub(super) struct Running {
    rows: Vec<Row>,
    free: u32,
    len: usize,
}

#[derive(Clone, Copy, Debug)]
enum Row {
    Run { slot: u32, since: u64 },
    Free { next: u32 },
}

impl Running {
    pub(super) const fn new() -> Self {
        Self { rows: Vec::new(), free: NIL, len: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn start(&mut self, slot: u32, since: u64) -> u32 {
        self.len += 1;
        let run = Row::Run { slot, since };
        match self.rows.get_mut(self.free as usize) {
            Some(row) => {
                let at = self.free;
                if let Row::Free { next } = *row {
                    self.free = next;
                }
                *row = run;
                at
            }
            None => {
                self.rows.push(run);
                u32::try_from(self.rows.len() - 1).expect("at most one run per slot")
            }
        }
    }

    /// Ends a run; returns its slot.
    pub(super) fn end(&mut self, at: u32) -> u32 {
        let row = &mut self.rows[at as usize];
        let slot = match *row {
            Row::Run { slot, .. } => slot,
            Row::Free { .. } => unreachable!("a run ends once, when its item is dropped"),
        };
        *row = Row::Free { next: self.free };
        self.free = at;
        self.len -= 1;
        slot
    }

    /// Iterates over the slots of all runs and their start times.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, u64)> {
        self.rows.iter().filter_map(|row| match *row {
            Row::Run { slot, since } => Some((slot, since)),
            Row::Free { .. } => None,
        })
    }

    pub(super) fn renumber(&mut self, numbers: &Renumbering) {
        for row in &mut self.rows {
            if let Row::Run { slot, .. } = row {
                *slot = numbers.of(*slot);
            }
        }
    }
}
