//! Writes and their conditions, checked in one place.

use std::sync::Arc;

use super::{Event, Key, Record, UnsavedRecord};

/// The maximum size of a record: far beyond the request limits, and small enough that every length
/// in the log fits into 32 bits.
pub(super) const SIZE_MAX: usize = 256 << 20;

/// Why a write failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// A create found this object.
    #[error("object already exists at revision {}", .0.revision)]
    Exists(Arc<Record>),
    /// An update or delete expected another revision than the object has; `None` if it does not
    /// exist.
    #[error("object is not at the expected revision")]
    Conflict(Option<Arc<Record>>),
    /// The object exceeds the maximum size.
    #[error("object of {0} bytes is too large to store")]
    TooLarge(usize),
    /// There is no space for the log. Reads continue; the next write retries.
    #[error("no space left: {0}")]
    NoSpace(Arc<str>),
    /// The log could not be written. Reads continue; the next write retries. If the process ends
    /// before that, this write may or may not be recovered.
    #[error("storage takes no writes: {0}")]
    Unavailable(Arc<str>),
}

/// A change of one object, with its precondition.
#[derive(Debug)]
pub(super) enum Change {
    Create(UnsavedRecord),
    Update { expected: u64, unsaved: UnsavedRecord },
    Delete { expected: u64, last: Option<UnsavedRecord> },
}

impl Change {
    /// Turns the change into the event at `revision`, given the current object.
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
