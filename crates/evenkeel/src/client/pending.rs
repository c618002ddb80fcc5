//! A write on its way: what it is about is in doubt until the answer is there.
//!
//! A future may be dropped at any time: a reconcile times out, a branch of a select loses. The write
//! may have been carried out all the same, so the next read of what it was about has to be a live
//! one, as after an answer that was lost.

use super::Client;
use super::error::RequestInfo;
use crate::journal::WriteRecord;
use crate::key::Key;

/// Casts doubt on `keys` if it is dropped before the answer came.
pub(super) struct Pending<'a> {
    client: &'a Client,
    request_info: RequestInfo,
    keys: Option<Vec<Key>>,
}

impl<'a> Pending<'a> {
    pub(super) fn new(client: &'a Client, request_info: RequestInfo, keys: Vec<Key>) -> Self {
        Self { client, request_info, keys: Some(keys) }
    }

    /// The answer is there, or certainly none will come. Gives back what it is about.
    pub(super) fn answered(mut self) -> Vec<Key> {
        self.keys.take().unwrap_or_default()
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        let Some(keys) = self.keys.take() else { return };
        for key in &keys {
            self.client.doubt(&self.request_info.kind, key);
        }
        if let Some(operations) = &self.client.operations {
            operations.record_write(WriteRecord::cut_short(self.request_info.clone()));
        }
    }
}
