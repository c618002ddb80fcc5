//! What every reconcile did and why: a bounded ring per controller.
//!
//! Each reconcile leaves one [`Record`]: its causes, what it read and wrote, how it ended. A program
//! can list them and follow them. The log has one line of each, a constant message (`reconciled`,
//! `reconcile failed`) with fields: `outcome`, `duration`, `causes`, `writes`, `error`; the span
//! around it names the controller and the object.

mod alarm;

mod diff;

mod operation;

mod record;

mod sent;

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::broadcast;

pub use alarm::Alarm;
pub(crate) use alarm::AlarmDetector;
pub use diff::FieldChange;
pub(crate) use operation::OperationLog;
pub use operation::{ReadOperation, ReadRecord, WriteRecord, WriteResult};
pub use record::{Outcome, Record};
pub(crate) use sent::{Body, Form};

/// How many records a follower may fall behind before it misses some.
const FOLLOWED: usize = 1024;

/// How many alarms are kept.
const ALARMS: usize = 64;

/// The latest reconciles of one controller.
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
        let (followers, _) = broadcast::channel(FOLLOWED);
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
        // Without a follower there is nobody to miss it.
        let _ = self.0.followers.send(record.clone());
        record
    }

    pub(crate) fn alarm(&self, alarm: Alarm) {
        let mut alarms = self.0.alarms.lock();
        if alarms.len() == ALARMS {
            alarms.pop_front();
        }
        alarms.push_back(alarm);
    }

    /// Spins, hot keys, hanging reconciles and fights that were seen, oldest first.
    #[must_use]
    pub fn alarms(&self) -> Vec<Alarm> {
        self.0.alarms.lock().iter().cloned().collect()
    }

    /// The latest records, oldest first.
    #[must_use]
    pub fn records(&self) -> Vec<Arc<Record>> {
        self.0.records.lock().iter().cloned().collect()
    }

    /// Every record from now on. A follower that falls far behind is told how many it missed.
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
