//! The part of an informer that reads need: the store, the overlay and whether they are synced.
//!
//! Separate from the informer so that a read needs no reference to it: counting the reference would
//! cost as much as the lookup.

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
    /// Whether the informer is synced; false once stopped.
    pub(super) ready: AtomicBool,
    /// Whether the type is namespaced and watched in all namespaces.
    pub(super) all_namespaces: bool,
}

impl Contents {
    /// Calls `see` with the object of `key` if the store alone can serve the read, which is the
    /// common case; returns `None` if the informer must. `see` runs while the store is locked for
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
        // The informer may have been stopped concurrently. It clears the store only after it has
        // set this to false, so a found object is valid and a missing one may not be.
        if !self.ready.load(Ordering::Acquire) {
            return None;
        }
        (found.is_some() || self.all_namespaces).then_some(found)
    }
}
