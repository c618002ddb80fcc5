//! PersistentVolumeClaims: the phase of a new PVC.

use crate::context::Hooks;
use crate::storage::Record;

/// The hooks of PersistentVolumeClaims.
pub(super) struct PersistentVolumeClaims;

impl Hooks for PersistentVolumeClaims {
    /// A new PVC is stored without its phase, which is set on read; its first update stores the
    /// phase and so is always a change.
    fn always_writes(&self, record: &Record) -> bool {
        record.revision == record.create_revision
    }
}
