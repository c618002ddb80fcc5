//! What every reconcile did and why: a bounded ring per controller.
//!
//! Each reconcile leaves one [`Record`]: its causes, what it read and wrote, how it ended. The
//! program can ask for them, follow them, and the log has one line of each, cause first.

mod alarm;

mod diff;

mod note;

mod record;

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::broadcast;

pub(crate) use alarm::{Alarm, Alarms};
pub use diff::FieldChange;
pub(crate) use note::Notes;
pub use note::{Read, ReadNote, WriteNote, Written};
pub use record::{Outcome, Record};

/// How many records a follower may fall behind before it misses some.
const FOLLOWED: usize = 1024;

/// The latest reconciles of one controller.
#[derive(Clone)]
pub struct Journal(Arc<Ring>);

struct Ring {
    capacity: usize,
    records: Mutex<VecDeque<Arc<Record>>>,
    followers: broadcast::Sender<Arc<Record>>,
}

impl Journal {
    pub(crate) fn new(capacity: usize) -> Self {
        let (followers, _) = broadcast::channel(FOLLOWED);
        Self(Arc::new(Ring { capacity, records: Mutex::default(), followers }))
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
