//! What happened to an object in the cache, as sources hand it to predicates and handlers.

use std::sync::Arc;

use crate::cache::Entry;

/// A change to one object.
///
/// `old` and `new` are what the cache had before and has now; between them may lie several changes
/// when the receiver was behind.
#[derive(Clone, Debug)]
pub enum ObjectEvent {
    /// The object is new to the cache.
    Added {
        /// What it is now.
        new: Arc<Entry>,
        /// Whether it was there already when the watch, or this handler, began.
        initial: bool,
    },
    /// The object differs from what the cache had; the uid too if it was deleted and created again.
    Updated {
        /// What it was.
        old: Arc<Entry>,
        /// What it is now.
        new: Arc<Entry>,
    },
    /// Nothing changed; everything is looked at again now and then.
    Resynced {
        /// What it is.
        object: Arc<Entry>,
    },
    /// The object is gone.
    Deleted {
        /// The last state known.
        old: Arc<Entry>,
        /// The deletion was noticed by its absence: `old` may not be the last state it had.
        state_unknown: bool,
    },
}

impl ObjectEvent {
    /// The object as it is now or last was.
    #[must_use]
    pub fn object(&self) -> &Arc<Entry> {
        match self {
            Self::Added { new, .. } | Self::Updated { new, .. } => new,
            Self::Resynced { object } => object,
            Self::Deleted { old, .. } => old,
        }
    }

    /// What it was, unless it is new.
    #[must_use]
    pub fn old(&self) -> Option<&Arc<Entry>> {
        match self {
            Self::Added { .. } => None,
            Self::Updated { old, .. } | Self::Deleted { old, .. } => Some(old),
            Self::Resynced { object } => Some(object),
        }
    }

    /// What it is, unless it is gone.
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
