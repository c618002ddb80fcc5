//! Events about owner references that can never be.

use std::collections::BTreeSet;

use evenkeel::cache::{Entry, Owner};
use evenkeel::client::Client;
use evenkeel::{Clock, Uid};
use parking_lot::Mutex;

use crate::events::{self, About};

/// How many reports are remembered, so that they are not repeated.
const REMEMBERED: usize = 1024;

pub(super) struct Reporter {
    name: &'static str,
    client: Client,
    clock: Clock,
    told: Mutex<BTreeSet<(Uid, Uid)>>,
}

impl Reporter {
    pub(super) fn new(name: &'static str, client: Client, clock: Clock) -> Self {
        Self { name, client, clock, told: Mutex::default() }
    }

    /// The object names an owner that lives in another namespace than it does.
    pub(super) async fn owner_elsewhere(&self, child: &Entry, owner: &Owner, api_version: &str) {
        let meta = child.meta();
        {
            let mut told = self.told.lock();
            if told.len() >= REMEMBERED {
                told.clear();
            }
            if !told.insert((meta.uid().clone(), owner.uid.clone())) {
                return;
            }
        }
        let namespace = meta.key().namespace().unwrap_or_default();
        let message = format!(
            "ownerRef [{api_version}/{}, namespace: {namespace}, name: {}, uid: {}] does not exist in \
             namespace {namespace:?}",
            owner.kind, owner.name, owner.uid,
        );
        let about = About::entry(child);
        let warned = events::warn(
            &self.client,
            &self.clock,
            self.name,
            &about,
            "OwnerRefInvalidNamespace",
            &message,
        );
        if let Err(error) = warned.await {
            tracing::warn!(%error, "an event is lost");
        }
    }
}
