//! What a write asks for, and the one place that decides whether it may happen.

use std::sync::Arc;

use super::{Event, Key, Record, UnsavedRecord};

/// A draft above this is refused: far beyond what the request limits let through, and low enough
/// that every length in the log fits 32 bits.
pub(super) const SIZE_MAX: usize = 256 << 20;

/// Why a write did not happen.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// A create found the object already there, in this state.
    #[error("object already exists at revision {}", .0.revision)]
    Exists(Arc<Record>),
    /// An update or delete expected another revision than the object has; none if it is gone.
    #[error("object is not at the expected revision")]
    Conflict(Option<Arc<Record>>),
    /// The object is beyond any sensible size.
    #[error("object of {0} bytes is too large to store")]
    TooLarge(usize),
    /// There is no space for the log. Reads go on; the next write is tried again.
    #[error("no space left: {0}")]
    NoSpace(Arc<str>),
    /// The log could not be written. Reads go on; the next write is tried again. If the process
    /// ends before that, this write may or may not be there at the next start.
    #[error("storage takes no writes: {0}")]
    Unavailable(Arc<str>),
}

/// A change of one object, with its condition.
#[derive(Debug)]
pub(super) enum Change {
    Create(UnsavedRecord),
    Update { expected: u64, unsaved: UnsavedRecord },
    Delete { expected: u64, last: Option<UnsavedRecord> },
}

impl Change {
    /// Turns the change into the event at `revision`, given the object's state before it.
    pub(super) fn decide(
        self,
        key: &Key,
        current: Option<&Arc<Record>>,
        revision: u64,
    ) -> Result<Event, WriteError> {
        let conflict = || WriteError::Conflict(current.cloned());
        let (record, previous, deleted) = match self {
            Self::Create(unsaved) => match current {
                Some(found) => return Err(WriteError::Exists(found.clone())),
                None => {
                    (check_size(unsaved)?.into_record(key.clone(), revision, revision), None, false)
                }
            },
            Self::Update { expected, unsaved } => {
                let found = current.filter(|it| it.revision == expected).ok_or_else(conflict)?;
                let record = check_size(unsaved)?.into_record(
                    found.key.clone(),
                    revision,
                    found.create_revision,
                );
                (record, Some(found.clone()), false)
            }
            Self::Delete { expected, last } => {
                let found = current.filter(|it| it.revision == expected).ok_or_else(conflict)?;
                let record = match last {
                    Some(unsaved) => check_size(unsaved)?.into_record(
                        found.key.clone(),
                        revision,
                        found.create_revision,
                    ),
                    None => found.at(revision),
                };
                (record, Some(found.clone()), true)
            }
        };
        Ok(Event::new(record, previous, deleted))
    }
}

fn check_size(unsaved: UnsavedRecord) -> Result<UnsavedRecord, WriteError> {
    let size = unsaved.size();
    if size > SIZE_MAX { Err(WriteError::TooLarge(size)) } else { Ok(unsaved) }
}
