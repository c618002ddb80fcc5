//! The part of an informer that reads need: the store, the overlay, whether they are synced, and the
//! waits for changes.
//!
//! Separate from the informer so that a read needs no reference to it: counting the reference would
//! cost as much as the lookup.

use std::sync::atomic::AtomicU64;

use super::overlay::Overlay;
use super::store::Store;
use super::sync::SyncState;
use super::waiters::Waiters;
use crate::kind::Kind;

#[derive(Debug)]
pub(super) struct Contents {
    pub(super) kind: Kind,
    pub(super) store: Store,
    pub(super) overlay: Overlay,
    pub(super) sync: SyncState,
    pub(super) waiters: Waiters,
    /// Whether the type is namespaced and watched in all namespaces.
    pub(super) all_namespaces: bool,
    /// The number of reads that failed because the object does not decode.
    pub(super) decode_errors: AtomicU64,
}
