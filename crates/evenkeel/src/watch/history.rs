//! Detects a server that was restored, emptied or replaced.
//!
//! Such a server has lower resourceVersions. It accepts a watch from a resourceVersion in its
//! future without an error or event, so that a resumed watch would serve objects that no longer
//! exist. After a watch that did not end at its timeout, a reflector lists the first object of its
//! type: the resourceVersion must not be lower, and the object must match the known one unless it
//! is newer. If one type finds another history, all types relist.

use std::sync::Arc;

use evenkeel_types::watch;

use super::connection::Connection;
use super::items::Items;
use super::request::RequestParameters;
use super::{Error, Reflector, Sink};
use crate::version::Version;

/// The number of the current server history. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct History(Arc<watch::Sender<u64>>);

impl Default for History {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(0)))
    }
}

impl History {
    /// Returns the number of the current history.
    pub(crate) fn epoch(&self) -> u64 {
        *self.0.borrow()
    }

    /// Advances the history if it is still `seen`, so that concurrent detections count once.
    pub(super) fn replace(&self, seen: u64) -> u64 {
        self.0.send_if_modified(|epoch| {
            let first = *epoch == seen;
            *epoch += u64::from(first);
            first
        });
        self.epoch()
    }

    /// Waits until the history is not `seen`.
    pub(super) async fn changed(&self, seen: u64) {
        // Cannot fail: the sender is in `self`.
        let _ = self.0.subscribe().wait_for(|epoch| *epoch != seen).await;
    }
}

/// Returns whether `now` is lower than `known`; false if either is not a number.
pub(super) fn is_lower(known: &str, now: &str) -> bool {
    match (Version::parse(known), Version::parse(now)) {
        (Some(known), Some(now)) => now < known,
        _ => false,
    }
}

impl Reflector {
    /// Makes the next list replace everything if the history has changed since the last list.
    pub(super) fn check_epoch(&mut self) {
        let epoch = self.history.epoch();
        if self.epoch != epoch {
            self.epoch = epoch;
            self.reset = true;
            self.version_unavailable = true;
        }
    }

    /// Stores the resourceVersion of a list; if it is lower than before, all other types relist.
    pub(super) fn set_listed_version(&mut self, version: String) {
        let replaced = !self.reset && is_lower(&self.version, &version);
        if replaced {
            self.report_replaced(&version);
            self.epoch = self.history.replace(self.epoch);
        }
        self.reset = false;
        self.version_unavailable = false;
        self.suspect = false;
        self.version = version;
    }

    /// Lists the first object; fails if the server history has changed.
    pub(super) async fn check_history(&mut self, sink: &mut impl Sink) -> Result<(), Error> {
        let request =
            self.scope.request(&RequestParameters::List { version: "", limit: 1, token: None })?;
        let read_timeout = self.options.list_read_timeout;
        let mut connection = Connection::open(&self.transport, request, read_timeout).await?;
        let (mut items, mut matches) = (Items::new(), None);
        while let Some(frame) = connection.frame().await? {
            items.push(frame);
            while items.advance()? {
                matches.get_or_insert_with(|| sink.matches_first(Some(items.item())));
            }
        }
        let now = items.finish()?.resource_version;
        let matches = matches.unwrap_or_else(|| sink.matches_first(None));
        if matches && !is_lower(&self.version, &now) {
            return Ok(());
        }
        self.report_replaced(&now);
        self.history.replace(self.epoch);
        Err(Error::OtherHistory)
    }

    fn report_replaced(&self, now: &str) {
        tracing::warn!(
            kind = ?self.scope.kind, known = %self.version, now,
            "API server was restored, emptied or replaced; relisting all types"
        );
    }
}
