//! Writes without a response yet.
//!
//! The future of a write can be dropped at any time, for example when a reconcile times out. Its
//! outcome is then unknown, so the next read of the object must be a live read, as after a lost
//! response.

use super::Client;
use crate::journal::WriteRecord;
use crate::key::Key;
use crate::request_info::RequestInfo;

/// Invalidates `keys` if dropped before the response.
pub(super) struct Pending<'a> {
    client: &'a Client,
    request_info: RequestInfo,
    keys: Option<Vec<Key>>,
}

impl<'a> Pending<'a> {
    pub(super) fn new(client: &'a Client, request_info: RequestInfo, keys: Vec<Key>) -> Self {
        Self { client, request_info, keys: Some(keys) }
    }

    /// Disarms the guard; returns the keys.
    pub(super) fn complete(mut self) -> Vec<Key> {
        self.keys.take().unwrap_or_default()
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        let Some(keys) = self.keys.take() else { return };
        for key in &keys {
            self.client.invalidate(&self.request_info.kind, key);
        }
        if let Some(operations) = &self.client.operations {
            operations.record_write(WriteRecord::cancelled(self.request_info.clone()));
        }
    }
}
