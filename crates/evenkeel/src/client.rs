//! Reads from the cache, writes to the API server.
//!
//! A read gives the cache's own `Arc` and copies nothing. A write's answer is handed to the cache,
//! so that this process reads at least what it wrote; an answer that was lost makes the next read
//! of that object a live one. `live()` goes past the cache.

mod applied;

mod call;

mod delete;

mod dynamic;

mod error;

mod install;

mod lazy;

mod live;

mod ownership;

mod pending;

mod read;

mod retry;

mod subresource;

mod warnings;

mod write;

use std::sync::Arc;

pub use delete::{Delete, DeleteCollection};
pub use dynamic::Dynamic;
pub use error::{Error, RequestInfo, Target};
pub use kube::api::{Patch, ValidationDirective};
pub use lazy::LazyList;
pub use live::Live;
pub use read::List;
pub use retry::retry_on_conflict;
pub use subresource::Subresource;
pub use write::Write;

use crate::cache::Cache;
use crate::connect::Transport;
use crate::journal::OperationLog;
use crate::key::Key;
use crate::kind::Kind;
use crate::random::Random;
use applied::Applied;
use parking_lot::Mutex;
use warnings::Warnings;

/// Talks to one cluster: cached reads, live reads, writes.
///
/// Cheap to clone. What a controller writes goes under its own name as field manager.
#[derive(Clone)]
pub struct Client {
    /// Each reconcile has a client of its own, so what they have in common is one reference.
    shared: Arc<Shared>,
    field_manager: Arc<str>,
    /// Where a reconcile's reads and writes are noted.
    operations: Option<OperationLog>,
}

struct Shared {
    http: Transport,
    cache: Cache,
    applied: Applied,
    warnings: Warnings,
    /// For names that the server would make up otherwise.
    random: Mutex<Random>,
}

impl Client {
    /// Creates a client that writes as `field_manager`.
    pub(crate) fn new(http: Transport, cache: Cache, field_manager: &str, random: Random) -> Self {
        let (applied, warnings, random) = (Applied::default(), Warnings::default(), random.into());
        let shared = Arc::new(Shared { http, cache, applied, warnings, random });
        Self { shared, field_manager: field_manager.into(), operations: None }
    }

    /// What the cache has of this object may not be what is: the next read asks the server.
    fn doubt(&self, kind: &Kind, key: &Key) {
        // What has no name yet cannot be asked for.
        if !key.name().is_empty() {
            self.shared.cache.uncertain(kind, key);
        }
    }

    /// Returns the same client with another field manager.
    #[must_use]
    pub fn with_field_manager(&self, field_manager: &str) -> Self {
        Self { field_manager: field_manager.into(), ..self.clone() }
    }

    /// The same client, noting what it does for the journal.
    pub(crate) fn recording(&self, operations: OperationLog) -> Self {
        Self { operations: Some(operations), ..self.clone() }
    }

    /// Returns the field manager of this client's writes.
    #[must_use]
    pub fn field_manager(&self) -> &str {
        &self.field_manager
    }

    /// The cache this client reads from.
    #[must_use]
    pub fn cache(&self) -> &Cache {
        &self.shared.cache
    }

    /// The `kube` client underneath, for what is not covered here.
    #[must_use]
    pub fn kube(&self) -> &kube::Client {
        self.shared.http.client()
    }

    /// Reads that ask the API server, whatever the cache holds.
    #[must_use]
    pub fn live(&self) -> Live<'_> {
        Live::new(self)
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("field_manager", &self.field_manager).finish_non_exhaustive()
    }
}
