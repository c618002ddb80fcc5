//! Whether the server still has the history that is followed.
//!
//! A server that was restored from a backup, emptied or replaced counts its versions anew. It accepts
//! a watch from a version that it has not reached yet and stays silent, so a type that resumes its
//! watch shows objects that no longer exist. After a watch that did not end as agreed, a reflector
//! asks for the first object of its type and compares: the version must not have gone back, and an
//! object that has not changed since must be the one that is known. As soon as one type finds another
//! history, all types of the cluster list anew.

use std::sync::Arc;

use tokio::sync::watch;

use super::connection::Connection;
use super::items::Items;
use super::request::Ask;
use super::{Error, Reflector, Sink};
use crate::cache::Version;

/// Counts the histories of a cluster's server. Clones share one count.
#[derive(Clone, Debug)]
pub(crate) struct History(Arc<watch::Sender<u64>>);

impl Default for History {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(0)))
    }
}

impl History {
    /// The number of the present history.
    pub(crate) fn epoch(&self) -> u64 {
        *self.0.borrow()
    }

    /// Another history than `seen` was found; types that find out together count as one.
    pub(super) fn replace(&self, seen: u64) -> u64 {
        self.0.send_if_modified(|epoch| {
            let first = *epoch == seen;
            *epoch += u64::from(first);
            first
        });
        self.epoch()
    }

    /// Resolves when the present history is not `seen`.
    pub(super) async fn changed(&self, seen: u64) {
        // The sender is part of `self`, so this cannot fail.
        let _ = self.0.subscribe().wait_for(|epoch| *epoch != seen).await;
    }
}

/// Whether `now` is from before `known`; versions that are no numbers tell nothing.
pub(super) fn went_back(known: &str, now: &str) -> bool {
    match (Version::parse(known), Version::parse(now)) {
        (Some(known), Some(now)) => now < known,
        _ => false,
    }
}

impl Reflector {
    /// Makes the next list replace everything, if the history is another than when it was last
    /// listed.
    pub(super) fn check_epoch(&mut self) {
        let epoch = self.history.epoch();
        if self.epoch != epoch {
            self.epoch = epoch;
            self.reset = true;
            self.version_unavailable = true;
        }
    }

    /// OperationLog what a list shows of the history: all other types list again if it went back.
    pub(super) fn listed(&mut self, version: String) {
        let found = !self.reset && went_back(&self.version, &version);
        if found {
            self.report_replaced(&version);
            self.epoch = self.history.replace(self.epoch);
        }
        self.reset = false;
        self.version_unavailable = false;
        self.suspect = false;
        self.version = version;
    }

    /// Asks the server for the first object, and fails if its history is not the one that is known.
    pub(super) async fn check_history(&mut self, sink: &mut impl Sink) -> Result<(), Error> {
        let request = self.scope.request(&Ask::List { version: "", limit: 1, token: None })?;
        let silence = self.settings.answer_silence;
        let mut connection = Connection::open(&self.transport, request, silence).await?;
        let (mut items, mut agrees) = (Items::new(), None);
        while let Some(frame) = connection.frame().await? {
            items.feed(frame);
            while items.advance()? {
                agrees.get_or_insert_with(|| sink.agrees(Some(items.item())));
            }
        }
        let now = items.finish()?.resource_version;
        let agrees = agrees.unwrap_or_else(|| sink.agrees(None));
        if agrees && !went_back(&self.version, &now) {
            return Ok(());
        }
        self.report_replaced(&now);
        self.history.replace(self.epoch);
        Err(Error::OtherHistory)
    }

    fn report_replaced(&self, now: &str) {
        tracing::warn!(
            kind = ?self.scope.kind, known = %self.version, now,
            "the API server has another history: it was restored, emptied or replaced; all types \
             are listed again"
        );
    }
}
