//! Keys that are with a worker: which, and since when.

use super::slots::{NIL, Renumbering};

/// A table with a row for each run; a row's number stays the same until its run ends.
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
                u32::try_from(self.rows.len() - 1).expect("no more runs than slots")
            }
        }
    }

    /// Ends a run and says which slot it was of.
    pub(super) fn end(&mut self, at: u32) -> u32 {
        let row = &mut self.rows[at as usize];
        let slot = match *row {
            Row::Run { slot, .. } => slot,
            Row::Free { .. } => unreachable!("a run ends once: its item is gone then"),
        };
        *row = Row::Free { next: self.free };
        self.free = at;
        self.len -= 1;
        slot
    }

    /// The slots of all runs and when they began.
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
