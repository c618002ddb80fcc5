//! API Priority and Fairness: which FlowSchema a request matches, and how its priority level limits
//! it.
//!
//! Both objects are named in the headers of the response. Requests through sockets occupy seats of
//! their priority level while they are served, or wait in its queues; those in process are only
//! classified.

mod borrowing;

mod demand;

mod level;

mod matching;

mod queue_set;

mod retry_after;

use std::hash::{DefaultHasher, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use parking_lot::{Mutex, RwLock};
use tokio::time::Instant;

use self::level::Level;
use self::matching::Schema;
pub(crate) use self::queue_set::{Counts, Seats};
use crate::authz::Attributes;
use crate::storage::{Range, Store};

const SCHEMA_UID: HeaderName = HeaderName::from_static("x-kubernetes-pf-flowschema-uid");
const LEVEL_UID: HeaderName = HeaderName::from_static("x-kubernetes-pf-prioritylevel-uid");

pub(crate) const GROUP: &str = "flowcontrol.apiserver.k8s.io";

/// How often the seats of priority levels are adjusted to their demand.
const ADJUSTMENT_PERIOD: Duration = Duration::from_secs(10);

/// The most seats of one request.
const MAX_SEATS: usize = 100;

/// The bytes of objects that a list processes per seat, and those that count at all: more are sent
/// as a stream.
const BYTES_PER_SEAT: usize = 100_000;
const MAX_LIST_BYTES: usize = 1_000_000;

/// The FlowSchemas and priority levels.
pub(crate) struct FlowControl {
    /// The seats of all levels together; `None` without a limit.
    total: Option<usize>,
    configuration: RwLock<Arc<Configuration>>,
    adjusted: Mutex<Option<Instant>>,
}

#[derive(Default)]
struct Configuration {
    /// In the order in which they are matched.
    schemas: Vec<Schema>,
    levels: Vec<Arc<Level>>,
}

/// The FlowSchema and the priority level of a request.
#[derive(Clone)]
pub(crate) struct Flow {
    schema: HeaderValue,
    level: Arc<Level>,
    hash: u64,
}

impl std::fmt::Debug for Flow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Flow").field("level", &self.level.name).finish_non_exhaustive()
    }
}

impl FlowControl {
    /// Shares `total` seats between all priority levels; `usize::MAX` is no limit.
    pub(crate) fn new(total: usize) -> Self {
        Self {
            total: (total < usize::MAX).then_some(total),
            configuration: RwLock::default(),
            adjusted: Mutex::default(),
        }
    }

    /// Reads all objects again, after one of them has changed.
    pub(crate) fn reload(&self, store: &Store) {
        let objects = |plural: &str| {
            let page = store.table(&format!("{GROUP}/{plural}")).list(Range::default(), None);
            page.map(|page| page.items).unwrap_or_default()
        };
        let mut configuration = self.configuration.write();
        let levels = objects("prioritylevelconfigurations");
        let levels = level::read(&levels, &configuration.levels, self.total.unwrap_or_default());
        let schemas = matching::read(&objects("flowschemas"), &levels);
        level::allocate(&levels);
        *configuration = Arc::new(Configuration { schemas, levels });
    }

    /// Returns the flow of a request.
    pub(crate) fn classify(&self, request: &Attributes<'_>) -> Option<Flow> {
        let configuration = self.configuration.read().clone();
        let schema = configuration.schemas.iter().find(|schema| schema.matches(request))?;
        let mut hash = DefaultHasher::new();
        hash.write(schema.uid.as_bytes());
        hash.write(schema.distinguisher(request).as_bytes());
        Some(Flow { schema: schema.uid.clone(), level: schema.level.clone(), hash: hash.finish() })
    }

    /// Waits for the seats of a request, at most for `wait`. The error is the number of seconds
    /// after which the client should try again.
    pub(crate) async fn acquire(
        &self,
        flow: &Flow,
        list_bytes: Option<usize>,
        wait: Duration,
        unix_seconds: i64,
    ) -> Result<Option<Seats>, u32> {
        if self.total.is_none() {
            return Ok(None);
        }
        self.adjust();
        let level = &flow.level;
        let seats = list_bytes.map_or(1, |bytes| {
            let seats = bytes.min(MAX_LIST_BYTES).div_ceil(BYTES_PER_SEAT);
            seats.clamp(1, level.max_seats().unwrap_or(MAX_SEATS))
        });
        match level.queues.acquire(flow.hash, seats, wait).await {
            Some(seats) => Ok(Some(seats)),
            None => Err(level.retry_after.rejected(unix_seconds)),
        }
    }

    /// Adjusts the seats of all levels to their demand, once in a period.
    fn adjust(&self) {
        let Some(mut adjusted) = self.adjusted.try_lock() else { return };
        let now = Instant::now();
        match *adjusted {
            Some(last) if now.saturating_duration_since(last) < ADJUSTMENT_PERIOD => return,
            Some(_) => level::allocate(&self.configuration.read().levels),
            None => {}
        }
        *adjusted = Some(now);
    }

    /// Returns the names and counts of all levels.
    pub(crate) fn counts(&self) -> Vec<(String, Counts)> {
        let configuration = self.configuration.read();
        configuration.levels.iter().map(|it| (it.name.clone(), it.queues.counts())).collect()
    }
}

impl Flow {
    pub(crate) fn add_headers(&self, headers: &mut HeaderMap) {
        headers.insert(SCHEMA_UID, self.schema.clone());
        headers.insert(LEVEL_UID, self.level.uid.clone());
    }
}

#[cfg(test)]
mod tests;
