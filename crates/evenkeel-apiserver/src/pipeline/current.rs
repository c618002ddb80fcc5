//! The object that a write changes, as it is before the write.
//!
//! Apart from `persist.rs`, which reads and replaces it: the checks of earlier stages compare with it.

use std::sync::Arc;

use serde_json::Value;

use crate::storage::Record;

/// The object that a write changes, in one version.
pub(crate) struct Current {
    /// The object as it is stored.
    pub(crate) record: Arc<Record>,
    /// The object in the version of the request.
    pub(super) view: Arc<Record>,
    /// The object as readers see it.
    pub(super) value: Value,
    /// The object as an update sees it, if that differs.
    pub(super) update_view: Option<Value>,
}

impl Current {
    /// Returns the object as an update sees it.
    pub(crate) fn object(&self) -> &Value {
        self.update_view.as_ref().unwrap_or(&self.value)
    }

    /// Returns the object as readers see it, and as the rules of its kind compare it.
    pub(crate) fn read_view(&self) -> &Value {
        &self.value
    }
}
