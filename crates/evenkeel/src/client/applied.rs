//! The last applied configurations, so that a repeated apply to an unchanged object is not sent.

use std::collections::VecDeque;

use hashbrown::HashMap;
use parking_lot::Mutex;

use crate::cache::{Meta, Version};
use crate::key::Key;
use crate::kind::Kind;
use crate::uid::Uid;

/// The maximum number of objects; the oldest are evicted and sent again.
const CAPACITY: usize = 65_536;

/// The last apply of this process to each object.
#[derive(Default)]
pub(crate) struct Applied(Mutex<Memory>);

#[derive(Default)]
struct Memory {
    last: HashMap<Id, Outcome, foldhash::fast::RandomState>,
    order: VecDeque<Id>,
}

pub(super) type Id = (Kind, Key, Option<&'static str>);

/// What was applied, and the state of the object after it.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) digest: u128,
    pub(super) uid: Uid,
    pub(super) version: Version,
    /// The server history that the version belongs to.
    pub(super) epoch: u64,
}

impl Applied {
    /// Returns whether `digest` was applied last and the object has not changed since.
    pub(super) fn is_current(&self, id: &Id, digest: u128, now: &Meta, epoch: u64) -> bool {
        self.0.lock().last.get(id).is_some_and(|last| {
            last.digest == digest
                && last.version == now.version()
                && last.uid == *now.uid()
                && last.epoch == epoch
        })
    }

    /// Returns the resourceVersion after the last apply.
    pub(super) fn version(&self, id: &Id) -> Option<Version> {
        self.0.lock().last.get(id).map(|last| last.version)
    }

    /// Stores the outcome of an apply.
    pub(super) fn remember(&self, id: Id, outcome: Outcome) {
        let mut memory = self.0.lock();
        if memory.last.insert(id.clone(), outcome).is_some() {
            return;
        }
        memory.order.push_back(id);
        if memory.order.len() > CAPACITY
            && let Some(oldest) = memory.order.pop_front()
        {
            memory.last.remove(&oldest);
        }
    }
}

/// Returns a digest of the applied configuration; 128 bits make collisions negligible.
pub(crate) fn digest(parts: &[&[u8]]) -> u128 {
    use std::hash::{BuildHasher as _, Hasher as _};
    let half = |seed| {
        let mut hasher = foldhash::quality::FixedState::with_seed(seed).build_hasher();
        for part in parts {
            hasher.write_usize(part.len());
            hasher.write(part);
        }
        u128::from(hasher.finish())
    };
    half(0x5eed) << 64 | half(0xfeed)
}
