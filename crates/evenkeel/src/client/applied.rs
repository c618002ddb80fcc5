//! What was applied last, so that applying the same again to an unchanged object sends nothing.

use std::collections::VecDeque;

use hashbrown::HashMap;
use parking_lot::Mutex;

use crate::cache::Version;
use crate::key::Key;
use crate::kind::Kind;

/// How many objects are remembered; beyond that the oldest are forgotten and applied anew.
const CAPACITY: usize = 65_536;

/// What an object was at after this process applied something to it.
#[derive(Default)]
pub(crate) struct Applied(Mutex<Memory>);

#[derive(Default)]
struct Memory {
    last: HashMap<Id, (u128, Version), foldhash::fast::RandomState>,
    order: VecDeque<Id>,
}

type Id = (Kind, Key, Option<&'static str>);

impl Applied {
    /// Whether exactly this was applied last, and the object is still what came of it.
    pub(crate) fn is_current(&self, id: &Id, digest: u128, version: Version) -> bool {
        self.0.lock().last.get(id) == Some(&(digest, version))
    }

    /// The object is at `version` after `digest` was applied to it.
    pub(crate) fn remember(&self, id: Id, digest: u128, version: Version) {
        let mut memory = self.0.lock();
        if memory.last.insert(id.clone(), (digest, version)).is_some() {
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

/// A digest of what is applied and how; two seeds make a chance meeting of no concern.
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
