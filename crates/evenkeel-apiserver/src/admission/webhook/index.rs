//! The webhooks of all stored configurations, kept current by the hooks of the configurations.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use serde_json::Value;

use super::hook::Hook;
use crate::storage::{Range, Record, Store};

/// The indexes of both kinds of webhooks.
#[derive(Clone)]
pub(crate) struct Webhooks {
    pub(crate) mutating: Arc<Index>,
    pub(crate) validating: Arc<Index>,
}

/// The webhooks of one kind of configuration.
pub(crate) struct Index {
    table: &'static str,
    /// By the name of their configuration, then by position.
    hooks: RwLock<Arc<Vec<Arc<Hook>>>>,
    /// By the name of the configuration.
    parsed: Mutex<HashMap<Box<str>, Parsed>>,
}

/// The revision of a configuration and its webhooks.
type Parsed = (u64, Vec<Arc<Hook>>);

impl Default for Webhooks {
    fn default() -> Self {
        let index = |table| Arc::new(Index::new(table));
        Self {
            mutating: index("admissionregistration.k8s.io/mutatingwebhookconfigurations"),
            validating: index("admissionregistration.k8s.io/validatingwebhookconfigurations"),
        }
    }
}

impl Index {
    fn new(table: &'static str) -> Self {
        Self { table, hooks: RwLock::default(), parsed: Mutex::default() }
    }

    /// Returns all webhooks, in the order they are called.
    pub(super) fn hooks(&self) -> Arc<Vec<Arc<Hook>>> {
        self.hooks.read().clone()
    }

    /// Reads the configurations again after a write to one. Unchanged ones keep their webhooks and
    /// with them their connections.
    pub(crate) fn refresh(&self, store: &Store) {
        // Held while reading, so that the last of concurrent calls publishes the last state.
        let mut parsed = self.parsed.lock();
        let Ok(page) = store.table(self.table).list(Range::default(), None) else { return };
        let mut last = std::mem::take(&mut *parsed);
        let mut hooks = Vec::new();
        for record in &page.items {
            let name = record.key.name();
            let known = last.remove(name).filter(|(revision, _)| *revision == record.revision);
            let of_record = known.map_or_else(|| parse(record), |(_, known)| known);
            hooks.extend(of_record.iter().cloned());
            parsed.insert(name.into(), (record.revision, of_record));
        }
        *self.hooks.write() = Arc::new(hooks);
    }
}

fn parse(record: &Record) -> Vec<Arc<Hook>> {
    let configuration: Value = match serde_json::from_slice(&record.body) {
        Ok(configuration) => configuration,
        Err(error) => {
            tracing::error!(%error, name = record.key.name(), "invalid webhook configuration");
            return Vec::new();
        }
    };
    let hooks = configuration["webhooks"].as_array().into_iter().flatten();
    hooks.map(|hook| Arc::new(Hook::parse(record.key.name(), hook))).collect()
}
