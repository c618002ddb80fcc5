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
use tokio::sync::broadcast::error::RecvError;

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
///
/// ```no_run
/// # fn example(controller: &evenkeel::ControllerHandle) {
/// for record in controller.journal().records() {
///     println!("{record}"); // WebApp shop/web (1.2ms): updated (generation 3→4); …; done
///     for write in record.changes() {
///         println!("  {}", write.request_info);
///     }
/// }
/// # }
/// ```
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

    /// Subscribes to new records.
    ///
    /// ```no_run
    /// # async fn example(controller: &evenkeel::ControllerHandle) {
    /// let mut follower = controller.journal().follow();
    /// while let Some(record) = follower.recv().await {
    ///     println!("{record}");
    /// }
    /// # }
    /// ```
    #[must_use]
    pub fn follow(&self) -> Follower {
        Follower { receiver: self.0.followers.subscribe(), missed: 0 }
    }
}

/// Receives new records; see [`Journal::follow`].
///
/// ```no_run
/// # async fn example(controller: &evenkeel::ControllerHandle) {
/// let mut follower = controller.journal().follow();
/// while let Some(record) = follower.recv().await {
///     println!("{record}, {} missed", follower.missed());
/// }
/// # }
/// ```
pub struct Follower {
    receiver: broadcast::Receiver<Arc<Record>>,
    missed: u64,
}

impl Follower {
    /// Waits for the next record; returns `None` when the controller no longer exists.
    ///
    /// Cancel safe: no record is lost if the future is dropped. A follower that lags behind by more
    /// than a thousand records [misses](Follower::missed) the oldest.
    pub async fn recv(&mut self) -> Option<Arc<Record>> {
        loop {
            match self.receiver.recv().await {
                Ok(record) => return Some(record),
                Err(RecvError::Lagged(missed)) => self.missed += missed,
                Err(RecvError::Closed) => return None,
            }
        }
    }

    /// Returns the number of records missed so far.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.missed
    }
}

impl std::fmt::Debug for Follower {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Follower").field("missed", &self.missed).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Journal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.records()).finish()
    }
}
