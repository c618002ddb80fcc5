//! What reads of one informer need: the objects, this process's own writes, and whether both can be
//! relied on.
//!
//! It is apart from the informer because a read does not hold that: taking and dropping a reference
//! would cost as much as the search.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::entry::Entry;
use super::overlay::Overlay;
use super::store::Store;
use crate::key::Key;

#[derive(Debug)]
pub(super) struct Contents {
    pub(super) store: Store,
    pub(super) overlay: Overlay,
    /// Whether everything has been listed; no longer once stopped.
    pub(super) ready: AtomicBool,
    /// Whether every key of the type is covered: it is namespaced, and watched in all namespaces.
    pub(super) everywhere: bool,
}

impl Contents {
    /// What `see` makes of the object of this key if the store alone decides, which is nearly
    /// always; none if the informer has to be asked. `see` runs while the store is locked for
    /// writers.
    pub(super) fn get<T>(
        &self,
        key: &Key,
        see: impl FnOnce(&Arc<Entry>) -> T,
    ) -> Option<Option<T>> {
        if !self.ready.load(Ordering::Acquire) || !self.overlay.is_idle() {
            return None;
        }
        let found = self.store.see(key, see);
        // The informer may have been stopped meanwhile. It empties the store only after it has set
        // this to false, so what was found before is right and what was missing may be not.
        if !self.ready.load(Ordering::Acquire) {
            return None;
        }
        (found.is_some() || self.everywhere).then_some(found)
    }
}
