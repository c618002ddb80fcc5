//! Own writes: the responses of requests, for the overlay.

use std::sync::Arc;

use super::Cache;
use super::entry::Entry;
use super::overlay::UnknownOutcome;
use super::query::select;
use super::shared::Shared;
use crate::key::Key;
use crate::kind::Kind;
use crate::uid::Uid;

impl Cache {
    /// Records the response of an own write: reads return at least this state from now on.
    pub(crate) fn wrote(&self, kind: &Kind, raw: &[u8]) {
        if let Some(informer) = self.running(kind) {
            informer.shared().wrote(raw);
        }
    }

    /// Records an own deletion that is complete: reads no longer return the object with this uid.
    /// An object that waits for its finalizers is recorded with [`wrote`](Self::wrote) instead.
    pub(crate) fn deleted(&self, kind: &Kind, key: &Key, uid: &Uid) {
        if let Some(informer) = self.running(kind) {
            informer.shared().deleted(key, uid);
        }
    }

    /// Records an own write with unknown outcome: reads of the object fail with
    /// [`ReadError::UnknownOutcome`] until it was read from the server.
    pub(crate) fn invalidate(&self, kind: &Kind, key: &Key) {
        if let Some(informer) = self.running(kind) {
            informer.shared().invalidate(key);
        }
    }

    /// Records the result of the live read after an unknown outcome: the JSON, or `None` if the
    /// object does not exist.
    pub(super) fn record_live_read(
        &self,
        kind: &Kind,
        unknown: &UnknownOutcome,
        raw: Option<&[u8]>,
    ) {
        if let Some(informer) = self.running(kind) {
            informer.shared().record_live_read(unknown, raw);
        }
    }
}

impl Shared {
    /// Records the response of an own write.
    pub(super) fn wrote(&self, raw: &[u8]) {
        let Some((entry, visible)) = self.convert_response(raw) else { return };
        if entry.meta().version().is_none() {
            // Without a resourceVersion it is unknown when the store has caught up.
            self.contents.overlay.invalidate(entry.meta().key());
        } else {
            let key = entry.meta().key().clone();
            self.contents.overlay.wrote(entry, visible);
            self.contents.waiters.notify([&key]);
        }
    }

    /// Records the live read after an unknown outcome.
    pub(super) fn record_live_read(&self, outcome: &UnknownOutcome, raw: Option<&[u8]>) {
        match raw {
            Some(raw) => {
                if let Some((entry, visible)) = self.convert_response(raw) {
                    self.contents.overlay.wrote(entry, visible);
                }
            }
            None => {
                if let Some(uid) = self.contents.overlay.uid(&self.contents.store, outcome.key()) {
                    self.contents.overlay.deleted(&self.contents.store, outcome.key(), &uid);
                }
            }
        }
        self.contents.overlay.resolve(outcome);
        self.contents.waiters.notify([outcome.key()]);
    }

    /// Converts the response of a request; also returns whether the informer selects the object.
    fn convert_response(&self, raw: &[u8]) -> Option<(Arc<Entry>, bool)> {
        let entry = match self.decoder.entry(raw) {
            Ok(entry) => Arc::new(entry),
            Err(rejected) => {
                let (kind, problem) = (self.decoder.kind(), rejected.problem);
                tracing::debug!(%kind, problem, "cannot cache the response of a write");
                return None;
            }
        };
        if !self.decoder.is_of_kind(raw) {
            // Subresources such as Scale have their own kind.
            return None;
        }
        let options = self.decoder.options();
        let labels: Vec<_> = options.labels.clone().into_iter().collect();
        let visible = select(&labels, entry.meta()) && options.fields.select(raw);
        Some((entry, visible))
    }

    /// Records an own deletion that is complete.
    pub(super) fn deleted(&self, key: &Key, uid: &Uid) {
        self.contents.overlay.deleted(&self.contents.store, key, uid);
        self.contents.waiters.notify([key]);
    }

    /// Records an own write with unknown outcome.
    pub(super) fn invalidate(&self, key: &Key) {
        self.contents.overlay.invalidate(key);
    }
}
