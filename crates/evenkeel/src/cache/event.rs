//! Changes of cached objects, as predicates and handlers receive them.

use std::sync::Arc;

use super::entry::Entry;

/// A change of one object in the cache.
///
/// `old` and `new` are the states before and after. Several changes are merged into one event if
/// the receiver is behind.
///
/// ```
/// use evenkeel::ObjectEvent;
///
/// fn grew(event: &ObjectEvent) -> bool {
///     match event {
///         ObjectEvent::Updated { old, new } => new.json().len() > old.json().len(),
///         _ => false,
///     }
/// }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ObjectEvent {
    /// The object was added to the cache.
    Added {
        /// The object.
        new: Arc<Entry>,
        /// Whether the object existed when the watch, or this handler, started.
        initial: bool,
    },
    /// The object changed; the uid also differs if it was deleted and created again.
    Updated {
        /// The state before.
        old: Arc<Entry>,
        /// The state after.
        new: Arc<Entry>,
    },
    /// The object did not change; a periodic resync.
    Resynced {
        /// The object.
        object: Arc<Entry>,
    },
    /// The object was deleted.
    Deleted {
        /// The last known state.
        old: Arc<Entry>,
        /// Whether the deletion was found by a relist, so that `old` may not be the final state, as
        /// client-go's `DeletedFinalStateUnknown`.
        state_unknown: bool,
    },
}

impl ObjectEvent {
    /// Returns the current or last known state of the object.
    #[must_use]
    pub fn object(&self) -> &Arc<Entry> {
        match self {
            Self::Added { new, .. } | Self::Updated { new, .. } => new,
            Self::Resynced { object } => object,
            Self::Deleted { old, .. } => old,
        }
    }

    /// Returns the state before, unless the object was added.
    #[must_use]
    pub fn old(&self) -> Option<&Arc<Entry>> {
        match self {
            Self::Added { .. } => None,
            Self::Updated { old, .. } | Self::Deleted { old, .. } => Some(old),
            Self::Resynced { object } => Some(object),
        }
    }

    /// Returns the state after, unless the object was deleted.
    #[must_use]
    #[expect(clippy::new_ret_no_self, reason = "the counterpart of `old`")]
    pub fn new(&self) -> Option<&Arc<Entry>> {
        match self {
            Self::Added { new, .. } | Self::Updated { new, .. } => Some(new),
            Self::Resynced { object } => Some(object),
            Self::Deleted { .. } => None,
        }
    }
}
