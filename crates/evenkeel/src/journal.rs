//! The journal: the latest reconciles of a controller, in a ring buffer.
//!
//! Each reconcile has one [`Record`] with its causes, reads, writes and outcome. Each is also
//! logged with a constant message (`reconciled`, `reconcile failed`) and the fields `outcome`,
//! `duration`, `causes`, `writes` and `error`, in a span that names the controller and the object.

mod alarm;

mod diff;

mod failure;

mod operation;

mod record;

mod sent_fields;

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::broadcast;

pub use alarm::Alarm;
pub(crate) use alarm::AlarmDetector;
pub use diff::FieldChange;
pub use failure::Failure;
pub(crate) use operation::OperationLog;
pub use operation::{ReadOperation, ReadRecord, WriteRecord, WriteResult};
pub use record::{Outcome, Record};
pub(crate) use sent_fields::{Body, MergeStrategy};

/// The number of records a follower can lag behind before it misses some.
const FOLLOW_BUFFER: usize = 1024;

/// The number of alarms in the journal.
const ALARMS_MAX: usize = 64;

/// The latest reconciles and alarms of one controller.
#[derive(Clone)]
pub struct Journal(Arc<Ring>);

struct Ring {
    capacity: usize,
    records: Mutex<VecDeque<Arc<Record>>>,
    alarms: Mutex<VecDeque<Alarm>>,
    followers: broadcast::Sender<Arc<Record>>,
}

impl Journal {
    pub(crate) fn new(capacity: usize) -> Self {
        let (followers, _) = broadcast::channel(FOLLOW_BUFFER);
        Self(Arc::new(Ring {
            capacity,
            records: Mutex::default(),
            alarms: Mutex::default(),
            followers,
        }))
    }

    pub(crate) fn push(&self, record: Record) -> Arc<Record> {
        let record = Arc::new(record);
        let mut records = self.0.records.lock();
        if records.len() == self.0.capacity {
            records.pop_front();
        }
        records.push_back(record.clone());
        drop(records);
        // Fails only without followers.
        let _ = self.0.followers.send(record.clone());
        record
    }

    pub(crate) fn alarm(&self, alarm: Alarm) {
        let mut alarms = self.0.alarms.lock();
        if alarms.len() == ALARMS_MAX {
            alarms.pop_front();
        }
        alarms.push_back(alarm);
    }

    /// Returns the latest alarms, oldest first.
    #[must_use]
    pub fn alarms(&self) -> Vec<Alarm> {
        self.0.alarms.lock().iter().cloned().collect()
    }

    /// Returns the latest records, oldest first.
    #[must_use]
    pub fn records(&self) -> Vec<Arc<Record>> {
        self.0.records.lock().iter().cloned().collect()
    }

    /// Subscribes to new records. A follower that lags behind receives the number of missed
    /// records.
    #[must_use]
    pub fn follow(&self) -> broadcast::Receiver<Arc<Record>> {
        self.0.followers.subscribe()
    }
}

impl std::fmt::Debug for Journal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.records()).finish()
    }
}
